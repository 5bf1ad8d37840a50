// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// MaxMessageBytes is the default bound on a caller's message. MCP expects
// servers to take lines of 10 MiB on stdio, and the other edges are no tighter.
const MaxMessageBytes = 10 << 20

// Defaults returns the configuration that a command has when nothing is given.
// The reasons for the numbers are beside their fields in the message's own
// definition, and a test holds the two together.
func Defaults(kind Kind) *configv1.Config {
	listen, admin, record := "off", "off", "off"
	if kind == Serve {
		listen, admin, record = "127.0.0.1:8080", "127.0.0.1:9901", "runs"
	}
	return &configv1.Config{
		Backend: &configv1.Backend{
			Protocol:        new("auto"),
			ConnectTimeout:  durationpb.New(5 * time.Second),
			ProbeTimeout:    durationpb.New(10 * time.Second),
			MaxSendBytes:    new(int64(4 << 20)),
			MaxReceiveBytes: new(int64(4 << 20)),
			Metadata: &configv1.Metadata{
				Inbound:  []string{"traceparent", "tracestate", "baggage", "x-request-id"},
				Outbound: []string{"x-request-id"},
			},
			Credentials: &configv1.BackendCredentials{Scheme: new("Bearer")},
		},
		Catalog: &configv1.Catalog{
			Reflection:      new("auto"),
			Native:          new("auto"),
			RefreshInterval: durationpb.New(300 * time.Second),
			MaxBackoff:      durationpb.New(10 * time.Second),
		},
		Listeners: &configv1.Listeners{
			Listen: new(listen),
			Admin:  new(admin),
			Health: new("off"),
		},
		Server:        &configv1.Server{},
		Timeout:       durationpb.New(30 * time.Second),
		Limits:        defaultLimits(),
		Trust:         new("untrusted"),
		Destructive:   new("block"),
		Gate:          new("marked"),
		Validate:      new("standard"),
		CanonicalIds:  new("string"),
		Dialect:       new("auto"),
		SchemaProfile: new("mcp"),
		Record: &configv1.Record{
			Dir:          new(record),
			Redact:       []string{"password", "secret", "token", "api_key", "authorization", "credential"},
			MaxFileBytes: new(int64(64 << 20)),
			MaxFiles:     new(int32(20)),
		},
		Resilience:     defaultResilience(),
		Log:            &configv1.Log{Level: new("info"), Format: new("auto"), Calls: new("all"), MaxCallsPerSecond: new(int32(100))},
		ReloadInterval: durationpb.New(5 * time.Second),
		State:          &configv1.State{Ttl: durationpb.New(900 * time.Second)},
		Access:         &configv1.Access{SubjectHeader: new("x-outrigger-subject")},
	}
}

func defaultLimits() *configv1.Limits {
	return &configv1.Limits{
		MaxMessageBytes:      new(int64(MaxMessageBytes)),
		MaxJsonDepth:         new(int32(64)),
		MaxIdBytes:           new(int32(1024)),
		MaxBatchEntries:      new(int32(100)),
		MaxInFlight:          new(int32(16384)),
		MaxConcurrentCalls:   new(int32(1024)),
		MaxQueuedCalls:       new(int32(16384)),
		MaxQueueWait:         durationpb.New(2 * time.Second),
		MaxResultBytes:       new(int64(8 << 20)),
		MaxResultItems:       new(int32(1000)),
		MaxPageEntries:       new(int32(1000)),
		MaxStreams:           new(int32(10000)),
		MaxSessions:          new(int32(10000)),
		SessionIdleTimeout:   durationpb.New(1800 * time.Second),
		MaxTasks:             new(int32(10000)),
		TaskTtl:              durationpb.New(3600 * time.Second),
		MaxSubscriberBacklog: new(int32(256)),
		MaxPipelinedRequests: new(int32(1024)),
		MaxStdioQueueBytes:   new(int64(32 << 20)),
		ReadHeaderTimeout:    durationpb.New(10 * time.Second),
		ReadBodyTimeout:      durationpb.New(30 * time.Second),
		IdleTimeout:          durationpb.New(120 * time.Second),
		MaxHeaderBytes:       new(int32(64 << 10)),
		WriteTimeout:         durationpb.New(30 * time.Second),
		CallerSharePercent:   new(int32(80)),
		ToolSharePercent:     new(int32(80)),
		KeepAliveInterval:    durationpb.New(20 * time.Second),
		CatalogWait:          durationpb.New(10 * time.Second),
		DrainGrace:           durationpb.New(25 * time.Second),
		MaxLearnedTypes:      new(int32(256)),
		MaxTools:             new(int32(20000)),
		MaxDescriptorBytes:   new(int64(256 << 20)),

		MaxConnections:        new(int32(10000)),
		MaxConnectionRequests: new(int64(1000000)),
		MaxConnectionAge:      durationpb.New(time.Hour),
	}
}

func defaultResilience() *configv1.Resilience {
	return &configv1.Resilience{
		Retry: &configv1.Retry{
			MaxAttempts:   new(int32(3)),
			Backoff:       durationpb.New(50 * time.Millisecond),
			MaxBackoff:    durationpb.New(time.Second),
			BudgetPercent: new(int32(20)),
			BudgetBurst:   new(int32(10)),
		},
		Breaker: &configv1.Breaker{
			Mode:           new("on"),
			FailurePercent: new(int32(50)),
			MinCalls:       new(int32(20)),
			Window:         durationpb.New(10 * time.Second),
			OpenFor:        durationpb.New(2 * time.Second),
			Probes:         new(int32(1)),
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
