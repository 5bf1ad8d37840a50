// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/outrigger-mcp/outrigger/internal/logkey"
)

// What reach hears from.
const (
	fromConnection = iota // the health check
	fromCatalog           // a load of the catalog
	reachSources
)

// Reach logs whether the backend can be used: one warning with the fix when it
// cannot, one for each change of the cause, one line when it can again. Attempts
// that fail like the one before are for the debug log.
type Reach struct {
	diagnose Diagnoser
	log      *zap.Logger
	// tell shows a person what the log says otherwise; nil where none reads it.
	tell func(text string)
	wake chan struct{}

	mu   sync.Mutex
	last [reachSources]error

	// What was logged, for run alone.
	said  Diagnosis
	since time.Time
}

// NewReach returns a log of whether the backend of d can be used. Where tell is set, it shows a person the same in sentences,
// and the lines of the log have the level debug.
func NewReach(d Diagnoser, log *zap.Logger, tell func(text string)) *Reach {
	return &Reach{diagnose: d, log: log, tell: tell, wake: make(chan struct{}, 1)}
}

// note takes what an attempt came to. It returns at once.
func (r *Reach) note(source int, err error) {
	if errors.Is(err, context.Canceled) {
		return // the process ends
	}
	r.mu.Lock()
	r.last[source] = err
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Loaded takes the end of a load of the catalog.
func (r *Reach) Loaded(err error) { r.note(fromCatalog, err) }

// current is the error that counts: without a connection nothing else matters.
func (r *Reach) current() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.last {
		if err != nil {
			return err
		}
	}
	return nil
}

// Run logs until ctx ends.
func (r *Reach) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		err := r.current()
		if err == nil {
			r.well()
			continue
		}
		d := r.diagnose.Diagnose(ctx, err)
		if ctx.Err() == nil {
			r.ill(d, err)
		}
	}
}

// well says once that the backend can be used again.
func (r *Reach) well() {
	if r.said == (Diagnosis{}) {
		return
	}
	event := "backend reachable again"
	if r.said.Cause == causeDescriptors {
		event = "descriptors fetched again"
	}
	level := zap.InfoLevel
	if r.tell != nil {
		level = zap.DebugLevel
		r.tell(sentence(event) + ".\n")
	}
	r.log.Log(level, event, zap.Duration("outage_ms", time.Since(r.since)), zap.String("cause", r.said.Cause))
	r.said = Diagnosis{}
}

// sentence is an event with a capital letter.
func sentence(event string) string { return strings.ToUpper(event[:1]) + event[1:] }

// ill says once what is wrong.
func (r *Reach) ill(d Diagnosis, err error) {
	if d.Cause == r.said.Cause {
		r.log.Debug("backend still unusable", zap.String("cause", d.Cause), logkey.Error(err))
		return
	}
	if r.said == (Diagnosis{}) {
		r.since = time.Now()
	}
	r.said = d
	level := zap.WarnLevel
	if r.tell != nil {
		level = zap.DebugLevel
		r.tell(r.explain(d) + "  The sidecar tries again by itself.\n")
	}
	r.say(level, d, err)
}

// Fatal logs why the first catalog can never be loaded, and what to do.
func (r *Reach) Fatal(ctx context.Context, err error) {
	d := r.diagnose.Diagnose(ctx, err)
	if r.tell != nil {
		r.tell(r.explain(d))
		return
	}
	r.say(zap.ErrorLevel, d, err)
}

// explain says in lines what is wrong, with which backend, and what to do.
func (r *Reach) explain(d Diagnosis) string {
	out := sentence(d.Event)
	if r.diagnose.Client != nil {
		out += " (" + r.diagnose.Client.Target().String() + ")"
	}
	out += ": " + d.What + ".\n"
	if d.Fix != "" {
		out += "  Fix: " + d.Fix + ".\n"
	}
	return out
}

func (r *Reach) say(level zapcore.Level, d Diagnosis, err error) {
	fields := []zap.Field{zap.String("cause", d.Cause), zap.String("what", d.What), zap.String("fix", d.Fix)}
	if r.diagnose.Client != nil {
		fields = append(fields, zap.Stringer("backend", r.diagnose.Client.Target()))
	}
	if err.Error() != d.What {
		fields = append(fields, logkey.Error(err))
	}
	r.log.Log(level, d.Event, fields...)
}
