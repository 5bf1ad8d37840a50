// SPDX-License-Identifier: Apache-2.0

package mcptest

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/demo"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// Parts are what is around a sidecar without a backend process: see [Pipe].
type Parts struct {
	// Tools are loaded tools, such as those of [Memory]; nil are those of From, else those of Memory.
	Tools *Tools
	// From are where tools come from instead: they are made as the configuration says.
	From source.Source
	// Behind is the URL of a backend. Without it, Backend answers RPCs; nil answers none. Native answers what a backend that implements the tool API is asked.
	Behind  string
	Backend bridge.Upstream
	Native  bridge.Native
	// Configure changes the configuration. Values that no configuration may have are taken as they are.
	Configure func(*configv1.Config)
	Adjust    server.Adjust
	Log       *zap.Logger
	// Change changes how the sidecar is assembled.
	Change func(*server.Options)
	// Once: the process ends after one call, and holds nothing.
	Once bool
}

// Tools are the tools that a sidecar has at a time, and how they change.
type Tools = catalog.Live

// Pipe makes a sidecar that opens no connection, starts no housekeeping and waits for nothing, so that it can be made
// in a synctest bubble, and often. Everything else is as in [Start].
func Pipe(t testing.TB, p Parts) *Rig {
	t.Helper()
	off := "off"
	rig := &Rig{backend: func(c *configv1.Config) {
		c.Backend.Url, c.Catalog.Native, c.Catalog.Reflection = cmp.Or(p.Behind, "http://127.0.0.1:1"), &off, &off
	}}
	options := server.Options{Log: p.Log, Version: version, Embedded: true, Once: p.Once, Adjust: p.Adjust}
	options.Adjust.Backend = func(rpcs bridge.Upstream, _ bridge.Native) (bridge.Upstream, bridge.Native) {
		switch {
		case p.Backend != nil:
			rpcs = p.Backend
		case p.Behind == "":
			rpcs = bridge.NoBackend{}
		}
		return rpcs, p.Native
	}
	switch {
	case p.Tools != nil:
		options.Adjust.Live = p.Tools
	case p.From != nil:
		options.Sources = []source.Source{p.From}
	default:
		options.Adjust.Live = Memory(t)
	}
	if p.Change != nil {
		p.Change(&options)
	}
	app, err := server.New(t.Context(), rig.configured(p.Configure), options)
	if err != nil {
		t.Fatalf("assemble the sidecar: %v", err)
	}
	rig.end = sync.OnceFunc(func() {
		app.Bridge().EndListens()
		app.CloseListeners()
		if err := app.Close(context.Background()); err != nil {
			t.Errorf("end the sidecar: %v", err)
		}
	})
	t.Cleanup(rig.end)
	if p.From != nil {
		if _, err := app.Load(t.Context()); err != nil {
			t.Fatalf("load the catalog: %v", err)
		}
	}
	rig.app, rig.Bridge, rig.Live = app, app.Dialects(), app.Live()
	rig.prepareOnce = sync.OnceValue(func() error { return app.Prepare(func() {}) })
	return rig
}

// Files brings the tools of descriptors.
func Files(set *descriptorpb.FileDescriptorSet, services ...string) source.Source {
	return source.NewDescriptors("memory", set, services...)
}

// Demo returns the demo service.
func Demo() (http.Handler, error) { return demo.Handler(demo.Options{}) }

// FileOf brings the tools of a descriptor file.
func FileOf(path string) source.Source { return source.NewDescriptorFile(path, source.Limits{}) }

// Declared brings the tools that a backend declares itself.
func Declared(description *outriggerv1.ServerDescription, tools ...*outriggerv1.Tool) source.Source {
	return source.NewNative("memory", func(context.Context) (*source.Native, error) {
		return &source.Native{Description: description, Tools: tools}, nil
	})
}

// Serving brings the tools of those of the demo's services that a function names at each load.
func Serving(services func() []string) source.Source { return serving(services) }

type serving func() []string

// Name implements [source.Source].
func (serving) Name() string { return "serving" }

// Load implements [source.Source].
func (s serving) Load(ctx context.Context) (*source.Loaded, error) {
	loaded, err := Source().Load(ctx)
	if err == nil {
		loaded.Services = s()
	}
	return loaded, err
}

// Loading returns tools that nothing loads before their Refresh.
func Loading(from source.Source) *Tools {
	return catalog.NewLive([]source.Source{from}, catalog.LiveOptions{})
}

// Named is another name for an RPC, with its own schemas; "" is no output schema.
type Named struct {
	Name, Service, Method, Input, Output string
	// IsHarmless: it says that it destroys nothing.
	IsHarmless bool
}

