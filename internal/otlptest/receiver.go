// SPDX-License-Identifier: Apache-2.0

// Package otlptest is a receiver of OTLP over HTTP for tests, on loopback. It decodes what it gets, and can be told to
// answer as a broken collector does.
package otlptest

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	logspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logpb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	spanpb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span with what describes its process.
type Span struct {
	*spanpb.Span

	Resource map[string]string
}

// Receiver keeps what it gets. Make one with [New].
type Receiver struct {
	// Answer, if set, answers instead of the receiver, which then decodes nothing.
	Answer http.HandlerFunc

	mu      sync.Mutex
	spans   []Span
	metrics []*metricpb.Metric
	records []*logpb.LogRecord
	headers []http.Header
	faults  []error
	changed chan struct{}
}

// New returns a receiver without a server.
func New() *Receiver { return &Receiver{changed: make(chan struct{})} }

// Start returns a receiver that listens on loopback until the test ends, and its URL.
func Start(tb testing.TB) (*Receiver, string) {
	tb.Helper()
	r := New()
	s := httptest.NewServer(r)
	tb.Cleanup(s.Close)
	return r, s.URL
}

// ServeHTTP implements [http.Handler].
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if r.Answer != nil {
		r.Answer(w, req)
		return
	}
	body, err := read(req)
	var answer proto.Message
	if err == nil {
		answer, err = r.take(req, body)
	}
	if err != nil {
		r.mu.Lock()
		r.faults = append(r.faults, err)
		r.mu.Unlock()
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out, _ := proto.Marshal(answer)
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(out)
}

func read(req *http.Request) ([]byte, error) {
	if req.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(req.Body)
	}
	z, err := gzip.NewReader(req.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// take decodes a request and returns the answer to it.
func (r *Receiver) take(req *http.Request, body []byte) (proto.Message, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.headers = append(r.headers, req.Header.Clone())
	defer func() {
		close(r.changed)
		r.changed = make(chan struct{})
	}()
	switch req.URL.Path {
	case "/v1/traces":
		var in tracepb.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &in); err != nil {
			return nil, err
		}
		for _, of := range in.GetResourceSpans() {
			for _, s := range of.GetScopeSpans() {
				for _, span := range s.GetSpans() {
					r.spans = append(r.spans, Span{span, Texts(of.GetResource().GetAttributes())})
				}
			}
		}
		return &tracepb.ExportTraceServiceResponse{}, nil
	case "/v1/metrics":
		var in metricspb.ExportMetricsServiceRequest
		if err := proto.Unmarshal(body, &in); err != nil {
			return nil, err
		}
		for _, of := range in.GetResourceMetrics() {
			for _, s := range of.GetScopeMetrics() {
				r.metrics = append(r.metrics, s.GetMetrics()...)
			}
		}
		return &metricspb.ExportMetricsServiceResponse{}, nil
	}
	var in logspb.ExportLogsServiceRequest
	if err := proto.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	for _, of := range in.GetResourceLogs() {
		for _, s := range of.GetScopeLogs() {
			r.records = append(r.records, s.GetLogRecords()...)
		}
	}
	return &logspb.ExportLogsServiceResponse{}, nil
}

// Spans returns the spans so far.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Span(nil), r.spans...)
}

// Metrics returns the metrics so far.
func (r *Receiver) Metrics() []*metricpb.Metric {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*metricpb.Metric(nil), r.metrics...)
}

// Records returns the log records so far.
func (r *Receiver) Records() []*logpb.LogRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*logpb.LogRecord(nil), r.records...)
}

// Headers returns the headers of all requests so far.
func (r *Receiver) Headers() []http.Header {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]http.Header(nil), r.headers...)
}

// Faults returns what could not be decoded.
func (r *Receiver) Faults() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]error(nil), r.faults...)
}

// Changed returns a channel that is closed at the next request.
func (r *Receiver) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// Texts returns attributes with text values by name.
func Texts(attributes []*commonpb.KeyValue) map[string]string {
	out := make(map[string]string)
	for _, a := range attributes {
		out[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return out
}
