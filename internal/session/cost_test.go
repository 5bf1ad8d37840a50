// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// heap is what the process has allocated and not given up.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// crowd is the default bound of sessions.
const crowd = defaults.MaxSessions

// fill opens as many sessions as there may be, each of which has had a call that
// streamed, and leaves them.
func fill(t *testing.T, m *session.Manager) []*session.Session {
	t.Helper()
	all := make([]*session.Session, crowd)
	for i := range all {
		all[i] = open(t, m)
		st := all[i].NewStream()
		send(t, st, strings.Repeat("x", 200))
		st.End()
		all[i].Release()
	}
	return all
}

// TestAnIdleSessionIsCheap runs alone, like the next one: it looks at the whole
// process. The bound is some third above what was measured.
func TestAnIdleSessionIsCheap(t *testing.T) {
	hub := notify.NewFeed(notify.FeedOptions{MaxSubscribers: crowd})
	m := manage(t, session.Options{Feed: hub})
	goroutines, before := runtime.NumGoroutine(), heap()
	all := make([]*session.Session, crowd)
	for i := range all {
		all[i] = open(t, m)
		all[i].Release()
	}
	got := (heap() - before) / crowd
	runtime.KeepAlive(all)
	t.Logf("%d bytes for each of %d sessions", got, crowd)
	if got > 2400 || got < 500 {
		t.Errorf("an idle session costs %d bytes", got)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
}

// TestAbandonedSessionsGiveTheirMemoryBack opens 10,000 of them, twice, with
// what their streams keep: where they expire, and where their clients end them.
func TestAbandonedSessionsGiveTheirMemoryBack(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *session.Manager, []*session.Session){
		"expired": func(*testing.T, *session.Manager, []*session.Session) {
			time.Sleep(idle)
			synctest.Wait()
		},
		"ended": func(t *testing.T, m *session.Manager, all []*session.Session) {
			for _, s := range all {
				if err := m.End(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := notify.NewFeed(notify.FeedOptions{MaxSubscribers: crowd})
				m := manage(t, session.Options{Feed: hub})
				before := heap()
				all := fill(t, m)
				full := heap()
				end(t, m, all)
				clear(all)
				after := heap()
				runtime.KeepAlive(m)
				runtime.KeepAlive(hub)
				t.Logf("%d KB with %d sessions, %d KB after them", (full-before)>>10, crowd, (after-before)>>10)
				if left := after - before; left > (full-before)/50 {
					t.Errorf("%d bytes are left of %d", left, full-before)
				}
				if got := m.Stats(); got.Sessions != 0 || got.Kept != 0 || hub.Stats().Subscribers != 0 {
					t.Errorf("%+v, %+v", got, hub.Stats())
				}
			})
		})
	}
}
