// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/peer"
)

// result has a Budget write the result of a tool, as a call of its caller.
func result(b *peer.Budget, w http.ResponseWriter, caller, tool string, size int) <-chan error {
	done := make(chan error, 1)
	h := b.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		peer.WriterOf(w).SetCaller(caller)
		peer.WriterOf(w).SetTool(tool)
		_, err := w.Write(make([]byte, size))
		done <- err
	}), func(remote string) string { return remote })
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.ProtoMajor = 2
	go func() {
		defer close(done)
		h.ServeHTTP(w, r)
	}()
	return done
}

// TestAToolKeepsToItsShareOfBytes: while other tools are called, a call of a tool with too many unread results is refused, and
// those of its results that stand still longest end. A tool that is alone has no share.
func TestAToolKeepsToItsShareOfBytes(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		others  bool
		verdict peer.Verdict
		ended   int
	}{"alone": {false, peer.Granted, 0}, "beside others": {true, peer.OverTool, 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := peer.NewBudget(peer.BudgetOptions{Timeout: 30 * time.Second, MaxBytes: 20 << 20, ToolShare: peer.Percent(25)})
				var results []<-chan error
				for i := range 8 {
					results = append(results, result(b, newStalling(0), fmt.Sprint("c", i), "large", 1<<20))
					time.Sleep(10 * time.Millisecond)
				}
				moving := result(b, newStalling(100*time.Millisecond), "reader", "other", 3<<20)
				if row.others {
					b.Verdict("reader", "other")
				}
				if got := b.Verdict("c", "large"); got != row.verdict {
					t.Errorf("the tool: %v, want %v", got, row.verdict)
				}
				if got := b.Verdict("c0", ""); got != peer.Granted {
					t.Errorf("what is no call: %v", got)
				}
				if row.others && b.Verdict("c0", "other") != peer.Granted {
					t.Error("a call of another tool is refused")
				}
				time.Sleep(3 * time.Second)
				ended := 0
				for i, done := range results {
					select {
					case <-done:
						ended++
						if i >= row.ended {
							t.Errorf("result %d has ended", i)
						}
					default:
					}
				}
				if ended != row.ended || b.Verdict("c", "large") != peer.Granted {
					t.Errorf("%d have ended", ended)
				}
				if err := <-moving; err != nil {
					t.Errorf("one that is read: %v", err)
				}
				for _, done := range results {
					<-done
				}
				want := uint64(row.ended)
				if row.others {
					want++
				}
				if s := b.Stats(); s.OverTool != want || s.Shed != 0 || s.Bytes != 0 {
					t.Errorf("%+v", s)
				}
				synctest.Wait()
			})
		})
	}
}

// TestHeldRepliesCountForTheirTool: those that queue for one stream.
func TestHeldRepliesCountForTheirTool(t *testing.T) {
	t.Parallel()
	b := peer.NewBudget(peer.BudgetOptions{MaxBytes: 1 << 20, ToolShare: peer.Percent(50)})
	b.Verdict("c", "other")
	first := b.Hold("c", "large", 600<<10)
	if got := b.Verdict("d", "large"); got != peer.Granted {
		t.Errorf("the only result of a tool: %v", got)
	}
	second := b.Hold("c", "large", 1)
	if got := b.Verdict("d", "large"); got != peer.OverTool {
		t.Errorf("two results: %v", got)
	}
	first()
	second()
	if got := b.Verdict("d", "large"); got != peer.Granted || b.Stats().Bytes != 0 {
		t.Errorf("afterwards: %v, %+v", got, b.Stats())
	}
}
