// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// inUse is the size of what is reachable.
func inUse() uint64 {
	var now runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools kept
	runtime.ReadMemStats(&now)
	return now.HeapAlloc
}

// wordyCall is a call with size bytes on the wire and eight times as many in JSON,
// with the members that point into the message.
func wordyCall(id, size int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d","method":"tools/call","params":{"name":"lab.echo","arguments":{"payload":"%s"},%s}}`,
		id, strings.Repeat(`\u0051\u0055\u0046\u0042`, size/3), strings.Replace(modernMeta, `"_meta":{`, `"_meta":{"progressToken":"p","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",`, 1))
}

// TestACallThatWaitsKeepsNoMoreThanItSends counts what is held by calls that a
// backend takes its time over: their wire bytes, and little beside.
//
//nolint:paralleltest // it counts what the whole process holds
func TestACallThatWaitsKeepsNoMoreThanItSends(t *testing.T) {
	const calls, size = 24, 64 << 10
	for _, d := range []mcptest.Dialect{mcptest.Modern, mcptest.Legacy, mcptest.Canonical} {
		t.Run(d.String(), func(t *testing.T) {
			backend := &held{entered: make(chan struct{}, calls), release: make(chan struct{})}
			b := fake(t, backend.call, repairs)
			var running sync.WaitGroup
			before := inUse()
			for i := range calls {
				in := inbound(b.NewOrigin(), d, wordyCall(i, size))
				in.Send = func([]byte) error { return nil }
				running.Go(func() {
					reply := b.Send(t.Context(), in)
					if n := bytes.Count(reply.Bytes(), []byte("QUFB")); n != 2*(size/3) {
						t.Errorf("call %d: %d of the payload came back: %.200s", i, n, reply.Bytes())
					}
				})
			}
			for range calls {
				testkit.Receive(t, "a call reaches the backend", backend.entered)
			}
			// The buffer of wire bytes is at most a quarter larger than they are.
			const most = size*5/4 + 16<<10
			if each := (int64(inUse()) - int64(before)) / calls; each > most {
				t.Errorf("a call that sends %d bytes holds %d while it waits, want at most %d", size, each, most)
			}
			close(backend.release)
			running.Wait()
		})
	}
}

// TestBuffersThatAreUsedAgain has calls with large arguments over every protocol
// end in every way at the same time: every answer holds its caller's own text.
func TestBuffersThatAreUsedAgain(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{})
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for n := range 12 {
				own := base64.StdEncoding.EncodeToString(bytes.Repeat(fmt.Appendf(nil, "%d-%d.", i, n), 1200+300*n))
				ctx, cancel := context.WithCancel(context.Background())
				run := rig.Begin(ctx, inbound(rig.NewOrigin(), mcptest.Canonical,
					`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{"payload":"`+own+`"}}}`))
				if n%3 == 2 {
					go cancel()
				}
				reply := run()
				cancel()
				if reply.Bytes() != nil && reply.Status == http.StatusOK {
					result, _ := lookup(reply.Bytes(), "result")
					data, _ := lookup(result, "structuredContent")
					if payload, _ := lookup(data, "payload"); string(payload) != `"`+own+`"` {
						t.Errorf("%d-%d: got %.80s", i, n, reply.Bytes())
					}
				} else if n%3 != 2 {
					t.Errorf("%d-%d: %d %.200s", i, n, reply.Status, reply.Bytes())
				}
				reply.Release()
			}
		})
	}
	callers.Wait()
}

// A call that is repeated is sent with the same bytes.
func TestARepeatedCallIsSentWhole(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 20_000)
	var seen [][]byte
	b := fake(t, func(ctx context.Context, m *mcptest.Method, in []byte, header http.Header) (*mcptest.Answer, *errmap.Error) {
		seen = append(seen, bytes.Clone(in))
		if len(seen) < 3 {
			return nil, errmap.New(errmap.Unavailable)
		}
		return mcptest.Echo(ctx, m, in, header)
	}, nil)
	req := toolCall(b, "lab.echo", `{"payload":"`+base64.StdEncoding.EncodeToString([]byte(text))+`"}`)
	req.Header = http.Header{idempotencyHeader: {"k"}}
	resp := b.Handle(context.Background(), req)
	if resp.Err != nil || len(seen) != 3 {
		t.Fatalf("%d attempts: %v", len(seen), resp.Err)
	}
	for i, wire := range seen {
		if !bytes.Equal(wire, seen[0]) || !bytes.Contains(wire, []byte(text)) {
			t.Errorf("attempt %d sent %.60q", i, wire)
		}
	}
}
