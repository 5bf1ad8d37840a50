// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// StateRecords is the default directory of run records. Only ResolveRecords expands it.
const StateRecords = "$XDG_STATE_HOME/outrigger/runs"

// Defaults returns the default configuration of a command. The numbers are those of
// package defaults. Their reasons are documented at the fields in the message's
// definition, and a test keeps the two consistent.
func Defaults(kind Kind) *configv1.Config {
	listen, admin, record := "off", "off", "off"
	if kind == Serve {
		listen, admin, record = "127.0.0.1:8080", "127.0.0.1:9901", StateRecords
	}
	return &configv1.Config{
		Backend: &configv1.Backend{
			Protocol:        new("auto"),
			ConnectTimeout:  durationpb.New(defaults.ConnectTimeout),
			ProbeTimeout:    durationpb.New(defaults.ProbeTimeout),
			MaxSendBytes:    new(int64(defaults.MaxSendBytes)),
			MaxReceiveBytes: new(int64(defaults.MaxReceiveBytes)),
			Metadata: &configv1.Metadata{
				Inbound:  []string{"traceparent", "tracestate", "baggage", "x-request-id"},
				Outbound: []string{"x-request-id"},
			},
			Credentials: &configv1.BackendCredentials{Scheme: new("Bearer")},
			Identity:    defaultIdentity(),
		},
		Catalog: &configv1.Catalog{
			Reflection:        new("auto"),
			Native:            new("auto"),
			LockMode:          new("report"),
			Mode:              new("full"),
			CompactAboveBytes: new(int32(defaults.CompactAboveBytes)),
			OutputSchemas:     new("bounded"),
			SchemaRefs:        new("recursive"),
			ListBudgetBytes:   new(int32(defaults.ListBudgetBytes)),
			ListBudgetTokens:  new(int32(defaults.ListBudgetTokens)),
			RefreshInterval:   durationpb.New(defaults.RefreshInterval),
			MaxBackoff:        durationpb.New(defaults.MaxBackoff),
			DescriptorsUse:    new("tools"),
			FetchTimeout:      durationpb.New(defaults.FetchTimeout),
			SkillLimits: &configv1.SkillLimits{
				MaxSkills: new(int32(defaults.MaxSkills)), MaxFiles: new(int32(defaults.MaxSkillFiles)),
				MaxBytes: new(int64(defaults.MaxSkillBytes)), MaxTotalBytes: new(int64(defaults.MaxSkillTotalBytes)),
			},
		},
		Listeners: &configv1.Listeners{
			Listen:          new(listen),
			Admin:           new(admin),
			AdminSocketMode: new("0600"),
			Health:          new("off"),

			CompressAboveBytes: new(int32(defaults.CompressAboveBytes)),
		},
		Server:        &configv1.Server{},
		Timeout:       durationpb.New(defaults.Timeout),
		Limits:        defaultLimits(),
		Trust:         new("untrusted"),
		Destructive:   new("block"),
		Gate:          new("verbs"),
		Validate:      new("standard"),
		CanonicalIds:  new("string"),
		Dialect:       new("auto"),
		SchemaProfile: new("mcp"),
		Record: &configv1.Record{
			Dir:          new(record),
			Redact:       []string{"password", "secret", "token", "api_key", "authorization", "credential"},
			MaxFileBytes: new(int64(defaults.MaxFileBytes)),
			MaxFiles:     new(int32(defaults.MaxFiles)),
		},
		Audit: &configv1.Audit{
			Path:            new("off"),
			MaxFileBytes:    new(int64(defaults.MaxFileBytes)),
			MaxFiles:        new(int32(defaults.AuditMaxFiles)),
			Fsync:           new("interval"),
			FsyncInterval:   durationpb.New(defaults.AuditSyncInterval),
			MaxPayloadBytes: new(int32(defaults.AuditMaxPayloadBytes)),
			MaxQueuedBytes:  new(int32(defaults.AuditMaxQueuedBytes)),
		},
		Resilience:     defaultResilience(),
		RateService:    defaultRateService(),
		Log:            &configv1.Log{Level: new("info"), Format: new("auto"), Calls: new("all"), MaxCallsPerSecond: new(int32(defaults.MaxCallsPerSecond))},
		ReloadInterval: durationpb.New(defaults.ReloadInterval),
		State:          defaultState(),
		Telemetry:      defaultTelemetry(),
		Access:         &configv1.Access{SubjectHeader: new("x-outrigger-subject"), Oauth: defaultOAuth()},
	}
}

func defaultState() *configv1.State {
	return &configv1.State{
		Ttl:                  durationpb.New(defaults.StateTTL),
		Name:                 new("default"),
		Replicas:             new(int32(defaults.StateReplicas)),
		Storage:              new("file"),
		MaxTaskBytes:         new(int64(defaults.StateMaxTaskBytes)),
		OperationTimeout:     durationpb.New(defaults.StateOperationTimeout),
		Lease:                durationpb.New(defaults.StateLease),
		MaxTakeovers:         new(int32(defaults.StateMaxTakeovers)),
		MaxHandovers:         new(int32(defaults.StateMaxHandovers)),
		MaxConsentBytes:      new(int64(defaults.StateMaxConsentBytes)),
		MaxRegistrationBytes: new(int64(defaults.StateMaxRegistrationBytes)),
		MaxSessionBytes:      new(int64(defaults.StateMaxSessionBytes)),
		MaxStreamBytes:       new(int64(defaults.StateMaxStreamBytes)),
		StreamTtl:            durationpb.New(defaults.StateStreamTTL),
		MaxEventBytes:        new(int64(defaults.StateMaxEventBytes)),
		EventTtl:             durationpb.New(defaults.StateEventTTL),
	}
}

