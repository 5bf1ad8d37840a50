// SPDX-License-Identifier: Apache-2.0

package approval_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/errmap"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// office is what a service asks about: rules and operators, which tests change.
type office struct {
	mu        sync.Mutex
	rules     map[string]approval.Rule
	operators map[string]approval.Approver
}

func newOffice() *office {
	o := &office{rules: map[string]approval.Rule{}, operators: map[string]approval.Approver{}}
	o.rule(approval.Rule{Name: "large", Groups: []string{"risk"}, Callers: []string{"boss"}, Count: 2, Within: time.Hour, Digest: [32]byte{1}})
	for _, name := range []string{"ann", "bob", "cid"} {
		o.operators[name] = approval.Approver{Name: name, Groups: []string{"risk"}}
	}
	o.operators["boss"] = approval.Approver{Name: "boss"}
	o.operators["eve"] = approval.Approver{Name: "eve", Groups: []string{"other"}}
	return o
}

func (o *office) rule(r approval.Rule) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rules[r.Name] = r
}

func (o *office) options(s approval.Store) approval.Options {
	return approval.Options{
		Store: s, Self: "self",
		Rule: func(name string) (approval.Rule, bool) {
			o.mu.Lock()
			defer o.mu.Unlock()
			r, ok := o.rules[name]
			return r, ok
		},
		Operator: func(name string) (approval.Approver, bool) {
			o.mu.Lock()
			defer o.mu.Unlock()
			a, ok := o.operators[name]
			return a, ok
		},
	}
}

// call is a refund by tess.
func (o *office) call() *approval.Call {
	o.mu.Lock()
	defer o.mu.Unlock()
	return &approval.Call{
		Requester: "tess", Principal: "tokens:tess", Tool: "shop.refund", Title: "Refund", ToolDigest: [32]byte{7}, Rule: o.rules["large"],
		Arguments: sha256.Sum256([]byte("300")), ArgumentsJSON: []byte(`{"amount":300}`),
	}
}

// who is an operator as it is now.
func (o *office) who(name string) approval.Approver {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.operators[name]
}

