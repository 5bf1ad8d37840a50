// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/bridge/resilience"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/admin"
	"github.com/outrigger-mcp/outrigger/internal/lifecycle"
)

// What calls depend on, as probes name it.
const (
	needCatalog = "catalog"
	needBackend = "backend"
)

// newLife returns the machine that knows what the process is doing.
func (a *app) newLife() *lifecycle.Machine {
	return lifecycle.New(func(c lifecycle.Change) {
		log := a.milestones().Info
		if c.To == lifecycle.NotReady {
			log = a.log.Warn
		}
		log("lifecycle", zap.Stringer("from", c.From), zap.Stringer("to", c.To), zap.String("reason", c.Why))
	}, needCatalog)
}

// backendState tells the machine what the breaker knows of the backend.
func (a *app) backendState(to resilience.State) {
	switch to {
	case resilience.Open:
		a.life.Set(needBackend, false, "circuit breaker open: too many calls failed or timed out; probing")
	case resilience.Closed:
		a.life.Set(needBackend, true, "circuit breaker closed")
	case resilience.HalfOpen:
	}
}

// seekBackend asks a backend that is away whether it is back, so that callers need
// not try, and readiness does not wait for calls, which do not come where there is
// no readiness. It returns when ctx ends.
func (a *app) seekBackend(ctx context.Context) {
	a.guard.Seek(ctx, a.seek, func(ctx context.Context) *errmap.Error {
		ctx, cancel := context.WithTimeout(ctx, a.cfg.GetBackend().GetProbeTimeout().AsDuration())
		defer cancel()
		if err := a.client.Ping(ctx); err != nil {
			a.log.Debug("backend still unreachable", zap.Error(err))
			return errmap.Wrap(errmap.Unavailable, err)
		}
		return nil
	})
}

// drainer is the process as the admin listener sees it.
type drainer struct {
	app *app
	end func()
}

// Drain implements [admin.Drainer].
func (d drainer) Drain() {
	d.app.life.Drain("requested by an operator (/drain)")
	d.end()
}

// Drained implements [admin.Drainer].
func (d drainer) Drained(ctx context.Context) error { return d.app.life.Wait(ctx) }

// InFlight implements [admin.Drainer].
func (d drainer) InFlight() int { return d.app.bridge.Flights().InFlight() }

// lingering is how long the process stays after somebody who waited for the drain
// was told: `sidecar drain` in the same container would be killed together with
// it, and a hook that is killed counts as failed.
const lingering = 250 * time.Millisecond

// lastWords is how long the streams of sessions outlast the last answer. A client
// reads the two from different connections, and some give up on every call of a
// session whose stream has ended, also on one whose answer has just arrived.
const lastWords = 250 * time.Millisecond

// afterGrace is how long a drain may take beyond its grace period to write the last
// answers and to end connections.
const afterGrace = 2 * time.Second

// drain refuses new calls and answers what is in flight, within the grace
// period; what is still running then is told so, and named in the log. Callers
// leave meanwhile.
func (a *app) drain(s *servers, why string) {
	a.life.Drain(why)
	grace := a.cfg.GetLimits().GetDrainGrace().AsDuration()
	a.terminal.draining(a.bridge.Flights().InFlight(), grace)
	a.milestones().Info("draining", zap.Int("in_flight", a.bridge.Flights().InFlight()), zap.Duration("grace_ms", grace), zap.String("reason", a.life.Status().Why))
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	end, stop := context.WithTimeout(context.Background(), grace+afterGrace)
	defer stop()
	s.sockets.Leave()
	// Streams of changes first: they would last as long as their readers like. Those
	// of sessions carry what belongs to calls, and end last.
	a.bridge.EndListens()
	err := a.bridge.Flights().Drain(ctx)
	a.drainTasks(ctx)
	// What has ended, or was cut off, is still being written.
	a.answering.wait(end)
	if a.sessions.Stats().Sessions > 0 {
		time.Sleep(lastWords)
	}
	a.sessions.Close()
	a.feed.Close()
	// Last, so that subscribers hear of what the last calls led to.
	a.endStreams()
	s.sockets.Part(ctx, end)
	outcome := "all calls answered"
	var cut *correlate.DrainError
	if errors.As(err, &cut) {
		a.cut.Add(uint64(cut.Cut))
		outcome = fmt.Sprintf("%d calls cut off at the end of the grace period", cut.Cut)
		a.log.Warn("grace period over: calls in flight were answered UNAVAILABLE", zap.Int("calls", cut.Cut),
			zap.Stringers("unfinished", cut.Unfinished), zap.Int("not_listed", cut.Cut-len(cut.Unfinished)))
	} else {
		a.milestones().Info("drained")
	}
	if err := a.life.Stop(outcome); err != nil {
		logError(a.log, "lifecycle", err)
	}
	if a.probes != nil && a.probes.Awaited() {
		time.Sleep(lingering)
	}
	a.terminal.stopped(outcome)
}

// maxHeldShown bounds the tools that /readyz?verbose names.
const maxHeldShown = 10

// ready is what /readyz says: whether calls can be answered, and what that
// depends on.
func (a *app) ready() (bool, []admin.Check) {
	status, life := a.live.Status(), a.life.Status()
	draining := a.bridge.Flights().Draining() || life.State >= lifecycle.Draining
	checks := []admin.Check{
		{Name: "catalog", OK: status.Ready, Detail: catalogDetail(status)},
		{Name: "draining", OK: !draining, Detail: fmt.Sprintf("%d requests in flight", a.bridge.Flights().InFlight())},
	}
	if a.guard != nil {
		s := a.guard.Stats()
		checks = append(checks, admin.Check{
			Name: "backend", OK: s.Breaker == resilience.Closed,
			Detail: fmt.Sprintf("circuit breaker %v, opened %d times; %d calls rejected, %d retried", s.Breaker, s.Opened, s.Held, s.Repeated),
		})
		for i, held := range s.Tools {
			if i == maxHeldShown {
				checks = append(checks, admin.Check{Name: "tools", Info: true, Detail: fmt.Sprintf("%d more circuit breakers are not closed", len(s.Tools)-i+s.MoreTools)})
				break
			}
			checks = append(checks, admin.Check{Name: "tool " + held.Tool, Info: true, Detail: fmt.Sprintf("circuit breaker %v: calls time out", held.State)})
		}
	}
	checks = append(checks, admin.Check{
		Name: "lifecycle", OK: life.State == lifecycle.Ready, Info: true,
		Detail: fmt.Sprintf("%v for %v: %s", life.State, time.Since(life.Since).Round(time.Second), orElse(life.Why, "since the start")),
	})
	for _, source := range status.Sources {
		detail := fmt.Sprintf("%d services in %d files, loaded in %v", source.Services, source.Files, source.Took.Round(time.Millisecond))
		if source.Err != nil {
			detail = source.Err.Error()
		}
		checks = append(checks, admin.Check{Name: source.Name, OK: source.Err == nil, Detail: detail, Info: true})
	}
	checks = append(append(checks, a.reloadChecks()...), a.grantChecks()...)
	return life.State == lifecycle.Ready && status.Ready && !draining, checks
}

func catalogDetail(status catalog.Status) string {
	if status.Why != "" {
		return status.Why
	}
	return "loaded " + status.Loaded.UTC().Format(time.RFC3339)
}
