// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"

	"github.com/outrigger-mcp/outrigger/bridge/backend"
	"github.com/outrigger-mcp/outrigger/bridge/catalog"
)

// reflection asks a backend for its descriptors over the connections and the
// protocol that calls use. The protocol may not be known before the backend is
// up, so it is looked for on every load.
type reflection struct {
	client    *backend.Client
	selection *catalog.Selection
	limits    catalog.Limits
}

// NewReflectionSource returns a source of tools: the server reflection of the
// client's backend.
func NewReflectionSource(client *backend.Client, selection *catalog.Selection, limits catalog.Limits) catalog.Source {
	return &reflection{client: client, selection: selection, limits: limits}
}

// Name implements [catalog.Source].
func (r *reflection) Name() string { return "reflection at " + r.client.Target().String() }

// Load implements [catalog.Source].
func (r *reflection) Load(ctx context.Context) (*catalog.Loaded, error) {
	endpoint, err := r.client.Streams(ctx)
	if err != nil {
		return nil, &catalog.SourceError{Source: r.Name(), Step: "reach the backend", Cause: err}
	}
	return catalog.NewReflection(catalog.Reflector{
		HTTPClient: endpoint.HTTPClient, BaseURL: endpoint.BaseURL, Shown: r.client.Target().String(),
		Options: endpoint.Options, Selection: r.selection, Limits: r.limits,
	}).Load(ctx)
}