func ask(t *testing.T, s *approval.Service, c *approval.Call) *statev1.ApprovalRecord {
	t.Helper()
	r, err := s.Ask(t.Context(), c, "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func decide(t *testing.T, s *approval.Service, o *office, id string, approve bool, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := s.Decide(t.Context(), id, o.who(name), approve, "fine by "+name); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// stateOf is the state of a record.
func stateOf(t *testing.T, s *approval.Service, id string) string {
	t.Helper()
	r, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r.GetState()
}

func TestAnApprovedCallRunsOnce(t *testing.T) {
	t.Parallel()
	o := newOffice()
	s, c := approval.New(o.options(approval.NewMemory(nil))), o.call()
	r := ask(t, s, c)
	if again := ask(t, s, c); again.GetId() != r.GetId() || r.GetState() != approval.Waiting || s.Waiting() != 1 {
		t.Fatalf("a repetition is not the same request: %v, %v", r, again)
	}
	if _, err := s.Claim(t.Context(), c, r.GetId(), false); err == nil || err.Code != errmap.ApprovalRequired {
		t.Fatalf("ran before it was approved: %v", err)
	}
	decide(t, s, o, r.GetId(), true, "ann")
	if stateOf(t, s, r.GetId()) != approval.Waiting {
		t.Fatal("one of two was enough")
	}
	decide(t, s, o, r.GetId(), true, "bob")
	claim, err := s.Claim(t.Context(), c, r.GetId(), false)
	if err != nil || fmt.Sprint(claim.Approvers) != "[ann bob]" {
		t.Fatal(claim, err)
	}
	if _, err := s.Claim(t.Context(), c, r.GetId(), true); !errors.Is(err, approval.ErrRuns) {
		t.Fatalf("ran twice at once: %v", err)
	}
	s.Finish(t.Context(), claim, false)
	if _, err := s.Claim(t.Context(), c, r.GetId(), true); err == nil {
		t.Fatal("ran twice")
	}
	if known, err := s.Ask(t.Context(), c, r.GetId()); err != nil || known.GetState() != approval.Done {
		t.Fatalf("who knows the approval: %v %v", known, err)
	}
	if next := ask(t, s, c); next.GetState() != approval.Waiting || s.Stats().Ran != 1 {
		t.Fatalf("another call was not asked about: %v", next)
	}
}

func TestACallThatWasNotSentMayBeMadeAgain(t *testing.T) {
	t.Parallel()
	o := newOffice()
	s, c := approval.New(o.options(approval.NewMemory(nil))), o.call()
	r := ask(t, s, c)
	decide(t, s, o, r.GetId(), true, "ann", "bob")
	for range 2 {
		claim, err := s.Claim(t.Context(), c, r.GetId(), false)
		if err != nil {
			t.Fatal(err)
		}
		s.Finish(t.Context(), claim, true)
	}
}

func TestWhoMayDecide(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(o *office)
		who    string
		want   string
	}{
		{name: "member", who: "ann"},
		{name: "named", who: "boss"},
		{name: "stranger", who: "eve", want: "names neither eve"},
		{name: "requester", who: "tess", change: func(o *office) {
			o.operators["tess"] = approval.Approver{Name: "tess", Groups: []string{"risk"}}
		}, want: "made the call"},
		{name: "acts as the requester", who: "ann", change: func(o *office) {
			o.operators["ann"] = approval.Approver{Name: "ann", Groups: []string{"risk"}, CallsAs: []string{"tess"}}
		}, want: "may call as its caller"},
		{name: "twice", who: "bob", want: "has decided already"},
		{name: "the same person", who: "cid", change: func(o *office) {
			o.operators["bob"] = approval.Approver{Name: "bob", Groups: []string{"risk"}, CallsAs: []string{"desk"}}
			o.operators["cid"] = approval.Approver{Name: "cid", Groups: []string{"risk"}, CallsAs: []string{"desk"}}
		}, want: "count as one person"},
		{name: "a rule that is gone", who: "ann", change: func(o *office) { delete(o.rules, "large") }, want: "there is no rule large"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOffice()
			s := approval.New(o.options(approval.NewMemory(nil)))
			r := ask(t, s, o.call())
			decide(t, s, o, r.GetId(), true, "bob")
			if tt.change != nil {
				tt.change(o)
			}
			r, _ = s.Get(t.Context(), r.GetId())
			if why := s.WhyNot(r, o.who(tt.who)); tt.want == "" && why != "" || !strings.Contains(why, tt.want) {
				t.Errorf("WhyNot: %q, want %q", why, tt.want)
			}
			_, err := s.Decide(t.Context(), r.GetId(), o.who(tt.who), true, "yes")
			if (err != nil) != (tt.want != "") || err != nil && err.Code != errmap.PermissionDenied {
				t.Errorf("Decide: %v", err)
			}
		})
	}
}

func TestReasons(t *testing.T) {
	t.Parallel()
	o := newOffice()
	s := approval.New(o.options(approval.NewMemory(nil)))
	r := ask(t, s, o.call())
	for _, reason := range []string{"", " \n", strings.Repeat("a", 1025), "\xff"} {
		if _, err := s.Decide(t.Context(), r.GetId(), o.who("ann"), true, reason); err == nil || err.Code != errmap.InvalidParams {
			t.Errorf("%.10q: %v", reason, err)
		}
	}
	for _, id := range []string{"none", ""} {
		if _, err := s.Decide(t.Context(), id, o.who("ann"), true, "yes"); err == nil || err.Code != errmap.ResourceNotFound {
			t.Errorf("%q: %v", id, err)
		}
		if r, err := s.Get(t.Context(), id); err == nil || err.Code != errmap.ResourceNotFound {
			t.Errorf("%q: %v, %v", id, r, err)
		}
	}
}

func TestOneDenialIsTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOffice()
		s, c := approval.New(o.options(approval.NewMemory(nil))), o.call()
		r := ask(t, s, c)
		decide(t, s, o, r.GetId(), true, "ann")
		decide(t, s, o, r.GetId(), false, "bob")
		if _, err := s.Decide(t.Context(), r.GetId(), o.who("cid"), true, "yes"); !errors.Is(err, approval.ErrOver) {
			t.Errorf("decided after the end: %v", err)
		}
		again := ask(t, s, c)
		_, err := s.Claim(t.Context(), c, again.GetId(), true)
		if again.GetId() != r.GetId() || err == nil || err.Code != errmap.PermissionDenied || !strings.Contains(err.Message, "fine by bob") {
			t.Errorf("a repetition: %v, %v", again, err)
		}
		time.Sleep(time.Hour)
		if later := ask(t, s, c); later.GetState() != approval.Waiting {
			t.Errorf("after the time of its rule: %v", later)
		}
	})
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOffice()
		s, c := approval.New(o.options(approval.NewMemory(nil))), o.call()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Run(ctx)
		}()
		var events []string
		stop := s.Subscribe(func(e approval.Event) { events = append(events, e.Kind+" "+e.Record.GetState()) })
		r := ask(t, s, c)
		got, err := s.Wait(ctx, r.GetId())
		if err != nil || got.GetState() != approval.Expired {
			t.Errorf("waited for %v, %v", got, err)
		}
		synctest.Wait()
		if _, err := s.Decide(ctx, r.GetId(), o.who("ann"), true, "late"); !errors.Is(err, approval.ErrOver) {
			t.Errorf("decided late: %v", err)
		}
		if _, err := s.Claim(ctx, c, r.GetId(), true); err == nil || err.Code != errmap.PermissionDenied {
			t.Errorf("ran late: %v", err)
		}
		// An approval in the last minute is of use for an hour, and no longer.
		r = ask(t, s, c)
		time.Sleep(59 * time.Minute)
		decide(t, s, o, r.GetId(), true, "ann", "bob")
		time.Sleep(59 * time.Minute)
		if stateOf(t, s, r.GetId()) != approval.Approved {
			t.Error("it has gone early")
		}
		time.Sleep(time.Minute)
		if _, err := s.Claim(ctx, c, r.GetId(), true); err == nil || err.Code != errmap.PermissionDenied {
			t.Errorf("ran late: %v", err)
		}
		cancel()
		<-done
		stop()
		want := "[asked waiting ended expired asked waiting decided waiting decided approved ended expired]"
		if fmt.Sprint(events) != want {
			t.Errorf("events: %v, want %s", events, want)
		}
		if all, err := s.List(t.Context(), true); err != nil || len(all) != 2 {
			t.Errorf("kept: %v, %v", all, err)
		}
		time.Sleep(approval.Keep)
		if all, _ := s.List(t.Context(), true); len(all) != 0 {
			t.Errorf("kept for ever: %v", all)
		}
	})
}

