// SPDX-License-Identifier: Apache-2.0

package feed

import "slices"

// Refilter makes the subscription ask for f from now on, in one step: what it
// asked for before and f does, too, is neither missed nor told twice. What is
// pending and not asked for any more is given up. The principal stays as it was,
// whatever f says. Its error is [ErrFull], a *[FilterError], or [ErrClosed] where
// the subscription is over; then nothing has changed.
func (s *Subscription) Refilter(f Filter) error {
	f.Principal = s.principal
	wants, err := f.wants()
	if err != nil {
		return err
	}
	changed, err := s.hub.reseat(s, &f, wants)
	if err != nil {
		return err
	}
	if changed {
		s.hub.watcher.changed()
	}
	return nil
}

// reseat gives a subscription other seats, and reports whether anything is asked
// for now that was not before, or the other way round.
func (h *Hub) reseat(s *Subscription, f *Filter, wants []want) (bool, error) {
	bytes := 0
	for i := range wants {
		bytes += len(wants[i].key.name) + seatBytes
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed, s.seats == nil:
		return false, ErrClosed
	case h.bytes-s.bytes+bytes > h.opts.MaxBytes:
		return false, ErrFull
	}
	old := s.seats
	h.bytes += bytes - s.bytes
	s.bytes = bytes
	// The new seats are taken before the old ones are left, so that a topic that
	// is in both stays.
	changed := h.seat(s, wants)
	s.retain(f)
	return h.leave(old) || changed, nil
}

// seat seats a subscription, and reports whether it is the first to ask for
// something. The caller holds the lock.
func (h *Hub) seat(s *Subscription, wants []want) bool {
	changed := false
	s.seats = make([]seat, 1+len(wants))
	s.seats[0] = seat{sub: s, topic: &h.everyone}
	h.everyone.join(&s.seats[0], false)
	for i, w := range wants {
		t, isNew := h.index.add(w.key)
		changed = changed || isNew
		place := &s.seats[1+i]
		*place = seat{sub: s, topic: t}
		t.join(place, w.covered)
	}
	return changed
}

// leave gives up seats, and reports whether they were the last of something. The
// caller holds the lock.
func (h *Hub) leave(seats []seat) bool {
	changed := false
	for i := range seats {
		t := seats[i].topic
		t.leave(&seats[i])
		if t != &h.everyone && h.index.release(t) {
			changed = true
		}
	}
	return changed
}

// retain gives up what is pending and not chosen by f.
func (s *Subscription) retain(f *Filter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending.retain(f.chooses)
	s.signal()
}

// chooses reports whether a pending change is one of those that f asks for.
func (f *Filter) chooses(it *item) bool {
	switch it.kind {
	case ToolsListChanged:
		return f.Tools
	case PromptsListChanged:
		return f.Prompts
	case ResourcesListChanged:
		return f.Resources
	case ResourceUpdated:
		return slices.ContainsFunc(f.ResourceURIs, func(wanted string) bool { return covers(wanted, it.name) })
	default:
		return slices.Contains(f.TaskIDs, it.name)
	}
}
