// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	_ "go.etcd.io/etcd/api/v3/etcdserverpb"
	_ "go.temporal.io/api/operatorservice/v1"
	_ "go.temporal.io/api/workflowservice/v1"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// api is an API whose generated code is linked in.
type api struct {
	name     string
	packages []string
}

func apis() []api {
	return []api{
		{"temporal", []string{"temporal.api.workflowservice.v1", "temporal.api.operatorservice.v1"}},
		{"etcd", []string{"etcdserverpb"}},
	}
}

// catalogOf is the catalog of an API.
func catalogOf(ctx context.Context, of api, listed catalog.ListForm) (*catalog.Catalog, error) {
	set, services, err := sources.Registered(of.packages...)
	if err != nil {
		return nil, err
	}
	live := catalog.NewLive([]source.Source{source.NewDescriptors(of.name, set, services...)}, catalog.LiveOptions{
		Build: catalog.BuildOptions{Listed: listed},
	})
	if err := live.Refresh(ctx); err != nil {
		return nil, err
	}
	return live.Current(), nil
}
