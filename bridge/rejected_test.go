// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"google.golang.org/protobuf/types/known/durationpb"
)

// watchedParent counts the contexts that were made of it.
type watchedParent struct {
	context.Context
	done chan struct{}
	made atomic.Int64
}

func (p *watchedParent) Done() <-chan struct{} { return p.done }

// AfterFunc is what package context looks for in a foreign parent.
func (p *watchedParent) AfterFunc(func()) func() bool {
	p.made.Add(1)
	return func() bool { return true }
}

func turnedAway() *bridge.Request {
	return &bridge.Request{Op: bridge.OpCall, Tool: "lab.echo", Arguments: bridge.Payload{Bytes: []byte(`{"nonce":"n"}`)}, Caller: "c"}
}

// TestACallThatIsTurnedAwayHasNoContext: a rate and a full queue say no before a context is made of the caller's. A call
// that runs has one.
func TestACallThatIsTurnedAwayHasNoContext(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}, 1), make(chan struct{})
	slow := mcptest.Upstream(func(_ context.Context, _ *catalog.Method, wire []byte, _ http.Header) (*bridge.Answer, *errmap.Error) {
		entered <- struct{}{}
		<-leave
		return &bridge.Answer{Body: wire}, nil
	})
	slots := policy.NewSlots(&configv1.Limits{MaxConcurrentCalls: new(int32(1)), MaxQueuedCalls: new(int32(1)), MaxQueueWait: durationpb.New(time.Minute)}, policy.SlotOptions{})
	for name, tt := range map[string]struct {
		opts bridge.Options
		want errmap.Code
	}{
		"rate": {bridge.Options{Limiter: policy.NewLimiter(&configv1.Limits{CallerRate: &configv1.Rate{PerSecond: 0.001, Burst: new(int32(1))}})}, errmap.RateLimited},
		"full": {bridge.Options{Slots: slots}, errmap.Unavailable},
	} {
		b := bridge.New(mcptest.Memory(t), slow, correlate.New(correlate.Options{}), tt.opts)
		first := make(chan *bridge.Response, 1)
		ran := &watchedParent{Context: t.Context(), done: make(chan struct{})}
		go func() { first <- b.Handle(ran, turnedAway()) }()
		<-entered
		second := make(chan *bridge.Response, 1)
		if name == "full" {
			go func() { second <- b.Handle(t.Context(), turnedAway()) }()
			for slots.Stats().Waiting == 0 {
				runtime.Gosched()
			}
		}
		parent := &watchedParent{Context: t.Context(), done: make(chan struct{})}
		resp := b.Handle(parent, turnedAway())
		if resp.Err == nil || resp.Err.Code != tt.want || resp.Err.Tool != "lab.echo" || resp.Tool == nil {
			t.Errorf("%s: %+v", name, resp)
		}
		if resp.Err != resp.Err.Redacted() {
			t.Errorf("%s: the message has to be redacted again by whatever shows it", name)
		}
		if parent.made.Load() != 0 || ran.made.Load() == 0 {
			t.Errorf("%s: %d contexts were made for a rejected call, %d for one that runs", name, parent.made.Load(), ran.made.Load())
		}
		leave <- struct{}{}
		if resp := <-first; resp.Err != nil {
			t.Errorf("%s: %v", name, resp.Err)
		}
		if name == "full" {
			<-entered
			leave <- struct{}{}
			if resp := <-second; resp.Err != nil {
				t.Errorf("%s, the one that waited: %v", name, resp.Err)
			}
		}
	}
}

// TestACallIsShed while memory is short.
func TestACallIsShed(t *testing.T) {
	t.Parallel()
	b := bridge.New(mcptest.Memory(t), mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{
		Shed: func() *errmap.Error { return errmap.New(errmap.Unavailable) }, Short: func() bool { return true },
	})
	if resp := b.Handle(t.Context(), turnedAway()); codeOf(resp) != errmap.Unavailable {
		t.Errorf("got %v", resp.Err)
	}
}

// A result that cannot be written is a fault of one answer, not of the stream that it goes to.
func TestAPanicInWritingIsAnsweredToo(t *testing.T) {
	t.Parallel()
	for _, d := range []dialect.Dialect{dialect.Canonical, dialect.Modern, dialect.Legacy} {
		b := dialect.New(bridge.New(hollow{}, nil, correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
		msg := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientCapabilities":{}}}}`), jsonrpc.ProfileMCP, jsonrpc.Limits{})
		reply := b.HandleMessage(t.Context(), &dialect.Inbound{Dialect: d, Origin: b.Flights().NewOrigin(), Message: &msg})
		if got := string(reply.Bytes()); !strings.Contains(got, string(errmap.InternalError)) || !strings.Contains(got, `"id":"1"`) {
			t.Errorf("%v: %s", d, got)
		}
	}
}

// hollow breaks the promise of Catalogs: it returns neither a catalog nor an error.
type hollow struct{}

func (hollow) Current() *catalog.Catalog                      { return nil }
func (hollow) Wait(context.Context) (*catalog.Catalog, error) { return nil, nil } //nolint:nilnil // That is the fault.

// toolCall is a call with JSON arguments, from an origin without others.
func toolCall(b *bridge.Bridge, tool, arguments string) *bridge.Request {
	return &bridge.Request{Op: bridge.OpCall, Origin: b.Flights().NewOrigin(), Tool: tool, Arguments: bridge.Payload{Bytes: []byte(arguments)}}
}

func codeOf(resp *bridge.Response) errmap.Code {
	if resp.Err == nil {
		return ""
	}
	return resp.Err.Code
}

// noStream is a caller's stream that is never touched.
type noStream struct{ bridge.Exchange }

// TestAStreamOfAUnaryMethodIsRefused: the catalog has changed between the choice of a handler and the call.
func TestAStreamOfAUnaryMethodIsRefused(t *testing.T) {
	t.Parallel()
	b := bridge.New(mcptest.Memory(t), mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{})
	req := toolCall(b, "", "")
	req.Procedure, req.Arguments, req.Exchange = "/outrigger.demo.v1.Lab/Echo", bridge.Payload{Encoding: bridge.EncodingProtobuf}, noStream{}
	if resp := b.Handle(t.Context(), req); codeOf(resp) != errmap.Unavailable || resp.Err.RetryAfter == 0 {
		t.Errorf("got %v", resp.Err)
	}
}

func TestNoBackendIsUnavailable(t *testing.T) {
	t.Parallel()
	if _, err := (bridge.NoBackend{}).Call(t.Context(), nil, nil, nil); err.Code != errmap.Unavailable || !strings.Contains(err.Message, "--backend") {
		t.Errorf("got %v", err)
	}
}
