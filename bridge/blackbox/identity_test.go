// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// say sends one message as a caller, with that caller's principal, and returns the
// reply's body.
func say(ctx context.Context, t testing.TB, b *mcptest.Rig, d mcptest.Dialect, raw string) mcptest.Reply {
	t.Helper()
	in := inbound(b.NewOrigin(), d, raw)
	in.Caller = "10.0.0.1:99"
	return b.Send(ctx, in)
}

// TestWhatACallerMayNotCallIsRefusedByName in every form of a call, whatever the
// arguments, and is not run.
func TestWhatACallerMayNotCallIsRefusedByName(t *testing.T) {
	t.Parallel()
	b := fake(t, func(context.Context, *mcptest.Method, []byte, http.Header) (*mcptest.Answer, *errmap.Error) {
		t.Error("a tool ran that its caller may not call")
		return &mcptest.Answer{}, nil
	}, trusted)
	ctx := mcptest.As(t, outrigger.Grant{Name: "planner", Tools: []string{"lab.*"}, Trust: mcptest.Trusted})
	for form, req := range cancelForms() {
		req.Origin, req.Arguments = b.NewOrigin(), `{"orderId":"1001"}`
		got := req
		got.Question = &outriggerv1.GetToolRequest{}
		for _, one := range []mcptest.Call{req, got} {
			resp := b.Handle(ctx, &one)
			if codeOf(resp) != errmap.PermissionDenied || !strings.Contains(resp.Err.Message, "planner") || resp.Err.Challenge != `Bearer realm="outrigger", error="insufficient_scope"` {
				t.Errorf("%s, %v: %v", form, one.Question, resp.Err)
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
	b := fake(t, mcptest.Echo, nil)
	callers := map[string]context.Context{
		"all":   mcptest.As(t, outrigger.Grant{Name: "all", Tools: []string{"*"}}),
		"some":  mcptest.As(t, outrigger.Grant{Name: "some", Tools: []string{"lab.echo", "fleet.get_*"}}),
		"none":  mcptest.As(t, outrigger.Grant{Name: "none", Tools: []string{"shop.*"}}),
		"other": mcptest.As(t, outrigger.Grant{Name: "other", Tools: []string{"fleet.*"}}),
	}
	may := map[string]func(string) bool{
		"all":   func(string) bool { return true },
		"some":  func(tool string) bool { return tool == "lab.echo" || strings.HasPrefix(tool, "fleet.get_") },
		"none":  func(string) bool { return false },
		"other": func(tool string) bool { return strings.HasPrefix(tool, "fleet.") },
	}
	forms := map[mcptest.Dialect]string{
		mcptest.Canonical: `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`,
		mcptest.Modern:    `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernMeta + `}}`,
		mcptest.Legacy:    `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
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
					shown := 0
					for _, tool := range got.Result.Tools {
						canonical, ok := b.Live.Current().Lookup(tool.Name)
						if !ok || !may[name](canonical.Name) {
							t.Errorf("%s is shown %s", name, tool.Name)
						}
						shown++
					}
					want := 0
					for _, tool := range b.Live.Current().Tools() {
						if may[name](tool.Name) {
							want++
						}
					}
					if shown != want {
						t.Errorf("%s is shown %d tools, want %d", name, shown, want)
					}
					if spoken == mcptest.Modern && got.Result.Scope != "private" {
						t.Errorf("the list of %s may be kept for others: %q", name, got.Result.Scope)
					}
				}
			})
		}
	}
	group.Wait()
	// Without authentication, nothing has changed.
	if reply := say(t.Context(), t, b, mcptest.Modern, forms[mcptest.Modern]); !strings.Contains(string(reply.Bytes()), `"cacheScope":"public"`) {
		t.Error("a list for everybody is private")
	}
	var described struct {
		Result struct {
			Tools int `json:"tools_count"`
		}
	}
	reply := say(callers["some"], t, b, mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"server/describe","params":{}}`)
	if err := json.Unmarshal(reply.Bytes(), &described); err != nil {
		t.Fatal(err)
	}
	if n := described.Result.Tools; n == 0 || n >= len(b.Live.Current().Tools()) {
		t.Errorf("a description counts %d tools", n)
	}
	if reply := say(callers["some"], t, b, mcptest.Modern,
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+modernMeta+`}}`); !strings.Contains(string(reply.Bytes()), `"cacheScope":"private"`) {
		t.Errorf("server/discover: %s", reply.Bytes())
	}
}

// TestTrustOfACaller: what is said of one caller goes before what is said of all,
// and an address does not speak for a name.
func TestTrustOfACaller(t *testing.T) {
	t.Parallel()
	for _, all := range []string{"untrusted", "trusted"} {
		b := fake(t, mcptest.Echo, func(c *configv1.Config) { c.Trust, c.TrustedCallers = &all, []string{"10.0.0.1"} })
		for said, runs := range map[mcptest.Trust]bool{mcptest.Trusted: true, mcptest.Untrusted: false, mcptest.Unsaid: all == "trusted"} {
			ctx := mcptest.As(t, outrigger.Grant{Name: "10.0.0.1", Tools: []string{"*"}, Trust: said})
			req := toolCall(b, "fleet.cancel_order", `{"orderId":"1001"}`)
			req.Caller = "10.0.0.1:99"
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
	b := fake(t, mcptest.Echo, pagesOf(2))
	first, second := mcptest.As(t, outrigger.Grant{Name: "a", Tools: []string{"*"}}), mcptest.As(t, outrigger.Grant{Name: "b", Tools: []string{"*"}})
	list := func(ctx context.Context, cursor string) modernAnswer {
		params := modernMeta
		if cursor != "" {
			params += `,"cursor":` + cursor
		}
		reply := say(ctx, t, b, mcptest.Modern, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+params+`}}`)
		got := modernAnswer{raw: string(reply.Bytes())}
		if err := json.Unmarshal(reply.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	page := list(first, "")
	next := string(page.Result["nextCursor"])
	if next == "" {
		t.Fatal(page.raw)
	}
	if again := list(first, next); again.Error != nil {
		t.Error(again.raw)
	}
	if stolen := list(second, next); stolen.code() != -32602 {
		t.Errorf("another caller's cursor: %s", stolen.raw)
	}
	if stolen := list(t.Context(), next); stolen.code() != -32602 {
		t.Errorf("a caller without a name: %s", stolen.raw)
	}
}

// TestWhatANativeBackendOffersIsGranted: resources and prompts are neither listed
// nor read, got, completed or watched where the caller has no word for them.
func TestWhatANativeBackendOffersIsGranted(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Native: mcptest.Desk(), NoDemo: true})
	b := rig
	every := []string{"*"}
	for name, tt := range map[string]struct {
		grant         outrigger.Grant
		notes, greets bool
	}{
		"tools alone": {outrigger.Grant{Name: "a", Tools: every}, false, false},
		"notes":       {outrigger.Grant{Name: "b", Tools: every, Resources: []string{"desk://notes/*"}}, true, false},
		"greet":       {outrigger.Grant{Name: "c", Tools: every, Prompts: []string{"greet"}}, false, true},
		"everything":  {outrigger.Grant{Name: "d", Tools: every, Resources: every, Prompts: every}, true, true},
	} {
		ctx := mcptest.As(t, tt.grant)
		run := func(m proto.Message) *mcptest.Outcome {
			return b.Handle(ctx, &mcptest.Call{Origin: b.NewOrigin(), Question: m})
		}
		listed, _ := run(&outriggerv1.ListResourcesRequest{}).Answer.(*outriggerv1.ListResourcesResponse)
		for _, r := range listed.GetResources() {
			if !tt.notes || name != "everything" && !strings.HasPrefix(r.GetUri(), "desk://notes/") {
				t.Errorf("%s is shown %s", name, r.GetUri())
			}
		}
		if (len(listed.GetResources()) > 0) != tt.notes {
			t.Errorf("%s: %d resources", name, len(listed.GetResources()))
		}
		templates, _ := run(&outriggerv1.ListResourceTemplatesRequest{}).Answer.(*outriggerv1.ListResourceTemplatesResponse)
		if (len(templates.GetResourceTemplates()) > 0) != tt.notes {
			t.Errorf("%s: templates %v", name, templates)
		}
		prompts, _ := run(&outriggerv1.ListPromptsRequest{}).Answer.(*outriggerv1.ListPromptsResponse)
		if (len(prompts.GetPrompts()) > 0) != tt.greets {
			t.Errorf("%s: prompts %v", name, prompts)
		}
		argument := &outriggerv1.CompletionArgument{Name: "tone", Value: "w"}
		for what, one := range map[string]struct {
			resp *mcptest.Outcome
			may  bool
		}{
			"read":   {run(&outriggerv1.ReadResourceRequest{Uri: "desk://notes/1"}), tt.notes},
			"get":    {run(&outriggerv1.GetPromptRequest{Name: "greet", Arguments: map[string]string{"name": "Ann"}}), tt.greets},
			"prompt": {run(&outriggerv1.CompleteRequest{Reference: &outriggerv1.CompleteRequest_Prompt{Prompt: "greet"}, Argument: argument}), tt.greets},
			"template": {run(&outriggerv1.CompleteRequest{
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
	b := fake(t, mcptest.Echo, nil)
	ctx, remove := mcptest.Entered(t, outrigger.Grant{Name: "a", Tools: []string{"*"}})
	ended := make(chan mcptest.Reply, 1)
	begun := make(chan struct{})
	go func() {
		in := inbound(b.NewOrigin(), mcptest.Modern, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+modernMeta+`}}`)
		in.Send = func([]byte) error {
			close(begun)
			return nil
		}
		ended <- b.Send(ctx, in)
	}()
	<-begun
	remove()
	if got := <-ended; !strings.Contains(string(got.Bytes()), string(errmap.Unauthenticated)) {
		t.Errorf("ended with %s", got.Bytes())
	}
}
