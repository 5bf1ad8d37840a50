// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// notLoaded has no catalog yet.
type notLoaded struct{ bridge.Catalogs }

func (notLoaded) Current() *catalog.Catalog { return nil }

func (notLoaded) Wait(ctx context.Context) (*catalog.Catalog, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestWithoutACatalog: what needs the catalog is refused at once, and keeps no other request out.
func TestWithoutACatalog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Service{opts: Options{Bridge: bridge.New(notLoaded{}, nil, correlate.New(correlate.Options{}), bridge.Options{})}}
		began := time.Now()
		_, searched := s.SearchTools(t.Context(), connect.NewRequest(&adminv1.SearchToolsRequest{}))
		_, shown := s.GetTool(t.Context(), connect.NewRequest(&adminv1.GetToolRequest{Name: "a"}))
		_, checked := s.CheckArguments(t.Context(), connect.NewRequest(&adminv1.CheckArgumentsRequest{Tool: "a"}))
		for _, err := range []error{searched, shown, checked} {
			if connect.CodeOf(err) != connect.CodeUnavailable || time.Since(began) > 0 {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		}
	})
}
