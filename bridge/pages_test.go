// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

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
	all := modernClient{t: t, bridge: rig.Bridge}
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
	all := modernClient{t: t, bridge: rig.Bridge}
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
	rig := mcptest.Start(t, mcptest.Options{Native: mcptest.Desk(), NoDemo: true, Configure: pagesOf(1), Adjust: sealedAt(&now)})
	ann, bob := modernClient{t: t, bridge: rig.Bridge, caller: "ann"}, modernClient{t: t, bridge: rig.Bridge, caller: "bob"}
	lists := map[string]string{"tools/list": "", "resources/list": "", "resources/templates/list": "", "prompts/list": ""}
	for method := range lists {
		lists[method] = ann.send(method, "").text("nextCursor")
		if lists[method] == "" {
			t.Fatalf("%s has one page", method)
		}
	}
	state := (modernClient{t: t, bridge: rig.Bridge, caller: "ann", capabilities: `{"elicitation":{}}`}).send("tools/call", `"name":"sign"`).text("requestState")
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
		all := modernClient{t: t, bridge: rig.Bridge}
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