func defaultTelemetry() *configv1.Telemetry {
	return &configv1.Telemetry{
		Traces: new("auto"), Metrics: new("auto"), Logs: new("auto"),
		Compression: new("none"), Sampler: new("parentbased_always_on"), Baggage: []string{"*"}, SamplerRatio: new(1.0),
		MaxPayloadBytes: new(int32(defaults.SpanMaxPayloadBytes)),
		StepThreshold:   durationpb.New(defaults.SpanThreshold),
		MaxQueuedItems:  new(int32(defaults.TelemetryMaxQueuedItems)),
		MaxMetricTools:  new(int32(defaults.TelemetryMaxMetricTools)),
		MaxQueuedBytes:  new(int64(defaults.TelemetryMaxQueuedBytes)),
		ExportTimeout:   durationpb.New(defaults.TelemetryExportTimeout),
		BatchDelay:      durationpb.New(defaults.TelemetryBatchDelay),
		MetricInterval:  durationpb.New(defaults.TelemetryMetricInterval),
		FlushTimeout:    durationpb.New(defaults.TelemetryFlushTimeout),
	}
}

func defaultIdentity() *configv1.BackendIdentity {
	const accessToken = "urn:ietf:params:oauth:token-type:access_token" //nolint:gosec // The name of a kind of token (RFC 8693, section 3).
	return &configv1.BackendIdentity{
		Mode:      new("header"),
		OnMissing: new("refuse"),
		Exchange: &configv1.TokenExchange{
			ClientAuth:         new("basic"),
			SubjectTokenType:   new(accessToken),
			RequestedTokenType: new(accessToken),
			Timeout:            durationpb.New(defaults.ExchangeTimeout),
			MaxTokens:          new(int32(defaults.ExchangeMaxTokens)),
			MaxResponseBytes:   new(int64(defaults.ExchangeMaxResponseBytes)),
		},
		Signed: &configv1.SignedIdentity{
			Ttl:       durationpb.New(defaults.SignedTTL),
			Subject:   new("name"),
			MaxTokens: new(int32(defaults.SignedMaxTokens)),
		},
	}
}

func defaultLimits() *configv1.Limits {
	return &configv1.Limits{
		MaxMessageBytes:      new(int64(defaults.MaxMessageBytes)),
		MaxJsonDepth:         new(int32(defaults.MaxJSONDepth)),
		MaxIdBytes:           new(int32(defaults.MaxIDBytes)),
		MaxBatchEntries:      new(int32(defaults.MaxBatchEntries)),
		MaxInFlight:          new(int32(defaults.MaxInFlight)),
		MaxConcurrentCalls:   new(int32(defaults.MaxConcurrentCalls)),
		MaxQueuedCalls:       new(int32(defaults.MaxQueuedCalls)),
		MaxQueueWait:         durationpb.New(defaults.MaxQueueWait),
		MaxResultBytes:       new(int64(defaults.MaxResultBytes)),
		MaxResultItems:       new(int32(defaults.MaxResultItems)),
		MaxInlineBytes:       new(int64(defaults.MaxInlineBytes)),
		MaxHeldBytes:         new(int64(defaults.MaxHeldBytes)),
		HeldTtl:              durationpb.New(defaults.HeldTTL),
		ResultBudget:         new(int64(defaults.ResultBudget)),
		MaxWatches:           new(int32(defaults.MaxWatches)),
		MaxWatchBytes:        new(int64(defaults.MaxWatchBytes)),
		MaxInputItems:        new(int32(defaults.MaxInputItems)),
		MaxPageEntries:       new(int32(defaults.MaxPageEntries)),
		MaxStreams:           new(int32(defaults.MaxStreams)),
		StreamIdleTimeout:    durationpb.New(defaults.StreamIdleTimeout),
		MaxSessions:          new(int32(defaults.MaxSessions)),
		SessionIdleTimeout:   durationpb.New(defaults.SessionIdleTimeout),
		MaxTasks:             new(int32(defaults.MaxTasks)),
		TaskTtl:              durationpb.New(defaults.TaskTTL),
		MaxSubscriberBacklog: new(int32(defaults.MaxSubscriberBacklog)),
		MaxPipelinedRequests: new(int32(defaults.MaxPipelinedRequests)),
		MaxStdioQueueBytes:   new(int64(defaults.MaxStdioQueueBytes)),
		ReadHeaderTimeout:    durationpb.New(defaults.ReadHeaderTimeout),
		ReadBodyTimeout:      durationpb.New(defaults.ReadBodyTimeout),
		IdleTimeout:          durationpb.New(defaults.IdleTimeout),
		MaxHeaderBytes:       new(int32(defaults.MaxHeaderBytes)),
		WriteTimeout:         durationpb.New(defaults.WriteTimeout),
		CallerSharePercent:   new(int32(defaults.CallerSharePercent)),
		ToolSharePercent:     new(int32(defaults.ToolSharePercent)),
		KeepAliveInterval:    durationpb.New(defaults.KeepAliveInterval),
		CatalogWait:          durationpb.New(defaults.CatalogWait),
		DrainGrace:           durationpb.New(defaults.DrainGrace),
		MaxLearnedTypes:      new(int32(defaults.MaxLearnedTypes)),
		MaxTools:             new(int32(defaults.MaxTools)),
		MaxDescriptorBytes:   new(int64(defaults.MaxDescriptorBytes)),

		MaxConnections:        new(int32(defaults.MaxConnections)),
		MaxConnectionRequests: new(int64(defaults.MaxConnectionRequests)),
		MaxConnectionAge:      durationpb.New(defaults.MaxConnectionAge),
	}
}

