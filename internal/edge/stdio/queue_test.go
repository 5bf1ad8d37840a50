// SPDX-License-Identifier: Apache-2.0

package stdio_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// inModern is a call in the modern era.
func inModern(call string) string {
	return strings.Replace(call, `"params":{`, `"params":{`+meta+`,`, 1)
}

// allSucceed wants one successful reply to each of n calls.
func allSucceed(t *testing.T, replies []string, n int) {
	t.Helper()
	ids := map[string]bool{}
	for _, line := range replies {
		got := decode(t, line)
		if got.code() != "" || ids[string(got.ID)] {
			t.Fatalf("got %s", line)
		}
		ids[string(got.ID)] = true
	}
	if len(ids) != n {
		t.Errorf("%d calls are answered, want %d", len(ids), n)
	}
}

// slow is a backend that echoes after a while.
func slow(d time.Duration) mcptest.Upstream {
	return func(ctx context.Context, _ *catalog.Method, in []byte, _ http.Header) (*bridge.Answer, *errmap.Error) {
		select {
		case <-time.After(d):
			return &bridge.Answer{Body: bytes.Clone(in)}, nil
		case <-ctx.Done():
			return nil, errmap.Wrap(errmap.Cancelled, ctx.Err())
		}
	}
}

// feed writes n calls and closes the input.
func (p *peer) feed(n int, line func(int) string) {
	go func() {
		for i := range n {
			if _, err := io.WriteString(p.in, line(i)+"\n"); err != nil {
				p.t.Error(err)
				break
			}
		}
		_ = p.in.Close()
	}()
}

// rest reads all lines to the end.
func (p *peer) rest() []string {
	p.t.Helper()
	var out []string
	for p.lines.Scan() {
		out = append(out, p.lines.Text())
	}
	if err := <-p.ended; err != nil {
		p.t.Errorf("Serve: %v", err)
	}
	return out
}

func echoNumber(i int) string { return call(fmt.Sprintf(`"%d"`, i), `{"nonce":"n"}`) }

func TestRequestsBeyondThePlacesWait(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		backend := newHeld()
		p := talk(t.Context(), t, sidecar(live, backend.call), stdio.Options{MaxConcurrent: 1})
		p.send(call(`"1"`, `{"nonce":"first"}`))
		<-backend.entered
		p.send(call(`"2"`, `{}`), inModern(call(`"3"`, `{"nonce":"third"}`)), call(`"4"`, `{}`))
		// A ping overtakes what waits, and an id that waits is in flight.
		p.send(ping(`"p"`))
		if got := p.reply(); string(got.ID) != `"p"` || got.code() != "" {
			t.Errorf("got %s", got.raw)
		}
		for _, id := range []string{`"1"`, `"4"`} {
			p.send(call(id, `{"nonce":"again"}`))
			if got := p.reply(); string(got.ID) != id || got.code() != errmap.DuplicateRequestID {
				t.Errorf("got %s", got.raw)
			}
		}
		// One that is cancelled leaves the queue: it is not run, not answered, and its
		// id is free.
		p.send(cancel(`"2"`), call(`"2"`, `{"nonce":"new"}`), `{`)
		if got := p.reply(); got.code() != errmap.ParseError {
			t.Errorf("got %s", got.raw)
		}
		close(backend.release)
		for _, want := range []struct{ id, text string }{{`"1"`, "first"}, {`"3"`, "third"}, {`"4"`, ""}, {`"2"`, "new"}} {
			if got := p.reply(); string(got.ID) != want.id || got.code() != "" || !strings.Contains(got.raw, want.text) {
				t.Errorf("got %s, want %s", got.raw, want.id)
			}
		}
		if rest := p.end(); len(rest) > 0 {
			t.Errorf("more was written: %q", rest)
		}
		if n := len(backend.entered); n != 3 {
			t.Errorf("%d more calls have run, want 3", n)
		}
	})
}

// While the queue is full nothing is read, so that the peer waits; its bytes are
// bounded, and everything is answered in the end.
func TestReadingPausesWhileTheQueueIsFull(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		const calls, most = 200, 64 << 10
		backend, waiting := newHeld(), new(atomic.Int64)
		p := talk(t.Context(), t, sidecar(live, backend.call), stdio.Options{MaxConcurrent: 1, MaxQueueBytes: most, QueueBytes: waiting})
		var written atomic.Int64
		p.feed(calls, func(i int) string {
			written.Store(int64(i))
			return call(fmt.Sprintf(`"%d"`, i), `{"payload":"`+strings.Repeat("AAAA", 2<<10)+`"}`)
		})
		synctest.Wait()
		if n, size := written.Load(), waiting.Load(); n > 20 || size < most || size > most+16<<10 {
			t.Errorf("%d lines were written and %d bytes wait", n, size)
		}
		close(backend.release)
		allSucceed(t, p.rest(), calls)
		if waiting.Load() != 0 {
			t.Errorf("%d bytes wait at the end", waiting.Load())
		}
	})
}

