// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

const (
	// linkKeepWarm is how often an idle backend is asked whether it is
	// there. It is below the idle timeout of connections, so that one is always
	// open: its loss is how a restart shows.
	linkKeepWarm = time.Minute
	// linkKeepWarmHTTP1 is the same over HTTP/1.1, where servers close connections after
	// seconds without a request, so that none may be open whose loss would show.
	linkKeepWarmHTTP1 = 10 * time.Second
	// linkSettle is the longest pause between a lost connection and the first
	// attempt: many sidecars of one backend do not come back in the same moment.
	linkSettle = 100 * time.Millisecond
	// The pauses between attempts while the backend is away. The longest leaves time
	// for a load within two seconds of its return.
	linkFirstPause   = 250 * time.Millisecond
	linkLongestPause = time.Second
	// linkMinGap is the shortest time between two loads after reconnects, and
	// linkLoadShare how many times as long as a load took it is at least: a
	// connection that flaps makes the backend reflect for 5 % of the time at most.
	linkMinGap    = time.Second
	linkLoadShare = 20
	// linkCompare bounds one comparison of the descriptors with what the backend serves.
	linkCompare = 10 * time.Second
)

// link looks after the connection to the backend.
type link struct {
	*Service

	// compared is the catalog of the last comparison, and differences what it found.
	compared    *catalog.Catalog
	differences []string
}

// Run looks after the connection to the backend until ctx ends. When the
// connection was lost and is there again, the backend may be another version of
// itself: the catalog is loaded again.
func (l *link) Run(ctx context.Context) {
	if l.client == nil {
		return
	}
	// A protocol that is not declared may take methods of the catalog to find.
	isAsked := l.client.Protocol() != backend.ProtocolUnknown
	away := isAsked && !l.ask(ctx)
	if _, err := l.live.Wait(ctx); err != nil {
		return // Live.Run tries until then
	}
	lost := l.client.Lost()
	if away || !isAsked {
		away = !l.ask(ctx)
	}
	var nextLoad time.Time
	for {
		if !away {
			l.compare(ctx)
			warm := linkKeepWarm
			if l.client.LacksHTTP2() {
				warm = linkKeepWarmHTTP1
			}
			timer := time.NewTimer(warm)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-lost:
				timer.Stop()
				if !pauseFor(ctx, rand.N(linkSettle)) { //nolint:gosec // a guess gains nothing
					return
				}
			case <-timer.C:
				away = !l.ask(ctx)
				continue
			}
		}
		if !l.returns(ctx) || !pauseFor(ctx, time.Until(nextLoad)) {
			return
		}
		away = false
		l.compared = nil // the backend may be another version
		begun := time.Now()
		run, err := l.Refresher.Now(ctx, "reconnected")
		if err != nil {
			l.opts.Log.Debug("catalog load after a reconnect failed", logkey.Error(err))
		}
		took := time.Since(begun)
		if run != nil {
			took = run.Took
		}
		nextLoad = time.Now().Add(max(linkMinGap, linkLoadShare*took))
	}
}

// compare warns where the backend does not serve what the descriptors have, once for each catalog and connection. What was
// said about the one before is not said again.
func (l *link) compare(ctx context.Context) {
	now := l.live.Current()
	if !makesTools(l.opts.Config.GetCatalog()) || now == l.compared {
		return // the catalog comes from the backend itself, or was compared
	}
	asking, cancel := context.WithTimeout(ctx, linkCompare)
	defer cancel()
	diagnoser := l.Diagnoser()
	found := diagnoser.Offered(asking, now)
	if ctx.Err() != nil {
		return
	}
	for _, text := range found {
		if !slices.Contains(l.differences, text) {
			l.opts.Log.Warn("descriptors differ from the backend", zap.String("warning", text), zap.String("fix", diagnoser.FixOffered()))
		}
	}
	l.compared, l.differences = now, found
}

// returns asks until the backend answers; false where ctx ended first.
func (l *link) returns(ctx context.Context) bool {
	for pause := linkFirstPause; !l.ask(ctx); pause = min(2*pause, linkLongestPause) {
		if !pauseFor(ctx, pause*3/4+rand.N(pause/4)) { //nolint:gosec // a guess gains nothing
			return false
		}
	}
	return ctx.Err() == nil
}

// ask asks once and reports whether the backend answers.
func (l *link) ask(ctx context.Context) bool {
	asking, cancel := l.probing(ctx)
	defer cancel()
	err := l.client.Ping(asking)
	if ctx.Err() == nil {
		l.reach.note(fromConnection, err)
		l.answered(err)
	}
	if err != nil {
		l.client.Rediscover()
	} else if l.live.IsStale() {
		l.Refresher.Begin("backend examined")
	}
	return err == nil
}

