// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/peer"
)

// stalling is a response whose reader takes one piece every so often, or nothing
// more where every is zero.
type stalling struct {
	*httptest.ResponseRecorder
	every time.Duration

	once  sync.Once
	ended chan struct{}
}

func newStalling(every time.Duration) *stalling {
	return &stalling{ResponseRecorder: httptest.NewRecorder(), every: every, ended: make(chan struct{})}
}

func (s *stalling) Write(p []byte) (int, error) {
	var taken <-chan time.Time
	if s.every > 0 {
		taken = time.After(s.every)
	}
	select {
	case <-taken:
		return s.ResponseRecorder.Write(p)
	case <-s.ended:
		return 0, os.ErrDeadlineExceeded
	}
}

// SetWriteDeadline is what http.ResponseController looks for.
func (s *stalling) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() && !time.Now().Before(t) {
		s.once.Do(func() { close(s.ended) })
	}
	return nil
}

// answer has a Budget write size bytes to a caller's response. The channel gets
// the error and is closed.
func answer(b *peer.Budget, w http.ResponseWriter, version int, from string, size int) <-chan error {
	done := make(chan error, 1)
	h := b.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, size))
		done <- err
	}), func(remote string) string { return strings.Split(remote, ":")[0] })
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.RemoteAddr, r.ProtoMajor = from+":1234", version
	go func() {
		defer close(done)
		h.ServeHTTP(w, r)
	}()
	return done
}

// TestAStreamWithoutProgressEnds: an HTTP/2 stream that its peer holds back, and
// not one that goes on, however slowly.
func TestAStreamWithoutProgressEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := peer.NewBudget(peer.BudgetOptions{Timeout: 30 * time.Second})
		start := time.Now()
		slow, stuck := answer(b, newStalling(20*time.Second), 2, "a", 1<<20), answer(b, newStalling(0), 2, "b", 1<<20)
		if err := <-stuck; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) < 30*time.Second || time.Since(start) > 31*time.Second {
			t.Errorf("one that is stopped ends with %v after %v", err, time.Since(start))
		}
		if s := b.Stats(); s.Bytes != 1<<20 || s.Callers != 1 || s.Stuck != 1 {
			t.Errorf("%+v", s)
		}
		if err := <-slow; err != nil || time.Since(start) != 64*20*time.Second {
			t.Errorf("one that goes on ends with %v after %v", err, time.Since(start))
		}
		if s := b.Stats(); s.Bytes != 0 || s.Callers != 0 {
			t.Errorf("%+v", s)
		}
		synctest.Wait()
	})
}

// TestACallerKeepsToItsShareOfBytes: of what is stalled, what is over the share
// goes, the oldest first; the only answer of a caller stays, and so do those that
// move.
func TestACallerKeepsToItsShareOfBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := peer.NewBudget(peer.BudgetOptions{Timeout: time.Minute, MaxBytes: 20 << 20, Share: peer.Percent(25)})
		var greedy []<-chan error
		for range 8 {
			greedy = append(greedy, answer(b, newStalling(0), 2, "greedy", 1<<20))
			time.Sleep(10 * time.Millisecond)
		}
		large := answer(b, newStalling(0), 2, "large", 6<<20)
		healthy := answer(b, newStalling(100*time.Millisecond), 1, "healthy", 1<<20)
		if b.Verdict("greedy", "") != peer.Over || b.Verdict("large", "") != peer.Granted || b.Verdict("healthy", "") != peer.Granted {
			t.Error("who holds more than its share is let in, or somebody else is not")
		}
		time.Sleep(3 * time.Second)
		for i, done := range greedy {
			select {
			case <-done:
				if i >= 3 {
					t.Errorf("answer %d is gone", i)
				}
			default:
				if i < 3 {
					t.Errorf("answer %d is still there", i)
				}
			}
		}
		if b.Verdict("greedy", "") != peer.Granted {
			t.Error("who is within its share again is kept out")
		}
		if err := <-healthy; err != nil {
			t.Errorf("the healthy one ends with %v", err)
		}
		if err := <-large; err == nil {
			t.Error("the large one ends well")
		}
		for _, done := range greedy {
			<-done
		}
		if s := b.Stats(); s.Bytes != 0 || s.Callers != 0 || s.Shed < 3 || s.Over != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestMemoryComesFromThoseWhoDoNotRead: when memory gets short, the caller with
// the most goes first, and only what is stopped.
func TestMemoryComesFromThoseWhoDoNotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tight atomic.Bool
		b := peer.NewBudget(peer.BudgetOptions{Timeout: time.Minute, IsTight: tight.Load})
		most := []<-chan error{answer(b, newStalling(0), 1, "most", 1<<20), answer(b, newStalling(0), 1, "most", 1<<20)}
		less := answer(b, newStalling(0), 2, "less", 1<<20)
		moving := answer(b, newStalling(100*time.Millisecond), 1, "moving", 3<<20)
		time.Sleep(5 * time.Second)
		tight.Store(true)
		start := time.Now()
		for _, done := range most {
			<-done
		}
		if took := time.Since(start); took > 300*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		select {
		case <-less:
			t.Error("the next goes before it is known whether that was enough")
		default:
		}
		<-less
		if took := time.Since(start); took < time.Second || took > 2*time.Second {
			t.Errorf("the next went after %v", took)
		}
		if err := <-moving; err != nil {
			t.Errorf("one who reads ends with %v", err)
		}
		if s := b.Stats(); s.Shed != 3 || s.Stuck != 0 {
			t.Errorf("%+v", s)
		}
	})
}

var errRefused = errors.New("refused")

// TestBodiesCount: a body counts until it has come whole, and a caller that holds
// too much is refused while it sends.
func TestBodiesCount(t *testing.T) {
	t.Parallel()
	b := peer.NewBudget(peer.BudgetOptions{MaxBytes: 1 << 20, Share: peer.Percent(50)})
	var verdicts []peer.Verdict
	body := func(caller string, size int) *peer.Body {
		return b.Body(io.NopCloser(strings.NewReader(strings.Repeat("x", size))), caller, func(v peer.Verdict) error {
			verdicts = append(verdicts, v)
			return errRefused
		})
	}
	half := func(r io.Reader, size int) error {
		_, err := io.ReadFull(r, make([]byte, size))
		return err
	}
	only := body("a", 4<<20)
	if err := half(only, 3<<20); err != nil {
		t.Errorf("the only body of a caller: %v", err)
	}
	if got := b.Stats().Bytes; got != 3<<20 {
		t.Errorf("%d bytes are counted", got)
	}
	second := body("a", 400<<10)
	if err := half(second, 300<<10); !errors.Is(err, errRefused) {
		t.Errorf("another of the same caller: %v", err)
	}
	other := []*peer.Body{body("b", 400<<10), body("b", 1024)}
	for _, one := range other {
		if err := half(one, 1000); err != nil {
			t.Errorf("small bodies of another caller: %v", err)
		}
	}
	if _, err := io.Copy(io.Discard, only); err != nil {
		t.Error(err)
	}
	if s := b.Stats(); s.Bytes != 0 || s.Callers != 0 || s.Over != 1 {
		t.Errorf("%+v", s)
	}
	if len(verdicts) != 1 || verdicts[0] != peer.Over {
		t.Errorf("%v", verdicts)
	}
	for _, one := range append(other, second, only) {
		if err := one.Close(); err != nil {
			t.Error(err)
		}
	}
	var none *peer.Budget
	if none.Verdict("a", "") != peer.Granted || none.Stats() != (peer.BudgetStats{}) {
		t.Error("nil bounds something")
	}
	none.Hold("a", "", 1)()
}
