// SPDX-License-Identifier: Apache-2.0

package correlate

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// modelCall is what the model knows of one call.
type modelCall struct {
	call     *Call
	key      key // the zero key: no id
	origin   Origin
	listed   bool
	finished bool
	cause    error // nil while the context must be alive
}

// model is the table as its documentation describes it, without any cleverness.
type model struct {
	table    *Table
	most     int
	calls    []*modelCall
	draining bool
}

func (m *model) inFlight() int {
	n := 0
	for _, c := range m.calls {
		if !c.finished {
			n++
		}
	}
	return n
}

// listed returns the call with this key, or nil.
func (m *model) listed(k key) *modelCall {
	for _, c := range m.calls {
		if c.listed && c.key == k && k != (key{}) {
			return c
		}
	}
	return nil
}

// drawOrigin chooses from three, two of which share a shard.
func drawOrigin(t *rapid.T) Origin {
	return rapid.SampledFrom([]Origin{1, 2, 1 + shardCount}).Draw(t, "origin")
}

func (m *model) register(t *rapid.T) {
	o := drawOrigin(t)
	id := rapid.SampledFrom([]jsonrpc.ID{{}, jsonrpc.StringID("1"), jsonrpc.IntID(1), jsonrpc.IntID(2)}).Draw(t, "id")
	k := key{o, id.Key()}
	if id.IsZero() {
		k = key{}
	}
	var want error
	switch {
	case m.draining:
		want = ErrDraining
	case m.inFlight() == m.most:
		want = ErrFull
	case m.listed(k) != nil:
		want = ErrDuplicateID
	}
	call, err := m.table.Register(context.Background(), o, id)
	if !errors.Is(err, want) || (call == nil) != (want != nil) {
		t.Fatalf("Register: %v, want %v", err, want)
	}
	if want == nil {
		m.calls = append(m.calls, &modelCall{call: call, key: k, origin: o, listed: true})
	}
}

func (m *model) finish(t *rapid.T) {
	if len(m.calls) == 0 {
		t.Skip("no call yet")
	}
	// Of the last ones, for most of the others have ended.
	c := rapid.SampledFrom(m.calls[max(0, len(m.calls)-5):]).Draw(t, "call")
	if got := c.call.Finish(); got != c.listed {
		t.Fatalf("Finish = %v, want %v", got, c.listed)
	}
	c.listed, c.finished = false, true
	if c.cause == nil {
		c.cause = context.Canceled
	}
}

func (m *model) cancel(t *rapid.T) {
	id := rapid.SampledFrom([]jsonrpc.ID{jsonrpc.StringID("1"), jsonrpc.IntID(1), jsonrpc.IntID(2)}).Draw(t, "id")
	k := key{drawOrigin(t), id.Key()}
	c := m.listed(k)
	if got := m.table.Cancel(k.origin, id, "r"); got != (c != nil) {
		t.Fatalf("Cancel = %v, want %v", got, c != nil)
	}
	if c != nil {
		m.end(c, ErrCancelled)
	}
}

func (m *model) end(c *modelCall, cause error) {
	c.listed = false
	if c.cause == nil {
		c.cause = cause
	}
}

func (m *model) closeOrigin(t *rapid.T) {
	o := drawOrigin(t)
	want := 0
	for _, c := range m.calls {
		if c.listed && c.origin == o {
			m.end(c, ErrOriginClosed)
			want++
		}
	}
	if got := m.table.CloseOrigin(o); got != want {
		t.Fatalf("CloseOrigin = %d, want %d", got, want)
	}
}

// drain begins a drain whose time is up at once, so that it cuts.
func (m *model) drain(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "really") != 9 { // else most runs would soon stop to register
		t.Skip("not now")
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	idle, want := m.inFlight() == 0, 0
	err := m.table.Drain(ended)
	m.draining = true
	if idle {
		if err != nil {
			t.Fatalf("Drain: %v", err)
		}
		return
	}
	for _, c := range m.calls {
		if c.listed {
			want++
			if c.cause == nil {
				c.cause = ErrDrainCut
			}
		}
	}
	var cut *DrainError
	if !errors.As(err, &cut) || cut.Cut != want {
		t.Fatalf("Drain: %v, want %d calls cut", err, want)
	}
}

// check compares the whole state.
func (m *model) check(t *rapid.T) {
	if got, want := m.table.InFlight(), m.inFlight(); got != want {
		t.Fatalf("InFlight = %d, want %d", got, want)
	}
	for _, c := range m.calls {
		cause := context.Cause(c.call.Context())
		if (c.cause == nil) != (cause == nil) || !errors.Is(cause, c.cause) {
			t.Fatalf("cause %v, want %v", cause, c.cause)
		}
	}
}

// TestTableAgainstModel: in whatever order things happen, each call ends once
// and for the right cause, and at the end nothing is left.
func TestTableAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 12).Draw(t, "most")
		m := &model{table: New(Options{MaxInFlight: most}), most: most}
		t.Repeat(map[string]func(*rapid.T){
			"":            m.check,
			"register":    m.register,
			"register2":   m.register, // more often than the rest
			"register3":   m.register,
			"finish":      m.finish,
			"cancel":      m.cancel,
			"closeOrigin": m.closeOrigin,
			"drain":       m.drain,
		})
		for _, c := range m.calls {
			if c.call.Finish() != c.listed {
				t.Fatalf("Finish at the end, want %v", c.listed)
			}
		}
		checkEmpty(t, m.table)
		if err := m.table.Drain(context.Background()); err != nil {
			t.Fatalf("Drain at the end: %v", err)
		}
	})
}