// Register registers a name in a catalog that the test has for itself.
func Register(t testing.TB, tools *Tools, n Named) {
	t.Helper()
	if shared, _ := memory(); tools == shared {
		t.Fatal("other tests share this catalog: take OwnMemory")
	}
	r := catalog.Registration{
		Name: n.Name, Description: "Another name.", InputSchema: []byte(n.Input), Binding: catalog.Binding{Service: n.Service, Method: n.Method},
	}
	if n.Output != "" {
		r.OutputSchema = []byte(n.Output)
	}
	if n.IsHarmless {
		r.Annotations.Destructive = new(bool)
	}
	if _, err := tools.Put(context.Background(), r); err != nil {
		t.Fatal(err)
	}
}

// Method is an RPC of the backend.
type Method = catalog.Method

// Answer is what an RPC is answered with.
type Answer = bridge.Answer

// Streaming is a backend of RPCs that answer with a stream: it passes each message on.
type Streaming func(ctx context.Context, each func(message []byte) error) *errmap.Error

// Call implements [bridge.Upstream].
func (s Streaming) Call(context.Context, *Method, []byte, http.Header) (*Answer, *errmap.Error) {
	return nil, errmap.New(errmap.Unavailable)
}

// Stream implements [bridge.Upstream].
func (s Streaming) Stream(ctx context.Context, _ *Method, _ []byte, _ http.Header, each func([]byte) error) (*Answer, *errmap.Error) {
	return &Answer{}, s(ctx, each)
}

// Open implements [bridge.Upstream].
func (s Streaming) Open(context.Context, *Method, http.Header) (bridge.BackendStream, *errmap.Error) {
	return nil, errmap.New(errmap.Unavailable)
}

// Speaking is a backend that implements the tool API by two functions; a nil one fails.
type Speaking struct {
	Run    func(events func(*outriggerv1.ToolEvent)) *outriggerv1.ToolOutcome
	Answer func(ctx context.Context, question proto.Message, header http.Header) (proto.Message, *errmap.Error)
}

// CallTool implements [bridge.Native].
func (s Speaking) CallTool(_ context.Context, _ *outriggerv1.ToolCall, _ http.Header, events func(*outriggerv1.ToolEvent)) (*outriggerv1.ToolOutcome, *Answer, *errmap.Error) {
	if s.Run == nil {
		return nil, nil, errmap.New(errmap.InternalError)
	}
	out := s.Run(events)
	if out == nil {
		return nil, nil, errmap.New(errmap.ToolExecutionFailed)
	}
	return out, &Answer{}, nil
}

// Ask implements [bridge.Native].
func (s Speaking) Ask(ctx context.Context, question proto.Message, header http.Header) (proto.Message, *Answer, *errmap.Error) {
	if s.Answer == nil {
		return nil, nil, errmap.New(errmap.InternalError)
	}
	out, err := s.Answer(ctx, question, header)
	return out, &Answer{}, err
}

// Between has a function stand between the sidecar and the RPCs of its backend.
func Between(f func(next Upstream) Upstream) server.Adjust {
	return server.Adjust{Backend: func(next bridge.Upstream, own bridge.Native) (bridge.Upstream, bridge.Native) {
		return f(next.Call), own
	}}
}

// Traced has a sidecar make spans, with payloads. Steps have spans where they take longer than threshold.
func Traced(provider telemetry.Provider, threshold time.Duration) func(*server.Options) {
	return func(o *server.Options) {
		o.Tracer = telemetry.NewTracer(telemetry.TracerOptions{Provider: provider, Threshold: threshold, Payloads: true})
	}
}

// SealedAt has the clock of what is sealed be the test's.
func SealedAt(now *time.Time) server.Adjust {
	return server.Adjust{Seal: func(o *keys.SealerOptions) { o.Now = func() time.Time { return *now } }}
}

// Pending bounds what a subscription may have pending, and how many subscriptions there may be; 0 is the default.
func Pending(changes, subscriptions int) server.Adjust {
	return server.Adjust{Feed: func(o *notify.FeedOptions) {
		o.MaxPending = changes
		if subscriptions > 0 {
			o.MaxSubscribers = subscriptions
		}
	}}
}

// Metrics returns the page of metrics.
func (r *Rig) Metrics(t testing.TB) string {
	t.Helper()
	r.prepare(t)
	w := httptest.NewRecorder()
	r.app.Operators().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// configured is the configuration of `sidecar serve` without listeners and files, unchecked.
func (r *Rig) configured(configure func(*configv1.Config)) *configv1.Config {
	c := config.Defaults(config.Serve)
	off := proto.String("off")
	c.Listeners.Listen, c.Listeners.Admin, c.Listeners.Health, c.Record.Dir = off, off, off, off
	c.Limits.DrainGrace = durationpb.New(drainGrace)
	c.Limits.MaxQueueWait = durationpb.New(time.Minute) // a busy machine is no reason to refuse calls
	r.backend(c)
	if configure != nil {
		configure(c)
	}
	return c
}
