// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// calls makes that many calls that run until stop is closed.
func calls(t *testing.T, s *policy.Slots, all *sync.WaitGroup, stop <-chan struct{}, n int, caller, tool string) {
	t.Helper()
	for range n {
		all.Go(func() {
			p, err := s.Acquire(t.Context(), caller, tool)
			if err == nil {
				<-stop
			}
			p.Release(true)
		})
		synctest.Wait()
	}
}

// TestReservedSlotsAreForTheirClass: others cannot have them, even while they are unused. The class has them, and what it uses
// beside them is as free as before.
func TestReservedSlotsAreForTheirClass(t *testing.T) {
	t.Parallel()
	const flood = 20
	for name, row := range map[string]struct {
		opts *configv1.Limits
		// running is how many calls of the flood run; then the calls of mine do without waiting.
		running int
		mine    [][2]string
	}{
		"none": {running: 10},
		"a tool": {
			opts: &configv1.Limits{ToolClasses: []*configv1.ToolClass{{Name: "pay", Tools: []string{"pay.*"}, ReservedCalls: new(int32(3))}}}, running: 7,
			mine: [][2]string{{"busy", "pay.a"}, {"c", "pay.b"}, {"c", "pay.a"}},
		},
		"a caller": {
			opts: &configv1.Limits{CallerClasses: []*configv1.CallerClass{{Name: "plan", Callers: []string{"planner"}, ReservedCalls: new(int32(2))}}}, running: 8,
			mine: [][2]string{{"planner", "busy.tool"}, {"planner", "pay.a"}},
		},
		"both": {
			opts: &configv1.Limits{
				ToolClasses:   []*configv1.ToolClass{{Name: "pay", Tools: []string{"pay.*"}, ReservedCalls: new(int32(1))}},
				CallerClasses: []*configv1.CallerClass{{Name: "plan", Callers: []string{"planner"}, ReservedCalls: new(int32(1))}},
			}, running: 8,
			mine: [][2]string{{"planner", "pay.a"}, {"planner", "busy.tool"}},
		},
		"the first class that matches": {
			opts: &configv1.Limits{
				ToolClasses: []*configv1.ToolClass{
					{Name: "free", Tools: []string{"pay.free"}}, {Name: "pay", Tools: []string{"pay.*", "pay.free"}, ReservedCalls: new(int32(3))},
					{Name: "none", Tools: []string{"none"}, ReservedCalls: new(int32(1))},
				},
			}, running: 6,
			mine: [][2]string{{"c", "pay.a"}, {"c", "pay.b"}, {"c", "pay.c"}},
		},
		"shares do not apply to them": {
			opts: &configv1.Limits{
				ToolClasses:        []*configv1.ToolClass{{Name: "pay", Tools: []string{"pay.*"}, ReservedCalls: new(int32(8))}},
				CallerSharePercent: new(int32(50)),
				ToolSharePercent:   new(int32(50)),
			}, running: 2,
			mine: [][2]string{{"busy", "pay.a"}, {"busy", "pay.a"}, {"busy", "pay.a"}, {"busy", "pay.a"}, {"busy", "pay.a"}, {"busy", "pay.a"}, {"c", "pay.a"}, {"c", "pay.a"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if row.opts == nil {
					row.opts = &configv1.Limits{}
				}
				row.opts.MaxConcurrentCalls, row.opts.MaxQueueWait = new(int32(10)), durationpb.New(time.Second)
				s := policy.FixedSlots(row.opts)
				stop, all := make(chan struct{}), &sync.WaitGroup{}
				calls(t, s, all, stop, flood, "busy", "busy.tool")
				if got := s.Stats(); got.Running != row.running || got.Waiting != flood-row.running {
					t.Errorf("the flood: %+v, want %d running", got, row.running)
				}
				var held []*policy.Place
				for _, one := range row.mine {
					held = append(held, take(t, s, one[0], one[1]))
				}
				for _, p := range held {
					p.Release(true)
				}
				time.Sleep(2 * time.Second) // the queue is empty then
				if got := s.Stats(); got.Running != row.running || got.Expired+got.Over != uint64(flood-row.running) {
					t.Errorf("afterwards: %+v", got)
				}
				close(stop)
				all.Wait()
				if err := policy.CheckReserved(s); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestAClassThatRunsMoreKeepsNoMore: its reserved slots count among what it runs, whichever of its calls ends first.
func TestAClassThatRunsMoreKeepsNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := policy.FixedSlots(&configv1.Limits{
			MaxConcurrentCalls: new(int32(10)),
			ToolClasses:        []*configv1.ToolClass{{Name: "pay", Tools: []string{"pay.*"}, ReservedCalls: new(int32(2))}},
			CallerClasses:      []*configv1.CallerClass{{Name: "people", Callers: []string{"a", "b"}}},
		})
		first := []*policy.Place{take(t, s, "a", "pay.a"), take(t, s, "b", "pay.b")}
		for _, tool := range []string{"pay.c", "pay.d"} {
			take(t, s, "c", tool)
		}
		for _, p := range first {
			p.Release(true)
		}
		for range 8 {
			take(t, s, "busy", "busy.tool")
		}
		if got := s.Stats(); got.Running != 10 {
			t.Errorf("%+v", got)
		}
	})
}

// TestWeights: slots that become free, and shares, are divided by weight.
func TestWeights(t *testing.T) {
	t.Parallel()
	tools := []*configv1.ToolClass{{Name: "heavy", Tools: []string{"heavy"}, Weight: new(int32(4))}}
	callers := []*configv1.CallerClass{{Name: "heavy", Callers: []string{"heavy"}, Weight: new(int32(4))}}
	for name, row := range map[string]struct {
		opts *configv1.Limits
		ask  func(name string) (caller, tool string)
		most int
	}{
		"tools":             {&configv1.Limits{ToolClasses: tools}, func(n string) (string, string) { return "c", n }, 20},
		"tools, in shares":  {&configv1.Limits{ToolClasses: tools, ToolSharePercent: new(int32(80))}, func(n string) (string, string) { return "c", n }, 16},
		"callers":           {&configv1.Limits{CallerClasses: callers}, func(n string) (string, string) { return n, "t" }, 20},
		"callers in shares": {&configv1.Limits{CallerClasses: callers, CallerSharePercent: new(int32(80))}, func(n string) (string, string) { return n, "t" }, 16},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if row.opts == nil {
					row.opts = &configv1.Limits{}
				}
				row.opts.MaxConcurrentCalls, row.opts.MaxQueueWait = new(int32(20)), durationpb.New(time.Minute)
				s := policy.FixedSlots(row.opts)
				ctx, stop := context.WithCancel(t.Context())
				var all sync.WaitGroup
				for i := range 100 {
					caller, tool := row.ask([]string{"light", "heavy"}[i%2])
					all.Go(func() {
						for ctx.Err() == nil {
							p, err := s.Acquire(ctx, caller, tool)
							if err == nil {
								time.Sleep(time.Duration(10+i%7) * time.Millisecond)
							}
							p.Release(true)
						}
					})
				}
				time.Sleep(5 * time.Second)
				tools, callers := map[string]int{}, map[string]int{}
				now := s.Contention()
				for _, h := range now.Tools {
					tools[h.Name] = h.Running
				}
				for _, h := range now.Callers {
					callers[h.Name] = h.Running
				}
				got := callers
				if len(tools) == 2 {
					got = tools
				}
				if got["heavy"] < 3*got["light"] || got["light"] < 2 || got["heavy"]+got["light"] < row.most {
					t.Errorf("%v", got)
				}
				stop()
				all.Wait()
			})
		})
	}
}

