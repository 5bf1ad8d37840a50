// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"slices"
	"time"
)

// mostShown bounds the tools and the callers of a Contention.
const mostShown = 50

// Contention shows the tools and callers with queued calls, and those that hold the slots meanwhile. It has at most 50
// of each, those with the most queued calls first, then those with the most running ones.
type Contention struct {
	Tools, Callers []Holder
}

// Holder is a tool or a caller. Limit is the concurrency limit of a tool; 0 for a caller.
type Holder struct {
	Name                    string
	Running, Waiting, Limit int
	// Longest is the age of its oldest queued call.
	Longest time.Duration
}

// Contention returns the current contention; it is empty if no call is queued.
func (s *Slots) Contention() Contention {
	if s == nil {
		return Contention{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue.waiting == 0 {
		return Contention{}
	}
	now, tools, callers := s.now(), map[string]*Holder{}, map[string]*Holder{}
	for _, f := range s.flows {
		if f.running+len(f.waiting) > 0 {
			add(tools, f.key.tool, f, now).Limit = f.tool.limit.now(s.opts.Most)
			add(callers, f.key.caller, f, now)
		}
	}
	return Contention{Tools: first(tools), Callers: first(callers)}
}

// add counts a flow for one of its two names.
func add(to map[string]*Holder, name string, f *flow, now time.Time) *Holder {
	h := to[name]
	if h == nil {
		h = &Holder{Name: name}
		to[name] = h
	}
	h.Running += f.running
	h.Waiting += len(f.waiting)
	if len(f.waiting) > 0 {
		h.Longest = max(h.Longest, now.Sub(f.waiting[0].since))
	}
	return h
}

// first returns the holders that are shown.
func first(of map[string]*Holder) []Holder {
	all := make([]Holder, 0, len(of))
	for _, h := range of {
		all = append(all, *h)
	}
	slices.SortFunc(all, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Running, a.Running), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), mostShown)]
}