func TestWhatEndsAnApproval(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(o *office, c *approval.Call){
		"another tool":        func(_ *office, c *approval.Call) { c.ToolDigest[0]++ },
		"another rule":        func(_ *office, c *approval.Call) { c.Rule.Digest[0]++ },
		"an approver is gone": func(o *office, _ *approval.Call) { delete(o.operators, "ann") },
		"an approver left its group": func(o *office, _ *approval.Call) {
			o.operators["ann"] = approval.Approver{Name: "ann"}
		},
		"an approver acts as the requester": func(o *office, _ *approval.Call) {
			o.operators["ann"] = approval.Approver{Name: "ann", Groups: []string{"risk"}, CallsAs: []string{"tess"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOffice()
			s, c := approval.New(o.options(approval.NewMemory(nil))), o.call()
			r := ask(t, s, c)
			decide(t, s, o, r.GetId(), true, "ann", "bob")
			change(o, c)
			if _, err := s.Claim(t.Context(), c, r.GetId(), true); !errors.Is(err, approval.ErrChanged) {
				t.Fatalf("it ran: %v", err)
			}
			if stateOf(t, s, r.GetId()) != approval.Cancelled {
				t.Error("it is not cancelled")
			}
			if next, err := s.Ask(t.Context(), c, ""); err != nil || next.GetState() != approval.Waiting {
				t.Errorf("asked again: %v, %v", next, err)
			}
		})
	}
}

func TestAskedAnewWhileItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOffice()
		s, c := approval.New(o.options(approval.NewMemory(nil))), o.call()
		first := ask(t, s, c)
		time.Sleep(time.Second)
		c.ToolDigest[0]++
		second := ask(t, s, c)
		if first.GetId() == second.GetId() || stateOf(t, s, first.GetId()) != approval.Cancelled || s.Waiting() != 1 {
			t.Errorf("%v, %v", first, second)
		}
	})
}

