// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/bridge/policy"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/admin"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/metrics"
	"github.com/outrigger-mcp/outrigger/internal/reload"
)

// reloader puts a configuration into use that has changed while the process
// runs, as far as that can be. It is called by the watcher alone, and asked how
// it is doing by anyone.
type reloader struct {
	app *app
	// again reads flags, environment and file as they were read at the start.
	again reread
	// level is that of the log.
	level zap.AtomicLevel
	// hears tells that SIGHUP asks to read everything again.
	hears bool
	// file is nil where there is no configuration file.
	file, descriptors *reload.Group

	mu sync.Mutex
	// running is what is in use. It differs from the file in the fields that wait
	// for a restart, and in all while the file is faulty.
	running *configv1.Config
	waiting []string
	// said is what was logged last of a reload that is tried again and again.
	said string
}

// reloads has the files watched that may change while the process runs. hears
// says whether SIGHUP is ours.
func (a *app) reloads(again reread, level zap.AtomicLevel, hears bool) {
	r := &reloader{app: a, again: again, level: level, hears: hears, running: a.cfg}
	a.reloader = r
	r.descriptors = a.watcher.Add("descriptors", r.reloadDescriptors, a.cfg.GetCatalog().GetDescriptors()...)
	a.watchKeys()
	a.watchCredentials()
	if again.file == "" {
		return
	}
	r.file = a.watcher.Add("configuration", r.configuration, again.file)
	// The file was read before it was watched.
	if now, err := again.load(); err != nil || len(reload.Diff(a.cfg, now.Config)) > 0 {
		a.watcher.Now()
	}
}

// watchFiles looks at the files until ctx ends.
func (a *app) watchFiles(ctx context.Context) {
	if a.reloader.hears {
		hangup := make(chan os.Signal, 1)
		signal.Notify(hangup, syscall.SIGHUP)
		defer signal.Stop(hangup)
		var heard sync.WaitGroup
		defer heard.Wait()
		heard.Go(func() {
			for {
				select {
				case <-hangup:
					a.log.Info("SIGHUP: reloading all files and the catalog")
					a.watcher.Now()
					a.refresher.begin("SIGHUP")
				case <-ctx.Done():
					return
				}
			}
		})
	}
	a.watcher.Run(ctx)
}

// configuration reads the configuration again and puts into use what can be.
func (r *reloader) configuration(ctx context.Context) reload.Outcome {
	cfg, err := r.again.load()
	if err != nil {
		r.refuseFaults(err)
		return reload.Refused
	}
	running := r.current()
	now, later := split(running, cfg.Config)
	next := reload.Merge(running, cfg.Config, now)
	if err := r.apply(ctx, running, next, now); err != nil {
		if !catalog.IsPermanent(err) && ctx.Err() == nil {
			r.sayOnce("configuration not usable yet; keeping the last good one and retrying", err)
			return reload.Deferred
		}
		r.sayOnce("configuration rejected; keeping the last good one", err)
		return reload.Refused
	}
	for _, w := range cfg.Warnings {
		r.app.log.Warn("configuration warning", zap.Stringer("warning", w))
	}
	return r.settle(next, now, later)
}

// split parts the fields that differ into those that change now and those that
// wait for a restart.
func split(running, to *configv1.Config) (now, later []string) {
	for _, path := range reload.Diff(running, to) {
		if reload.MayChange(path) && !changesSources(path, running, to) {
			now = append(now, path)
			continue
		}
		later = append(later, path)
	}
	return now, later
}

// changesSources holds for the first descriptor file and for the last one that
// goes: with them, the backend is asked for its tools no more, or again, and what
// asks is made at the start.
func changesSources(path string, running, to *configv1.Config) bool {
	return path == "catalog.descriptors" && (len(running.GetCatalog().GetDescriptors()) == 0) != (len(to.GetCatalog().GetDescriptors()) == 0)
}

// apply puts the fields that change now into use. What can fail comes first, so
// that an error has changed nothing.
func (r *reloader) apply(ctx context.Context, running, next *configv1.Config, now []string) error {
	a := r.app
	scope, scopeErr := policy.ParseScope(orElse(next.GetGate(), policy.Marked.String()))
	trust, trustErr := policy.ParseTrust(next.GetTrust())
	level, levelErr := zapcore.ParseLevel(orElse(next.GetLog().GetLevel(), "info"))
	calls, callsErr := bridge.ParseCallLogMode(orElse(next.GetLog().GetCalls(), "all"))
	_, callersErr := newGate(next)
	if err := errors.Join(scopeErr, trustErr, levelErr, callsErr, callersErr); err != nil {
		return err
	}
	if slices.ContainsFunc(now, func(path string) bool { return path == "tools" || strings.HasPrefix(path, "catalog.") }) {
		if err := r.applyCatalog(ctx, running, next); err != nil {
			return err
		}
	}
	if err := a.gate.Rule(scope, next.GetTrustedCallers()); err != nil {
		return err // not reached: they were parsed above
	}
	if slices.Contains(now, "trust") {
		// Not otherwise: what an operator has set meanwhile stays.
		from := a.gate.Set(trust)
		a.log.Info("trust changed", zap.String("who", "configuration"), zap.Stringer("from", from), zap.Stringer("to", trust), zap.Uint64("changes", a.gate.Changes()))
	}
	a.limiter.SetRates(rate(next.GetLimits().GetCallerRate()), rate(next.GetLimits().GetToolRate()))
	r.level.SetLevel(level)
	a.calls.Set(calls, int(next.GetLog().GetMaxCallsPerSecond()))
	a.watcher.Every(next.GetReloadInterval().AsDuration())
	return nil
}

