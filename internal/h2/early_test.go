// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// linger is how long a client may take to end a body after the response.
const linger = 400 * time.Millisecond

// TestAnEarlyResponseIsNotReset: a response that does not wait for the body is not followed by a
// reset, as long as the client may still end the body.
func TestAnEarlyResponseIsNotReset(t *testing.T) {
	t.Parallel()
	answer := []string{"1: 403", "1: 3 bytes end"}
	for name, row := range map[string]struct {
		// more is what the client sends after the response.
		more func(*peer)
		// want is what the server sends then, and after how long it is complete.
		want  []string
		after time.Duration
	}{
		"the body ends":       {func(p *peer) { p.must(p.framer.WriteData(1, true, []byte("late"))) }, []string{"silence"}, 3 * time.Second},
		"it ends in trailers": {func(p *peer) { p.open(1, true, "x-late", "1") }, []string{"silence"}, 3 * time.Second},
		"it is large and ends": {func(p *peer) {
			flood(1, 60)(p)
			p.must(p.framer.WriteData(1, true, nil))
		}, []string{"silence"}, 3 * time.Second},
		"the client resets": {func(p *peer) { p.must(p.framer.WriteRSTStream(1, http2.ErrCodeCancel)) }, []string{"silence"}, 3 * time.Second},
		"nothing comes":     {func(*peer) {}, []string{"1: NO_ERROR"}, linger},
		"it goes on": {func(p *peer) {
			time.Sleep(linger / 2)
			p.must(p.framer.WriteData(1, false, []byte("late")))
		}, []string{"1: NO_ERROR"}, linger},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, _ := piped(t, quiet(laboratory()))
				p.open(1, false, head("POST", "/unread")...)
				if said := p.heard(until("end")); !slices.Equal(said, answer) {
					t.Fatalf("the server says %q, want %q", said, answer)
				}
				began := time.Now()
				row.more(p)
				if said := p.heard(until("1:")); !slices.Equal(said, row.want) || time.Since(began) != row.after {
					t.Errorf("the server says %q after %v, want %q after %v", said, time.Since(began), row.want, row.after)
				}
			})
		})
	}
}

// TestLingeringStreamsGiveWindowBack: what is discarded after a response does not count against
// other requests of the connection.
func TestLingeringStreamsGiveWindowBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, _ := piped(t, quiet(laboratory()))
		for id := uint32(1); id <= 7; id += 2 {
			p.open(id, false, head("POST", "/unread")...)
			p.heard(until("end"))
			for range 60 {
				p.must(p.framer.WriteData(id, false, make([]byte, 16<<10)))
			}
		}
		if said := p.heard(until("7: NO_ERROR")); slices.Contains(said, "GOAWAY FLOW_CONTROL_ERROR") || !slices.Contains(said, "7: NO_ERROR") {
			t.Errorf("the server says %q", said)
		}
	})
}

// TestADrainWaitsForEarlyResponses: the connection does not close while a client may still be
// reading a response that did not wait for its body.
func TestADrainWaitsForEarlyResponses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started, release := make(chan struct{}), make(chan struct{})
		p, c := piped(t, quiet(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(started)
			<-release
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "draining")
		})))
		p.open(1, false, head("POST", "/")...)
		<-started
		c.Shutdown()
		close(release)
		began := time.Now()
		want := []string{"GOAWAY NO_ERROR", "1: 503", "1: 8 bytes end", "1: NO_ERROR", "closed"}
		if said := p.heard(until("closed")); !slices.Equal(said, want) || time.Since(began) != linger+time.Second {
			t.Errorf("the server says %q after %v, want %q", said, time.Since(began), want)
		}
	})
}

// TestSettingsMayComeTwice: of one setting in a frame twice, the last value counts.
func TestSettingsMayComeTwice(t *testing.T) {
	t.Parallel()
	p := dial(t, own(t, quiet(laboratory()), 10).addr)
	p.must(p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1}))
	p.open(1, true, head("GET", "/large")...)
	if said := p.heard(until("bytes")); !slices.Equal(said, []string{"1: 200", "1: 1 bytes"}) {
		t.Errorf("the server says %q", said)
	}
}
