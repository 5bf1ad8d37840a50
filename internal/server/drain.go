// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// drainer is the process as the admin listener sees it.
type drainer struct {
	app *App
	end func()
}

// Drain implements [admin.Drainer].
func (d drainer) Drain(who string) {
	d.app.drainedBy.CompareAndSwap(nil, &who)
	d.app.life.Drain("requested by an operator (/drain)")
	d.end()
}

// Drained implements [admin.Drainer].
func (d drainer) Drained(ctx context.Context) error { return d.app.life.Wait(ctx) }

// InFlight implements [admin.Drainer].
func (d drainer) InFlight() int { return d.app.bridge.Flights().InFlight() }

// lingering is how long the process stays after an operator who waited for the drain
// was told: `sidecar drain` in the same container would be killed together with
// it, and a hook that is killed counts as failed.
const lingering = 250 * time.Millisecond

// lastWords is how long the streams of sessions outlast the last answer. A client
// reads the two from different connections, and some give up on every call of a
// session whose stream has ended, also on one whose answer has just arrived. A
// busy client may need a second to read it. No one waits that long for a drain that
// found nothing in flight.
const (
	lastWords     = time.Second
	lastWordsIdle = 250 * time.Millisecond
)

// afterGrace is how long a drain may take beyond its grace period to write the last
// answers and to end connections.
const afterGrace = 2 * time.Second

// drain refuses new calls and answers what is in flight, within the grace
// period; what is still running then is notified, and named in the log. Callers
// leave meanwhile.
//
// A call that does not hear that its time is over keeps its caller waiting: it has its line in
// the audit trail all the same, and the error says how many there are.
func (a *App) drain(why string) error {
	a.drainBegan.Store(time.Now().UnixNano())
	a.life.Drain(why)
	a.auditDrain()
	words := lastWordsIdle
	if a.bridge.Flights().InFlight() > 0 || a.front.IsAnswering() {
		words = lastWords
	}
	grace := a.cfg.GetLimits().GetDrainGrace().AsDuration()
	if a.opts.Narrator != nil {
		a.opts.Narrator.Draining(a.bridge.Flights().InFlight(), grace)
	}
	a.milestones().Info("draining", zap.Int("in_flight", a.bridge.Flights().InFlight()), zap.Duration("grace_ms", grace), zap.String("reason", a.life.Status().Why))
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	end, stop := context.WithTimeout(context.Background(), grace+afterGrace)
	defer stop()
	a.front.Leave()
	// Streams of changes first: they would last as long as their readers like. Those
	// of sessions carry what belongs to calls, and end last.
	a.bridge.EndListens()
	err := a.bridge.Flights().Drain(ctx)
	a.cut.Add(uint64(a.shared.DrainTasks(ctx)))
	a.watches.Close()
	// What has ended, or was cut off, is still being written.
	a.front.AwaitAnswers(end)
	left := 0
	if err != nil {
		left = a.awaitCut(end)
		a.bridge.AuditUnfinished()
	}
	if a.sessions.Stats().Held > 0 {
		select {
		case <-time.After(words):
		case <-end.Done():
		}
	}
	a.sessions.Close()
	a.feed.Close()
	a.held.Close()
	// Last, so that subscribers hear of what the last calls led to.
	a.front.EndStreams()
	a.shared.Bus.Close()
	a.front.DrainConns(ctx, end)
	outcome := "all calls answered"
	var cut *correlate.DrainError
	if errors.As(err, &cut) {
		a.cut.Add(uint64(cut.Cut))
		outcome = fmt.Sprintf("%d calls cut off at the end of the grace period", cut.Cut)
		if left > 0 {
			outcome += fmt.Sprintf(", %d of them not answered", left)
		}
		a.log.Warn("grace period over: calls in flight were answered UNAVAILABLE", zap.Int("calls", max(cut.Cut-left, 0)), zap.Int("not_answered", left),
			zap.Stringers("unfinished", cut.Unfinished), zap.Int("not_listed", cut.Cut-len(cut.Unfinished)))
	} else {
		a.milestones().Info("drained")
	}
	if err := a.life.Stop(outcome); err != nil {
		a.log.Error("lifecycle", logkey.Error(err))
	}
	if a.probes != nil && a.probes.Awaited() {
		time.Sleep(lingering)
	}
	err = nil
	if left > 0 {
		err = fmt.Errorf("drain: %d calls did not end within %s of the grace period and were not answered; their outcome is unknown", left, afterGrace)
	}
	if a.opts.Narrator != nil {
		a.opts.Narrator.Stopped(outcome)
	}
	return err
}

// awaitCut waits until the calls that were cut off have ended, and returns how many have not.
func (a *App) awaitCut(end context.Context) int {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for a.bridge.Flights().InFlight() > 0 {
		select {
		case <-tick.C:
		case <-end.Done():
			return a.bridge.Flights().InFlight()
		}
	}
	return 0
}
