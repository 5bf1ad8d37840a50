// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// echoesAfter answers with what it got, after a time.
func echoesAfter(d time.Duration) mcptest.Upstream {
	return func(ctx context.Context, _ *catalog.Method, in []byte, _ http.Header) (*bridge.Answer, *errmap.Error) {
		select {
		case <-time.After(d):
			return &bridge.Answer{Body: bytes.Clone(in)}, nil
		case <-ctx.Done():
			return nil, errmap.Wrap(errmap.Timeout, ctx.Err())
		}
	}
}

// largeEcho is a call of n bytes of payload, as JSON or as a typed message.
func largeEcho(t *testing.T, caller string, n int, typed bool) *bridge.Request {
	t.Helper()
	payload := strings.Repeat("QUFB", n/4)
	req := &bridge.Request{Op: bridge.OpCall, Tool: "lab.echo", Caller: caller, Arguments: bridge.Payload{
		Bytes: fmt.Appendf(nil, `{"nonce":"n","payload":"%s"}`, payload),
	}}
	if typed {
		wire, err := proto.Marshal(&demov1.EchoRequest{Nonce: "n", Payload: []byte(payload)})
		if err != nil {
			t.Fatal(err)
		}
		req.Arguments = bridge.Payload{Bytes: wire, Encoding: bridge.EncodingProtobuf}
	}
	return req
}

// A large message waits for its turn, on its way to the backend and back, whatever its encoding. A small one does not, and no
// turn is held while the backend works.
func TestLargeMessagesTakeTurns(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	const large, small, backend = 3 * policy.LargeMessage, 100, time.Second
	for name, test := range map[string]struct {
		n     int
		typed bool
		waits bool
	}{
		"large": {large, false, true}, "large, typed": {large, true, true}, "small": {small, false, false}, "small, typed": {small, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				slots := policy.NewSlots(nil, policy.SlotOptions{Turns: 1})
				b := bridge.New(live, echoesAfter(backend), correlate.New(correlate.Options{}), bridge.Options{Slots: slots})
				for _, caller := range []string{"a", "b"} { // both are active
					if resp := b.Handle(t.Context(), largeEcho(t, caller, small, false)); resp.Err != nil {
						t.Fatal(resp.Err)
					}
				}
				held := slots.TurnForRequest(t.Context(), "a", "lab.echo", policy.LargeMessage)
				start := time.Now()
				done := make(chan *bridge.Response, 1)
				go func() { done <- b.Handle(context.Background(), largeEcho(t, "b", test.n, test.typed)) }()
				time.Sleep(backend / 2)
				held.End() // the request may go on
				synctest.Wait()
				held = slots.TurnForRequest(t.Context(), "a", "lab.echo", policy.LargeMessage)
				if got := time.Since(start); got != backend/2 {
					t.Errorf("a turn was held while the backend worked, for %v", got)
				}
				time.Sleep(2 * backend)
				held.End() // the answer may go on
				if resp := <-done; resp.Err != nil || resp.Result.Bytes == nil {
					t.Fatalf("%v", resp.Err)
				}
				want := uint64(0)
				if test.waits {
					want = 2
				}
				if got := slots.Turns()[policy.LargeTurn]; got != (policy.TurnStats{Waits: want}) {
					t.Errorf("%+v, want %d waits", got, want)
				}
			})
		})
	}
}

// The answers of a slow tool that come at the same time do not stand before the answer of another tool.
func TestAnswersTakeTurns(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		slots := policy.NewSlots(nil, policy.SlotOptions{Turns: 1})
		b := bridge.New(live, echoesAfter(time.Second), correlate.New(correlate.Options{}), bridge.Options{Slots: slots})
		for _, caller := range []string{"a", "b"} {
			if resp := b.Handle(t.Context(), largeEcho(t, caller, 100, false)); resp.Err != nil {
				t.Fatal(resp.Err)
			}
		}
		held := slots.TurnForAnswer(t.Context(), "a", "lab.echo", 100)
		const many = 50
		done, other := make(chan *bridge.Response, many), make(chan *bridge.Response, 1)
		for range many {
			go func() { done <- b.Handle(context.Background(), largeEcho(t, "a", 100, false)) }()
		}
		go func() { other <- b.Handle(context.Background(), largeEcho(t, "b", 100, false)) }()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(other) != 1 || len(done) != 0 {
			t.Errorf("%d answers to the other caller, %d to the first", len(other), len(done))
		}
		if got := slots.Turns()[policy.AnswerTurn]; got.Waiting != many {
			t.Errorf("%+v", got)
		}
		held.End()
		for range many {
			if resp := <-done; resp.Err != nil {
				t.Error(resp.Err)
			}
		}
	})
}

// The time that a message waits for its turn counts towards the deadline of its call.
func TestWaitingForATurnCounts(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		slots := policy.NewSlots(nil, policy.SlotOptions{Turns: 1})
		b := bridge.New(live, mcptest.Upstream(func(ctx context.Context, _ *catalog.Method, _ []byte, _ http.Header) (*bridge.Answer, *errmap.Error) {
			<-ctx.Done()
			return nil, errmap.Wrap(errmap.Timeout, ctx.Err())
		}), correlate.New(correlate.Options{}), bridge.Options{Timeout: 10 * time.Second, Slots: slots})
		for _, caller := range []string{"a", "b"} {
			p, err := slots.Acquire(t.Context(), caller, "lab.echo")
			if err != nil {
				t.Fatal(err)
			}
			p.Release(false)
		}
		held := slots.TurnForRequest(t.Context(), "a", "lab.echo", policy.LargeMessage)
		time.AfterFunc(6*time.Second, held.End)
		start := time.Now()
		if resp := b.Handle(context.Background(), largeEcho(t, "b", policy.LargeMessage, false)); codeOf(resp) != errmap.Timeout {
			t.Errorf("%v", resp.Err)
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
