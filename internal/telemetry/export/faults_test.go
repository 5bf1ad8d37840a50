// SPDX-License-Identifier: Apache-2.0

package export_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
)

// secret must not be in any fault.
const secret = "s3cr3t"

// faultsOf are the faults of settings, as "at: message".
func faultsOf(cfg *configv1.Telemetry, environ ...string) []string {
	var out []string
	export.Resolve(cfg, environ, func(at, message string) { out = append(out, at+": "+message) })
	return out
}

func TestWrongVariablesAreFaults(t *testing.T) {
	t.Parallel()
	const on = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318"
	missing := filepath.Join(t.TempDir(), "missing.pem")
	for _, test := range []struct {
		name    string
		environ []string
		want    []string // beginnings
	}{
		{"off", []string{"OTEL_TRACES_SAMPLER=often"}, nil},
		{"disabled", []string{on, "OTEL_SDK_DISABLED=true", "OTEL_TRACES_SAMPLER=often"}, nil},
		{"disabled oddly", []string{"OTEL_SDK_DISABLED=yes"}, []string{`OTEL_SDK_DISABLED: must be true or false, is "yes"`}},
		{"empty is unset", []string{on, "OTEL_TRACES_SAMPLER=", "OTEL_BSP_MAX_QUEUE_SIZE= "}, nil},
		{"exporter", []string{"OTEL_TRACES_EXPORTER=zipkin"}, []string{`OTEL_TRACES_EXPORTER: unknown exporter "zipkin": use otlp or none`}},
		{"console", []string{"OTEL_LOGS_EXPORTER=console"}, []string{`OTEL_LOGS_EXPORTER: unknown exporter "console"`}},
		{"prometheus", []string{"OTEL_METRICS_EXPORTER=prometheus"}, []string{"OTEL_METRICS_EXPORTER: prometheus is not an exporter here: GET /metrics"}},
		{"grpc, once for all signals", []string{on, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
			[]string{"OTEL_EXPORTER_OTLP_PROTOCOL: grpc is not supported: set it to http/protobuf, and the endpoint to the collector's port for it, usually 4318"}},
		{"protocol of a signal", []string{on, "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL=http/json"}, []string{`OTEL_EXPORTER_OTLP_LOGS_PROTOCOL: unsupported protocol "http/json"`}},
		{"endpoint without scheme", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318"}, []string{"OTEL_EXPORTER_OTLP_ENDPOINT: must be an http or https URL"}},
		{"endpoint of a signal", []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=ftp://x"}, []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: must be an http or https URL"}},
		{"password", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://me:" + secret + "@x:4318"}, []string{"OTEL_EXPORTER_OTLP_ENDPOINT: must not have a user or password"}},
		{"password in no URL", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=//me:" + secret + "@x"}, []string{"OTEL_EXPORTER_OTLP_ENDPOINT: must be an http or https URL"}},
		{"sampler", []string{on, "OTEL_TRACES_SAMPLER=often"}, []string{`OTEL_TRACES_SAMPLER: unknown sampler "often"`}},
		{"ratio", []string{on, "OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=1%"}, []string{`OTEL_TRACES_SAMPLER_ARG: must be a number from 0 to 1, is "1%"`}},
		{"ratio not a number", []string{on, "OTEL_TRACES_SAMPLER_ARG=NaN"}, []string{"OTEL_TRACES_SAMPLER_ARG: must be a number"}},
		{"propagator", []string{"OTEL_PROPAGATORS=tracecontext,zipkin"}, []string{"OTEL_PROPAGATORS: unknown propagator: zipkin: use tracecontext"}},
		{"number", []string{on, "OTEL_BSP_MAX_QUEUE_SIZE=many"}, []string{`OTEL_BSP_MAX_QUEUE_SIZE: must be a whole number from 1 to 65536, is "many"`}},
		{"unit", []string{on, "OTEL_EXPORTER_OTLP_TIMEOUT=10s"}, []string{"OTEL_EXPORTER_OTLP_TIMEOUT: must be a number of milliseconds"}},
		{"interval", []string{on, "OTEL_METRIC_EXPORT_INTERVAL=0"}, []string{"OTEL_METRIC_EXPORT_INTERVAL: must be a number of milliseconds"}},
		{"limit", []string{on, "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=-1"}, []string{"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT: must be a whole number"}},
		{"compression", []string{on, "OTEL_EXPORTER_OTLP_COMPRESSION=zstd"}, []string{`OTEL_EXPORTER_OTLP_COMPRESSION: unknown compression "zstd"`}},
		{"temporality", []string{on, "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=delta"}, []string{"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: unsupported temporality"}},
		{"header", []string{on, "OTEL_EXPORTER_OTLP_HEADERS=a=b," + secret}, []string{"OTEL_EXPORTER_OTLP_HEADERS: entry 2 must have the form name=value"}},
		{"header's encoding", []string{on, "OTEL_EXPORTER_OTLP_HEADERS=a=" + secret + "%zz"}, []string{"OTEL_EXPORTER_OTLP_HEADERS: entry 1 must have"}},
		{"resource", []string{on, "OTEL_RESOURCE_ATTRIBUTES=a=b,c"}, []string{"OTEL_RESOURCE_ATTRIBUTES: entry 2 must have"}},
		{"certificate on http", []string{on, "OTEL_EXPORTER_OTLP_CERTIFICATE=" + missing},
			[]string{"OTEL_EXPORTER_OTLP_CERTIFICATE: has no effect on http://127.0.0.1:4318/v1/traces: use an https endpoint"}},
		{"certificate", []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://x", "OTEL_EXPORTER_OTLP_CERTIFICATE=" + missing},
			[]string{"OTEL_EXPORTER_OTLP_CERTIFICATE: cannot read " + missing}},
		{"key without certificate", []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://x", "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY=" + missing},
			[]string{"OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY: "}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			compareFaults(t, faultsOf(defaults(), test.environ...), test.want)
		})
	}
}

func compareFaults(t *testing.T, got, want []string) {
	t.Helper()
	for _, begin := range want {
		if !slices.ContainsFunc(got, func(f string) bool { return strings.HasPrefix(f, begin) }) {
			t.Errorf("no fault begins with %q; got %q", begin, got)
		}
	}
	if strings.Contains(strings.Join(got, "\n"), secret) {
		t.Errorf("a secret is in %q", got)
	}
	if len(want) == 0 && len(got) > 0 {
		t.Errorf("got %q, want none", got)
	}
}

func TestWrongFilesAreFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string) *string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return &path
	}
	for _, test := range []struct {
		name string
		cfg  *configv1.Telemetry
		want []string
	}{
		{"no headers", &configv1.Telemetry{Endpoint: "http://x:1", HeadersFile: filepath.Join(dir, "none")}, []string{"telemetry.headers_file: cannot read"}},
		{"a line that is no header", &configv1.Telemetry{Endpoint: "http://x:1", HeadersFile: *file("a", "# comment\nx-api-key: "+secret+"\n"+secret+"\n")},
			[]string{"telemetry.headers_file: " + filepath.Join(dir, "a") + ": line 3 must have"}},
		{"too large", &configv1.Telemetry{Endpoint: "http://x:1", HeadersFile: *file("b", strings.Repeat("#", 65<<10))}, []string{"telemetry.headers_file: "}},
		{"no CA", &configv1.Telemetry{Endpoint: "https://x:1", CaFile: filepath.Join(dir, "none")}, []string{"telemetry.ca_file: cannot read"}},
		{"no PEM", &configv1.Telemetry{Endpoint: "https://x:1", CaFile: *file("c", "no")}, []string{"telemetry.ca_file: "}},
		{"half a pair", &configv1.Telemetry{Endpoint: "https://x:1", CertFile: "x"}, []string{"telemetry.cert_file: "}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg := defaults()
			proto.Merge(cfg, test.cfg)
			compareFaults(t, faultsOf(cfg), test.want)
		})
	}
}

