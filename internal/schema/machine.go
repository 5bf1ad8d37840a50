// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// machine is a compiled schema that one check at a time uses. The library takes no context, and its patterns and formats do
// not know which check they are asked for. So each machine has its own: before a schema is put to a value they spend what
// it will take from the budget of the check that runs, and unwind the library where the budget has ended.
type machine struct {
	root   *jsonschema.Schema
	budget Budget
}

// run checks a value. The error is the library's, or that of the budget.
func (m *machine) run(ctx context.Context, work int, value any) (err error) {
	m.budget = Budget{ctx: ctx, left: work}
	defer func() {
		r := recover()
		if m.budget.err != nil {
			err = m.budget.err
		} else if r != nil {
			// The library panics on numbers that its arithmetic cannot hold. Inspect refuses those that are known.
			err = fmt.Errorf("%v", r)
		}
		m.budget = Budget{}
	}()
	if !m.budget.look() {
		return nil
	}
	return m.root.Validate(value)
}

func (m *machine) spend(steps int) {
	if !m.budget.spend(steps) {
		panic(m.budget.err) //nolint:forbidigo // there is no other way out of the library; run recovers
	}
}

// meteredPattern is a pattern of one place of a machine's schema.
type meteredPattern struct {
	*Pattern
	in      *machine
	tooLong bool // the value at hand is longer than the schema allows, which is said instead
}

// MatchString implements jsonschema.Regexp.
func (p *meteredPattern) MatchString(text string) bool {
	if p.tooLong {
		return true
	}
	matches := p.MatchWithin(&p.in.budget, text)
	p.in.spend(0)
	return matches
}

// meter makes one schema of a machine spend what it takes. A format is what the library asks first, after the type and fixed
// values, which are paid for by what leads here.
func (m *machine) meter(s *jsonschema.Schema) {
	if s.Bool != nil {
		return
	}
	c := costOf(s)
	pattern, _ := s.Pattern.(*meteredPattern)
	format := &jsonschema.Format{}
	if s.Format != nil {
		*format = *s.Format
	}
	asserted := format.Validate
	if format.Name == "regex" { // the one format of the library that cannot be replaced
		asserted = nil
	}
	format.Validate = func(value any) error {
		m.spend(c.of(value))
		if text, ok := value.(string); ok && pattern != nil && s.MaxLength != nil {
			pattern.tooLong = utf8.RuneCountInString(text) > *s.MaxLength
		}
		if asserted == nil {
			return nil
		}
		return asserted(value)
	}
	s.Format = format
}

// machines are those of one schema. Checks wait for processors and for nothing else, so that there is no use in more
// machines than processors.
type machines struct {
	build func() (*machine, error)
	slots chan struct{}
	mu    sync.Mutex
	idle  []*machine
}

func newMachines(build func() (*machine, error), idle ...*machine) *machines {
	return &machines{build: build, slots: make(chan struct{}, runtime.GOMAXPROCS(0)), idle: idle}
}

// acquire returns a machine for one check, which gives it back with release.
func (ms *machines) acquire(ctx context.Context) (*machine, error) {
	isFree := false
	select {
	case ms.slots <- struct{}{}:
		if m := ms.rest(); m != nil {
			return m, nil
		}
		isFree = true
	default:
	}
	if at, ok := ctx.Deadline(); ok { // a context may have one without a timer
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, at)
		defer cancel()
	}
	if !isFree {
		select {
		case ms.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err() //nolint:wrapcheck // its caller says of what
		}
		if m := ms.rest(); m != nil {
			return m, nil
		}
	}
	return ms.another(ctx)
}

// rest returns a machine that rests, nil if there is none.
func (ms *machines) rest() *machine {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	n := len(ms.idle)
	if n == 0 {
		return nil
	}
	m := ms.idle[n-1]
	ms.idle = ms.idle[:n-1]
	return m
}

// another builds a machine, or returns the context's error. A large schema takes seconds to compile, and the library hears
// no context: what is not waited for any more is there for the next check.
func (ms *machines) another(ctx context.Context) (*machine, error) {
	type result struct {
		m   *machine
		err error
	}
	built := make(chan result)
	go func() {
		m, err := ms.build()
		select {
		case built <- result{m, err}:
		case <-ctx.Done():
			if err == nil {
				ms.release(m)
			} else {
				<-ms.slots
			}
		}
	}()
	select {
	case r := <-built:
		if r.err != nil {
			<-ms.slots
		}
		return r.m, r.err
	case <-ctx.Done():
		return nil, ctx.Err() //nolint:wrapcheck // its caller says of what
	}
}

func (ms *machines) release(m *machine) {
	ms.mu.Lock()
	ms.idle = append(ms.idle, m)
	ms.mu.Unlock()
	<-ms.slots
}
