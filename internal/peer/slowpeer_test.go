// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/peer"
)

// given is a listener of one connection.
type given struct {
	net.Listener
	conn net.Conn
}

func (g given) Accept() (net.Conn, error) { return g.conn, nil }

// pipe is both ends of a connection, of which the first is watched.
func pipe(t *testing.T, timeout time.Duration, stuck *atomic.Uint64) (ours, theirs net.Conn) {
	t.Helper()
	a, b := net.Pipe()
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	ours, err := peer.Listener(given{conn: a}, timeout, stuck).Accept()
	if err != nil {
		t.Fatal(err)
	}
	return ours, b
}

// TestAWriteFailsWithoutProgress has a peer that reads nothing.
func TestAWriteFailsWithoutProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var stuck atomic.Uint64
		ours, _ := pipe(t, 30*time.Second, &stuck)
		start := time.Now()
		n, err := ours.Write(make([]byte, 1<<20))
		if took := time.Since(start); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || took < 22*time.Second || took > 38*time.Second {
			t.Errorf("%d bytes, %v after %v", n, err, took)
		}
		if stuck.Load() != 1 {
			t.Errorf("%d are counted", stuck.Load())
		}
	})
}

// TestAStuckConnectionIsCountedOnce: what is written after the end, as TLS writes
// its closing alert, neither waits nor counts.
func TestAStuckConnectionIsCountedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var stuck atomic.Uint64
		ours, _ := pipe(t, 30*time.Second, &stuck)
		if _, err := ours.Write([]byte("answer")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		if err := ours.SetWriteDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if n, err := ours.Write([]byte("alert")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 0 {
			t.Errorf("%d bytes, %v after %v", n, err, time.Since(start))
		}
		if stuck.Load() != 1 {
			t.Errorf("%d are counted", stuck.Load())
		}
	})
}

// TestASlowReaderIsNotCutOff reads a byte every 20 s: slow, and never stuck.
func TestASlowReaderIsNotCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var stuck atomic.Uint64
		ours, theirs := pipe(t, 30*time.Second, &stuck)
		const size = 200
		go func() {
			for range size {
				time.Sleep(20 * time.Second)
				_, _ = io.ReadFull(theirs, make([]byte, 1))
			}
		}()
		if n, err := ours.Write(make([]byte, size)); n != size || err != nil || stuck.Load() != 0 {
			t.Errorf("%d bytes, %v, %d counted", n, err, stuck.Load())
		}
	})
}

// TestTheServersDeadlineHolds: it is not lengthened, and one in the past ends a
// write that waits.
func TestTheServersDeadlineHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var stuck atomic.Uint64
		ours, theirs := pipe(t, 30*time.Second, &stuck)
		start := time.Now()
		if err := ours.SetWriteDeadline(start.Add(3 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := ours.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if err := ours.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := ours.Write([]byte("x"))
			ended <- err
		}()
		time.Sleep(time.Second)
		if err := ours.SetWriteDeadline(time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 4*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		// A connection that is idle for longer than any round is written to as before.
		if err := ours.SetWriteDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		go func() { _, _ = io.ReadFull(theirs, make([]byte, 1)) }()
		if _, err := ours.Write([]byte("x")); err != nil || stuck.Load() != 0 {
			t.Errorf("%v, %d counted", err, stuck.Load())
		}
	})
}

// TestAKernelThatDrainsIsProgress has a peer that reads less than a writer is
// woken for: what the kernel has got rid of counts. The kernel has no clock but the
// real one. A reader who could not run for as long as the timeout proves nothing.
func TestAKernelThatDrainsIsProgress(t *testing.T) {
	t.Parallel()
	for range 5 {
		if hasDrained(t) {
			return
		}
	}
	t.Error("the machine has no time for the test")
}

// hasDrained reads a little again and again, for longer than the timeout, and then nothing.
// It reports whether that was possible.
func hasDrained(t *testing.T) bool {
	t.Helper()
	const timeout = 2 * time.Second
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var stuck atomic.Uint64
	watched := peer.Listener(l, timeout, &stuck)
	written := make(chan error, 1)
	go func() {
		c, err := watched.Accept()
		if err == nil {
			_, err = c.Write(make([]byte, 24<<20))
			_ = c.Close()
		}
		written <- err
	}()
	var dialer net.Dialer
	c, err := dialer.DialContext(context.Background(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for last, n := time.Now(), 0; n < 50; n++ {
		<-ticker.C
		_, err := io.ReadFull(c, make([]byte, 64<<10))
		now := time.Now()
		if now.Sub(last) > timeout/2 {
			_ = c.Close()
			<-written
			return false
		}
		if err != nil {
			t.Fatalf("a reader who goes on is cut off: %v", err)
		}
		last = now
	}
	if err := <-written; !errors.Is(err, os.ErrDeadlineExceeded) || stuck.Load() != 1 {
		t.Errorf("one who stops: %v, %d counted", err, stuck.Load())
	}
	return true
}
