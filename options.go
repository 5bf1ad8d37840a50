// SPDX-License-Identifier: Apache-2.0

package outrigger

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// Options configure a [Sidecar]. Backend, Handler or Config.Backends is required; all other
// fields may be zero.
type Options struct {
	// Backend is the URL of the tool service: http://HOST:PORT (gRPC, Connect or gRPC-Web,
	// detected by probing), grpc://, connect+http://, grpcweb+http://, https:// and so on,
	// unix:///PATH or grpc+unix:///PATH.
	Backend string
	// Handler is a tool service in this process, instead of Backend. It is called over
	// in-memory connections: no port is opened.
	Handler http.Handler

	// Sources are the sources of tools. If empty, the sidecar uses the backend's server
	// reflection, and the tools that the backend declares itself
	// (outrigger.v1.ToolService).
	Sources []Source

	Policy Policy
	Limits Limits
	Hooks  Hooks

	// Authenticator authenticates callers. If it is nil, TokensFile is used; without
	// either, all callers are accepted.
	Authenticator Authenticator
	// TokensFile is a callers file, as for the flag --tokens. It is reloaded when it
	// changes.
	TokensFile string

	// AllowedHosts are host names accepted in addition to those of the loopback interface
	// ("tools.example", or with a port). AnyHost accepts all hosts: set it only behind a
	// proxy that checks Host, or if callers are authenticated.
	AllowedHosts []string
	AnyHost      bool
	// AllowedOrigins are origins ("https://console.example") whose web pages may call.
	AllowedOrigins []string
	// TLS declares that the server in front speaks HTTPS, so that origins must be https.
	TLS bool

	// Name, Version and Instructions describe the server to clients.
	Name, Version, Instructions string
	// Logger receives the log; nil discards it.
	Logger *slog.Logger
	// TracerProvider makes the spans of requests. If it is nil, there are none, and the
	// caller's trace context goes to the backend unchanged. The program owns it: the sidecar
	// neither flushes nor closes it, and sets nothing global.
	TracerProvider TracerProvider
	// Propagator reads and writes trace context; nil is W3C Trace Context.
	Propagator Propagator

	// Config has every setting of the command, for settings without a field here; fields
	// here override it. Its Backends are several tool services behind one sidecar, each with its
	// name, as in the file. It is not modified. Its listeners, demo, replay and mock are ignored, and of
	// its telemetry everything about exports.
	Config *configv1.Config
}

// Policy selects the tools, and who may run them.
type Policy struct {
	// Include and Exclude are globs over methods ("shop.v1.*", "shop.v1.Shop/Buy").
	Include, Exclude []string
	// Trusted allows every caller to run destructive tools; TrustedCallers allows only
	// some.
	Trusted        bool
	TrustedCallers []string
	// Gate defines which tools count as destructive: "verbs" (the default: those that are
	// declared so, and those whose names say so unless they are declared otherwise),
	// "marked" (declared alone), "writes" or "unproven".
	Gate string
}

// Limits limit what callers may use. Zero fields have the defaults of the command.
type Limits struct {
	// Timeout is the maximum duration of one call.
	Timeout time.Duration
	// MaxMessageBytes is the maximum size of a caller's message, MaxResultBytes that of a
	// result.
	MaxMessageBytes, MaxResultBytes int64
	// MaxInFlight is the maximum number of requests in flight, MaxConcurrentCalls that of
	// concurrent backend calls.
	MaxInFlight, MaxConcurrentCalls int
	// MaxStreams bounds streams that last until a side ends them, MaxSessions sessions of
	// legacy MCP clients.
	MaxStreams, MaxSessions int
	// CallerRate and ToolRate are maximum calls per second, per caller and per tool.
	CallerRate, ToolRate float64
	// ReadBodyTimeout is the timeout for reading the body of a request, WriteTimeout the
	// maximum time without progress of a response.
	ReadBodyTimeout, WriteTimeout time.Duration
	// DrainGrace is the grace period of calls in flight in a drain.
	DrainGrace time.Duration
}

// TracerProvider is OpenTelemetry's trace.TracerProvider.
type TracerProvider = telemetry.Provider

// Propagator is OpenTelemetry's propagation.TextMapPropagator.
type Propagator = telemetry.Propagator

// Hooks are called on events. They must return at once, and may be called concurrently.
// Nil hooks are not called.
type Hooks struct {
	// Call is called at the end of each tool call, on every edge.
	Call func(Call)
	// Tools is called when the tools have been loaded, and after each change.
	Tools func([]Tool)
}

// Call describes a finished call.
type Call struct {
	// Tool is the canonical name; "" if the tool does not exist.
	Tool string
	// Edge is the edge of the call: "mcp", "rpc", "connect", "grpc", "grpc-web", "typed",
	// or "other" for a call from Go.
	Edge string
	// Code is the canonical code (docs/errors.md); "" for success.
	Code string
	// Duration is the duration of the call, Upstream the part of it spent in the backend.
	Duration, Upstream time.Duration
}

// Authenticator authenticates the caller of a request. Return [NewIdentity] for an
// authenticated caller, and [Refuse] for credentials that are not accepted. Any other
// error is answered UNAVAILABLE.
type Authenticator = identity.Authenticator

// Credentials are what a caller presents: a bearer token, or the names of a client
// certificate.
type Credentials = identity.Credentials

// Identity is an authenticated caller with its permissions.
type Identity = identity.Identity

