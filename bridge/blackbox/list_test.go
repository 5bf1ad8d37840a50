// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// The canonical dialect has no pages: its list is whole, whatever the size of a page.
func TestTheCanonicalListIsWhole(t *testing.T) {
	t.Parallel()
	b := mcptest.Start(t, mcptest.Options{Configure: pagesOf(2)})
	const list = `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{`
	if n := len(answer(t, b, mcptest.Modern, list+modernMeta+`}}`).Result.Tools); n != 2 {
		t.Errorf("the first page has %d tools, want 2", n)
	}
	if n, want := len(answer(t, b, mcptest.Canonical, list+`}}`).Result.Tools), len(b.Live.Current().Tools()); n != want {
		t.Errorf("the canonical list has %d tools, want %d", n, want)
	}
}

func TestTheListingFollowsTheCatalog(t *testing.T) {
	t.Parallel()
	grown := new(atomic.Bool)
	live := mcptest.Loading(mcptest.Serving(func() []string {
		if grown.Load() {
			return []string{"outrigger.demo.v1.Lab", "outrigger.demo.v1.Fleet"}
		}
		return []string{"outrigger.demo.v1.Lab"}
	}))
	b := mcptest.Pipe(t, mcptest.Parts{Tools: live, Backend: mcptest.Upstream(mcptest.Echo)})
	check := func(want int) {
		t.Helper()
		if err := live.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, d := range []mcptest.Dialect{mcptest.Canonical, mcptest.Modern, mcptest.Legacy} {
			for range 2 { // the second comes from the cache
				got := answer(t, b, d, `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{`+modernMeta+`}}`)
				if n := len(got.Result.Tools); n != want {
					t.Errorf("%v lists %d tools, want %d", d, n, want)
				}
			}
		}
	}
	// RPCs that take a stream of requests are listed as well.
	check(5)
	grown.Store(true)
	check(5 + 13)
	grown.Store(false)
	check(5)
}

// A reply is one line on stdio, so nothing that a catalog holds may break one.
func TestEveryReplyIsOneLine(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Server = &configv1.Server{Name: "a\nname", Title: "a\r\ntitle", Version: "1\u2028", Instructions: "line one\nline two"}
	}})
	b := rig
	lines := map[mcptest.Dialect][]string{
		mcptest.Canonical: {
			`{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`,
			`{"jsonrpc":"2.0","id":"1","method":"server/describe","params":{}}`,
			`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"a\nb\r"}}}`,
			`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"tool_name":"lab.echo","arguments":{"nonce":"a\nb\r"}}}`,
			`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"a\nb"}}`,
			"{\"jsonrpc\":\"2.0\",\n\"id\":\"1\"\n,\"method\":\"tools/call\",\"params\":{\"name\":\"lab.echo\",\"arguments\":\n{\n}\n}}",
			`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.fail","arguments":{"code":"FAIL_CODE_INTERNAL","message":"a\nb\r\n","details":["FAIL_DETAIL_HELP","FAIL_DETAIL_BAD_REQUEST"]}}}`,
			"\r\n", "[", `"a\nb"`,
		},
		mcptest.Modern: {
			`{"jsonrpc":"2.0","id":"1","method":"server/discover","params":{` + modernMeta + `}}`,
			`{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{` + modernMeta + `}}`,
			`{"jsonrpc":"2.0","id":"1","method":"a\nb","params":{` + modernMeta + `}}`,
		},
		mcptest.Legacy: {
			`{"jsonrpc":"2.0","id":"1","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`,
			`{"jsonrpc":"2.0","id":"1","method":"tools/list"}`,
		},
	}
	for _, tool := range rig.Live.Current().All() {
		lines[mcptest.Canonical] = append(lines[mcptest.Canonical],
			`{"jsonrpc":"2.0","id":"1","method":"tools/get","params":{"name":"`+tool.Name+`"}}`)
	}
	for d, raws := range lines {
		for _, raw := range raws {
			reply := b.Send(t.Context(), inbound(b.NewOrigin(), d, raw))
			if reply.Bytes() == nil || bytes.ContainsAny(reply.Bytes(), "\r\n") {
				t.Errorf("%v %s: %q", d, strings.TrimSpace(raw), reply.Bytes())
			}
		}
	}
}

