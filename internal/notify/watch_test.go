// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/peer"
)

// service is a backend of one stream: what it sends is sent to each open stream.
type service struct {
	opened atomic.Int64
	open   atomic.Int64
	first  string // the message that each stream begins with; empty is none
	fails  func(n int64) (*errmap.Error, bool)

	mu      sync.Mutex
	streams map[chan string]bool
	names   []string // in whose name streams were opened
}

// as opens streams in the name of somebody.
func (s *service) as(name string) func(context.Context, func([]byte)) *errmap.Error {
	return func(ctx context.Context, each func([]byte)) *errmap.Error {
		n := s.opened.Add(1)
		s.open.Add(1)
		defer s.open.Add(-1)
		messages := make(chan string, 100)
		s.mu.Lock()
		if s.streams == nil {
			s.streams = map[chan string]bool{}
		}
		s.streams[messages] = true
		s.names = append(s.names, name)
		first := s.first
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.streams, messages)
		}()
		if s.fails != nil {
			if err, ok := s.fails(n); ok {
				return err
			}
		}
		if first != "" {
			each([]byte(first))
		}
		for {
			select {
			case m, ok := <-messages:
				if !ok {
					return nil
				}
				each([]byte(m))
			case <-ctx.Done():
				return errmap.Wrap(errmap.Cancelled, ctx.Err())
			}
		}
	}
}

func (s *service) send(messages ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for stream := range s.streams {
		for _, m := range messages {
			stream <- m
		}
	}
}

// end ends all streams with the status OK.
func (s *service) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for stream := range s.streams {
		close(stream)
		delete(s.streams, stream)
	}
}

func most() float64 { return 0.999999 } // jitter that shortens nothing

// counted is a listener's count of changes.
func counted(n *atomic.Int64) func() { return func() { n.Add(1) } }

func listen(t *testing.T, e *notify.Watches, s notify.Watch) *notify.Listener {
	t.Helper()
	l, err := e.Listen(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// readWatch reads, and returns the value or the code of the error.
func readWatch(e *notify.Watches, s notify.Watch) string {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	value, err := e.Read(ctx, s)
	var failed *errmap.Error
	switch {
	case errors.As(err, &failed):
		return string(failed.Code)
	case err != nil:
		return err.Error()
	}
	return string(value)
}

func TestListenersShareAStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend, e := &service{first: "1"}, notify.NewWatches(notify.WatchOptions{})
		defer e.Close()
		var a, b atomic.Int64
		one := listen(t, e, notify.Watch{Key: "k", Open: backend.as("a"), Changed: counted(&a)})
		synctest.Wait()
		two := listen(t, e, notify.Watch{Key: "k", Open: backend.as("b"), Changed: counted(&b)})
		synctest.Wait()
		if a.Load() != 1 || b.Load() != 0 {
			t.Errorf("told %d and %d of the first value, want the one that was there", a.Load(), b.Load())
		}
		backend.send("1", "2", "2")
		synctest.Wait()
		if a.Load() != 2 || b.Load() != 1 {
			t.Errorf("told %d and %d, want one more each: equal values are no change", a.Load(), b.Load())
		}
		if got := readWatch(e, notify.Watch{Key: "k", Open: backend.as("c")}); got != "2" || backend.opened.Load() != 1 {
			t.Errorf("read %q from %d streams", got, backend.opened.Load())
		}
		if got := e.Stats(); got.Running != 1 || got.Listeners != 2 || got.Bytes != 1 {
			t.Errorf("%+v", got)
		}
		one.Close()
		one.Close()
		time.Sleep(notify.Linger)
		synctest.Wait()
		if backend.open.Load() != 1 {
			t.Error("the stream ended with its first listener")
		}
		two.Close()
		synctest.Wait()
		if got := e.Stats(); backend.open.Load() != 0 || got.Running != 0 || got.Listeners != 0 || got.Bytes != 0 {
			t.Errorf("%d streams after the last listener, %+v", backend.open.Load(), got)
		}
	})
}

func TestReadsInARowShareAStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend, e := &service{}, notify.NewWatches(notify.WatchOptions{})
		defer e.Close()
		spec := notify.Watch{Key: "k", Open: backend.as("a")}
		if got := readWatch(e, spec); got != context.DeadlineExceeded.Error() {
			t.Errorf("read %q of a stream without a message", got)
		}
		backend.mu.Lock()
		backend.first = "1"
		backend.mu.Unlock()
		time.Sleep(notify.Linger + time.Second)
		synctest.Wait()
		if backend.open.Load() != 0 {
			t.Fatal("the stream outlasts its reader")
		}
		for range 3 {
			if got := readWatch(e, spec); got != "1" {
				t.Errorf("read %q", got)
			}
			time.Sleep(notify.Linger - time.Second)
		}
		if backend.opened.Load() != 2 {
			t.Errorf("%d streams for reads in a row, want one more", backend.opened.Load())
		}
		// A stream that ends while it lingers is not opened again.
		backend.end()
		synctest.Wait()
		if got := e.Stats(); got.Running != 0 || got.Restarts != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestAnEndIsFollowedByANewStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var pauses []time.Duration
		backend := &service{first: "1"}
		e := notify.NewWatches(notify.WatchOptions{Random: most, Ended: func(_ string, err *errmap.Error, pause time.Duration) {
			if err != nil {
				t.Errorf("ended with %v", err)
			}
			pauses = append(pauses, pause.Round(time.Millisecond))
		}})
		defer e.Close()
		var told atomic.Int64
		spec := notify.Watch{Key: "k", Open: backend.as("a"), Changed: counted(&told)}
		defer listen(t, e, spec).Close()
		for range 3 {
			synctest.Wait()
			backend.end()
			synctest.Wait()
			if got := readWatch(e, spec); got != "1" {
				t.Errorf("read %q in the pause after OK", got)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(notify.BackoffMax) // it holds, and the backoff starts over
		synctest.Wait()
		backend.end()
		synctest.Wait()
		want := []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 100 * time.Millisecond}
		if len(pauses) != len(want) {
			t.Fatalf("pauses %v", pauses)
		}
		for i := range want {
			if pauses[i] != want[i] {
				t.Errorf("pauses %v, want %v", pauses, want)
			}
		}
		if told.Load() != 1 || e.Stats().Restarts != 3 {
			t.Errorf("told %d times of one value, %+v", told.Load(), e.Stats())
		}
	})
}

// TestOneBreakIsForgiven: readers get the value until the second failure, and are told of both turns.
func TestOneBreakIsForgiven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := errmap.New(errmap.Unavailable)
		backend := &service{first: "1"}
		breaks := make(chan struct{})
		backend.fails = func(n int64) (*errmap.Error, bool) { return down, n == 2 || n == 3 || n == 4 }
		e := notify.NewWatches(notify.WatchOptions{Random: most})
		defer e.Close()
		var told atomic.Int64
		open := backend.as("a")
		spec := notify.Watch{Key: "k", Changed: counted(&told), Open: func(ctx context.Context, each func([]byte)) *errmap.Error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() {
				select {
				case <-breaks:
					cancel()
				case <-ctx.Done():
				}
			}()
			if err := open(ctx, each); err != nil {
				return down
			}
			return nil
		}}
		defer listen(t, e, spec).Close()
		synctest.Wait()
		close(breaks) // from here on each stream breaks after its first message
		synctest.Wait()
		if got := readWatch(e, spec); got != "1" || told.Load() != 1 {
			t.Errorf("after one break: read %q, told %d times", got, told.Load())
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if got := readWatch(e, spec); got != "UNAVAILABLE" || told.Load() != 2 {
			t.Errorf("after two: read %q, told %d times", got, told.Load())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := readWatch(e, spec); got != "1" || told.Load() != 3 {
			t.Errorf("when it is back: read %q, told %d times", got, told.Load())
		}
	})
}

