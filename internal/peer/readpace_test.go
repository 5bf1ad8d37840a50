// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/peer"
)

// counting counts the read deadlines that reach a connection.
type counting struct {
	net.Conn
	deadlines atomic.Int32
}

func (c *counting) SetReadDeadline(t time.Time) error {
	c.deadlines.Add(1)
	return c.Conn.SetReadDeadline(t)
}

// countingPipe is a connection whose read deadlines are counted, and its other end.
func countingPipe(t *testing.T) (ours net.Conn, under *counting, theirs net.Conn) {
	t.Helper()
	a, b := net.Pipe()
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	under = &counting{Conn: a}
	ours, err := peer.Listener(given{conn: under}, time.Minute, nil).Accept()
	if err != nil {
		t.Fatal(err)
	}
	return ours, under, b
}

// TestReadDeadlines: a read ends at the deadline that was set last, whenever that was.
func TestReadDeadlines(t *testing.T) {
	t.Parallel()
	past := time.Unix(1, 0)
	for _, test := range []struct {
		name string
		// before are set before the read begins, and during one second after; 0 is none, negative one in the past.
		before, during []time.Duration
		ends           time.Duration
		applied        int32
	}{
		{"one before", []time.Duration{5 * time.Second}, nil, 5 * time.Second, 1},
		{"only the last before", []time.Duration{time.Second, 0, -1, 9 * time.Second, 4 * time.Second}, nil, 4 * time.Second, 1},
		{"one in the past", []time.Duration{9 * time.Second, -1}, nil, 0, 0},
		{"a later one during the read", []time.Duration{5 * time.Second}, []time.Duration{9 * time.Second}, 10 * time.Second, 2},
		{"a sooner one during the read", []time.Duration{5 * time.Second}, []time.Duration{time.Second}, 2 * time.Second, 2},
		{"the end of the read", nil, []time.Duration{-1}, time.Second, 1},
		{"none, and one during the read", []time.Duration{5 * time.Second, 0}, []time.Duration{time.Second}, 2 * time.Second, 1},
		{"lifted during the read, and the end", []time.Duration{5 * time.Second}, []time.Duration{0, -1}, time.Second, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ours, under, _ := countingPipe(t)
				set := func(all []time.Duration) {
					for _, d := range all {
						at := time.Now().Add(d)
						switch {
						case d < 0:
							at = past
						case d == 0:
							at = time.Time{}
						}
						if err := ours.SetReadDeadline(at); err != nil {
							t.Error(err)
						}
					}
				}
				set(test.before)
				start := time.Now()
				if len(test.during) > 0 {
					time.AfterFunc(time.Second, func() { set(test.during) })
				}
				n, err := ours.Read(make([]byte, 1))
				if took := time.Since(start); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || took != test.ends {
					t.Errorf("%d bytes, %v after %v, want %v", n, err, took, test.ends)
				}
				if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
					t.Errorf("net/http does not take %v for a timeout", err)
				}
				if got := under.deadlines.Load(); got != test.applied {
					t.Errorf("%d deadlines reached the connection, want %d", got, test.applied)
				}
			})
		})
	}
}

// TestAReadAfterItsDeadline: the deadline is for the reads before it is lifted, and nothing that has come is lost.
func TestAReadAfterItsDeadline(t *testing.T) {
	t.Parallel()
	ours, theirs := loopback(t)
	for _, at := range []time.Time{time.Unix(1, 0), time.Now().Add(time.Millisecond)} {
		if err := ours.SetReadDeadline(at); err != nil {
			t.Fatal(err)
		}
		if n, err := ours.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(n, err)
		}
		if _, err := theirs.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := ours.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 1)
		if n, err := ours.Read(got); n != 1 || got[0] != 'x' || err != nil {
			t.Errorf("%q, %v", got[:n], err)
		}
	}
	_ = theirs.Close()
	if n, err := ours.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v after the end", n, err)
	}
	_ = ours.Close()
	if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v, want that of a closed connection", err)
	}
}

// loopback is both ends of a TCP connection, of which the first is watched.
func loopback(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	var lc net.ListenConfig
	plain, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	var dialer net.Dialer
	if theirs, err = dialer.DialContext(t.Context(), "tcp", plain.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if ours, err = peer.Listener(plain, time.Minute, nil).Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	return ours, theirs
}