// shortOf sheds calls while memory is short.
func shortOf(short func() bool) bridge.Options {
	return bridge.Options{Short: short, Shed: func() *errmap.Error {
		if short() {
			return errmap.New(errmap.Unavailable)
		}
		return nil
	}}
}

// No other limit refuses what a peer with flow control has waiting.
func TestNoLimitShedsTheBacklog(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	for name, tc := range map[string]struct {
		inFlight int
		bridge   func() bridge.Options
	}{
		"max_in_flight 1": {inFlight: 1},
		"max_in_flight 7": {inFlight: 7},
		"max_concurrent_calls, max_queued_calls and max_queue_wait": {bridge: func() bridge.Options {
			return bridge.Options{Slots: policy.NewSlots(&configv1.Limits{MaxConcurrentCalls: new(int32(2)), MaxQueuedCalls: new(int32(1)), MaxQueueWait: durationpb.New(time.Millisecond)}, policy.SlotOptions{})}
		}},
		"max_memory_bytes, for a while": {bridge: func() bridge.Options {
			start := time.Now()
			return shortOf(func() bool { return time.Since(start) < 2*time.Second })
		}},
		"max_memory_bytes": {bridge: func() bridge.Options { return shortOf(func() bool { return true }) }},
		"timeout":          {bridge: func() bridge.Options { return bridge.Options{Timeout: 50 * time.Millisecond} }},
	} {
		for spoken, in := range map[string]func(string) string{"canonical": func(s string) string { return s }, "modern": inModern} {
			t.Run(name+" "+spoken, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var o bridge.Options
					if tc.bridge != nil {
						o = tc.bridge()
					}
					b := dialect.New(bridge.New(live, slow(20*time.Millisecond), correlate.New(correlate.Options{MaxInFlight: tc.inFlight}), o), dialect.Options{})
					p := talk(t.Context(), t, b, stdio.Options{MaxConcurrent: 8})
					p.feed(500, func(i int) string { return in(echoNumber(i)) })
					allSucceed(t, p.rest(), 500)
				})
			})
		}
	}
}

// Every request that was read runs after the end of input, and the grace period
// counts from the last one that began.
func TestAllThatWasReadRunsAfterTheEndOfInput(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		p := talk(t.Context(), t, sidecar(live, slow(5*time.Second)), stdio.Options{MaxConcurrent: 1, Grace: 8 * time.Second})
		start := time.Now()
		p.feed(10, echoNumber)
		allSucceed(t, p.rest(), 10)
		if took := time.Since(start); took != 50*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestTheGracePeriodCountsFromTheLastCallThatBegan(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		p := talk(t.Context(), t, sidecar(live, slow(25*time.Second)), stdio.Options{MaxConcurrent: 1, Grace: 20 * time.Second})
		start := time.Now()
		p.feed(3, echoNumber)
		replies := p.rest()
		// The first is cut at 20 s. The others never begin, and may be sent again.
		if took := time.Since(start); took != 20*time.Second || len(replies) != 3 {
			t.Fatalf("%q after %v", replies, took)
		}
		for i, want := range []string{"outcome is unknown", "before this request began", "before this request began"} {
			if got := decode(t, replies[i]); got.code() != errmap.Unavailable || !strings.Contains(got.raw, want) {
				t.Errorf("got %s, want %s", got.raw, want)
			}
		}
	})
}

// A signal ends the process in time, however much waits.
func TestASignalBoundsTheQueue(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	for _, name := range []string{"while lines come", "after the end of input"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				p := talk(ctx, t, sidecar(live, slow(3*time.Second)), stdio.Options{MaxConcurrent: 1, Grace: 10 * time.Second})
				for i := range 9 {
					p.send(echoNumber(i))
				}
				if name == "after the end of input" {
					_ = p.in.Close()
				}
				synctest.Wait()
				start := time.Now()
				stop()
				answered, refused := 0, 0
				for _, line := range p.rest() {
					switch decode(t, line).code() {
					case "":
						answered++
					case errmap.Unavailable:
						refused++
					}
				}
				if took := time.Since(start); took != 10*time.Second || answered != 3 || refused != 6 {
					t.Errorf("%d answered and %d refused after %v", answered, refused, took)
				}
			})
		})
	}
}

