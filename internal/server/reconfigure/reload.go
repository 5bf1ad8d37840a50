// SPDX-License-Identifier: Apache-2.0

// Package reconfigure applies a changed configuration at run time, as far as possible,
// and reloads the catalog when a descriptor file changes.
package reconfigure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// Reread reloads the configuration from its sources: the same flags and variables, and
// the current file.
type Reread struct {
	// File is the configuration file, empty if there is none.
	File string
	Load func() (*config.Config, error)
}

// Options are the parts that a [Reloader] changes, and its sources.
type Options struct {
	// Config is the current configuration.
	Config *configv1.Config
	// Again reads flags, environment and file, as at startup.
	Again Reread
	// Hears is set if SIGHUP triggers a reload.
	Hears bool
	// Level is the log level.
	Level   zap.AtomicLevel
	Log     *zap.Logger
	Watcher *reload.Watcher
	Live    *catalog.Live
	// Rebuild makes the catalog anew by another configuration, or fails and changes nothing.
	Rebuild func(ctx context.Context, running, next *configv1.Config) error
	Gate    *policy.Gate
	Limiter *policy.Limiter
	Calls   *telemetry.CallLog
	// Rules makes the policy rules of a configuration, and returns what puts them into use.
	Rules func(*configv1.Config) (use func(), err error)
	// Changed learns of changes of trust, for the audit trail.
	Changed func(trail.Change)
	// Refresh triggers a load of the catalog, without waiting for it.
	Refresh func(why string)
}

// Reloader applies a changed configuration at run time, as far as possible. Only the
// watcher calls it; its status is safe for concurrent use. Make one with [New].
type Reloader struct {
	opts Options
	// file is nil where there is no configuration file.
	file, descriptors, lock *reload.Group

	mu sync.Mutex
	// running is what is in use. It differs from the file in the fields that wait
	// for a restart, and in all while the file is faulty.
	running *configv1.Config
	waiting []string
	// said is what was logged last of a reload that is tried again and again.
	said string

	// described is the configuration whose descriptor files are watched. It is the next one while that is tried.
	described atomic.Pointer[configv1.Config]
}

// New watches the configuration and the descriptor files. The parts of o must be in
// use already.
func New(o Options) *Reloader {
	r := &Reloader{opts: o, running: o.Config}
	r.described.Store(o.Config)
	r.descriptors = o.Watcher.AddTree("descriptors", r.reloadDescriptors, func() []string { return descriptorFiles(r.described.Load()) }).Slow()
	r.lock = o.Watcher.Add("catalog_lock", r.reloadLock, lockFiles(o.Config)...).Slow()
	return r
}

// WatchConfiguration watches the configuration file, if there is one. Call it after
// all other files have been added to the watcher.
func (r *Reloader) WatchConfiguration() {
	if r.opts.Again.File == "" {
		return
	}
	r.file = r.opts.Watcher.Add("configuration", r.configuration, r.opts.Again.File).Slow()
	// The file was read before it was watched.
	if now, err := r.opts.Again.Load(); err != nil || len(reload.Diff(r.opts.Config, now.Config)) > 0 {
		r.opts.Watcher.Now()
	}
}

// Run polls the files until ctx ends.
func (r *Reloader) Run(ctx context.Context) {
	if r.opts.Hears {
		hangup := make(chan os.Signal, 1)
		signal.Notify(hangup, syscall.SIGHUP)
		defer signal.Stop(hangup)
		var heard sync.WaitGroup
		defer heard.Wait()
		heard.Go(func() {
			for {
				select {
				case <-hangup:
					r.opts.Log.Info("SIGHUP: reloading all files and the catalog")
					r.opts.Watcher.Now()
					r.opts.Refresh("SIGHUP")
				case <-ctx.Done():
					return
				}
			}
		})
	}
	r.opts.Watcher.Run(ctx)
}

// within bounds a load of the catalog of this configuration, which may ask the backend and the servers of descriptors.
func within(ctx context.Context, cfg *configv1.Config) (context.Context, context.CancelFunc) {
	limit := reload.ReadTimeout
	for _, one := range config.Backends(cfg) {
		limit += source.FetchTime(one.GetCatalog())
	}
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("the catalog was not loaded within %v: %w", limit, context.DeadlineExceeded))
}

