// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"

	"github.com/outrigger-mcp/outrigger/bridge/backend"
	"github.com/outrigger-mcp/outrigger/bridge/catalog"
)

// NewReflectionSource returns a source of tools: the server reflection of the
// client's backend, over the connections and the protocol that calls use. The
// protocol may not be known before the backend is up, so every load looks for
// it where it is not.
func NewReflectionSource(client *backend.Client, o catalog.ReflectionOptions) catalog.Reflection {
	o.Mask = client.Mask
	return catalog.NewReflection(client.Target().String(), func(ctx context.Context) (catalog.Endpoint, error) {
		e, err := client.Streams(ctx)
		if err != nil {
			return catalog.Endpoint{}, err
		}
		return catalog.Endpoint{HTTPClient: e.HTTPClient, BaseURL: e.BaseURL, Options: e.Options}, nil
	}, o)
}
