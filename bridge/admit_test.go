// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/metadata"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/resilience"
)

const placeOrder = `{"customer":"Clinic","destination":{"stopId":"6"},` +
	`"parcels":[{"contents":"mangoes","weightKg":4,"valueCents":"1200"}]}`

// TestOnlyWhatDoesNoHarmIsRepeated has a backend that breaks off every call.
func TestOnlyWhatDoesNoHarmIsRepeated(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	for _, tc := range []struct {
		name, tool, arguments, key string
		attempts                   int
	}{
		{"an idempotent tool", "lab.echo", `{}`, "", 3},
		{"one that is not", "fleet.place_order", placeOrder, "", 1},
		{"one that is not, with a key", "fleet.place_order", placeOrder, "order-7", 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var keys []string
				b := dialect.New(bridge.New(live, mcptest.Upstream(func(_ context.Context, _ *catalog.Method, _ []byte, h http.Header) (*bridge.Answer, *errmap.Error) {
					keys = append(keys, strings.Join(h.Values(metadata.IdempotencyHeader), ","))
					return nil, errmap.New(errmap.TransportError)
				}), correlate.New(correlate.Options{}), bridge.Options{Guard: resilience.New(resilience.Options{})}), dialect.Options{})
				req := toolCall(b, tc.tool, tc.arguments)
				if tc.key != "" {
					req.Header = http.Header{metadata.IdempotencyHeader: {tc.key}}
				}
				if resp := b.Handle(context.Background(), req); codeOf(resp) != errmap.TransportError {
					t.Errorf("got %v", resp.Err)
				}
				if len(keys) != tc.attempts {
					t.Errorf("%d attempts, want %d", len(keys), tc.attempts)
				}
				for _, key := range keys {
					if key != tc.key {
						t.Errorf("the backend gets the key %q", key)
					}
				}
			})
		})
	}
}

// TestKeysInMessages: the key of a message goes on in every dialect, and one that
// is none is refused before anything is sent.
func TestKeysInMessages(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	for value, want := range map[string]string{
		`"k-1"`: "k-1", `""`: "", `7`: "", `"a b"`: "", `"a\nb"`: "", `"` + strings.Repeat("x", 256) + `"`: "", `"é"`: "",
	} {
		var got []string
		b := dialect.New(bridge.New(live, mcptest.Upstream(func(_ context.Context, _ *catalog.Method, in []byte, h http.Header) (*bridge.Answer, *errmap.Error) {
			got = append(got, h.Get(metadata.IdempotencyHeader))
			return &bridge.Answer{Body: bytes.Clone(in)}, nil
		}), correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
		reply := answer(t, b, dialect.Canonical,
			`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{},"_meta":{"dev.outrigger/idempotency-key":`+value+`}}}`)
		switch {
		case want != "" && (reply.code() != "" || len(got) != 1 || got[0] != want):
			t.Errorf("%s: %+v, sent %q", value, reply, got)
		case want == "" && (reply.code() != errmap.InvalidParams || len(got) != 0):
			t.Errorf("%s: %+v, sent %q", value, reply, got)
		}
	}
}

// TestWaitingForAPlaceCounts: a call that waited has less time left.
func TestWaitingForAPlaceCounts(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		slots := policy.NewSlots(policy.SlotOptions{Most: 1, Wait: time.Minute})
		b := dialect.New(bridge.New(live, mcptest.Upstream(untilDone), correlate.New(correlate.Options{}), bridge.Options{Timeout: 10 * time.Second, Slots: slots}), dialect.Options{})
		start := time.Now()
		done := make(chan *bridge.Response, 2)
		for range 2 {
			go func() { done <- b.Handle(context.Background(), toolCall(b, "lab.echo", `{}`)) }()
			synctest.Wait()
			time.Sleep(4 * time.Second)
		}
		for range 2 {
			if resp := <-done; codeOf(resp) != errmap.Timeout {
				t.Errorf("got %v", resp.Err)
			}
		}
		// The second came after 4 s, waited 6 s, and had 4 s of its 10 s left.
		if took := time.Since(start); took != 14*time.Second {
			t.Errorf("it took %v", took)
		}
		if s := slots.Stats(); s.Running != 0 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}
