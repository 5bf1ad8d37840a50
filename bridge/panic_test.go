// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
)

// panicking answers like an echo, and panics in lab.sleep.
func panicking(_ context.Context, m *catalog.Method, in []byte, _ http.Header) (*bridge.Answer, *errmap.Error) {
	if strings.HasSuffix(m.Procedure, "/Sleep") {
		panic("the handler has a fault: hunter2")
	}
	return &bridge.Answer{Body: bytes.Clone(in)}, nil
}

func TestAPanicIsOneInternalErrorForOneCaller(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.ErrorLevel)
	b := fake(t, panicking, bridge.Options{Log: zap.New(core)})
	origin := b.Flights().NewOrigin()
	var others sync.WaitGroup
	for _, id := range []string{"a", "b", "c", "d"} {
		others.Go(func() {
			raw := `{"jsonrpc":"2.0","id":"` + id + `","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"` + id + `"}}}`
			got := decode(t, b.HandleMessage(context.Background(), inbound(t, origin, dialect.Canonical, raw)))
			if got.Result == nil || !strings.Contains(string(got.Result.StructuredContent), `"nonce":"`+id+`"`) {
				t.Errorf("%s: got %+v, want its own nonce", id, got)
			}
		})
	}
	reply := b.HandleMessage(context.Background(), inbound(t, origin, dialect.Canonical,
		`{"jsonrpc":"2.0","id":"boom","method":"tools/call","params":{"name":"lab.sleep","arguments":{"duration":"0s"}}}`))
	others.Wait()
	got := decode(t, reply)
	if got.code() != errmap.InternalError || got.Status != http.StatusInternalServerError || string(got.ID) != `"boom"` {
		t.Errorf("got %d %s, want one INTERNAL_ERROR for boom", got.Status, reply.Bytes())
	}
	if strings.Contains(string(reply.Bytes()), "hunter2") || strings.Contains(string(reply.Bytes()), "goroutine") {
		t.Errorf("the panic leaves the process: %s", reply.Bytes())
	}
	if n := b.Flights().InFlight(); n != 0 {
		t.Errorf("%d requests are still in flight", n)
	}
	entries := logs.FilterMessage("panic while handling a request").All()
	if len(entries) != 1 {
		t.Fatalf("%d log entries about a panic, want 1", len(entries))
	}
	fields := entries[0].ContextMap()
	stack, _ := fields["exception.stacktrace"].(string)
	if !strings.Contains(stack, "panicking") {
		t.Errorf("the log has no stack that names the culprit: %v", fields)
	}
	if fields["outrigger.tool.name"] != "lab.sleep" || fields["jsonrpc.request.id"] != "boom" {
		t.Errorf("the log does not say which request it was: %v", fields)
	}
}

// A result that cannot be written is a fault of one answer, not of the stream
// that it goes to.
func TestAPanicInWritingIsAnsweredToo(t *testing.T) {
	t.Parallel()
	for _, d := range []dialect.Dialect{dialect.Canonical, dialect.Modern, dialect.Legacy} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			b := dialect.New(bridge.New(hollow{}, nil, fake(t, panicking, bridge.Options{}).Flights(), bridge.Options{}), dialect.Options{})
			got := answer(t, b, d, `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{`+modernMeta+`}}`)
			if got.code() != errmap.InternalError || string(got.ID) != `"1"` {
				t.Errorf("got %+v, want INTERNAL_ERROR", got)
			}
		})
	}
}

// hollow breaks the promise of Catalogs: it returns neither a catalog nor an
// error.
type hollow struct{}

func (hollow) Current() *catalog.Catalog                      { return nil }
func (hollow) Wait(context.Context) (*catalog.Catalog, error) { return nil, nil } //nolint:nilnil // That is the fault.
