// SPDX-License-Identifier: Apache-2.0

package export_test

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/internal/otlptest"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

func TestTracesReachTheCollector(t *testing.T) {
	t.Parallel()
	receiver, url := otlptest.Start(t)
	exports, _ := open(t, resolve(t, defaults(), "OTEL_EXPORTER_OTLP_ENDPOINT="+url, "OTEL_RESOURCE_ATTRIBUTES=team=a%20b,service.name=x", "OTEL_SERVICE_NAME=shop"))
	request(exports, "tools/call")
	exports.Close(patience)
	spans := receiver.Spans()
	if len(spans) != 1 || spans[0].GetName() != "tools/call" {
		t.Fatalf("got %v", spans)
	}
	of := spans[0].Resource
	if of["service.name"] != "shop" || of["service.version"] != "1.2.3" || of["team"] != "a b" || of["service.instance.id"] == "" {
		t.Errorf("resource %v", of)
	}
}

// TestSamplers: the share of requests without a parent, by variable and by file.
func TestSamplers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, sampler, ratio string
		least, most          int
	}{
		{"default", "", "", 400, 400},
		{"off", "always_off", "", 0, 0},
		{"parent", "parentbased_always_off", "", 0, 0},
		{"ratio", "parentbased_traceidratio", "0.25", 50, 150},
		{"spelling", "TraceIDRatio", "1", 400, 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			receiver, url := otlptest.Start(t)
			exports, _ := open(t, resolve(t, defaults(), "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+url+"/v1/traces",
				"OTEL_TRACES_SAMPLER="+test.sampler, "OTEL_TRACES_SAMPLER_ARG="+test.ratio))
			for range 400 {
				request(exports, "ping")
			}
			exports.Close(patience)
			if n := len(receiver.Spans()); n < test.least || n > test.most {
				t.Errorf("%d spans, want %d to %d", n, test.least, test.most)
			}
		})
	}
}

// one is a producer of one metric.
type one struct{}

// Produce implements [sdkmetric.Producer].
func (one) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	return []metricdata.ScopeMetrics{{Metrics: []metricdata.Metrics{{Name: "outrigger_things", Data: metricdata.Gauge[int64]{
		DataPoints: []metricdata.DataPoint[int64]{{Value: 7, Attributes: attribute.NewSet(), Time: time.Now()}},
	}}}}}, nil
}

func TestMetricsReachTheCollector(t *testing.T) {
	t.Parallel()
	receiver, url := otlptest.Start(t)
	exports, _ := open(t, resolve(t, defaults(), "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT="+url+"/v1/metrics", "OTEL_METRIC_EXPORT_INTERVAL=20"))
	if err := exports.ExportMetrics(sdkmetric.Producer(one{})); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "an export by the interval", func() bool { return len(receiver.Metrics()) > 0 })
	if m := receiver.Metrics()[0]; m.GetName() != "outrigger_things" || m.GetGauge().GetDataPoints()[0].GetAsInt() != 7 {
		t.Errorf("got %v", m)
	}
	exports.Close(patience)
}

func TestLogsReachTheCollector(t *testing.T) {
	t.Parallel()
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	receiver, url := otlptest.Start(t)
	exports, _ := open(t, resolve(t, defaults(), "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT="+url+"/v1/logs"))
	log := zap.New(exports.LogCore(zap.InfoLevel)).Named("call").With(zap.String("tool", "desk.tidy"))
	log.Debug("below the level")
	log.Warn("call", zap.String("trace_id", trace), zap.String("span_id", span), zap.Duration("took_ms", 1500*time.Microsecond),
		zap.Int("bytes", 3), zap.Uint64("big", 1<<63), zap.Bool("ok", true), zap.Strings("names", []string{"a", "b"}), logkey.Error(errors.New("oops")))
	exports.Close(patience)
	records := receiver.Records()
	if len(records) != 1 {
		t.Fatalf("got %v", records)
	}
	r := records[0]
	if r.GetBody().GetStringValue() != "call" || r.GetSeverityText() != "WARN" || r.GetSeverityNumber() != 13 {
		t.Errorf("got %v", r)
	}
	if hex.EncodeToString(r.GetTraceId()) != trace || hex.EncodeToString(r.GetSpanId()) != span {
		t.Errorf("ids %x, %x", r.GetTraceId(), r.GetSpanId())
	}
	values := map[string]string{}
	for _, a := range r.GetAttributes() {
		values[a.GetKey()] = a.GetValue().String()
	}
	for _, absent := range []string{"trace_id", "span_id"} {
		if _, ok := values[absent]; ok {
			t.Errorf("%s is an attribute too", absent)
		}
	}
	got := otlptest.Texts(r.GetAttributes())
	if got["tool"] != "desk.tidy" || got["exception.message"] != "oops" || got["big"] != "9223372036854775808" {
		t.Errorf("attributes %v", values)
	}
	for _, a := range r.GetAttributes() {
		if a.GetKey() == "took_ms" && a.GetValue().GetDoubleValue() != 1.5 {
			t.Errorf("took_ms is %v", a.GetValue())
		}
	}
}

