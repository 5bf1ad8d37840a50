// SPDX-License-Identifier: Apache-2.0

package stdio_test

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// relay is a call of lab.relay whose items follow.
func relay(id, more string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"lab.relay",` + more + `"_meta":{"dev.outrigger/items":true}}}`
}

func follow(id, params string) string {
	return `{"jsonrpc":"2.0","method":"notifications/items","params":{"requestId":` + id + params + `}}`
}

// TestAConversation: each answer comes before the next item is sent, and the result has them all.
func TestAConversation(t *testing.T) {
	t.Parallel()
	p := talk(t.Context(), t, sidecar(mcptest.Memory(t), mcptest.Echo), stdio.Options{})
	p.send(relay(`"c"`, `"arguments":{"items":[{"nonce":"one"}]},`))
	p.want(`"method":"notifications/item","params":{"requestId":"c","item":{"nonce":"one"`)
	p.send(follow(`"c"`, `,"items":[{"nonce":"two"}]`))
	p.want(`"params":{"requestId":"c","item":{"nonce":"two"`)
	// Another call with its own items beside it, and what belongs to none.
	p.send(relay(`"d"`, ""), follow(`"x"`, `,"items":[{"nonce":"no one"}]`), follow(`"d"`, `,"items":[{"nonce":"other"}]`))
	p.want(`"params":{"requestId":"d","item":{"nonce":"other"`)
	p.send(follow(`"c"`, `,"items":[{"nonce":"three"}],"last":true`))
	p.want(`"params":{"requestId":"c","item":{"nonce":"three"`)
	got := p.line()
	if !strings.Contains(got, `"id":"c"`) || strings.Count(got, `"nonce":"`) < 3 || strings.Contains(got, "other") || !strings.Contains(got, `"truncated":false`) {
		t.Errorf("the result: %s", got)
	}
	p.send(follow(`"d"`, `,"last":true`))
	p.want(`"id":"d","result"`)
	if rest := p.end(); len(rest) > 0 {
		t.Errorf("more was written: %q", rest)
	}
}

// TestWhatEndsAConversation: a wrong item, a wrong notification, the caller's cancellation and the end of the input.
func TestWhatEndsAConversation(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ send, want string }{
		"a wrong item":           {follow(`"c"`, `,"items":[{"nonce":"a"},{"nonce":7}]`), `"path":"/items/1/nonce"`},
		"items that are no list": {follow(`"c"`, `,"items":{}`), `"path":"/params/items"`},
		"the end of the input":   {"", `the input ended before a notification`},
		"another call of the id": {relay(`"c"`, ""), `DUPLICATE_REQUEST_ID`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := talk(t.Context(), t, sidecar(mcptest.Memory(t), mcptest.Echo), stdio.Options{})
			p.send(relay(`"c"`, ""))
			if tc.send != "" {
				p.send(tc.send)
			}
			all := strings.Join(p.end(), "\n")
			if !strings.Contains(all, tc.want) {
				t.Errorf("got %s, want %s", all, tc.want)
			}
		})
	}
	p := talk(t.Context(), t, sidecar(mcptest.Memory(t), mcptest.Echo), stdio.Options{})
	p.send(relay(`"c"`, `"arguments":{"items":[{"nonce":"one"}]},`))
	p.want(`"item":{"nonce":"one"`)
	p.send(cancel(`"c"`), ping(`"p"`))
	p.want(`"id":"p"`)
	if rest := p.end(); len(rest) > 0 {
		t.Errorf("the cancelled call was answered: %q", rest)
	}
}

// TestItemsFollowOnlyWhatTakesThem.
func TestItemsFollowOnlyWhatTakesThem(t *testing.T) {
	t.Parallel()
	p := talk(t.Context(), t, sidecar(mcptest.Memory(t), mcptest.Echo), stdio.Options{})
	p.send(strings.Replace(relay(`"e"`, ""), "lab.relay", "lab.echo", 1))
	p.want("does not take a stream of items")
	p.send(strings.Replace(relay(`"f"`, ""), "true", "7", 1))
	p.want(`"path":"/params/_meta/dev.outrigger~1items"`)
	if rest := p.end(); len(rest) > 0 {
		t.Errorf("more was written: %q", rest)
	}
}