// pauseFor waits and reports whether ctx still lasts.
func pauseFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// probing bounds one question to the backend.
func (l *link) probing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, l.opts.Config.GetBackend().GetProbeTimeout().AsDuration())
}

// await asks a backend that is away whether it is back, so that callers need not try,
// and readiness does not wait for calls, which do not come where there is no readiness.
// It returns when ctx ends.
func (l *link) await(ctx context.Context) {
	l.Guard.Seek(ctx, l.seek, func(ctx context.Context) *errmap.Error {
		ctx, cancel := l.probing(ctx)
		defer cancel()
		if err := l.client.Ping(ctx); err != nil {
			l.opts.Log.Debug("backend still unreachable", logkey.Error(err))
			return errmap.Wrap(errmap.Unavailable, err)
		}
		return nil
	})
}

// What reach hears from.
const (
	fromConnection = iota // the health check
	fromCatalog           // a load of the catalog
	reachSources
)

// reach logs whether the backend can be used: one warning with the fix when it
// cannot, one for each change of the cause, one line when it can again. Attempts
// that fail like the one before are for the debug log.
type reach struct {
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

// newReach returns a log of whether the backend of d can be used. Where tell is set, it shows a person the same in sentences,
// and the lines of the log have the level debug.
func newReach(d Diagnoser, log *zap.Logger, tell func(text string)) *reach {
	return &reach{diagnose: d, log: log, tell: tell, wake: make(chan struct{}, 1)}
}

// note takes what an attempt came to. It returns at once.
func (r *reach) note(source int, err error) {
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

// current is the error that counts: without a connection nothing else matters.
func (r *reach) current() error {
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
func (r *reach) Run(ctx context.Context) {
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
func (r *reach) well() {
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
func (r *reach) ill(d Diagnosis, err error) {
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

// fatal logs why the first catalog can never be loaded, and what to do.
func (r *reach) fatal(ctx context.Context, err error) {
	d := r.diagnose.Diagnose(ctx, err)
	if r.tell != nil {
		r.tell(r.explain(d))
		return
	}
	r.say(zap.ErrorLevel, d, err)
}

// explain says in lines what is wrong, with which backend, and what to do.
func (r *reach) explain(d Diagnosis) string {
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

func (r *reach) say(level zapcore.Level, d Diagnosis, err error) {
	fields := []zap.Field{zap.String("cause", d.Cause), zap.String("what", d.What), zap.String("fix", d.Fix)}
	if r.diagnose.Client != nil {
		fields = append(fields, zap.Stringer("backend", r.diagnose.Client.Target()))
	}
	if err.Error() != d.What {
		fields = append(fields, logkey.Error(err))
	}
	r.log.Log(level, d.Event, fields...)
}

// Refresher loads the catalog on demand. One load runs at a time, and one more may
// wait: concurrent requests share that one, so that everybody gets a load that
// began after they asked, and no number of requests makes more than two.
type Refresher struct {
	live *catalog.Live
	log  *zap.Logger
	base context.Context // ends with stop
	stop context.CancelFunc
	runs sync.WaitGroup
	// started is closed once everybody who has to hear of the first catalog listens.
	started chan struct{}

	mu            sync.Mutex
	running, next *Refresh
	ended         bool
}

// Refresh is one load.
type Refresh struct {
	why  string
	done chan struct{}

	// Valid once done is closed. Changed reports whether the catalog is another one.
	Changed bool
	Took    time.Duration
	err     error
}

// errRefreshEnded is the end of loads that the process no longer begins.
var errRefreshEnded = errors.New("the process is shutting down")

// newRefresher returns one that makes no load before [Refresher.Start].
func newRefresher(live *catalog.Live, log *zap.Logger) *Refresher {
	r := &Refresher{live: live, log: log, started: make(chan struct{})}
	r.base, r.stop = context.WithCancel(context.Background())
	return r
}

// Start lets loads begin: everybody who has to hear of the first catalog listens. It is
// called once.
func (r *Refresher) Start() { close(r.started) }

// Begin asks for a load and returns it without waiting.
func (r *Refresher) Begin(why string) *Refresh {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended:
		over := &Refresh{why: why, done: make(chan struct{}), err: errRefreshEnded}
		close(over.done)
		return over
	case r.next != nil:
		return r.next
	}
	run := &Refresh{why: why, done: make(chan struct{})}
	if r.running != nil {
		r.next = run
		return run
	}
	r.running = run
	r.runs.Go(r.work)
	return run
}

// Now asks for a load and waits for its end. A caller that leaves does not end it.
func (r *Refresher) Now(ctx context.Context, why string) (*Refresh, error) {
	run := r.Begin(why)
	select {
	case <-run.done:
		return run, run.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// work makes the loads that were asked for, one after the other.
func (r *Refresher) work() {
	for {
		r.mu.Lock()
		run := r.running
		r.mu.Unlock()
		r.load(run)
		close(run.done)
		r.mu.Lock()
		r.running, r.next = r.next, nil
		more := r.running != nil
		r.mu.Unlock()
		if !more {
			return
		}
	}
}

// load makes one load.
func (r *Refresher) load(run *Refresh) {
	select {
	case <-r.started:
	case <-r.base.Done():
		run.err = errRefreshEnded
		return
	}
	live := r.live
	before, begun := live.Current(), time.Now()
	run.err = live.Refresh(r.base)
	run.Took = time.Since(begun)
	if run.err != nil {
		r.log.Debug("catalog refresh failed", zap.String("reason", run.why), logkey.Error(run.err))
		return
	}
	now := live.Current()
	run.Changed = before == nil || before.Fingerprint() != now.Fingerprint()
	r.log.Info("catalog refreshed", zap.String("reason", run.why), zap.Bool("changed", run.Changed),
		zap.Int("tools", len(now.Tools())), zap.Duration("duration_ms", run.Took))
}

// close ends the loads. Calls after it get an error.
func (r *Refresher) close() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.stop()
	r.runs.Wait()
}

const (
	// maxAsked bounds the services that are asked for an unknown method, and the differences that are named.
	maxAsked = 64
	// unknownMethod is a method that no service has.
	unknownMethod = "OutriggerAsksWhetherTheServiceIsHere"
)

// Offered compares the services of a catalog of descriptor files with what the backend
// serves, and names what differs, one line each. Where the backend reflects, its
// descriptors are compared. Elsewhere one unknown method of each service is called, and
// only an answer that names the service as unknown counts: many servers answer both in
// the same words. A backend that cannot be reached differs in nothing.
func (a Diagnoser) Offered(ctx context.Context, cat *catalog.Catalog) []string {
	if a.Client == nil {
		return nil
	}
	services := cat.Services()
	reflected, err := backend.NewReflectionSource(a.Client, source.ReflectionOptions{Selection: only(services)}).Load(ctx)
	switch {
	case errors.Is(err, source.ErrNoneSelected), errors.Is(err, source.ErrNoServices):
		reflected = &source.Loaded{} // it reflects, and has none of them
	case err != nil:
		return a.unknown(ctx, services)
	}
	listed := map[string]bool{}
	for _, name := range reflected.Services {
		listed[name] = true
	}
	for _, w := range reflected.Warnings {
		listed[w.Subject] = true // listed, and not described
	}
	var out []string
	ours := map[string]*descriptorpb.FileDescriptorProto{}
	for _, s := range services {
		if !listed[s.Name] {
			out = append(out, missing(s.Name))
			continue
		}
		add := func(d protoreflect.Descriptor) {
			if file := d.ParentFile(); ours[file.Path()] == nil {
				ours[file.Path()] = protodesc.ToFileDescriptorProto(file)
				out = append(out, source.Differences([]*descriptorpb.FileDescriptorProto{ours[file.Path()]}, reflected.Files)...)
			}
		}
		add(s.Descriptor)
		for i := range s.Descriptor.Methods().Len() {
			add(s.Descriptor.Methods().Get(i).Input())
			add(s.Descriptor.Methods().Get(i).Output())
		}
	}
	if more := len(out) - maxAsked; more > 0 {
		out = append(out[:maxAsked], fmt.Sprintf("%d more", more))
	}
	return out
}

// unknown asks each service for a method that it does not have.
func (a Diagnoser) unknown(ctx context.Context, services []catalog.Service) []string {
	var out []string
	for _, s := range services[:min(len(services), maxAsked)] {
		_, err := a.Client.Call(ctx, "/"+s.Name+"/"+unknownMethod, nil, nil)
		var answer *backend.Error
		if errors.As(err, &answer) && answer.Kind == backend.KindStatus && backend.FaultOf(err) == backend.FaultNotServed &&
			strings.Contains(strings.ToLower(answer.Message), "unknown service") {
			out = append(out, missing(s.Name))
		}
	}
	return out
}

func missing(service string) string {
	return "the descriptors have the service " + service + ", and the backend does not: each call will fail with unimplemented"
}

// onlyServices is a selection of services by name.
type onlyServices map[string]bool

func only(services []catalog.Service) onlyServices {
	out := onlyServices{}
	for _, s := range services {
		out[s.Name] = true
	}
	return out
}

// Skips implements source.Selection.
func (o onlyServices) Skips(service string) bool { return !o[service] }
