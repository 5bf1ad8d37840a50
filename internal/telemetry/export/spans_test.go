// SPDX-License-Identifier: Apache-2.0

package export_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/internal/otlptest"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// exported are the requests that a collector gets, in their order.
type exported struct {
	mu    sync.Mutex
	all   []*tracepb.ExportTraceServiceRequest
	sizes []int
}

func (e *exported) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	in := &tracepb.ExportTraceServiceRequest{}
	if err == nil {
		err = proto.Unmarshal(body, in)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all, e.sizes = append(e.all, in), append(e.sizes, len(body))
}

// spans are the numbers of spans of the requests so far.
func (e *exported) spans() []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []int
	for _, one := range e.all {
		out = append(out, len(one.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()))
	}
	return out
}

func (e *exported) first() *tracepb.ExportTraceServiceRequest {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all[0]
}

// bytes are the sizes of the requests so far.
func (e *exported) bytes() []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.sizes)
}

// TestSpansAreExportedInBatches: a full batch at once, and what is left at the end.
func TestSpansAreExportedInBatches(t *testing.T) {
	t.Parallel()
	got := &exported{}
	cfg := small()
	cfg.Endpoint, cfg.BatchDelay, cfg.ExportTimeout = answering(t, got.take), durationpb.New(patience), durationpb.New(patience)
	cfg.FlushTimeout = durationpb.New(patience)
	exports, _ := open(t, resolve(t, cfg, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=3", "OTEL_SERVICE_NAME=orders"))
	for range 7 {
		request(exports, "ping")
	}
	testkit.Until(t, "two full batches", func() bool { return len(got.spans()) == 2 })
	exports.Close(patience)
	if diff := cmp.Diff([]int{3, 3, 1}, got.spans()); diff != "" {
		t.Error(diff)
	}
	all := got.first().GetResourceSpans()
	if len(all) != 1 || len(all[0].GetScopeSpans()) != 1 || all[0].GetScopeSpans()[0].GetScope().GetName() != telemetry.Scope ||
		otlptest.Texts(all[0].GetResource().GetAttributes())["service.name"] != "orders" {
		t.Errorf("got %v", all)
	}
	if s := exports.Stats()[export.Traces]; s.Exports != 3 || s.Items != 0 || s.Bytes != 0 || s.Overflowed+s.Lost != 0 {
		t.Errorf("counted %+v", s)
	}
}

// TestLargeSpansMakeSmallBatches: collectors refuse requests that are too large.
func TestLargeSpansMakeSmallBatches(t *testing.T) {
	t.Parallel()
	got := &exported{}
	cfg := small()
	cfg.Endpoint, cfg.BatchDelay, cfg.ExportTimeout = answering(t, got.take), durationpb.New(patience), durationpb.New(patience)
	cfg.FlushTimeout = durationpb.New(patience)
	cfg.MaxQueuedBytes = proto.Int64(64 << 20)
	exports, _ := open(t, resolve(t, cfg, "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT=2000000"))
	large := strings.Repeat("x", 1<<20)
	for range 10 {
		exports.Tracer().Start(telemetry.Arrival{Method: "tools/call"}, telemetry.Text("large", large)).End(telemetry.Outcome{})
	}
	exports.Close(patience)
	if diff := cmp.Diff([]int{4, 4, 2}, got.spans()); diff != "" {
		t.Error(diff)
	}
	for _, size := range got.bytes() {
		if size > 5<<20 {
			t.Errorf("a request of %d bytes", size)
		}
	}
}

// TestSpansAfterTheEndAreCounted: they are lost.
func TestSpansAfterTheEndAreCounted(t *testing.T) {
	t.Parallel()
	got := &exported{}
	cfg := small()
	cfg.Endpoint = answering(t, got.take)
	exports, _ := open(t, resolve(t, cfg))
	exports.Close(patience)
	request(exports, "ping")
	if s := exports.Stats()[export.Traces]; s.Overflowed+s.Lost != 1 || s.Items != 0 || len(got.spans()) != 0 {
		t.Errorf("counted %+v, exported %v", s, got.spans())
	}
}
