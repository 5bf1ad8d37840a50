// SPDX-License-Identifier: Apache-2.0

package correlate

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// TestSameIDsNeverMeet: 50 callers use the same 50 ids at the same time, half of
// them integers, half strings. Each call must come out with its own id and
// context value, and none is refused.
func TestSameIDsNeverMeet(t *testing.T) {
	t.Parallel()
	type nonce struct{}
	table := New(Options{})
	var callers sync.WaitGroup
	for caller := range 50 {
		callers.Go(func() {
			origin := table.NewOrigin()
			var calls sync.WaitGroup
			for i := range 50 {
				calls.Go(func() {
					id := jsonrpc.IntID(int64(i))
					if i%2 == 0 {
						id = jsonrpc.StringID(string(rune('a' + i)))
					}
					mine := [2]int{caller, i}
					c, err := table.Register(context.WithValue(t.Context(), nonce{}, mine), origin, id)
					if err != nil {
						t.Errorf("Register: %v", err)
						return
					}
					if c.Context().Value(nonce{}) != mine || !c.ID().Equal(id) || c.Origin() != origin {
						t.Error("a caller met the call of another")
					}
					if !c.Finish() {
						t.Error("Finish lost")
					}
				})
			}
			calls.Wait()
		})
	}
	callers.Wait()
	checkEmpty(t, table)
}

// TestOneEndPerCall lets everything that can end a call race for it. Of Finish
// (from several goroutines), Cancel and CloseOrigin exactly one wins.
func TestOneEndPerCall(t *testing.T) {
	t.Parallel()
	table := New(Options{})
	for range 2000 {
		o := table.NewOrigin()
		c, err := table.Register(t.Context(), o, one)
		if err != nil {
			t.Fatal(err)
		}
		var finished, others atomic.Int64
		var racers sync.WaitGroup
		begin := make(chan struct{})
		for range 2 {
			racers.Go(func() {
				<-begin
				if c.Finish() {
					finished.Add(1)
				}
			})
		}
		racers.Go(func() {
			<-begin
			if table.Cancel(o, one, "") {
				others.Add(1)
			}
		})
		racers.Go(func() { <-begin; others.Add(int64(table.CloseOrigin(o))) })
		close(begin)
		racers.Wait()
		if finished.Load()+others.Load() != 1 {
			t.Fatalf("%d times finished, %d times ended otherwise", finished.Load(), others.Load())
		}
		if c.Context().Err() == nil {
			t.Fatal("the context lives on")
		}
	}
	checkEmpty(t, table)
}

// TestDuplicatesRace: of many that register one id at the same time, one gets it.
func TestDuplicatesRace(t *testing.T) {
	t.Parallel()
	table := New(Options{})
	o := table.NewOrigin()
	for range 500 {
		winners := make(chan *Call, 8)
		var racers sync.WaitGroup
		for range cap(winners) {
			racers.Go(func() {
				switch c, err := table.Register(t.Context(), o, one); {
				case err == nil:
					winners <- c
				case !errors.Is(err, ErrDuplicateID):
					t.Errorf("error %v", err)
				}
			})
		}
		racers.Wait()
		if len(winners) != 1 {
			t.Fatalf("%d calls with one id", len(winners))
		}
		if !(<-winners).Finish() {
			t.Fatal("the winner was disturbed")
		}
	}
	checkEmpty(t, table)
}
