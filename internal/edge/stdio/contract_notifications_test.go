// SPDX-License-Identifier: Apache-2.0

package stdio_test

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// TestContractOfNotifications has the sentence about notifications on stdio.
func TestContractOfNotifications(t *testing.T) {
	t.Parallel()

	t.Run("a notification leaves nothing on stdio", func(t *testing.T) {
		t.Parallel()
		p := talk(t.Context(), t, sidecar(mcptest.Memory(t), mcptest.Echo), stdio.Options{})
		p.send(`{"jsonrpc":"2.0","method":"orders/new","params":{"n":1}}`, `{"jsonrpc":"2.0","method":"x"}`,
			`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"lab.echo","arguments":{}}}`)
		if rest := p.end(); len(rest) > 0 {
			t.Errorf("written: %q", rest)
		}
	})

	t.Run("a notification whose params do not fit leaves nothing either", func(t *testing.T) {
		t.Parallel()
		for _, mode := range []stdio.Mode{stdio.ModeAuto, stdio.ModeCanonical, stdio.ModeMCP} {
			p := talk(t.Context(), t, sidecar(mcptest.Memory(t), mcptest.Echo), stdio.Options{Mode: mode})
			p.send(`{"jsonrpc":"2.0","method":"orders/new","params":null}`, `{"jsonrpc":"2.0","method":"notifications/initialized","params":[]}`,
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":"a"}`, `{"jsonrpc":"2.0","method":7,"params":null}`)
			if got := p.line(); !strings.Contains(got, `"path":"/method"`) {
				t.Errorf("%v: no notification, and the reply is %s", mode, got)
			}
			if rest := p.end(); len(rest) > 0 {
				t.Errorf("%v: written: %q", mode, rest)
			}
		}
	})

	t.Run("a notification waits for nothing", func(t *testing.T) {
		t.Parallel()
		backend := newHeld()
		p := talk(t.Context(), t, sidecar(mcptest.Memory(t), backend.call), stdio.Options{})
		p.send(call(`"slow"`, `{}`))
		<-backend.entered
		p.send(`{"jsonrpc":"2.0","method":"orders/new"}`, ping(`"after"`))
		if got := p.reply(); string(got.ID) != `"after"` {
			t.Errorf("the first reply is %s", got.raw)
		}
		close(backend.release)
		if got := p.reply(); string(got.ID) != `"slow"` {
			t.Errorf("the second reply is %s", got.raw)
		}
		if rest := p.end(); len(rest) > 0 {
			t.Errorf("written as well: %q", rest)
		}
	})
}
