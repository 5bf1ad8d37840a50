// SPDX-License-Identifier: Apache-2.0

package reconfigure_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/server/reconfigure"
	"github.com/outrigger-mcp/outrigger/internal/server/upstream"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// interval is how often files are looked at in these tests.
const interval = 5 * time.Second

// running is what a reload changes, as a sidecar has it, inside a bubble. The
// configuration comes from a file, and tools from memory.
type running struct {
	*reconfigure.Reloader
	t       *testing.T
	options reconfigure.Options
	file    string
	watcher *reload.Watcher
	live    *catalog.Live
	gate    *policy.Gate
	limiter *policy.Limiter
	level   zap.AtomicLevel
	log     *observer.ObservedLogs
	// isAway has the backend not answer.
	isAway atomic.Bool
	// hangs, if set, has the backend not answer before it is closed. loads are how many loads are under way.
	hangs atomic.Pointer[chan struct{}]
	loads atomic.Int32
}

// hang has the backend take its time until release is called.
func (r *running) hang() (release func()) {
	until := make(chan struct{})
	r.hangs.Store(&until)
	return func() {
		r.hangs.Store(nil)
		close(until)
	}
}

// Name implements [source.Source].
func (r *running) Name() string { return "a backend" }

// Load implements [source.Source]: it brings nothing, or fails for now.
func (r *running) Load(ctx context.Context) (*source.Loaded, error) {
	if r.loads.Add(1) > 1 {
		r.t.Error("two loads at once")
	}
	defer r.loads.Add(-1)
	if until := r.hangs.Load(); until != nil {
		select {
		case <-*until:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if r.isAway.Load() {
		return nil, &source.Error{Source: r.Name(), Step: "connect", Cause: errors.New("it is away")}
	}
	return &source.Loaded{}, nil
}

// load reads the configuration as the command does.
func (r *running) load() (*config.Config, error) {
	return config.Load(config.Serve, nil, []string{"OUTRIGGER_CONFIG=" + r.file}, config.Options{Checks: server.Checks(false)})
}

// plan says where tools come from, as the assembly does. The backend represents what is on servers.
func (r *running) plan(cfg *configv1.Config) ([]source.Source, catalog.BuildOptions, error) {
	more := []source.Source{r}
	if c := cfg.GetCatalog(); slices.ContainsFunc(c.GetDescriptors(), source.IsRemote) {
		cfg = proto.CloneOf(cfg)
		cfg.Catalog.Descriptors = slices.DeleteFunc(cfg.Catalog.Descriptors, source.IsRemote)
	}
	if len(cfg.GetCatalog().GetDescriptors()) == 0 {
		more = append(more, mcptest.Source("PlaceOrder"))
	}
	return upstream.Plan(cfg, upstream.Origins{More: more})
}

// always is what every file of a test says first.
const always = "backend: {url: 'grpc://127.0.0.1:1'}\n"

// start makes what runs with this file, and watches the file.
func start(t *testing.T, text string) *running {
	t.Helper()
	r := prepare(t, text)
	r.watch()
	return r
}

// prepare makes what runs with this file.
func prepare(t *testing.T, text string) *running {
	t.Helper()
	core, logged := observer.New(zapcore.DebugLevel)
	r := &running{
		t: t, file: filepath.Join(t.TempDir(), "sidecar.yaml"), watcher: reload.NewWatcher(interval),
		level: zap.NewAtomicLevel(), log: logged,
	}
	r.write(r.file, always+text)
	cfg, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	sources, build, err := r.plan(cfg.Config)
	if err != nil {
		t.Fatal(err)
	}
	r.live = catalog.NewLive(sources, catalog.LiveOptions{Build: build})
	if err := r.live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.gate, err = policy.GateOf(cfg.Config); err != nil {
		t.Fatal(err)
	}
	r.limiter = policy.NewLimiter(cfg.GetLimits())
	mode, err := telemetry.ParseCallLogMode(cfg.GetLog().GetCalls())
	if err != nil {
		t.Fatal(err)
	}
	calls := telemetry.NewCallLog(mode, int(cfg.GetLog().GetMaxCallsPerSecond()))
	r.options = reconfigure.Options{
		Config: cfg.Config, Again: reconfigure.Reread{File: r.file, Load: r.load}, Level: r.level, Log: zap.New(core), Watcher: r.watcher,
		Live: r.live, Rebuild: r.rebuild, Gate: r.gate, Limiter: r.limiter, Calls: calls, Refresh: func(string) {},
	}
	return r
}

// rebuild makes the catalog anew.
func (r *running) rebuild(ctx context.Context, _, next *configv1.Config) error {
	sources, build, err := r.plan(next)
	if err != nil {
		return err
	}
	return r.live.Reconfigure(ctx, sources, build)
}

// watch has the files watched until the bubble ends.
func (r *running) watch() {
	r.Reloader = reconfigure.New(r.options)
	r.WatchConfiguration()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	r.t.Cleanup(func() {
		stop()
		<-ended
	})
}

func (r *running) write(path, text string) {
	r.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// configure replaces the file, and waits until it has been looked at.
func (r *running) configure(text string) {
	r.t.Helper()
	r.log.TakeAll()
	r.write(r.file, always+text)
	r.pass()
}

// pass waits until the files have been looked at.
func (r *running) pass() {
	time.Sleep(2 * interval)
	synctest.Wait()
}

// last is what came of the last reading of a group of files.
func (r *running) last(group string) string {
	for _, s := range r.watcher.Status() {
		if s.Group == group && !s.Tried.IsZero() {
			return s.Last.String()
		}
	}
	return "not read"
}

// calls reports whether a caller may call a tool now: whether it is there, whether the
// gate lets it pass and whether its rate does.
func (r *running) calls(caller, name string) string {
	tool, ok := r.live.Current().Lookup(name)
	switch {
	case !ok:
		return "no tool"
	case r.gate.Check(tool, caller) != nil:
		return "blocked"
	case r.limiter.Check(caller, name) != nil:
		return "limited"
	}
	return "called"
}