// manyTools are tools that do nothing.
func manyTools(names []string) []mcptest.NativeTool {
	out := make([]mcptest.NativeTool, len(names))
	for i, name := range names {
		out[i] = mcptest.NativeTool{Declared: mcptest.JSONTool(name, "Nothing.", mcptest.NoArguments, ""), Outcome: mcptest.Success(`{}`)}
	}
	return out
}

// pages turns all pages of a list, and calls between after each.
func (c modernClient) pages(method, list string, between func(page int)) (names []string, sizes []int) {
	c.t.Helper()
	for page, params := 0, ""; ; page++ {
		got := c.send(method, params)
		if got.Result == nil || page > 1000 {
			c.t.Fatalf("page %d: %s", page, got.raw)
		}
		found := got.names(list)
		names, sizes = append(names, found...), append(sizes, len(found))
		next, isText := got.Result["nextCursor"]
		if !isText {
			return names, sizes
		}
		params = `"cursor":` + string(next)
		if between != nil {
			between(page)
		}
	}
}

// A cursor that is a number shows a tool twice or not at all when others come
// or go while pages are turned.
func TestPagesOfToolsStayInPlaceWhileToolsComeAndGo(t *testing.T) {
	t.Parallel()
	stable := numbered("stay", 40)
	backend := &mcptest.Native{Tools: manyTools(append(slices.Clone(stable), "aaa", "stay005x", "zzz"))}
	rig := mcptest.Start(t, mcptest.Options{Native: backend, NoDemo: true, Configure: pagesOf(7)})
	all := modernClient{t: t, bridge: rig}
	names, sizes := all.pages("tools/list", "tools", func(page int) {
		more := manyTools(append(slices.Clone(stable), fmt.Sprintf("aaa%d", page), fmt.Sprintf("stay0%d9x", page), "zzzz"))
		if page%2 == 1 {
			more = more[:len(stable)]
		}
		backend.SetTools(more)
		if err := rig.Live.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	var kept []string
	for _, name := range names {
		if slices.Contains(stable, name) {
			kept = append(kept, name)
		}
	}
	if diff := cmp.Diff(stable, kept); diff != "" {
		t.Errorf("the tools that were there all the time (-want +got):\n%s", diff)
	}
	if slices.Max(sizes) > 7 {
		t.Errorf("pages of %v", sizes)
	}
	// The tool that the cursor names may be the one that goes.
	first := all.send("tools/list", "")
	last := first.names("tools")[6]
	backend.SetTools(slices.DeleteFunc(manyTools(stable), func(row mcptest.NativeTool) bool { return row.Declared.GetName() == last }))
	if err := rig.Live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := all.send("tools/list", `"cursor":`+string(first.Result["nextCursor"]))
	if got := second.names("tools"); len(got) != 7 || got[0] <= last {
		t.Errorf("behind %s, which is gone: %v", last, got)
	}
}

// Lists that a backend makes are cut by its own cursors, lists of the sidecar's
// own here; no page is longer than the bound.
func TestEveryPageKeepsTheBound(t *testing.T) {
	t.Parallel()
	backend := mcptest.Desk()
	backend.PageSize = 2 // fewer than are asked for
	for i := range 9 {
		uri := fmt.Sprintf("desk://more/%d", i)
		backend.Resources = append(backend.Resources, mcptest.NativeResource{Listed: &outriggerv1.Resource{Uri: uri, Name: uri}})
	}
	rig := mcptest.Start(t, mcptest.Options{Native: backend, Configure: pagesOf(4)})
	all := modernClient{t: t, bridge: rig}
	for method, list := range map[string]string{
		"tools/list": "tools", "resources/list": "resources", "resources/templates/list": "resourceTemplates", "prompts/list": "prompts",
	} {
		names, sizes := all.pages(method, list, nil)
		if slices.Max(sizes) > 4 {
			t.Errorf("%s: pages of %v", method, sizes)
		}
		seen := slices.Clone(names)
		slices.Sort(seen)
		if len(slices.Compact(seen)) != len(names) {
			t.Errorf("%s: an entry came twice: %v", method, names)
		}
		if list == "resources" && len(names) != 9+3+9 { // of the demo, of the desk, and the more
			t.Errorf("%d resources: %v", len(names), names)
		}
	}
}

// A cursor that anybody could use would show one caller's list to another; one
// that another list takes could show what that one hides.
func TestACursorIsForOneCallerAndOneListAndATime(t *testing.T) {
	t.Parallel()
	now := time.Now()
	rig := mcptest.Start(t, mcptest.Options{Native: mcptest.Desk(), NoDemo: true, Configure: pagesOf(1), Adjust: mcptest.SealedAt(&now)})
	ann, bob := modernClient{t: t, bridge: rig, caller: "ann"}, modernClient{t: t, bridge: rig, caller: "bob"}
	lists := map[string]string{"tools/list": "", "resources/list": "", "resources/templates/list": "", "prompts/list": ""}
	for method := range lists {
		lists[method] = ann.send(method, "").text("nextCursor")
		if lists[method] == "" {
			t.Fatalf("%s has one page", method)
		}
	}
	state := (modernClient{t: t, bridge: rig, caller: "ann", capabilities: `{"elicitation":{}}`}).send("tools/call", `"name":"sign"`).text("requestState")
	for method, own := range lists {
		if got := ann.send(method, `"cursor":`+quoted(own)); got.Result == nil {
			t.Errorf("%s: its own cursor: %s", method, got.raw)
		}
		wrong := []string{"", "at-1", own + "A", own[:len(own)-1], strings.ToUpper(own), state, "v1.", "\u0000", strings.Repeat("x", 10000)}
		for other, cursor := range lists {
			if other != method {
				wrong = append(wrong, cursor)
			}
		}
		for _, cursor := range wrong {
			if got := ann.send(method, `"cursor":`+quoted(cursor)); got.code() != -32602 || got.status != 200 {
				t.Errorf("%s took %.100q: %d %s", method, cursor, got.status, got.raw)
			}
		}
		if got := bob.send(method, `"cursor":`+quoted(own)); got.code() != -32602 {
			t.Errorf("%s took another caller's cursor: %s", method, got.raw)
		}
	}
	now = now.Add(time.Hour)
	for method, own := range lists {
		if got := ann.send(method, `"cursor":`+quoted(own)); got.code() != -32602 {
			t.Errorf("%s took an old cursor: %s", method, got.raw)
		}
	}
}

// What is shared between callers must not hold what is one caller's own: the
// cursor. All pages of a list say the same about that.
func TestPagedListsAreTheirCallersOwn(t *testing.T) {
	t.Parallel()
	public := &outriggerv1.CachePolicy{Ttl: durationpb.New(time.Minute), Scope: outriggerv1.CacheScope_CACHE_SCOPE_PUBLIC}
	for size, want := range map[int32]string{1: "private", 100: "public"} {
		backend := mcptest.Desk()
		backend.ListCache = public
		rig := mcptest.Start(t, mcptest.Options{Native: backend, NoDemo: true, Configure: func(c *configv1.Config) {
			pagesOf(size)(c)
			ownHeadersOnly(c)
		}})
		all := modernClient{t: t, bridge: rig}
		for _, method := range []string{"tools/list", "resources/list", "resources/templates/list", "prompts/list"} {
			params := ""
			for {
				got := all.send(method, params)
				if scope := got.text("cacheScope"); scope != want {
					t.Errorf("%s in pages of %d, %q: the scope is %s, want %s", method, size, params, scope, want)
				}
				if ttl := string(got.Result["ttlMs"]); method != "tools/list" && ttl != "60000" {
					t.Errorf("%s: the backend said a minute, and it is %s", method, ttl)
				}
				next, more := got.Result["nextCursor"]
				if !more {
					break
				}
				params = `"cursor":` + string(next)
			}
		}
	}
}

// lister is a native backend that only lists: page after page of resources, each
// as long as the next number says, and two prompts.
type lister struct {
	pages []int
	asked atomic.Int64
	// hangs: it does not answer. fails: it answers with an error.
	hangs, fails bool
}

func (l *lister) answer(ctx context.Context, in proto.Message, header http.Header) (proto.Message, *errmap.Error) {
	if len(header) > 0 {
		return nil, errmap.New(errmap.InternalError, errmap.Message("a count has no credentials"))
	}
	if l.hangs {
		<-ctx.Done()
		return nil, errmap.Wrap(errmap.Timeout, ctx.Err())
	}
	if l.fails {
		return nil, errmap.New(errmap.Unavailable)
	}
	switch in := in.(type) {
	case *outriggerv1.ListPromptsRequest:
		return &outriggerv1.ListPromptsResponse{Prompts: make([]*outriggerv1.Prompt, 2)}, nil
	case *outriggerv1.ListResourcesRequest:
		l.asked.Add(1)
		at, _ := strconv.Atoi(in.GetCursor())
		out := &outriggerv1.ListResourcesResponse{Resources: make([]*outriggerv1.Resource, l.pages[at%len(l.pages)])}
		if at+1 < len(l.pages) || l.pages[0] == 0 {
			next := fmt.Sprint(at + 1)
			out.NextCursor = &next
		}
		time.Sleep(time.Millisecond)
		return out, nil
	}
	return nil, errmap.New(errmap.InternalError)
}

// listing is a bridge in front of a lister, which says that it has 77 resources
// and 88 prompts.
func listing(t *testing.T, l *lister) *mcptest.Rig {
	t.Helper()
	description := &outriggerv1.ServerDescription{
		Name: "lister", Version: "1", ContractVersion: "1.0.0", ResourcesCount: 77, PromptsCount: 88,
		Capabilities: &outriggerv1.ServerCapabilities{
			Tools: &outriggerv1.ToolsCapability{}, Resources: &outriggerv1.ResourcesCapability{}, Prompts: &outriggerv1.PromptsCapability{},
		},
	}
	return mcptest.Pipe(t, mcptest.Parts{
		From: mcptest.Declared(description, mcptest.JSONTool("knock", "Knock.", mcptest.NoArguments, "")), Native: mcptest.Speaking{Answer: l.answer},
	})
}

// counts are the tools, resources and prompts that a description counts.
func counts(t *testing.T, b *mcptest.Rig) (out [3]int) {
	t.Helper()
	got := said(t, b, "server/describe", `{}`)
	for i, member := range []string{"tools_count", "resources_count", "prompts_count"} {
		if err := json.Unmarshal(got[member], &out[i]); err != nil {
			t.Fatalf("%s: %v", member, err)
		}
	}
	return out
}

func TestCountsAreBounded(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		lister  *lister
		want    [2]int
		atMost  time.Duration
		atLeast time.Duration
	}{
		{name: "some pages", lister: &lister{pages: []int{3, 1, 4}}, want: [2]int{8, 2}, atMost: time.Second},
		{name: "none", lister: &lister{pages: []int{1, 0}}, want: [2]int{1, 2}, atMost: time.Second},
		{name: "very many", lister: &lister{pages: []int{6000, 6000, 6000}}, want: [2]int{10000, 2}, atMost: time.Second},
		{name: "empty pages without end", lister: &lister{pages: []int{0}}, want: [2]int{77, 88}, atMost: 2100 * time.Millisecond, atLeast: 2 * time.Second},
		{name: "a backend that hangs", lister: &lister{hangs: true}, want: [2]int{77, 88}, atMost: 2 * time.Second, atLeast: 2 * time.Second},
		{name: "a backend that fails", lister: &lister{fails: true}, want: [2]int{77, 88}, atMost: time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := listing(t, tc.lister)
				begun := time.Now()
				got := counts(t, b)
				took := time.Since(begun)
				if want := [3]int{1, tc.want[0], tc.want[1]}; got != want {
					t.Errorf("tools, resources and prompts are %v, want %v", got, want)
				}
				if took > tc.atMost || took < tc.atLeast {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

func TestCountsAreKeptForAMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &lister{pages: []int{3}}
		b := listing(t, l)
		expect := func(asked int64) {
			t.Helper()
			for range 5 {
				if got := counts(t, b); got[1] != 3 {
					t.Errorf("%d resources", got[1])
				}
			}
			if got := l.asked.Load(); got != asked {
				t.Errorf("the backend was asked %d times, want %d", got, asked)
			}
		}
		expect(1)
		time.Sleep(10*time.Second - time.Millisecond)
		expect(1)
		time.Sleep(time.Millisecond)
		expect(2)
	})
}

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
			return mcptest.As(t, outrigger.Grant{Name: "bob", Tools: every, Resources: every, Prompts: every})
		}, false, "private", "private"},
		"a caller of little": {func(t *testing.T) context.Context {
			return mcptest.As(t, outrigger.Grant{Name: "alice", Tools: []string{"desk.*"}, Resources: []string{"desk://notes/*"}, Prompts: []string{"greet"}})
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
				if reply := say(ctx, t, rig, mcptest.Modern, raw); !strings.Contains(string(reply.Bytes()), `"cacheScope":"`+want+`"`) {
					t.Errorf("%s, want %s: %s", method, want, reply.Bytes())
				}
			}
			run := func(m proto.Message) *mcptest.Outcome {
				return rig.Handle(ctx, &mcptest.Call{Origin: rig.NewOrigin(), Question: m})
			}
			resources, _ := run(&outriggerv1.ListResourcesRequest{}).Answer.(*outriggerv1.ListResourcesResponse)
			templates, _ := run(&outriggerv1.ListResourceTemplatesRequest{}).Answer.(*outriggerv1.ListResourceTemplatesResponse)
			prompts, _ := run(&outriggerv1.ListPromptsRequest{}).Answer.(*outriggerv1.ListPromptsResponse)
			read, _ := run(&outriggerv1.ReadResourceRequest{Uri: "desk://notes/1"}).Answer.(*outriggerv1.ResourceOutcome)
			for what, one := range map[string]struct {
				got  outriggerv1.CacheScope
				want string
			}{
				"ListTools":             {run(&outriggerv1.ListToolsRequest{}).Scope, tt.tools},
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

// BenchmarkListAfterOneMore lists 1,000 tools right after the last of them was
// registered, when nothing of the new list is rendered yet.
func BenchmarkListAfterOneMore(b *testing.B) {
	for _, d := range []mcptest.Dialect{mcptest.Canonical, mcptest.Modern, mcptest.Legacy} {
		b.Run(d.String(), func(b *testing.B) {
			var sidecar *mcptest.Rig
			n := 0
			more := func() {
				n++
				mcptest.Register(b, sidecar.Live, mcptest.Named{
					Name: fmt.Sprintf("desk.repeat_%d", n), Service: "outrigger.demo.v1.Lab", Method: "Echo",
					Input: `{"type":"object","properties":{"nonce":{"type":"string","maxLength":5}},"required":["nonce"]}`,
				})
			}
			list := func() {
				reply := sidecar.Send(context.Background(), inbound(sidecar.NewOrigin(), d,
					`{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{`+modernMeta+`}}`))
				if reply.Status != http.StatusOK || len(reply.Bytes()) < 100_000 {
					b.Fatal(reply.Status)
				}
			}
			fill := func() {
				sidecar = mcptest.Pipe(b, mcptest.Parts{From: mcptest.Source(), Backend: mcptest.Upstream(mcptest.Echo), Configure: pagesOf(2000)})
				for n = 0; len(sidecar.Live.Current().Tools()) < 1000; {
					more()
				}
				list()
			}
			fill()
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				if len(sidecar.Live.Current().Tools()) >= 1100 {
					fill()
				}
				more()
				b.StartTimer()
				list()
			}
		})
	}
}
