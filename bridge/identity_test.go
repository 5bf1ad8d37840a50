// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// as is a context of a caller who may use these tools.
func as(t testing.TB, g access.Grant) context.Context {
	t.Helper()
	return access.NewContext(t.Context(), access.NewIdentity(g))
}

// say sends one message as a caller, with that caller's principal, and returns the
// reply's body.
func say(ctx context.Context, t testing.TB, b *dialect.Handler, d dialect.Dialect, raw string) dialect.Reply {
	t.Helper()
	in := inbound(t, b.Flights().NewOrigin(), d, raw)
	in.Caller = bridge.CallerOf(ctx, "10.0.0.1:99")
	return b.HandleMessage(ctx, in)
}

// TestWhatACallerMayNotCallIsRefusedByName in every form of a call, whatever the
// arguments, and is not run.
func TestWhatACallerMayNotCallIsRefusedByName(t *testing.T) {
	t.Parallel()
	b := fake(t, func(context.Context, *catalog.Method, []byte, http.Header) (*bridge.Answer, *errmap.Error) {
		t.Error("a tool ran that its caller may not call")
		return &bridge.Answer{}, nil
	}, bridge.Options{Gate: policy.NewGate(policy.Trusted)})
	ctx := as(t, access.Grant{Name: "planner", Tools: []string{"lab.*"}, Trust: access.Trusted})
	for form, req := range cancelForms() {
		for _, op := range []bridge.Op{bridge.OpCall, bridge.OpGet} {
			req.Op, req.Origin, req.Arguments = op, b.Flights().NewOrigin(), bridge.Payload{Bytes: []byte(`{"orderId":"1001"}`)}
			resp := b.Handle(ctx, &req)
			if codeOf(resp) != errmap.PermissionDenied || !strings.Contains(resp.Err.Message, "planner") || resp.Err.Challenge != access.NotPermitted("") || (resp.Tool != nil) != (op == bridge.OpCall) {
				t.Errorf("%s, %v: %v", form, op, resp.Err)
			}
		}
	}
	// What the caller may not call is unknown, and what is near is only what may be called.
	for _, name := range []string{"fleet.cancel_orders", "lab.ech"} {
		resp := b.Handle(ctx, toolCall(b, name, `{}`))
		if codeOf(resp) != errmap.ToolNotFound || slices.ContainsFunc(resp.Err.Nearest, func(n string) bool { return strings.HasPrefix(n, "fleet") }) {
			t.Errorf("%s: %v, near %v", name, resp.Err, resp.Err.Nearest)
		}
	}
}

// TestListsShowWhatACallerMayCall in every dialect, and are private.
func TestListsShowWhatACallerMayCall(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{})
	callers := map[string]context.Context{
		"all":   as(t, access.Grant{Name: "all", Tools: []string{"*"}}),
		"some":  as(t, access.Grant{Name: "some", Tools: []string{"lab.echo", "fleet.get_*"}}),
		"none":  as(t, access.Grant{Name: "none", Tools: []string{"shop.*"}}),
		"other": as(t, access.Grant{Name: "other", Tools: []string{"fleet.*"}}),
	}
	forms := map[dialect.Dialect]string{
		dialect.Canonical: `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`,
		dialect.Modern:    `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernMeta + `}}`,
		dialect.Legacy:    `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
	}
	var group sync.WaitGroup
	for spoken, raw := range forms {
		for name, ctx := range callers {
			group.Go(func() { // many at once, for the race detector
				for range 5 {
					reply := say(ctx, t, b, spoken, raw)
					var got struct {
						Result struct {
							Tools []struct {
								Name string `json:"name"`
							} `json:"tools"`
							Scope string `json:"cacheScope"`
						} `json:"result"`
					}
					if err := json.Unmarshal(reply.Bytes(), &got); err != nil {
						t.Error(err)
					}
					who, shown := access.FromContext(ctx), 0
					for _, tool := range got.Result.Tools {
						canonical, ok := b.Catalogs().Current().Lookup(tool.Name)
						if !ok || !who.MayCall(canonical.Name) {
							t.Errorf("%s is shown %s", name, tool.Name)
						}
						shown++
					}
					want := 0
					for _, tool := range b.Catalogs().Current().Tools() {
						if who.MayCall(tool.Name) {
							want++
						}
					}
					if shown != want {
						t.Errorf("%s is shown %d tools, want %d", name, shown, want)
					}
					if spoken == dialect.Modern && got.Result.Scope != "private" {
						t.Errorf("the list of %s may be kept for others: %q", name, got.Result.Scope)
					}
				}
			})
		}
	}
	group.Wait()
	// Without authentication, nothing has changed.
	if reply := say(t.Context(), t, b, dialect.Modern, forms[dialect.Modern]); !strings.Contains(string(reply.Bytes()), `"cacheScope":"public"`) {
		t.Error("a list for everybody is private")
	}
	if n := b.Offer(b.CatalogFor(callers["some"])).Tools; n == 0 || n >= len(b.Catalogs().Current().Tools()) {
		t.Errorf("a description counts %d tools", n)
	}
	if reply := say(callers["some"], t, b, dialect.Modern,
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+modernMeta+`}}`); !strings.Contains(string(reply.Bytes()), `"cacheScope":"private"`) {
		t.Errorf("server/discover: %s", reply.Bytes())
	}
}