// configuration reads the configuration again and puts into use what can be.
func (r *Reloader) configuration(ctx context.Context) reload.Outcome {
	cfg, err := r.opts.Again.Load()
	if err != nil {
		r.refuseFaults(err)
		return reload.Refused
	}
	running := r.current()
	now, later := split(running, cfg.Config)
	next := reload.Merge(running, cfg.Config, now)
	if err := r.apply(ctx, running, next, now); err != nil {
		if !catalog.IsPermanent(err) && ctx.Err() == nil { // otherwise the process ends
			r.sayOnce("configuration not usable yet; keeping the last good one and retrying", err)
			return reload.Deferred
		}
		r.sayOnce("configuration rejected; keeping the last good one", err)
		return reload.Refused
	}
	for _, w := range cfg.Warnings {
		r.opts.Log.Warn("configuration warning", zap.Stringer("warning", w))
	}
	return r.recordOutcome(next, now, later)
}

// split parts the fields that differ into those that change now and those that
// wait for a restart.
func split(running, to *configv1.Config) (now, later []string) {
	for _, path := range reload.Diff(running, to) {
		if config.MayChange(path) && !changesSources(path, running, to) {
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
	if source.AddsComments(running.GetCatalog()) {
		return false
	}
	return path == "catalog.descriptors" && (len(running.GetCatalog().GetDescriptors()) == 0) != (len(to.GetCatalog().GetDescriptors()) == 0)
}

// apply puts the fields that change now into use. What can fail comes first, so
// that an error has changed nothing.
func (r *Reloader) apply(ctx context.Context, running, next *configv1.Config, now []string) error {
	o := r.opts
	scope, scopeErr := policy.ParseScope(next.GetGate())
	trust, trustErr := policy.ParseTrust(next.GetTrust())
	level, levelErr := zapcore.ParseLevel(next.GetLog().GetLevel())
	calls, callsErr := telemetry.ParseCallLogMode(next.GetLog().GetCalls())
	_, callersErr := policy.GateOf(next)
	useRules, rulesErr := r.rules(next, now)
	if err := errors.Join(scopeErr, trustErr, levelErr, callsErr, callersErr, rulesErr); err != nil {
		return err
	}
	if marksChange(running, scope) || slices.ContainsFunc(now, func(path string) bool {
		return path == "tools" || strings.HasPrefix(path, "services") || strings.HasPrefix(path, "catalog.")
	}) {
		if err := r.applyCatalog(ctx, running, next); err != nil {
			return err
		}
	}
	useRules()
	if err := o.Gate.Rule(scope, next.GetTrustedCallers()); err != nil {
		return err // not reached: they were parsed above
	}
	if slices.Contains(now, "trust") {
		// Not otherwise: what an operator has set meanwhile stays.
		from := o.Gate.Set(trust)
		o.Log.Info("trust changed", zap.String("who", "configuration"), zap.Stringer("from", from), zap.Stringer("to", trust), zap.Uint64("changes", o.Gate.Changes()))
		if o.Changed != nil {
			o.Changed(trail.Change{Kind: "trust", Who: trail.OfFile(), Before: from.String(), After: trust.String()})
		}
	}
	o.Limiter.SetRates(next.GetLimits())
	o.Level.SetLevel(level)
	o.Calls.Set(calls, int(next.GetLog().GetMaxCallsPerSecond()))
	o.Watcher.Every(next.GetReloadInterval().AsDuration())
	return nil
}

// marksChange reports whether tools are marked destructive by other facts than before: that needs another catalog.
func marksChange(running *configv1.Config, to policy.Scope) bool {
	from, err := policy.ParseScope(running.GetGate())
	return err == nil && (from == policy.Marked) != (to == policy.Marked)
}

// rules makes the policy rules, if they change now.
func (r *Reloader) rules(next *configv1.Config, now []string) (use func(), err error) {
	changes := func(path string) bool { return path == "access.policy" || strings.HasPrefix(path, "access.policy.") }
	if !slices.ContainsFunc(now, changes) {
		return func() {}, nil
	}
	return r.opts.Rules(next)
}

// applyCatalog makes a catalog of the new settings, and uses it where it can be
// made.
func (r *Reloader) applyCatalog(ctx context.Context, running, next *configv1.Config) error {
	r.watchDescriptors(next)
	r.lock.Watch(lockFiles(next)...)
	ctx, cancel := within(ctx, next)
	defer cancel()
	if err := r.opts.Rebuild(ctx, running, next); err != nil {
		r.watchDescriptors(running)
		r.lock.Watch(lockFiles(running)...)
		return err
	}
	return nil
}

// watchDescriptors watches the descriptor files that a configuration names.
func (r *Reloader) watchDescriptors(cfg *configv1.Config) {
	r.described.Store(cfg)
	r.descriptors.Watch(descriptorFiles(cfg)...)
}

// descriptorFiles are the descriptor files of all backends.
func descriptorFiles(cfg *configv1.Config) (out []string) {
	for _, one := range config.Backends(cfg) {
		out = append(out, source.DescriptorFiles(one.GetCatalog())...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// lockFiles are the files of the catalog lock: one, or none.
func lockFiles(cfg *configv1.Config) []string {
	if path := cfg.GetCatalog().GetLockFile(); path != "" {
		return []string{path}
	}
	return nil
}

// reloadLock compares the catalog with a lock file that changed. A file that cannot be
// read leaves the last good one in use.
func (r *Reloader) reloadLock(ctx context.Context) reload.Outcome {
	running := r.current()
	if len(lockFiles(running)) == 0 {
		return reload.Unchanged
	}
	reviewed, err := lock.Read(running.GetCatalog().GetLockFile())
	if err != nil {
		r.sayOnce("catalog lock rejected; keeping the last good one", err)
		return reload.Refused
	}
	ctx, cancel := within(ctx, running)
	defer cancel()
	if err := r.opts.Rebuild(ctx, running, running); err != nil {
		r.sayOnce("catalog lock not usable yet; keeping the last good one and retrying", err)
		return reload.Deferred
	}
	r.clear()
	r.opts.Log.Info("catalog lock reloaded", zap.Int("tools", reviewed.Len()))
	return reload.Applied
}

// recordOutcome remembers what is in use now, and says what has changed and what waits.
func (r *Reloader) recordOutcome(next *configv1.Config, now, later []string) reload.Outcome {
	r.mu.Lock()
	before := r.waiting
	r.running, r.waiting, r.said = next, later, ""
	r.mu.Unlock()
	if len(now) > 0 {
		r.opts.Log.Info("configuration changed", zap.Strings("fields", now))
	}
	for _, path := range later {
		if !slices.Contains(before, path) {
			r.opts.Log.Warn(path+": change needs a restart; keeping the current value", zap.String("field", path))
		}
	}
	for _, path := range before {
		if !slices.Contains(later, path) && !slices.Contains(now, path) {
			r.opts.Log.Info(path+": matches the value in use again; no restart needed", zap.String("field", path))
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
func (r *Reloader) reloadDescriptors(ctx context.Context) reload.Outcome {
	running := r.current()
	var names []string
	for _, c := range config.Backends(running) {
		if len(c.GetCatalog().GetDescriptors()) > 0 {
			names = append(names, c.GetBackend().GetName())
		}
	}
	if len(names) == 0 {
		return reload.Unchanged // reflection has its own interval
	}
	ctx, cancel := within(ctx, running)
	defer cancel()
	live := r.opts.Live
	before := live.Current()
	err := live.Refresh(ctx, names...)
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

// refuseFaults logs every fault of a file, each in its own line, as it would
// be said at the start.
func (r *Reloader) refuseFaults(err error) {
	var faults *config.Error
	if !errors.As(err, &faults) {
		r.sayOnce("configuration rejected; keeping the last good one", err)
		return
	}
	r.opts.Log.Error("configuration rejected; keeping the last good one", zap.Int("faults", len(faults.Faults)+faults.Omitted))
	for _, f := range faults.Faults {
		r.opts.Log.Error("configuration error", zap.Stringer("fault", f))
	}
}

// sayOnce logs an error unless it is the one that was logged last.
func (r *Reloader) sayOnce(message string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text := message + err.Error(); text != r.said {
		r.said = text
		r.opts.Log.Error(message, logkey.Error(err))
	}
}

func (r *Reloader) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = ""
}

func (r *Reloader) current() *configv1.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running
}

// FieldsWaiting returns the fields of the file that take effect at the next start.
func (r *Reloader) FieldsWaiting() []string {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.waiting)
}