// TestAToolLeavesRoomInTheQueue: while other tools are called, one does not fill it. Alone, it may.
func TestAToolLeavesRoomInTheQueue(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		others  bool
		waiting int
	}{"alone": {false, 10}, "beside others": {true, 8}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := policy.FixedSlots(&configv1.Limits{MaxConcurrentCalls: new(int32(1)), MaxQueuedCalls: new(int32(10)), MaxQueueWait: durationpb.New(time.Second), ToolSharePercent: new(int32(80))})
				if row.others {
					take(t, s, "c", "other").Release(true)
				}
				stop, all := make(chan struct{}), &sync.WaitGroup{}
				calls(t, s, all, stop, 12, "c", "slow")
				got := s.Stats()
				if got.Waiting != row.waiting || got.Full+got.OverTool != uint64(11-row.waiting) || (got.OverTool > 0) != row.others {
					t.Errorf("%+v", got)
				}
				_, err := s.Acquire(t.Context(), "c", "slow")
				if err == nil || err.Code != errmap.Unavailable || strings.Contains(err.Message, "of this tool are queued") != row.others {
					t.Errorf("got %v", err)
				}
				if row.others {
					calls(t, s, all, stop, 1, "c", "other")
					if got := s.Stats(); got.Waiting != row.waiting+1 {
						t.Errorf("a call of another tool: %+v", got)
					}
				}
				close(stop)
				all.Wait()
			})
		})
	}
}