func defaultOAuth() *configv1.OAuth {
	return &configv1.OAuth{
		Leeway: durationpb.New(defaults.OAuthLeeway),
		Algorithms: []string{
			"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
		},
		Dpop: &configv1.OAuthDpop{
			MaxAge:    durationpb.New(defaults.DPoPMaxAge),
			MaxProofs: new(int32(defaults.DPoPMaxProofs)),
		},
		Tools:              []string{"*"},
		Resources:          []string{"*"},
		Prompts:            []string{"*"},
		MaxCachedTokens:    new(int32(defaults.OAuthMaxCachedTokens)),
		MaxTokenBytes:      new(int32(defaults.OAuthMaxTokenBytes)),
		KeyRefreshInterval: durationpb.New(defaults.OAuthKeyRefreshInterval),
		KeyFetchInterval:   durationpb.New(defaults.OAuthKeyFetchInterval),
		FetchTimeout:       durationpb.New(defaults.OAuthFetchTimeout),
		MaxFetchBytes:      new(int32(defaults.OAuthMaxFetchBytes)),
	}
}

func defaultRateService() *configv1.RateService {
	return &configv1.RateService{
		Domain:      new(defaults.RateServiceDomain),
		Timeout:     durationpb.New(defaults.RateServiceTimeout),
		Failure:     new("open"),
		MaxInFlight: new(int32(defaults.RateServiceMaxInFlight)),
		MaxFailures: new(int32(defaults.RateServiceMaxFailures)),
		OpenFor:     durationpb.New(defaults.RateServiceOpenFor),
		TenantClaim: new(defaults.RateServiceTenantClaim),
	}
}

func defaultResilience() *configv1.Resilience {
	return &configv1.Resilience{
		Retry: &configv1.Retry{
			MaxAttempts:   new(int32(defaults.RetryMaxAttempts)),
			Backoff:       durationpb.New(defaults.RetryBackoff),
			MaxBackoff:    durationpb.New(defaults.RetryMaxBackoff),
			BudgetPercent: new(int32(defaults.RetryBudgetPercent)),
			BudgetBurst:   new(int32(defaults.RetryBudgetBurst)),
		},
		Breaker: &configv1.Breaker{
			Mode:           new("on"),
			FailurePercent: new(int32(defaults.BreakerFailurePercent)),
			MinCalls:       new(int32(defaults.BreakerMinCalls)),
			Window:         durationpb.New(defaults.BreakerWindow),
			OpenFor:        durationpb.New(defaults.BreakerOpenFor),
			Probes:         new(int32(defaults.BreakerProbes)),
		},
	}
}

// defaultText renders the default at a dotted path, or "" where there is none.
func defaultText(m protoreflect.Message, path string) string {
	for {
		name, rest, deeper := strings.Cut(path, ".")
		fd := fieldOf(m, name)
		if !m.Has(fd) {
			return ""
		}
		if !deeper {
			return valueText(fd, m.Get(fd))
		}
		m, path = m.Get(fd).Message(), rest
	}
}

// valueText renders a value as the file would have it.
func valueText(fd protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch {
	case fd.IsList():
		items := make([]string, v.List().Len())
		for i := range items {
			items[i] = v.List().Get(i).String()
		}
		return strings.Join(items, ", ")
	case isDuration(fd):
		d, _ := v.Message().Interface().(*durationpb.Duration)
		return durationText(d)
	case isSize(fd):
		return sizeText(v.Int())
	default:
		return v.String()
	}
}

// durationText uses seconds, as the message's own definition does.
func durationText(d *durationpb.Duration) string {
	if short := d.AsDuration(); short > 0 && short < time.Millisecond {
		return strconv.FormatFloat(float64(short)/float64(time.Microsecond), 'f', -1, 64) + "us"
	}
	return strconv.FormatFloat(d.AsDuration().Seconds(), 'f', -1, 64) + "s"
}

// sizeText uses the largest unit that needs no fraction.
func sizeText(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n >= 10<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	default:
		return strconv.FormatInt(n, 10)
	}
}
