// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// roomy is a connection that has as much room as its pool thinks.
type roomy struct{}

func (roomy) Err() error     { return nil }
func (roomy) Available() int { return 1 }
func (roomy) InFlight() int  { return 0 }
func (roomy) Close() error   { return nil }

// closable is a connection that says when it is closed.
type closable struct {
	roomy
	closed chan struct{}
}

func (c closable) Err() error { return nil }
func (c closable) Close() error {
	close(c.closed)
	return nil
}

// establish is an [establish].
func (c closable) establish(context.Context, *turnQueue) (*h2Conn, error) {
	return &h2Conn{state: c, conn: &conn{}, limit: 1}, nil
}

// The time without calls counts from the last call, and none ends in the middle of one.
func TestAnUnusedConnectionIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		only := closable{closed: make(chan struct{})}
		p := newH2Pool(only.establish, Options{Config: &configv1.Backend{ConnectTimeout: durationpb.New(time.Minute)}, MaxHTTP2Conns: 1, IdleTimeout: time.Minute})
		defer p.close()
		for range 2 {
			c, err := p.acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(90 * time.Second)
			p.release(c)
			time.Sleep(40 * time.Second)
		}
		began := time.Now()
		<-only.closed
		if took := time.Since(began); took != 20*time.Second || len(p.conns) != 0 {
			t.Errorf("closed after another %v, %d connections are left", took, len(p.conns))
		}
	})
}

// A call that is woken and finds the stream taken by one that came later keeps its
// place: behind all the others, it could wait for ever.
func TestACallThatWasWokenInVainKeepsItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newH2Pool(nil, Options{MaxHTTP2Conns: 1, IdleTimeout: time.Minute})
		defer p.close()
		only := &h2Conn{state: roomy{}, limit: 1, active: 1, expiry: time.NewTimer(time.Minute)}
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