func TestBounds(t *testing.T) {
	t.Parallel()
	o := newOffice()
	options := o.options(approval.NewMemory(nil))
	options.MaxWaiting, options.MaxPerCaller = 3, 2
	s := approval.New(options)
	other := func(n byte, principal string) *approval.Call {
		c := o.call()
		c.Arguments[0], c.Principal = n, principal
		return c
	}
	for i, tt := range []struct {
		call *approval.Call
		want string
	}{
		{other(1, "a"), ""}, {other(2, "a"), ""}, {other(2, "a"), ""}, {other(3, "a"), "--max-approvals-per-caller"},
		{other(3, "b"), ""}, {other(4, "b"), "--max-approvals)"},
	} {
		_, err := s.Ask(t.Context(), tt.call, "")
		if (err == nil) != (tt.want == "") || err != nil && (err.Code != errmap.ResourceExhausted || !strings.Contains(err.Message, tt.want)) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	o := newOffice()
	s := approval.New(o.options(approval.NewMemory(nil)))
	r := ask(t, s, o.call())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Wait(ctx, r.GetId()); err == nil || err.Code != errmap.Cancelled {
		t.Error(err)
	}
}

// TestWaive: a call that needs no approval any more is taken to run once, and its approval ends with that.
func TestWaive(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, o *office, s *approval.Service, id string){
		"waits": func(*testing.T, *office, *approval.Service, string) {},
		"approved": func(t *testing.T, o *office, s *approval.Service, id string) {
			t.Helper()
			for _, name := range []string{"ann", "bob"} {
				if _, err := s.Decide(t.Context(), id, o.who(name), true, "yes"); err != nil {
					t.Fatal(err)
				}
			}
		},
		"cancelled": func(t *testing.T, _ *office, s *approval.Service, id string) {
			t.Helper()
			if err := s.Cancel(t.Context(), id, "the rule changed"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		o := newOffice()
		ended := 0
		options := o.options(approval.NewMemory(nil))
		options.Happened = func(e approval.Event) {
			if e.Kind == approval.EventEnded {
				ended++
			}
		}
		s := approval.New(options)
		id := ask(t, s, o.call()).GetId()
		prepare(t, o, s, id)
		r, isOurs, err := s.Waive(t.Context(), id, "no rule asks")
		if err != nil || !isOurs || !approval.IsWaived(r) || s.Waiting() != 0 || ended != 1 {
			t.Errorf("%s: %v, %t, %v; %d wait, %d ended", name, r, isOurs, err, s.Waiting(), ended)
		}
		r, isOurs, err = s.Waive(t.Context(), id, "no rule asks")
		if err != nil || isOurs || !approval.IsWaived(r) {
			t.Errorf("%s, again: %v, %t, %v", name, r, isOurs, err)
		}
		if _, err = s.Claim(t.Context(), o.call(), id, true); err == nil || err.Code != errmap.PermissionDenied {
			t.Errorf("%s, claimed: %v", name, err)
		}
	}
	o := newOffice()
	s := approval.New(o.options(approval.NewMemory(nil)))
	id := ask(t, s, o.call()).GetId()
	if _, err := s.Decide(t.Context(), id, o.who("ann"), false, "no"); err != nil {
		t.Fatal(err)
	}
	if r, isOurs, err := s.Waive(t.Context(), id, "no rule asks"); err != nil || isOurs || r.GetState() != approval.Denied {
		t.Errorf("denied: %v, %t, %v", r, isOurs, err)
	}
}

// TestWhoLivesIsNotKnown: a call that another process took to run is neither run nor given up while the store of leases is away.
func TestWhoLivesIsNotKnown(t *testing.T) {
	t.Parallel()
	o := newOffice()
	store := approval.NewMemory(nil)
	first := approval.New(o.options(store))
	id := ask(t, first, o.call()).GetId()
	for _, name := range []string{"ann", "bob"} {
		if _, err := first.Decide(t.Context(), id, o.who(name), true, "yes"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := first.Claim(t.Context(), o.call(), id, false); err != nil {
		t.Fatal(err)
	}
	options := o.options(store)
	options.Self, options.Alive = "other", func(context.Context, string) (bool, error) { return false, errors.New("away") }
	_, err := approval.New(options).Claim(t.Context(), o.call(), id, false)
	if err == nil || err.Code != errmap.Unavailable {
		t.Errorf("got %v", err)
	}
	if r, err := first.Get(t.Context(), id); err != nil || r.GetState() != approval.Running {
		t.Errorf("it is %v, %v", r, err)
	}
}

// deaf stores what it is asked to, and loses the first acknowledgement of a state.
type deaf struct {
	approval.Store
	state string
	lost  bool
}

func (d *deaf) Put(ctx context.Context, key string, r *statev1.ApprovalRecord, version uint64, keep time.Duration) error {
	err := d.Store.Put(ctx, key, r, version, keep)
	if err == nil && !d.lost && r.GetState() == d.state {
		d.lost = true
		return approval.ErrUnavailable
	}
	return err
}

// unsure is a store that says it is away: before it writes while isAway, and after it has written while isMute.
type unsure struct {
	approval.Store
	isAway, isMute atomic.Bool
}

func (u *unsure) Put(ctx context.Context, key string, r *statev1.ApprovalRecord, version uint64, keep time.Duration) error {
	if u.isAway.Load() {
		return approval.ErrUnavailable
	}
	err := u.Store.Put(ctx, key, r, version, keep)
	if err == nil && u.isMute.Load() {
		return approval.ErrUnavailable
	}
	return err
}

// TestWhatHasEndedIsNotFinished: the end of a call is written once, although its acknowledgement was lost, and not over the end that
// another process wrote.
func TestWhatHasEndedIsNotFinished(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lost, notSent, isUnknown bool
		ended                    int
	}{
		"acknowledged":      {ended: 1},
		"not acknowledged":  {lost: true, ended: 1},
		"unknown":           {isUnknown: true},
		"unknown, not sent": {isUnknown: true, notSent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, store := newOffice(), &deaf{Store: approval.NewMemory(nil), state: approval.Done, lost: !tc.lost}
				ended := 0
				options := o.options(store)
				options.Happened = func(e approval.Event) {
					if e.Kind == approval.EventEnded {
						ended++
					}
				}
				s := approval.New(options)
				id := ask(t, s, o.call()).GetId()
				for _, name := range []string{"ann", "bob"} {
					if _, err := s.Decide(t.Context(), id, o.who(name), true, "yes"); err != nil {
						t.Fatal(err)
					}
				}
				claim, err := s.Claim(t.Context(), o.call(), id, false)
				if err != nil {
					t.Fatal(err)
				}
				if tc.isUnknown {
					other := o.options(store)
					other.Self, other.Alive = "other", func(context.Context, string) (bool, error) { return false, nil }
					if _, err := approval.New(other).Claim(t.Context(), o.call(), id, false); err == nil || err.Code != errmap.TransportError {
						t.Fatal(err)
					}
				}
				before, _ := s.Get(t.Context(), id)
				s.Finish(t.Context(), claim, tc.notSent)
				after, err := s.Get(t.Context(), id)
				if err != nil || after.GetState() != approval.Done || ended != tc.ended || tc.isUnknown && after.GetEnded() != before.GetEnded() {
					t.Errorf("it is %v, %v; %d ended", after, err, ended)
				}
			})
		})
	}
}