// applyCatalog makes a catalog of the new settings, and uses it where it can be
// made.
func (r *reloader) applyCatalog(ctx context.Context, running, next *configv1.Config) error {
	sources, build, err := r.app.catalogPlan(next)
	if err != nil {
		return err
	}
	r.descriptors.Watch(next.GetCatalog().GetDescriptors()...)
	if err := r.app.live.Reconfigure(ctx, sources, build); err != nil {
		r.descriptors.Watch(running.GetCatalog().GetDescriptors()...)
		return err
	}
	return nil
}

// settle remembers what is in use now, and says what has changed and what waits.
func (r *reloader) settle(next *configv1.Config, now, later []string) reload.Outcome {
	r.mu.Lock()
	before := r.waiting
	r.running, r.waiting, r.said = next, later, ""
	r.mu.Unlock()
	if len(now) > 0 {
		r.app.log.Info("configuration changed", zap.Strings("fields", now))
	}
	for _, path := range later {
		if !slices.Contains(before, path) {
			r.app.log.Warn(path+": change needs a restart; keeping the current value", zap.String("field", path))
		}
	}
	for _, path := range before {
		if !slices.Contains(later, path) && !slices.Contains(now, path) {
			r.app.log.Info(path+": matches the value in use again; no restart needed", zap.String("field", path))
		}
	}
	switch {
	case len(later) == 0 && len(now) == 0:
		return reload.Unchanged
	case len(later) == 0:
		return reload.Applied
	case len(now) > 0:
		return reload.Partial
	}
	return reload.Refused
}

// reloadDescriptors loads the catalog again after a descriptor file changed.
func (r *reloader) reloadDescriptors(ctx context.Context) reload.Outcome {
	if len(r.current().GetCatalog().GetDescriptors()) == 0 {
		return reload.Unchanged // reflection has an interval of its own
	}
	live := r.app.live
	before := live.Current()
	err := live.Refresh(ctx)
	switch {
	case err == nil:
		r.clear()
	case !catalog.IsPermanent(err):
		r.sayOnce("descriptors not usable yet; keeping the last good catalog and retrying", err)
		return reload.Deferred
	default:
		r.sayOnce("descriptors rejected; keeping the last good catalog", err)
		return reload.Refused
	}
	if now := live.Current(); before != nil && before.Fingerprint() == now.Fingerprint() {
		return reload.Unchanged
	}
	if r.file != nil && r.file.Status().Failing() {
		r.file.Again() // what it lacked may be there now
	}
	return reload.Applied
}

// refuseFaults logs every fault of a file, each in a line of its own, as it would
// be said at the start.
func (r *reloader) refuseFaults(err error) {
	var faults *config.Error
	if !errors.As(err, &faults) {
		r.sayOnce("configuration rejected; keeping the last good one", err)
		return
	}
	r.app.log.Error("configuration rejected; keeping the last good one", zap.Int("faults", len(faults.Faults)+faults.Omitted))
	for _, f := range faults.Faults {
		r.app.log.Error("configuration error", zap.Stringer("fault", f))
	}
}

// sayOnce logs an error unless it is the one that was logged last.
func (r *reloader) sayOnce(message string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text := message + err.Error(); text != r.said {
		r.said = text
		r.app.log.Error(message, zap.Error(err))
	}
}

func (r *reloader) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = ""
}

func (r *reloader) current() *configv1.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running
}

// fieldsWaiting are the fields of the file that take effect with the next start.
func (r *reloader) fieldsWaiting() []string {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.waiting)
}

// reloadChecks say how the files are doing, for /readyz?verbose. They decide
// nothing: what is in use is good.
func (a *app) reloadChecks() []admin.Check {
	var out []admin.Check
	for _, s := range a.watcher.Status() {
		if s.Files == 0 {
			continue
		}
		check := admin.Check{Name: "reload " + s.Group, OK: !s.Failing(), Info: true, Detail: "not changed since the start"}
		if !s.Tried.IsZero() {
			check.Detail = fmt.Sprintf("read again at %s: %v", s.Tried.UTC().Format("2006-01-02T15:04:05Z"), s.Last)
		}
		if s.Group == "configuration" {
			if waiting := a.reloader.fieldsWaiting(); len(waiting) > 0 {
				check.OK = false
				check.Detail += "; needs a restart: " + strings.Join(waiting, ", ")
			}
		}
		out = append(out, check)
	}
	return out
}

// reloadMetrics are the same for a scrape.
func (a *app) reloadMetrics() *metrics.Reloads {
	return &metrics.Reloads{Status: a.watcher.Status, Refused: func() int { return len(a.reloader.fieldsWaiting()) }}
}