// TestAFinalStatusIsAnswered has a service that has not what is watched, until it has.
func TestAFinalStatusIsAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend := &service{first: "1"}
		backend.fails = func(n int64) (*errmap.Error, bool) {
			return errmap.FromBackendStatus(5, "no such order", nil), n == 1 // NOT_FOUND
		}
		e := notify.NewWatches(notify.WatchOptions{Random: most})
		defer e.Close()
		var told atomic.Int64
		spec := notify.Watch{Key: "k", Open: backend.as("a"), Changed: counted(&told)}
		defer listen(t, e, spec).Close()
		synctest.Wait()
		if got := readWatch(e, spec); got != "TOOL_EXECUTION_FAILED" || told.Load() != 1 {
			t.Errorf("read %q, told %d times", got, told.Load())
		}
		time.Sleep(notify.FinalPause - time.Second)
		synctest.Wait()
		if backend.opened.Load() != 1 {
			t.Error("it was opened again early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := readWatch(e, spec); got != "1" || told.Load() != 2 {
			t.Errorf("read %q, told %d times", got, told.Load())
		}
	})
}

// TestAQuietStreamThatHoldsIsWell: it sends a message only when something changes.
func TestAQuietStreamThatHoldsIsWell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend := &service{}
		backend.fails = func(n int64) (*errmap.Error, bool) { return errmap.New(errmap.Unavailable), n == 1 }
		e := notify.NewWatches(notify.WatchOptions{Random: most})
		defer e.Close()
		spec := notify.Watch{Key: "k", Open: backend.as("a")}
		defer listen(t, e, spec).Close()
		synctest.Wait()
		if got := readWatch(e, spec); got != "UNAVAILABLE" {
			t.Errorf("read %q", got)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if got := readWatch(e, spec); got != context.DeadlineExceeded.Error() {
			t.Errorf("read %q of an open stream without a message", got)
		}
	})
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend := &service{first: "1"}
		e := notify.NewWatches(notify.WatchOptions{Max: 4, Share: peer.Percent(50)})
		defer e.Close()
		spec := func(key, caller string) notify.Watch {
			return notify.Watch{Key: key, Caller: caller, Open: backend.as(caller)}
		}
		if got := readWatch(e, spec("lingers", "a")); got != "1" {
			t.Fatal(got)
		}
		first := listen(t, e, spec("1", "a"))
		listen(t, e, spec("1", "b"))
		// Of four, one caller gets two; the one that lingers makes way.
		second := listen(t, e, spec("2", "a"))
		if _, err := e.Listen(spec("3", "a")); !errors.Is(err, notify.ErrWatchShare) {
			t.Errorf("a third stream of one caller: %v", err)
		}
		// The stream that b listens to is b's now.
		first.Close()
		listen(t, e, spec("3", "a"))
		listen(t, e, spec("4", "c"))
		if _, err := e.Listen(spec("5", "d")); !errors.Is(err, notify.ErrWatchesFull) {
			t.Errorf("a fifth stream: %v", err)
		}
		if _, err := e.Read(t.Context(), spec("5", "d")); !errors.Is(err, notify.ErrWatchesFull) {
			t.Errorf("a fifth stream: %v", err)
		}
		if got := e.Stats(); got.Running != 4 || got.Full != 2 || got.Over != 1 {
			t.Errorf("%+v", got)
		}
		second.Close()
		listen(t, e, spec("5", "d"))
	})
}

func TestALargeValueIsNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend, e := &service{first: "12345678"}, notify.NewWatches(notify.WatchOptions{MaxBytes: 8})
		defer e.Close()
		var told atomic.Int64
		spec := notify.Watch{Key: "k", Open: backend.as("a"), Changed: counted(&told)}
		defer listen(t, e, spec).Close()
		synctest.Wait()
		if got := readWatch(e, spec); got != backend.first {
			t.Errorf("read %q", got)
		}
		backend.send(strings.Repeat("x", 9), strings.Repeat("y", 9))
		synctest.Wait()
		if got := readWatch(e, spec); got != "RESOURCE_EXHAUSTED" || told.Load() != 2 || e.Stats().Bytes != 0 || e.Stats().TooLarge != 2 {
			t.Errorf("read %q, told %d times, %+v", got, told.Load(), e.Stats())
		}
		backend.send("small")
		synctest.Wait()
		if got := readWatch(e, spec); got != "small" || told.Load() != 3 {
			t.Errorf("read %q, told %d times", got, told.Load())
		}
	})
}

// TestAStreamOfARevokedCallerEnds: another one, who may share it, has it opened in its own name.
func TestAStreamOfARevokedCallerEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend, e := &service{first: "1"}, notify.NewWatches(notify.WatchOptions{})
		defer e.Close()
		var told atomic.Int64
		listen(t, e, notify.Watch{Key: "k", Open: backend.as("old")})
		newer := listen(t, e, notify.Watch{Key: "k", Open: backend.as("new"), Changed: counted(&told)})
		older := listen(t, e, notify.Watch{Key: "k", Open: backend.as("newest")})
		synctest.Wait()
		older.Revoke()
		synctest.Wait()
		newer.Revoke()
		synctest.Wait()
		backend.mu.Lock()
		defer backend.mu.Unlock()
		if got := strings.Join(backend.names, " "); got != "newest new old" || backend.open.Load() != 1 {
			t.Errorf("opened by %s, %d open", got, backend.open.Load())
		}
		if told.Load() != 1 {
			t.Errorf("told %d times of one value", told.Load())
		}
	})
}

func TestANewVersionIsOpenedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend, e := &service{first: "1"}, notify.NewWatches(notify.WatchOptions{})
		defer e.Close()
		var told atomic.Int64
		gone := errmap.UnknownResource("x:y")
		backend.fails = func(n int64) (*errmap.Error, bool) { return gone, n == 2 }
		spec := notify.Watch{Key: "k", Tool: "a.b", Version: "1", Open: backend.as("a"), Changed: counted(&told)}
		defer listen(t, e, spec).Close()
		synctest.Wait()
		for i, step := range []struct {
			version, want string
			opened, told  int64
		}{
			{"1", "1", 1, 1},
			{"", "RESOURCE_NOT_FOUND", 2, 2},
			{"2", "1", 3, 3}, // although the pause after a final status is long
		} {
			e.Renew(func(string) string { return step.version })
			synctest.Wait()
			if got := readWatch(e, spec); got != step.want || backend.opened.Load() != step.opened || told.Load() != step.told {
				t.Errorf("step %d: read %q, %d opened, told %d times", i, got, backend.opened.Load(), told.Load())
			}
		}
	})
}

func TestCloseEndsAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend, e := &service{}, notify.NewWatches(notify.WatchOptions{})
		l := listen(t, e, notify.Watch{Key: "k", Open: backend.as("a")})
		got := make(chan string, 1)
		go func() { got <- readWatch(e, notify.Watch{Key: "k", Open: backend.as("a")}) }()
		synctest.Wait()
		e.Close()
		e.Close()
		if s := <-got; s != "UNAVAILABLE" || backend.open.Load() != 0 {
			t.Errorf("the reader got %q, %d streams are open", s, backend.open.Load())
		}
		l.Close()
		if _, err := e.Listen(notify.Watch{Key: "k"}); !errors.Is(err, notify.ErrClosed) {
			t.Error(err)
		}
		if s := readWatch(e, notify.Watch{Key: "k"}); s != notify.ErrClosed.Error() {
			t.Error(s)
		}
	})
}