// Grant is the set of permissions of a caller.
type Grant = identity.Grant

// AuthenticatorFunc adapts a function to an [Authenticator].
type AuthenticatorFunc func(ctx context.Context, shown Credentials) (*Identity, error)

// Authenticate implements [Authenticator].
func (f AuthenticatorFunc) Authenticate(ctx context.Context, shown Credentials) (*Identity, error) {
	return f(ctx, shown)
}

// NewIdentity returns the identity for a grant.
func NewIdentity(g Grant) *Identity { return identity.NewIdentity(g) }

// Refuse returns the error for credentials that are not accepted, or for a request
// without credentials.
func Refuse(shown Credentials) error {
	if shown.Token == "" && len(shown.URIs) == 0 {
		return identity.Refuse(identity.Missing)
	}
	return identity.Refuse(identity.Unknown)
}

// inProcess is the target that represents Options.Handler.
const inProcess = "http://in-process:80"

// config is the configuration of the options, checked.
func (o Options) config() (*configv1.Config, error) {
	isConfigured := o.Config.GetBackend().GetUrl() != "" || len(o.Config.GetBackends()) > 0
	switch {
	case o.Backend != "" && o.Handler != nil, o.Backend == "" && o.Handler == nil && !isConfigured:
		return nil, errors.New("outrigger: set Backend or Handler, and only one of them, or Config.Backends for several")
	case len(o.Config.GetBackends()) > 0 && (o.Backend != "" || o.Handler != nil):
		return nil, errors.New("outrigger: Config.Backends has all backends; leave out Backend and Handler")
	case len(o.Config.GetBackends()) > 0 && len(o.Sources) > 0:
		return nil, errors.New("outrigger: Sources are those of one backend; with Config.Backends, set descriptors or reflection of each there")
	}
	cfg := config.Defaults(config.Serve)
	cfg.Record.Dir = proto.String("off")
	if len(o.Config.GetReadyBackends()) > 0 {
		cfg.ReadyBackends = nil // merging would add to the default
	}
	proto.Merge(cfg, o.Config)
	cfg.Demo, cfg.Mock, cfg.Replay.Dir, cfg.Listeners.Tls = false, false, "", nil
	cfg.Listeners.Listen, cfg.Listeners.Admin, cfg.Listeners.Health = proto.String("off"), proto.String("off"), proto.String("off")
	set(&cfg.Backend.Url, o.Backend)
	if o.Handler != nil {
		cfg.Backend.Url = inProcess
	}
	if len(o.Sources) > 0 && o.Config.GetCatalog().GetNative() == "" {
		cfg.Catalog.Native = proto.String("off")
	}
	o.Policy.apply(cfg)
	o.Limits.apply(cfg)
	set(&cfg.Access.TokensFile, o.TokensFile)
	set(&cfg.Server.Name, o.Name)
	set(&cfg.Server.Version, o.Version)
	set(&cfg.Server.Instructions, o.Instructions)
	cfg.Listeners.AllowedHosts = append(cfg.Listeners.AllowedHosts, o.AllowedHosts...)
	cfg.Listeners.AllowedOrigins = append(cfg.Listeners.AllowedOrigins, o.AllowedOrigins...)
	return cfg, config.Verify(config.Serve, cfg, config.Options{Checks: server.Checks(false)})
}

func (p Policy) apply(cfg *configv1.Config) {
	cfg.Catalog.Include = append(cfg.Catalog.Include, p.Include...)
	cfg.Catalog.Exclude = append(cfg.Catalog.Exclude, p.Exclude...)
	cfg.TrustedCallers = append(cfg.TrustedCallers, p.TrustedCallers...)
	if p.Trusted {
		cfg.Trust = proto.String("trusted")
	}
	if p.Gate != "" {
		cfg.Gate = proto.String(p.Gate)
	}
}

func (l Limits) apply(cfg *configv1.Config) {
	to := cfg.Limits
	setDuration(&cfg.Timeout, l.Timeout)
	setNumber(&to.MaxMessageBytes, l.MaxMessageBytes)
	setNumber(&to.MaxResultBytes, l.MaxResultBytes)
	setNumber(&to.MaxInFlight, int32(min(l.MaxInFlight, math.MaxInt32)))
	setNumber(&to.MaxConcurrentCalls, int32(min(l.MaxConcurrentCalls, math.MaxInt32)))
	setNumber(&to.MaxStreams, int32(min(l.MaxStreams, math.MaxInt32)))
	setNumber(&to.MaxSessions, int32(min(l.MaxSessions, math.MaxInt32)))
	if l.CallerRate != 0 {
		to.CallerRate = &configv1.Rate{PerSecond: l.CallerRate}
	}
	if l.ToolRate != 0 {
		to.ToolRate = &configv1.Rate{PerSecond: l.ToolRate}
	}
	setDuration(&to.ReadBodyTimeout, l.ReadBodyTimeout)
	setDuration(&to.WriteTimeout, l.WriteTimeout)
	setDuration(&to.DrainGrace, l.DrainGrace)
}

func set(field *string, value string) {
	if value != "" {
		*field = value
	}
}

func setNumber[T int32 | int64](field **T, value T) {
	if value != 0 {
		*field = &value
	}
}

func setDuration(field **durationpb.Duration, value time.Duration) {
	if value != 0 {
		*field = durationpb.New(value)
	}
}
