// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"testing"
	"testing/synctest"
)

// roomy is a connection that has as much room as its pool thinks.
type roomy struct{}

func (roomy) Err() error     { return nil }
func (roomy) Available() int { return 1 }
func (roomy) InFlight() int  { return 0 }
func (roomy) Close() error   { return nil }

// A call that is woken and finds the stream taken by one that came later keeps its
// place: behind all the others, it could wait for ever.
func TestACallThatWasWokenInVainKeepsItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newH2Pool(nil, 1)
		defer p.close()
		only := &h2Conn{state: roomy{}, limit: 1, active: 1}
		p.conns = []*h2Conn{only}
		turns := make(chan string, 2)
		wait := func(name string) {
			go func() {
				if _, err := p.acquire(t.Context()); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				turns <- name
			}()
			synctest.Wait()
		}
		wait("first")
		wait("second")
		p.queue.wakeOne() // a third call was quicker
		synctest.Wait()
		for _, want := range []string{"first", "second"} {
			p.release(only)
			if got := <-turns; got != want {
				t.Errorf("the turn is of the %s call, want the %s", got, want)
			}
		}
		p.release(only)
	})
}
