// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// growing offers one service at first, and a second one from when it is told.
type growing struct{ grown atomic.Bool }

func (*growing) Name() string { return "growing" }

func (g *growing) Load(ctx context.Context) (*source.Loaded, error) {
	loaded, err := mcptest.Source().Load(ctx)
	if err != nil {
		return nil, err
	}
	loaded.Services = []string{"outrigger.demo.v1.Lab"}
	if g.grown.Load() {
		loaded.Services = append(loaded.Services, "outrigger.demo.v1.Fleet")
	}
	return loaded, nil
}

// The canonical dialect has no pages: its list is whole, whatever the size of a page.
func TestTheCanonicalListIsWhole(t *testing.T) {
	t.Parallel()
	b := mcptest.Start(t, mcptest.Options{Configure: pagesOf(2)}).Bridge
	const list = `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{`
	if n := len(answer(t, b, dialect.Modern, list+modernMeta+`}}`).Result.Tools); n != 2 {
		t.Errorf("the first page has %d tools, want 2", n)
	}
	cat, err := b.Catalog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n, want := len(answer(t, b, dialect.Canonical, list+`}}`).Result.Tools), len(cat.Tools()); n != want {
		t.Errorf("the canonical list has %d tools, want %d", n, want)
	}
}

func TestTheListingFollowsTheCatalog(t *testing.T) {
	t.Parallel()
	from := &growing{}
	live := catalog.NewLive([]source.Source{from}, catalog.LiveOptions{})
	b := dialect.New(bridge.New(live, mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
	check := func(want int) {
		t.Helper()
		if err := live.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, d := range []dialect.Dialect{dialect.Canonical, dialect.Modern, dialect.Legacy} {
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
	from.grown.Store(true)
	check(5 + 13)
	from.grown.Store(false)
	check(5)
}

// A reply is one line on stdio, so nothing that a catalog holds may break one.
func TestEveryReplyIsOneLine(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Server = &configv1.Server{Name: "a\nname", Title: "a\r\ntitle", Version: "1\u2028", Instructions: "line one\nline two"}
	}})
	b := rig.Bridge
	lines := map[dialect.Dialect][]string{
		dialect.Canonical: {
			`{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`,
			`{"jsonrpc":"2.0","id":"1","method":"server/describe","params":{}}`,
			`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"a\nb\r"}}}`,
			`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"tool_name":"lab.echo","arguments":{"nonce":"a\nb\r"}}}`,
			`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"a\nb"}}`,
			"{\"jsonrpc\":\"2.0\",\n\"id\":\"1\"\n,\"method\":\"tools/call\",\"params\":{\"name\":\"lab.echo\",\"arguments\":\n{\n}\n}}",
			`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.fail","arguments":{"code":"FAIL_CODE_INTERNAL","message":"a\nb\r\n","details":["FAIL_DETAIL_HELP","FAIL_DETAIL_BAD_REQUEST"]}}}`,
			"\r\n", "[", `"a\nb"`,
		},
		dialect.Modern: {
			`{"jsonrpc":"2.0","id":"1","method":"server/discover","params":{` + modernMeta + `}}`,
			`{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{` + modernMeta + `}}`,
			`{"jsonrpc":"2.0","id":"1","method":"a\nb","params":{` + modernMeta + `}}`,
		},
		dialect.Legacy: {
			`{"jsonrpc":"2.0","id":"1","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`,
			`{"jsonrpc":"2.0","id":"1","method":"tools/list"}`,
		},
	}
	for _, tool := range rig.Live.Current().All() {
		lines[dialect.Canonical] = append(lines[dialect.Canonical],
			`{"jsonrpc":"2.0","id":"1","method":"tools/get","params":{"name":"`+tool.Name+`"}}`)
	}
	for d, raws := range lines {
		for _, raw := range raws {
			reply := b.HandleMessage(t.Context(), inbound(t, b.Flights().NewOrigin(), d, raw))
			if reply.Bytes() == nil || bytes.ContainsAny(reply.Bytes(), "\r\n") {
				t.Errorf("%v %s: %q", d, strings.TrimSpace(raw), reply.Bytes())
			}
		}
	}
}
