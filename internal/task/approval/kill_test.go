// SPDX-License-Identifier: Apache-2.0

package approval_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
)

// killed is the panic of a process that ends in the middle of what it does.
type killed struct{}

// fuse counts the steps of all processes, and kills the process that takes the step before or after it is done.
type fuse struct {
	left  int
	after bool
}

// at is a process's way to the store that all share. A process that was killed does nothing more.
type at struct {
	approval.Store
	fuse *fuse
	dead bool
}

func (p *at) step(do func()) {
	p.fuse.left--
	burns := p.fuse.left == 0
	if burns && !p.fuse.after {
		p.dead = true
		panic(killed{})
	}
	do()
	if burns {
		p.dead = true
		panic(killed{})
	}
}

func (p *at) Get(ctx context.Context, key string) (e approval.Entry, err error) {
	p.step(func() { e, err = p.Store.Get(ctx, key) })
	return e, err
}

func (p *at) Put(ctx context.Context, key string, r *statev1.ApprovalRecord, version uint64, keep time.Duration) (err error) {
	p.step(func() { err = p.Store.Put(ctx, key, r, version, keep) })
	return err
}

// replicas are processes that share a store. A dead one is replaced by the next.
type replicas struct {
	t     *testing.T
	o     *office
	store approval.Store
	fuse  *fuse
	all   map[string]*at
	// ran counts runs of the tool.
	ran int
}

// process is a new process.
func (f *replicas) process() (*approval.Service, *at) {
	p := &at{Store: f.store, fuse: f.fuse}
	name := fmt.Sprint("p", len(f.all))
	f.all[name] = p
	options := f.o.options(p)
	options.Self = name
	options.Alive = func(_ context.Context, owner string) (bool, error) { return !f.all[owner].dead, nil }
	return approval.New(options), p
}

// lives does something in a process until that is killed, and reports whether it was not.
func lives(do func()) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			if _, isKill := p.(killed); !isKill {
				panic(p)
			}
			ok = false
		}
	}()
	do()
	return true
}

// request is one attempt of the caller, as the pipeline makes it. It returns what the caller learns, nil where the tool has run.
func (f *replicas) request(ctx context.Context, s *approval.Service, p *at, idempotent bool) *errmap.Error {
	c := f.o.call()
	r, err := s.Ask(ctx, c, "")
	if err != nil {
		return err
	}
	if r.GetState() == approval.Waiting {
		return approval.Refusal(r)
	}
	claim, err := s.Claim(ctx, c, r.GetId(), idempotent)
	if err != nil {
		return err
	}
	p.step(func() { f.ran++ }) // the backend
	s.Finish(ctx, claim, false)
	return nil
}

// TestKillsBetweenEachTwoSteps: a process ends before or after each step that any of them takes. An approved call runs once (an
// idempotent one again where the outcome is unknown), a denied one never, an expired one never, and each comes to an end.
func TestKillsBetweenEachTwoSteps(t *testing.T) {
	t.Parallel()
	for _, fate := range []string{"approved", "denied", "expired"} {
		for _, idempotent := range []bool{false, true} {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, idempotent %t, after %t", fate, idempotent, after), func(t *testing.T) {
					t.Parallel()
					for n := 1; ; n++ {
						var left int
						synctest.Test(t, func(t *testing.T) { left = killAt(t, n, after, fate, idempotent) })
						if left > 0 {
							return // it had more life than steps
						}
						if n > 1000 {
							t.Fatal("the steps have no end")
						}
					}
				})
			}
		}
	}
}

// killAt kills at the nth step, and returns how many more it would have taken.
func killAt(t *testing.T, n int, after bool, fate string, idempotent bool) (left int) {
	t.Helper()
	f := &replicas{t: t, o: newOffice(), store: approval.NewMemory(nil), fuse: &fuse{left: n, after: after}, all: map[string]*at{}}
	ctx := t.Context()
	s, p := f.process()
	// each tries until a process does it, as callers and approvers do.
	each := func(do func() (again bool)) {
		for range 20 {
			again := false
			if !lives(func() { again = do() }) {
				s, p = f.process()
				continue
			}
			if !again {
				return
			}
		}
		t.Fatalf("kill %d: no end of it", n)
	}
	each(func() bool {
		err := f.request(ctx, s, p, idempotent)
		if err == nil || err.Code != errmap.ApprovalRequired {
			t.Fatalf("kill %d: asked: %v", n, err)
		}
		return false
	})
	switch fate {
	case "approved":
		f.decideAll(ctx, each, func() *approval.Service { return s }, true, "ann", "bob")
	case "denied":
		f.decideAll(ctx, each, func() *approval.Service { return s }, true, "ann")
		f.decideAll(ctx, each, func() *approval.Service { return s }, false, "bob")
	case "expired":
		f.decideAll(ctx, each, func() *approval.Service { return s }, true, "ann")
		time.Sleep(time.Hour)
	}
	unknown := false
	each(func() bool {
		err := f.request(ctx, s, p, idempotent)
		switch {
		case err == nil:
		case errors.Is(err, approval.ErrRuns):
			return true
		case err.Code == errmap.TransportError:
			unknown = true
		}
		return false
	})
	switch {
	case fate != "approved" && f.ran > 0:
		t.Errorf("kill %d: a call that is %s ran %d times", n, fate, f.ran)
	case fate == "approved" && !idempotent && f.ran > 1:
		t.Errorf("kill %d: it ran %d times", n, f.ran)
	case fate == "approved" && f.ran == 0 && !unknown:
		t.Errorf("kill %d: it never ran", n)
	case fate == "approved" && idempotent && (f.ran > 2 || unknown):
		t.Errorf("kill %d: an idempotent one ran %d times, unknown %t", n, f.ran, unknown)
	}
	return f.fuse.left
}

// decideAll has approvers decide, each until it was heard.
func (f *replicas) decideAll(ctx context.Context, each func(func() bool), s func() *approval.Service, approve bool, names ...string) {
	f.t.Helper()
	for _, name := range names {
		each(func() bool {
			all, err := s().List(ctx, false)
			if err != nil {
				f.t.Fatal(err)
			}
			for _, r := range all {
				if why := s().WhyNot(r, f.o.who(name)); why != "" {
					continue // it was heard before the process ended
				}
				if _, err := s().Decide(ctx, r.GetId(), f.o.who(name), approve, "yes"); err != nil {
					f.t.Fatalf("%s: %v", name, err)
				}
			}
			return false
		})
	}
}