// TestTrustOfACaller: what is said of one caller goes before what is said of all,
// and an address does not speak for a name.
func TestTrustOfACaller(t *testing.T) {
	t.Parallel()
	for _, all := range []policy.Trust{policy.Untrusted, policy.Trusted} {
		gate := policy.NewGate(all)
		if err := gate.TrustCallers([]string{"10.0.0.1"}); err != nil {
			t.Fatal(err)
		}
		b := fake(t, mcptest.Echo, bridge.Options{Gate: gate})
		for said, runs := range map[access.Trust]bool{access.Trusted: true, access.Untrusted: false, access.Unsaid: all == policy.Trusted} {
			ctx := as(t, access.Grant{Name: "10.0.0.1", Tools: []string{"*"}, Trust: said})
			req := toolCall(b, "fleet.cancel_order", `{"orderId":"1001"}`)
			req.Caller = bridge.CallerOf(ctx, "10.0.0.1:99")
			if got := codeOf(b.Handle(ctx, req)); (got == errmap.DestructiveBlocked) == runs {
				t.Errorf("all are %v, this one is %d: %q", all, said, got)
			}
		}
	}
}

// TestCursorsBelongToNames: what one caller brings back is nothing in another's
// hands, from the same address too.
func TestCursorsBelongToNames(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{PageSize: 2})
	first, second := as(t, access.Grant{Name: "a", Tools: []string{"*"}}), as(t, access.Grant{Name: "b", Tools: []string{"*"}})
	list := func(ctx context.Context, cursor *string) *bridge.Response {
		return b.Handle(ctx, &bridge.Request{
			Op: bridge.OpList, Origin: b.Flights().NewOrigin(), Caller: bridge.CallerOf(ctx, "10.0.0.1:99"), PageSize: 2, Cursor: cursor,
		})
	}
	page := list(first, nil)
	if page.Err != nil || page.NextCursor == nil {
		t.Fatal(page.Err)
	}
	if again := list(first, page.NextCursor); again.Err != nil {
		t.Error(again.Err)
	}
	if stolen := list(second, page.NextCursor); codeOf(stolen) != errmap.InvalidParams {
		t.Errorf("another caller's cursor: %v", stolen.Err)
	}
	if stolen := list(t.Context(), page.NextCursor); codeOf(stolen) != errmap.InvalidParams {
		t.Errorf("a caller without a name: %v", stolen.Err)
	}
}

