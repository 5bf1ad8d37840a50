// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"slices"
)

// LargeMessage is the size in bytes from which messages are translated in turns, whatever their caller and tool.
const LargeMessage = 64 << 10

// TurnKind tells turns apart.
type TurnKind int

// The kinds of turns.
const (
	// AnswerTurn is that of an answer to a call of one caller to one tool.
	AnswerTurn TurnKind = iota
	// LargeTurn is that of a large message, in either direction.
	LargeTurn
	turnKinds
)

// String returns the value of the label in the metrics.
func (k TurnKind) String() string { return [...]string{"answer", "large"}[k] }

// turns bounds how many calls use the CPU at once, while a call of somebody else may want it. The Go scheduler has no
// priorities: what can run is in a queue, and the network is only looked at when the queue is empty. A thousand answers that
// come at the same time would delay a single other call by all their work, several times. Those that wait for a turn are in no
// such queue.
type turns struct {
	// most is the number of turns of each flow, and of all large messages.
	most int
	// large is the number of large messages that have a turn, callers are those with large messages that wait, the next one first.
	large   int
	callers []*callerSlots
	waiting [turnKinds]int
	waits   [turnKinds]uint64
}

// turnWaiter waits for a turn.
type turnWaiter struct {
	// begun is closed when the turn begins. has says the same to code that holds the lock.
	begun chan struct{}
	has   bool
}

// Turn is the right to use the CPU for one message. The zero value is that of calls that need none.
type Turn struct {
	slots *Slots
	flow  *flow
	kind  TurnKind
}

// TurnForRequest waits until arguments of n bytes may be translated. Small ones need not wait. Without a turn, because
// nothing else is called or ctx has ended, the zero Turn is returned. The turn must be ended, and the holder must not wait for
// anything but the CPU.
func (s *Slots) TurnForRequest(ctx context.Context, caller, tool string, n int) Turn {
	if n < LargeMessage {
		return Turn{}
	}
	return s.turn(ctx, caller, tool, LargeTurn)
}

// TurnForAnswer is TurnForRequest for an answer of the backend. Small answers take turns with those to the same caller from the
// same tool.
func (s *Slots) TurnForAnswer(ctx context.Context, caller, tool string, n int) Turn {
	kind := AnswerTurn
	if n >= LargeMessage {
		kind = LargeTurn
	}
	return s.turn(ctx, caller, tool, kind)
}

func (s *Slots) turn(ctx context.Context, caller, tool string, kind TurnKind) Turn {
	if s == nil || !s.shared.Load() {
		return Turn{}
	}
	t, w := s.askTurn(caller, tool, kind)
	if w == nil {
		return t
	}
	select {
	case <-w.begun:
		return t
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.has { // it began at the last moment
		return t
	}
	s.turns.leave(t, w)
	return Turn{}
}

// askTurn begins a turn, or queues for it; then the waiter is not nil.
func (s *Slots) askTurn(caller, tool string, kind TurnKind) (Turn, *turnWaiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := Turn{slots: s, flow: s.flow(caller, tool), kind: kind}
	busy, queue := t.counts()
	t.flow.turning++
	if *busy < s.turns.most {
		*busy++
		return t, nil
	}
	w := &turnWaiter{begun: make(chan struct{})}
	if kind == LargeTurn && len(*queue) == 0 {
		s.turns.callers = append(s.turns.callers, t.flow.caller)
	}
	*queue = append(*queue, w)
	s.turns.waiting[kind]++
	s.turns.waits[kind]++
	return t, w
}

// counts are the number of turns that bounds this one, and those that wait for one.
func (t *Turn) counts() (busy *int, queue *[]*turnWaiter) {
	if t.kind == LargeTurn {
		return &t.slots.turns.large, &t.flow.caller.large
	}
	return &t.flow.answering, &t.flow.answers
}

// leave takes a call that waits no longer out of the queue.
func (u *turns) leave(t Turn, w *turnWaiter) {
	_, queue := t.counts()
	*queue = slices.DeleteFunc(*queue, func(other *turnWaiter) bool { return other == w })
	if t.kind == LargeTurn && len(*queue) == 0 {
		u.callers = slices.DeleteFunc(u.callers, func(c *callerSlots) bool { return c == t.flow.caller })
	}
	t.flow.turning--
	u.waiting[t.kind]--
}

// End ends a turn, and lets the next one begin: the answer that waited longest, or the large message that waited longest of the
// caller whose last one is longest ago. Of the zero Turn it does nothing.
func (t Turn) End() {
	s := t.slots
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	busy, queue := t.counts()
	t.flow.turning--
	*busy--
	if t.kind == LargeTurn {
		s.turns.nextLarge()
		return
	}
	if len(*queue) > 0 {
		*busy++
		s.turns.giveTurn(queue, t.kind)
	}
}

// nextLarge lets the next large message have its turn.
func (u *turns) nextLarge() {
	if len(u.callers) == 0 {
		return
	}
	c := u.callers[0]
	u.callers = u.callers[1:]
	u.large++
	u.giveTurn(&c.large, LargeTurn)
	if len(c.large) > 0 {
		u.callers = append(u.callers, c)
	}
}

// giveTurn lets the first of a queue have its turn.
func (u *turns) giveTurn(queue *[]*turnWaiter, kind TurnKind) {
	w := (*queue)[0]
	(*queue)[0] = nil
	*queue = (*queue)[1:]
	if len(*queue) == 0 {
		*queue = nil
	}
	u.waiting[kind]--
	w.has = true
	close(w.begun)
}

// TurnStats are the statistics of the turns of one kind: how many messages wait for one, and how many have waited.
type TurnStats struct {
	Waiting int
	Waits   uint64
}

// Turns returns the statistics of turns, by kind. Nil has none.
func (s *Slots) Turns() map[TurnKind]TurnStats {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[TurnKind]TurnStats, turnKinds)
	for kind := range turnKinds {
		out[kind] = TurnStats{Waiting: s.turns.waiting[kind], Waits: s.turns.waits[kind]}
	}
	return out
}