// TestHeadersAndGzip: headers of the file and of the variables, which win.
func TestHeadersAndGzip(t *testing.T) {
	t.Parallel()
	receiver, url := otlptest.Start(t)
	file := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(file, []byte("# for the collector\nx-api-key: of the file\nx-team: a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := defaults()
	cfg.HeadersFile = file
	exports, _ := open(t, resolve(t, cfg, "OTEL_EXPORTER_OTLP_ENDPOINT="+url, "OTEL_EXPORTER_OTLP_HEADERS=x-api-key=a%20b, x-more = 1", "OTEL_EXPORTER_OTLP_COMPRESSION=gzip"))
	request(exports, "ping")
	exports.Close(patience)
	if len(receiver.Spans()) != 1 || len(receiver.Faults()) > 0 {
		t.Fatalf("spans %v, faults %v", receiver.Spans(), receiver.Faults())
	}
	h := receiver.Headers()[0]
	if h.Get("X-Api-Key") != "a b" || h.Get("X-Team") != "a" || h.Get("X-More") != "1" || h.Get("Content-Encoding") != "gzip" {
		t.Errorf("headers %v", h)
	}
}

// TestPrivateCA: a collector behind TLS with a private CA and client certificates.
func TestPrivateCA(t *testing.T) {
	t.Parallel()
	authority := tlstest.NewAuthority(t)
	receiver := otlptest.New()
	server := httptest.NewUnstartedServer(receiver)
	server.TLS = &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{authority.Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1"}}).Certificate(t)},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool,
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	pair := authority.Issue(t, tlstest.Leaf{})
	exports, lines := open(t, resolve(t, defaults(), "OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL, "OTEL_EXPORTER_OTLP_CERTIFICATE="+authority.File,
		"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE="+pair.CertFile, "OTEL_EXPORTER_OTLP_CLIENT_KEY="+pair.KeyFile))
	request(exports, "ping")
	exports.Close(patience)
	if len(receiver.Spans()) != 1 {
		t.Errorf("got %v, %v", receiver.Spans(), lines.All())
	}
	// The system's CAs do not know it.
	cfg := small()
	cfg.Endpoint, cfg.BatchDelay = server.URL, durationpb.New(10*time.Millisecond)
	strangers, lines := open(t, resolve(t, cfg))
	request(strangers, "ping")
	// It counts a failure before it says so.
	testkit.Until(t, "a failure, and a line about it", func() bool { return strangers.Stats()[0].Failures > 0 && lines.Len() > 0 })
	checkOneWarning(t, lines, "")
}

// TestProbe asks collectors as doctor does.
func TestProbe(t *testing.T) {
	t.Parallel()
	_, url := otlptest.Start(t)
	s := resolve(t, defaults(), "OTEL_EXPORTER_OTLP_ENDPOINT="+url)
	for _, signal := range export.Signals() {
		if err := s.Probe(t.Context(), signal); err != nil {
			t.Errorf("%v: %v", signal, err)
		}
	}
	s = resolve(t, defaults(), "OTEL_EXPORTER_OTLP_ENDPOINT="+"http://"+testkit.Dead(t))
	var fault *export.ProbeError
	if err := s.Probe(t.Context(), export.Traces); !errors.As(err, &fault) || fault.Fix == "" || fault.What != "the collector cannot be reached: unreachable" {
		t.Errorf("got %v", err)
	}
}
