// SPDX-License-Identifier: Apache-2.0

package stdio_test

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
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

	t.Run("a response that nothing waits for leaves nothing but a line of the log", func(t *testing.T) {
		t.Parallel()
		for _, mode := range []stdio.Mode{stdio.ModeAuto, stdio.ModeCanonical, stdio.ModeMCP} {
			core, logged := observer.New(zapcore.InfoLevel)
			pipeline := dialect.New(bridge.New(mcptest.Memory(t), mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{Log: zap.New(core)}), dialect.Options{})
			p := talk(t.Context(), t, pipeline, stdio.Options{Mode: mode})
			strays := []string{
				`{"jsonrpc":"2.0","id":"a","result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`, `{"jsonrpc":"2.0","error":{"code":1,"message":"x"}}`,
				`{"jsonrpc":"2.0","result":{}}`, `{"jsonrpc":"2.0","id":2,"result":{},"error":{"code":1,"message":"x"}}`, `{"jsonrpc":"2.0","id":3,"Result":{},"error":{}}`,
				`{"method":"notifications/x"}`, `{"jsonrpc":"1.0","method":"notifications/x"}`, `{"jsonrpc":"2.0","method":""}`,
			}
			p.send(strays...)
			if rest := p.end(); len(rest) > 1 || len(rest) == 1 && !strings.Contains(rest[0], `"path":"/method"`) {
				t.Errorf("%v: written: %q", mode, rest)
			}
			if n := logged.FilterMessage("message refused").Len(); n != len(strays) {
				t.Errorf("%v: %d lines of the log", mode, n)
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