// TestWhatANativeBackendOffersIsGranted: resources and prompts are neither listed
// nor read, got, completed or watched where the caller has no word for them.
func TestWhatANativeBackendOffersIsGranted(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Native: mcptest.Desk(), NoDemo: true})
	b := rig.Bridge
	every := []string{"*"}
	for name, tt := range map[string]struct {
		grant         access.Grant
		notes, greets bool
	}{
		"tools alone": {access.Grant{Name: "a", Tools: every}, false, false},
		"notes":       {access.Grant{Name: "b", Tools: every, Resources: []string{"desk://notes/*"}}, true, false},
		"greet":       {access.Grant{Name: "c", Tools: every, Prompts: []string{"greet"}}, false, true},
		"everything":  {access.Grant{Name: "d", Tools: every, Resources: every, Prompts: every}, true, true},
	} {
		ctx := as(t, tt.grant)
		run := func(op bridge.Op, m proto.Message) *bridge.Response {
			return b.Handle(ctx, &bridge.Request{Op: op, Origin: b.Flights().NewOrigin(), Caller: bridge.CallerOf(ctx, ""), Message: m})
		}
		listed, _ := run(bridge.OpListResources, &outriggerv1.ListResourcesRequest{}).Message.(*outriggerv1.ListResourcesResponse)
		for _, r := range listed.GetResources() {
			if !tt.notes || name != "everything" && !strings.HasPrefix(r.GetUri(), "desk://notes/") {
				t.Errorf("%s is shown %s", name, r.GetUri())
			}
		}
		if (len(listed.GetResources()) > 0) != tt.notes {
			t.Errorf("%s: %d resources", name, len(listed.GetResources()))
		}
		templates, _ := run(bridge.OpListTemplates, &outriggerv1.ListResourceTemplatesRequest{}).Message.(*outriggerv1.ListResourceTemplatesResponse)
		if (len(templates.GetResourceTemplates()) > 0) != tt.notes {
			t.Errorf("%s: templates %v", name, templates)
		}
		prompts, _ := run(bridge.OpListPrompts, &outriggerv1.ListPromptsRequest{}).Message.(*outriggerv1.ListPromptsResponse)
		if (len(prompts.GetPrompts()) > 0) != tt.greets {
			t.Errorf("%s: prompts %v", name, prompts)
		}
		argument := &outriggerv1.CompletionArgument{Name: "tone", Value: "w"}
		for what, one := range map[string]struct {
			resp *bridge.Response
			may  bool
		}{
			"read":   {run(bridge.OpReadResource, &outriggerv1.ReadResourceRequest{Uri: "desk://notes/1"}), tt.notes},
			"get":    {run(bridge.OpGetPrompt, &outriggerv1.GetPromptRequest{Name: "greet", Arguments: map[string]string{"name": "Ann"}}), tt.greets},
			"prompt": {run(bridge.OpComplete, &outriggerv1.CompleteRequest{Reference: &outriggerv1.CompleteRequest_Prompt{Prompt: "greet"}, Argument: argument}), tt.greets},
			"template": {run(bridge.OpComplete, &outriggerv1.CompleteRequest{
				Reference: &outriggerv1.CompleteRequest_Resource{Resource: "desk://notes/{number}"}, Argument: &outriggerv1.CompletionArgument{Name: "number"},
			}), tt.notes},
		} {
			if got := codeOf(one.resp); (got == errmap.PermissionDenied) == one.may || one.may && got != "" {
				t.Errorf("%s, %s: %v", name, what, one.resp.Err)
			}
		}
	}
}

// TestAStreamOfChangesEndsWithItsCallersEntry.
func TestAStreamOfChangesEndsWithItsCallersEntry(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{})
	book := access.NewBook([]access.Entry{{Grant: access.Grant{Name: "a", Tools: []string{"*"}}, URIs: []string{"spiffe://a/b"}}})
	who, err := book.Authenticate(t.Context(), access.Credentials{URIs: []string{"spiffe://a/b"}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan *bridge.Response, 1)
	begun := make(chan struct{})
	go func() {
		ended <- b.Handle(access.NewContext(context.Background(), who), &bridge.Request{
			Op: bridge.OpListen, Origin: b.Flights().NewOrigin(), Message: &outriggerv1.ChangeFilter{ToolsListChanged: true},
			Changes: func(*outriggerv1.Notification) error {
				close(begun)
				return nil
			},
		})
	}()
	<-begun
	book.Replace(nil)
	if resp := <-ended; codeOf(resp) != errmap.Unauthenticated {
		t.Errorf("ended with %v", resp.Err)
	}
	b.Feed().Close()
}
