// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/session"
)

// The model's bounds: small, so that they are met.
const (
	modelEvents = 4
	modelBytes  = 4 * (32 + 10)
)

// streamModel says in the simplest words what every reader has to see.
type streamModel struct {
	session *session.Session
	stream  *session.Stream
	// events are all that were ever sent; first is the place of the oldest that is
	// kept, unread that of the first unread one.
	events        []string
	first, unread int
	readers       []*modelReader
	paused, ended bool
}

type modelReader struct {
	reader       *session.Reader
	next         int
	taken, holds bool
}

func (m *streamModel) add(text string) {
	m.events = append(m.events, text)
	for {
		size := 0
		for _, e := range m.events[m.first:] {
			size += len(e) + 32
		}
		if kept := len(m.events) - m.first; kept == 1 || kept <= modelEvents && size <= modelBytes {
			return
		}
		m.first++
	}
}

func (m *streamModel) send(t *rapid.T) {
	text := rapid.StringMatching(`[a-z]{1,30}`).Draw(t, "text")
	err := m.stream.Send([]byte(text))
	if m.ended {
		if !errors.Is(err, session.ErrEnded) {
			t.Fatalf("sent after the end: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	m.paused = false
	m.add(text)
}

// begin makes a reader the newest.
func (m *streamModel) begin(r *session.Reader, next int) {
	for _, other := range m.readers {
		other.taken = true
	}
	m.readers = append(m.readers, &modelReader{reader: r, next: next})
}

func (m *streamModel) read(*rapid.T) { m.begin(m.stream.Read(), max(m.unread, m.first)) }

func (m *streamModel) greet(*rapid.T) {
	if m.unread >= len(m.events) && !m.ended {
		m.add("")
	}
	m.begin(m.stream.Greet(), max(m.unread, m.first))
}

func (m *streamModel) resume(t *rapid.T) {
	seen := rapid.IntRange(-1, len(m.events)).Draw(t, "seen")
	r, err := m.session.Resume("1-" + strconv.Itoa(seen+1))
	lost := seen < 0 || seen >= len(m.events) || seen+1 < m.first
	if lost != errors.Is(err, session.ErrLost) {
		t.Fatalf("resume behind %d of %d to %d: %v", seen, m.first, len(m.events), err)
	}
	if !lost {
		m.paused = false
		m.begin(r, seen+1)
	}
}

func (m *streamModel) draw(t *rapid.T) *modelReader {
	if len(m.readers) == 0 {
		t.Skip("no reader")
	}
	return m.readers[rapid.IntRange(0, len(m.readers)-1).Draw(t, "reader")]
}

func (m *streamModel) poll(t *rapid.T) {
	r := m.draw(t)
	e, ok, err := r.reader.Poll()
	var want error
	switch {
	case r.taken:
		want = session.ErrTaken
	case r.next < m.first:
		want = session.ErrLost
	case r.next < len(m.events):
		if wanted := "1-" + strconv.Itoa(r.next+1); !ok || err != nil || e.ID != wanted || string(e.Message) != m.events[r.next] {
			t.Fatalf("got %s %q, %v, %v; want %s %q", e.ID, e.Message, ok, err, wanted, m.events[r.next])
		}
		r.next++
		r.holds = true
		m.unread = max(m.unread, r.next)
		return
	case m.ended:
		want = session.ErrEnded
	case m.paused:
		want = session.ErrPaused
	}
	if ok || !errors.Is(err, want) {
		t.Fatalf("got %q, %v, %v; want %v", e.Message, ok, err, want)
	}
}

func (m *streamModel) giveBack(t *rapid.T) {
	r := m.draw(t)
	r.reader.Return()
	if r.holds && !r.taken && m.unread == r.next {
		r.next--
		m.unread--
	}
	r.holds = false
}

func (m *streamModel) pause(*rapid.T) {
	m.stream.Pause()
	m.paused = m.paused || !m.ended
}

// end comes seldom, so that there is something to end.
func (m *streamModel) end(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "end") > 0 {
		t.Skip("not now")
	}
	m.stream.End()
	m.ended = true
}

// TestAStreamIsItsModel drives a stream beside a model of it.
func TestAStreamIsItsModel(t *testing.T) {
	t.Parallel()
	manager := manage(t, session.Options{Max: 1 << 20, MaxEvents: modelEvents, MaxBytes: modelBytes})
	rapid.Check(t, func(t *rapid.T) {
		s, err := manager.Open(alice, nil, 7)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = manager.End(t.Context(), s) }()
		m := &streamModel{session: s, stream: s.NewStream(), events: []string{""}}
		t.Repeat(map[string]func(*rapid.T){
			"send": m.send, "send more": m.send, "read": m.read, "greet": m.greet, "resume": m.resume,
			"poll": m.poll, "poll more": m.poll, "return": m.giveBack, "pause": m.pause, "end": m.end,
		})
	})
	if got := manager.Stats().Kept; got != 0 {
		t.Errorf("%d bytes are kept of streams that are gone", got)
	}
}

// TestAClientGetsEachMessageOnce has a client whose connections break at any
// moment, with part of what was written lost on the way: it comes back with the
// last id that it has, and in the end has everything, once and in order.
func TestAClientGetsEachMessageOnce(t *testing.T) {
	t.Parallel()
	manager := manage(t, session.Options{Max: 1 << 20})
	rapid.Check(t, func(t *rapid.T) {
		s, err := manager.Open(alice, nil, 7)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = manager.End(t.Context(), s) }()
		st := s.NewStream()
		var sent, received []string
		last := ""
		reader := st.Read()
		receive := func(atMost, arrives int) {
			for n := range atMost {
				e, ok, err := reader.Poll()
				if !ok {
					if err != nil && !errors.Is(err, session.ErrPaused) && !errors.Is(err, session.ErrEnded) {
						t.Fatal(err)
					}
					return
				}
				if n >= arrives {
					continue
				}
				if last = e.ID; len(e.Message) > 0 {
					received = append(received, string(e.Message))
				}
			}
		}
		receive(1, 1) // the first event, without which no client can resume
		for range rapid.IntRange(1, 8).Draw(t, "connections") {
			for range rapid.IntRange(0, 10).Draw(t, "messages") {
				sent = append(sent, fmt.Sprint("m", len(sent)))
				if err := st.Send([]byte(sent[len(sent)-1])); err != nil {
					t.Fatal(err)
				}
			}
			if rapid.Bool().Draw(t, "pauses") {
				st.Pause()
			}
			written := rapid.IntRange(0, 12).Draw(t, "written")
			receive(written, rapid.IntRange(0, written).Draw(t, "arrives"))
			if rapid.Bool().Draw(t, "closed") {
				reader.Close()
			}
			if reader, err = s.Resume(last); err != nil {
				t.Fatal(err)
			}
		}
		st.End()
		receive(len(sent)+1, len(sent)+1)
		if !slices.Equal(received, sent) {
			t.Fatalf("received %s of %s", strings.Join(received, " "), strings.Join(sent, " "))
		}
	})
}