// TestWhatWasWrittenIsToldOf: a question and decisions that the store took without saying so have their events.
func TestWhatWasWrittenIsToldOf(t *testing.T) {
	t.Parallel()
	o, store := newOffice(), &unsure{Store: approval.NewMemory(nil)}
	store.isMute.Store(true)
	options, events := o.options(store), []string(nil)
	options.Happened = func(e approval.Event) { events = append(events, e.Kind) }
	s := approval.New(options)
	decide(t, s, o, ask(t, s, o.call()).GetId(), true, "ann", "bob")
	if fmt.Sprint(events) != "[asked decided decided]" {
		t.Error(events)
	}
}

// TestTheEndIsWrittenOnceTheStoreIsBack: an approval was used, however long its end could not be written.
func TestTheEndIsWrittenOnceTheStoreIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, store := newOffice(), &unsure{Store: approval.NewMemory(nil)}
		s, c := approval.New(o.options(store)), o.call()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Run(ctx)
		}()
		r := ask(t, s, c)
		decide(t, s, o, r.GetId(), true, "ann", "bob")
		claim, err := s.Claim(ctx, c, r.GetId(), true)
		if err != nil {
			t.Fatal(err)
		}
		store.isAway.Store(true)
		s.Finish(ctx, claim, false)
		time.Sleep(time.Hour)
		store.isAway.Store(false)
		time.Sleep(2 * time.Second)
		if got := stateOf(t, s, r.GetId()); got != approval.Done || s.Stats().Ran != 1 {
			t.Errorf("it is %s", got)
		}
		cancel()
		<-done
	})
}

// TestAKeyIsNoID: a decision is about the record that it names, and not about what is in its place.
func TestAKeyIsNoID(t *testing.T) {
	t.Parallel()
	o := newOffice()
	s := approval.New(o.options(approval.NewMemory(nil)))
	key, _, _ := strings.Cut(ask(t, s, o.call()).GetId(), "-")
	if _, err := s.Decide(t.Context(), key, o.who("ann"), true, "yes"); err == nil || err.Code != errmap.ResourceNotFound {
		t.Error(err)
	}
}

// TestWhatOneCallerLeaves: calls that ended undecided keep no arguments, come behind those that wait, and are bounded for each caller.
func TestWhatOneCallerLeaves(t *testing.T) {
	t.Parallel()
	o := newOffice()
	options := o.options(approval.NewMemory(nil))
	options.MaxPerCaller = 2
	s := approval.New(options)
	made := 0
	for n := range byte(20) {
		c := o.call()
		c.Arguments[0] = n
		r, err := s.Ask(t.Context(), c, "")
		if err != nil {
			if err.Code != errmap.ResourceExhausted || !strings.Contains(err.Message, "left undecided") {
				t.Error(err)
			}
			break
		}
		made++
		if err := s.Cancel(t.Context(), r.GetId(), "not wanted"); err != nil {
			t.Fatal(err)
		}
	}
	other := o.call()
	other.Principal = "tokens:other"
	last := ask(t, s, other)
	all, _ := s.List(t.Context(), true)
	if made != 16 || len(all) != 17 || all[0].GetId() != last.GetId() || all[1].GetArgumentsJson() != nil {
		t.Errorf("%d calls, %d kept", made, len(all))
	}
}
