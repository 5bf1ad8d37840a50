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
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/server/settings"
)

// Options configure a [Sidecar]. Backend or Handler is required; every other field may
// stay zero.
type Options struct {
	// Backend is the URL of the tool service: http://HOST:PORT (gRPC, Connect or
	// gRPC-Web, found by asking), grpc://, connect+http://, grpcweb+http://, https:// and
	// so on, unix:///PATH.
	Backend string
	// Handler is a tool service in this process, in place of Backend. It is served over
	// connections in memory: no port is opened.
	Handler http.Handler

	// Sources are where tools come from. Without any, the backend is asked by server
	// reflection, and for tools of its own (outrigger.v1.ToolService).
	Sources []Source

	Policy Policy
	Limits Limits
	Hooks  Hooks

	// Authenticator finds out who calls. Without one, TokensFile decides, and without
	// that every caller is let in.
	Authenticator Authenticator
	// TokensFile is a callers file, as the flag --tokens takes it. It is read again when
	// it changes.
	TokensFile string

	// AllowedHosts are host names that requests may name besides those of the loopback
	// interface ("tools.example", or with a port). AnyHost allows all: set it
	// only behind a proxy that checks Host, or where callers are authenticated.
	AllowedHosts []string
	AnyHost      bool
	// AllowedOrigins are origins ("https://console.example") whose pages may call.
	AllowedOrigins []string
	// TLS tells that the server in front speaks HTTPS, so that origins have to be https.
	TLS bool

	// Name, Version and Instructions are what clients are told about the server.
	Name, Version, Instructions string
	// Logger receives the log; nil discards it.
	Logger *slog.Logger

	// Config has every setting of the command, for those that have no field here; fields
	// here win. It is not changed. Its listeners and its demo are not used.
	Config *configv1.Config
}

// Policy says which tools there are and who may run them.
type Policy struct {
	// Include and Exclude are globs over methods ("shop.v1.*", "shop.v1.Shop/Buy").
	Include, Exclude []string
	// Trusted lets every caller run destructive tools; TrustedCallers names some.
	Trusted        bool
	TrustedCallers []string
	// Gate says which tools count as destructive: "marked" (the default), "writes" or
	// "unproven".
	Gate string
}

// Limits bound what callers may use. Zero fields take the defaults of the command.
type Limits struct {
	// Timeout bounds one call.
	Timeout time.Duration
	// MaxMessageBytes bounds a message of a caller, MaxResultBytes a result.
	MaxMessageBytes, MaxResultBytes int64
	// MaxInFlight bounds requests, MaxConcurrentCalls calls of the backend at a time.
	MaxInFlight, MaxConcurrentCalls int
	// MaxStreams bounds streams that last until a side ends them, MaxSessions sessions of
	// legacy MCP clients.
	MaxStreams, MaxSessions int
	// CallerRate and ToolRate bound calls per second, of one caller and of one tool.
	CallerRate, ToolRate float64
	// ReadBodyTimeout bounds the body of a request, WriteTimeout a write without
	// progress.
	ReadBodyTimeout, WriteTimeout time.Duration
	// DrainGrace is how long calls in flight have at the end.
	DrainGrace time.Duration
}

// Hooks are called when something happens. They must return at once, and may be called
// concurrently; nil ones are not called.
type Hooks struct {
	// Call is called at the end of each call of a tool, on every edge.
	Call func(Call)
	// Tools is called when the tools have been loaded, and when they have changed.
	Tools func([]Tool)
}

// Call is the end of one call.
type Call struct {
	// Tool is the canonical name; "" for a tool that does not exist.
	Tool string
	// Edge is where the call came in: "mcp", "rpc", "connect", "grpc", "grpc-web",
	// "typed" or "other", which is a call from Go.
	Edge string
	// Code is the canonical code (docs/errors.md); "" for success.
	Code string
	// Duration is how long it took, Upstream how much of that the backend took.
	Duration, Upstream time.Duration
}

// Authenticator finds out who sent a request. Return [NewIdentity] for a caller who is
// known, and [Refuse] for credentials that are not accepted; any other error is answered
// UNAVAILABLE.
type Authenticator = access.Authenticator

// Credentials are what a caller shows: a bearer token, or the names of a certificate.
type Credentials = access.Credentials

// Identity is a caller who is known, with what it may do.
type Identity = access.Identity

// Grant is what a caller may do.
type Grant = access.Grant

// AuthenticatorFunc is a function as an [Authenticator].
type AuthenticatorFunc func(ctx context.Context, shown Credentials) (*Identity, error)

// Authenticate implements [Authenticator].
func (f AuthenticatorFunc) Authenticate(ctx context.Context, shown Credentials) (*Identity, error) {
	return f(ctx, shown)
}

// NewIdentity returns the identity of a grant.
func NewIdentity(g Grant) *Identity { return access.NewIdentity(g) }

// Refuse is the error for credentials that are not accepted, or, where none were sent,
// for a request without any.
func Refuse(shown Credentials) error {
	if shown.Token == "" && len(shown.URIs) == 0 {
		return access.Refuse(access.Missing)
	}
	return access.Refuse(access.Unknown)
}

// inProcess is the target that stands for Options.Handler.
const inProcess = "http://in-process:80"

// config is the configuration of the options, checked.
func (o Options) config() (*configv1.Config, error) {
	if (o.Backend == "") == (o.Handler == nil) && o.Config.GetBackend().GetUrl() == "" {
		return nil, errors.New("outrigger: set Backend or Handler, and only one of them")
	}
	cfg := config.Defaults(config.Serve)
	cfg.Record.Dir = proto.String("off")
	proto.Merge(cfg, o.Config)
	cfg.Demo, cfg.Listeners.Tls = false, nil
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
	return cfg, config.Verify(config.Serve, cfg, config.Options{Checks: settings.Checks(config.Serve)})
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
