// SPDX-License-Identifier: Apache-2.0

package front

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
)

// A drain waits for the answers that were being written when it began to wait, and
// not for those of callers who come again and again: together they never pause.
func TestTheWaitForAnswersIsNotForLaterOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAnswering()
		begin := func() (end func()) {
			held, done := make(chan struct{}), make(chan struct{})
			h := a.wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-held }))
			go func() {
				defer close(done)
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/rpc", nil))
			}()
			synctest.Wait()
			return func() { close(held); <-done }
		}
		before := begin()
		waited := make(chan struct{})
		go func() { defer close(waited); a.wait(t.Context()) }()
		synctest.Wait()
		later := begin()
		select {
		case <-waited:
			t.Error("the wait was over before the answer")
		default:
		}
		before()
		synctest.Wait()
		select {
		case <-waited:
		default:
			t.Error("the wait goes on for a request that came after it had begun")
		}
		later()
		<-waited
	})
}