// A call that waits for its client holds no place: the answer may come behind
// calls that wait for one.
func TestACallThatWaitsForItsClientHoldsNoPlace(t *testing.T) {
	t.Parallel()
	p, _ := desk(t.Context(), t, stdio.Options{MaxConcurrent: 1, MaxQueueBytes: 1})
	p.begin("2025-11-25")
	const calls = 5
	ids := map[string]bool{}
	questions := make([]string, 0, calls)
	for i := range calls {
		p.send(toolCall(fmt.Sprint(10+i), "sign", ""))
		questions = append(questions, string(p.method("elicitation/create").ID.Raw()))
	}
	p.send(modern(`"between"`, "server/discover", "", ""))
	p.want(`"id":"between"`)
	for _, id := range questions {
		p.send(`{"jsonrpc":"2.0","id":` + id + `,` + accepts + `}`)
	}
	for range calls {
		got := p.reply()
		if got.code() != "" || !strings.Contains(got.raw, "Signed by Ann.") {
			t.Errorf("got %s", got.raw)
		}
		ids[string(got.ID)] = true
	}
	if len(ids) != calls {
		t.Errorf("answered: %v", ids)
	}
	if rest := p.end(); len(rest) > 0 {
		t.Errorf("more was written: %q", rest)
	}
}

// What waits for its client may fill the table of requests in flight. Pausing
// would keep the answers out then, so the next request is refused.
func TestReadingGoesOnWhileAllWaitForTheirClient(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Native: mcptest.Desk(), NoDemo: true, Configure: func(c *configv1.Config) { c.Limits.MaxInFlight = proto.Int32(1) }})
	t.Cleanup(rig.Bridge.Sessions().Close)
	p := talk(t.Context(), t, rig.Bridge, stdio.Options{})
	p.begin("2025-11-25")
	p.send(toolCall("7", "sign", ""))
	q := p.method("elicitation/create")
	p.send(toolCall("8", "sign", ""))
	if got := p.reply(); got.code() != errmap.Unavailable || string(got.ID) != "8" {
		t.Errorf("got %s", got.raw)
	}
	p.respond(q, accepts)
	p.result("7", "Signed by Ann.")
	if rest := p.end(); len(rest) > 0 {
		t.Errorf("more was written: %q", rest)
	}
}

func TestASubscriptionHoldsNoPlace(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		p := talk(t.Context(), t, sidecar(live, mcptest.Echo), stdio.Options{MaxConcurrent: 1})
		for _, id := range []string{`"a"`, `"b"`} {
			p.send(listen(id))
			p.want(acknowledged(id))
		}
		p.send(echoNumber(1))
		p.want(`"id":"1"`)
		p.send(cancel(`"a"`), cancel(`"b"`))
		if rest := p.end(); len(rest) > 0 {
			t.Errorf("more was written: %q", rest)
		}
	})
}

// A batch may have more entries than there are places.
func TestABatchWaitsForPlaces(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		p := talk(t.Context(), t, sidecar(live, slow(time.Second)), stdio.Options{MaxConcurrent: 2})
		p.begin("2025-03-26")
		p.send(`[` + toolCall("1", "lab_echo", "") + `,` + ping("2") + `,` + toolCall("3", "lab_echo", "") + `,` + toolCall("4", "lab_echo", "") + `,` +
			toolCall("5", "lab_echo", "") + `]`)
		p.send(cancel("4"))
		line := p.line()
		at := -1
		for _, id := range []string{"1", "2", "3", "5"} {
			next := strings.Index(line, `"id":`+id+`,"result"`)
			if next <= at {
				t.Errorf("%s is out of order in %s", id, line)
			}
			at = next
		}
		if strings.Contains(line, `"id":4`) {
			t.Errorf("the cancelled entry is answered: %s", line)
		}
		if rest := p.end(); len(rest) > 0 {
			t.Errorf("more was written: %q", rest)
		}
	})
}

// A peer that reads slowly is waited for, also after the end of input.
func TestAPeerThatReadsSlowlyGetsAllAnswers(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		const calls = 300
		p := talk(t.Context(), t, sidecar(live, mcptest.Echo), stdio.Options{MaxConcurrent: 16, Grace: time.Second})
		payload := strings.Repeat("AAAA", 1<<10)
		p.feed(calls, func(i int) string { return call(fmt.Sprintf(`"%d"`, i), `{"payload":"`+payload+`"}`) })
		var replies []string
		for p.lines.Scan() {
			replies = append(replies, p.lines.Text())
			time.Sleep(100 * time.Millisecond) // the bubble's clock
		}
		allSucceed(t, replies, calls)
		if err := <-p.ended; err != nil {
			t.Error(err)
		}
	})
}