// TestWhatIsRejectedIsCounted, by tool and by class.
func TestWhatIsRejectedIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := policy.FixedSlots(&configv1.Limits{
			MaxConcurrentCalls: new(int32(3)),
			MaxQueuedCalls:     new(int32(1)),
			MaxQueueWait:       durationpb.New(time.Second),
			ToolClasses:        []*configv1.ToolClass{{Name: "slow", Tools: []string{"slow"}, ReservedCalls: new(int32(1))}},
			CallerClasses:      []*configv1.CallerClass{{Name: "people", Callers: []string{"10.*"}}},
		})
		stop, all := make(chan struct{}), &sync.WaitGroup{}
		calls(t, s, all, stop, 2, "10.0.0.1", "fast")
		calls(t, s, all, stop, 3, "10.0.0.1", "slow") // one runs, one waits
		tools, callers := s.Classes()
		want := []policy.ClassStats{{Name: "slow", Running: 1, Waiting: 1, Reserved: 1, Rejected: [4]uint64{policy.QueueFull: 1}}}
		if diff := cmp.Diff(want, tools); diff != "" {
			t.Errorf("tools: %s", diff)
		}
		want = []policy.ClassStats{{Name: "people", Running: 3, Waiting: 1, Rejected: [4]uint64{policy.QueueFull: 1}}}
		if diff := cmp.Diff(want, callers); diff != "" {
			t.Errorf("callers: %s", diff)
		}
		if s.Full() == nil {
			t.Error("the queue is not full")
		}
		time.Sleep(2 * time.Second)
		got := s.Rejected()
		if diff := cmp.Diff([]policy.Refusals{{Tool: "", Count: 1}, {Tool: "slow", Count: 1}}, got[policy.QueueFull]); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]policy.Refusals{{Tool: "slow", Count: 1}}, got[policy.QueueWait]); diff != "" {
			t.Error(diff)
		}
		close(stop)
		all.Wait()
	})
}

// TestReservationsHoldUnderAnyLoad: whatever comes, waits, leaves and ends, there are never more calls than slots, and a class
// that uses fewer slots than it has reserved never waits.
func TestReservationsHoldUnderAnyLoad(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			opts := &configv1.Limits{
				MaxConcurrentCalls: new(int32(8)),
				MaxQueuedCalls:     new(int32(40)),
				MaxQueueWait:       durationpb.New(50 * time.Millisecond),
				CallerSharePercent: new(int32(80)),
				ToolSharePercent:   new(int32(80)),
				ToolClasses:        []*configv1.ToolClass{{Name: "t0", Tools: []string{"t0"}, ReservedCalls: new(int32(random.IntN(3))), Weight: new(int32(random.IntN(5)))}, {Name: "t1", Tools: []string{"t1", "t2"}, ReservedCalls: new(int32(random.IntN(3)))}},
				CallerClasses: []*configv1.CallerClass{
					{Name: "c0", Callers: []string{"c0", "c1"}, ReservedCalls: new(int32(random.IntN(3))), Weight: new(int32(random.IntN(5)))},
					{Name: "c2", Callers: []string{"c2"}, ReservedCalls: new(int32(random.IntN(2)))},
				},
			}
			s := policy.FixedSlots(opts)
			var all sync.WaitGroup
			for range 800 {
				caller, tool := fmt.Sprint("c", random.IntN(6)), fmt.Sprint("t", random.IntN(5))
				// Nothing ends at the whole milliseconds at which calls come.
				hold, give := time.Duration(1+random.IntN(30_000_000)), time.Duration(1+random.IntN(90_000_000))
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), give)
					defer cancel()
					owed := policy.IsOwed(s, caller, tool)
					p, err := s.Acquire(ctx, caller, tool)
					if owed && (err != nil || p.Waited > 0) {
						t.Errorf("seed %d: %s calls %s, which has a reserved slot: waited %v, %v", seed, caller, tool, p.Waited, err)
					}
					if err != nil {
						return
					}
					time.Sleep(hold)
					p.Release(hold%2 == 0)
					if err := policy.CheckReserved(s); err != nil {
						t.Errorf("seed %d: %v", seed, err)
					}
				})
				time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
				synctest.Wait()
				if err := policy.CheckReserved(s); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			all.Wait()
			tools, callers := s.Classes()
			for _, c := range append(tools, callers...) {
				if c.Running+c.Waiting != 0 {
					t.Errorf("seed %d: at the end: %+v", seed, c)
				}
			}
		})
	}
}