// TestWhichSignalsAreOn has the rules in their order: the signal's variable, the signal's endpoint, the file, any endpoint.
func TestWhichSignalsAreOn(t *testing.T) {
	t.Parallel()
	const general = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1/base/"
	for _, test := range []struct {
		name                  string
		environ               []string
		cfg                   *configv1.Telemetry
		traces, metrics, logs string
	}{
		{name: "nothing said"},
		{"a general endpoint", []string{general}, nil, "http://127.0.0.1:1/base/v1/traces", "http://127.0.0.1:1/base/v1/metrics", "http://127.0.0.1:1/base/v1/logs"},
		{"none", []string{general, "OTEL_LOGS_EXPORTER=none"}, nil, "http://127.0.0.1:1/base/v1/traces", "http://127.0.0.1:1/base/v1/metrics", ""},
		{"disabled", []string{general, "OTEL_SDK_DISABLED=TRUE"}, nil, "", "", ""},
		{"a signal's endpoint is the whole URL", []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:1/t"}, nil, "http://127.0.0.1:1/t", "", ""},
		{"otlp alone", []string{"OTEL_METRICS_EXPORTER=otlp"}, nil, "", "http://localhost:4318/v1/metrics", ""},
		{"file", nil, &configv1.Telemetry{Endpoint: "http://f:1", Logs: proto.String("off")}, "http://f:1/v1/traces", "http://f:1/v1/metrics", ""},
		{"file, a signal on", nil, &configv1.Telemetry{Traces: proto.String("on")}, "http://localhost:4318/v1/traces", "", ""},
		{"environment over file", []string{general}, &configv1.Telemetry{Endpoint: "http://f:1", Logs: proto.String("off")},
			"http://127.0.0.1:1/base/v1/traces", "http://127.0.0.1:1/base/v1/metrics", ""},
		{"exporter over file", []string{"OTEL_LOGS_EXPORTER=otlp", "OTEL_TRACES_EXPORTER=none"}, &configv1.Telemetry{Endpoint: "http://f:1", Logs: proto.String("off")},
			"", "http://f:1/v1/metrics", "http://f:1/v1/logs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg := defaults()
			if test.cfg != nil {
				proto.Merge(cfg, test.cfg)
			}
			s := resolve(t, cfg, test.environ...)
			for signal, want := range map[export.Signal]string{export.Traces: test.traces, export.Metrics: test.metrics, export.Logs: test.logs} {
				if got := s.Endpoint(signal); got != want {
					t.Errorf("%v: %q, want %q", signal, got, want)
				}
			}
		})
	}
}
