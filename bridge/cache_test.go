// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// TestWhatDependsOnWhoAsksIsPrivate: every list, on the edges of MCP and of ToolService, for callers that are told apart
// and for those that are not. The backend says that all of it is public.
func TestWhatDependsOnWhoAsksIsPrivate(t *testing.T) {
	t.Parallel()
	every := []string{"*"}
	for name, tt := range map[string]struct {
		ctx      func(t *testing.T) context.Context
		forwards bool
		// tools is for what the sidecar itself knows, backend for what the backend answered.
		tools, backend string
	}{
		"without identities":           {func(t *testing.T) context.Context { return t.Context() }, false, "public", "public"},
		"headers go on to the backend": {func(t *testing.T) context.Context { return t.Context() }, true, "public", "private"},
		"a caller of everything": {func(t *testing.T) context.Context {
			return as(t, access.Grant{Name: "bob", Tools: every, Resources: every, Prompts: every})
		}, false, "private", "private"},
		"a caller of little": {func(t *testing.T) context.Context {
			return as(t, access.Grant{Name: "alice", Tools: []string{"desk.*"}, Resources: []string{"desk://notes/*"}, Prompts: []string{"greet"}})
		}, false, "private", "private"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desk := mcptest.Desk()
			desk.ListCache = &outriggerv1.CachePolicy{Scope: outriggerv1.CacheScope_CACHE_SCOPE_PUBLIC}
			rig := mcptest.Start(t, mcptest.Options{Native: desk, NoDemo: true, Configure: func(c *configv1.Config) {
				if !tt.forwards {
					ownHeadersOnly(c)
				}
			}})
			ctx := tt.ctx(t)
			for method, want := range map[string]string{
				"server/discover": tt.tools, "tools/list": tt.tools,
				"resources/list": tt.backend, "resources/templates/list": tt.backend, "prompts/list": tt.backend,
				`resources/read","params":{"uri":"desk://notes/1",`: tt.backend,
			} {
				raw := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + modernMeta + `}}`
				if strings.Contains(method, "params") {
					raw = `{"jsonrpc":"2.0","id":1,"method":"` + method + modernMeta + `}}`
				}
				if reply := say(ctx, t, rig.Bridge, dialect.Modern, raw); !strings.Contains(string(reply.Bytes()), `"cacheScope":"`+want+`"`) {
					t.Errorf("%s, want %s: %s", method, want, reply.Bytes())
				}
			}
			run := func(op bridge.Op, m proto.Message) *bridge.Response {
				return rig.Bridge.Handle(ctx, &bridge.Request{Op: op, Origin: rig.Bridge.Flights().NewOrigin(), Caller: bridge.CallerOf(ctx, ""), Message: m})
			}
			resources, _ := run(bridge.OpListResources, &outriggerv1.ListResourcesRequest{}).Message.(*outriggerv1.ListResourcesResponse)
			templates, _ := run(bridge.OpListTemplates, &outriggerv1.ListResourceTemplatesRequest{}).Message.(*outriggerv1.ListResourceTemplatesResponse)
			prompts, _ := run(bridge.OpListPrompts, &outriggerv1.ListPromptsRequest{}).Message.(*outriggerv1.ListPromptsResponse)
			read, _ := run(bridge.OpReadResource, &outriggerv1.ReadResourceRequest{Uri: "desk://notes/1"}).Message.(*outriggerv1.ResourceOutcome)
			for what, one := range map[string]struct {
				got  outriggerv1.CacheScope
				want string
			}{
				"ListTools":             {run(bridge.OpList, nil).CacheScope(), tt.tools},
				"ListResources":         {resources.GetCache().GetScope(), tt.backend},
				"ListResourceTemplates": {templates.GetCache().GetScope(), tt.backend},
				"ListPrompts":           {prompts.GetCache().GetScope(), tt.backend},
				"ReadResource":          {read.GetResult().GetCache().GetScope(), tt.backend},
			} {
				if one.got.String() != "CACHE_SCOPE_"+strings.ToUpper(one.want) {
					t.Errorf("%s: %v, want %s", what, one.got, one.want)
				}
			}
		})
	}
}
