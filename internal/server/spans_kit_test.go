// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// Trace contexts that callers send: within a message, and in the headers of its request.
const (
	inMessage = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-aaaaaaaaaaaaaaaa-01"
	inHeader  = "00-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb-bbbbbbbbbbbbbbbb-01"
)

// spanRig is a sidecar whose spans a test can see.
type spanRig struct {
	*mcptest.Rig

	url      string
	exporter *tracetest.InMemoryExporter
	// handling are the HTTP requests whose handlers have not returned: until then a span may come.
	handling sync.WaitGroup
	mu       sync.Mutex
	requests map[string]int // by the trace in their headers
	// names are those of the spans that have been seen, by their ids.
	names map[trace.SpanID]string
}

// newSpanRig starts a sidecar that traces everything. who may be nil.
func newSpanRig(t *testing.T, who identity.Authenticator, configure func(*configv1.Config)) *spanRig {
	t.Helper()
	r := newExporter()
	r.Rig = mcptest.Start(t, mcptest.Options{Native: mcptest.Desk(), Configure: configure, Change: func(o *server.Options) {
		o.Authenticator, o.Tracer = who, r.tracer()
	}})
	r.serve(t, r.Rig)
	return r
}

func newExporter() *spanRig {
	return &spanRig{exporter: tracetest.NewInMemoryExporter(), requests: map[string]int{}, names: map[trace.SpanID]string{}}
}

// tracer makes spans that are exported when they end.
func (r *spanRig) tracer() *telemetry.Tracer {
	return telemetry.NewTracer(telemetry.TracerOptions{Provider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(r.exporter))})
}

// serve listens for a sidecar, and notes the requests.
func (r *spanRig) serve(t *testing.T, of *mcptest.Rig) {
	t.Helper()
	handler := of.Handler(t)
	r.url = mcptest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.handling.Add(1)
		defer r.handling.Done()
		if parts := strings.Split(req.Header.Get("Traceparent"), "-"); len(parts) == 4 {
			r.mu.Lock()
			r.requests[parts[1]]++
			r.mu.Unlock()
		}
		handler.ServeHTTP(w, req)
	}))
}

// taken returns the SERVER spans that have ended since it was called last, in the order of their starts.
func (r *spanRig) taken() []tracetest.SpanStub {
	r.handling.Wait()
	all := r.exporter.GetSpans()
	r.exporter.Reset()
	var out []tracetest.SpanStub
	for _, s := range all {
		r.names[s.SpanContext.SpanID()] = s.Name
		if s.SpanKind == trace.SpanKindServer {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b tracetest.SpanStub) int {
		return cmp.Or(a.StartTime.Compare(b.StartTime), cmp.Compare(attributeOf(&a, telemetry.RequestID), attributeOf(&b, telemetry.RequestID)))
	})
	return out
}

// lines are the SERVER spans as lines of the golden.
func (r *spanRig) lines() []string {
	var out []string
	for _, s := range r.taken() {
		out = append(out, r.line(&s))
	}
	slices.Sort(out) // what runs concurrently ends in any order
	return out
}

// line is a span: its name, parent, links, status, attributes and events.
func (r *spanRig) line(s *tracetest.SpanStub) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q parent=%s", s.Name, r.place(s.Parent))
	for _, link := range s.Links {
		b.WriteString(" link=" + r.place(link.SpanContext))
	}
	if s.Status.Code != 0 {
		fmt.Fprintf(&b, " status=%s %q", s.Status.Code, s.Status.Description)
	}
	var facts []string
	for _, kv := range s.Attributes {
		switch string(kv.Key) {
		case telemetry.ClientPort, telemetry.SessionID, telemetry.QueueWait:
			facts = append(facts, string(kv.Key)+"=*")
		default:
			facts = append(facts, string(kv.Key)+"="+kv.Value.String())
		}
	}
	slices.Sort(facts)
	b.WriteString("\n    " + strings.Join(facts, "\n    "))
	for _, e := range s.Events {
		b.WriteString("\n    event " + e.Name)
	}
	return b.String()
}

// place is what a test knows of a context.
func (r *spanRig) place(c trace.SpanContext) string {
	switch {
	case !c.IsValid():
		return "-"
	case c.TraceID().String() == inMessage[3:35] && c.SpanID().String() == inMessage[36:52]:
		return "message"
	case c.TraceID().String() == inHeader[3:35] && c.SpanID().String() == inHeader[36:52]:
		return "header"
	case r.names[c.SpanID()] != "":
		return fmt.Sprintf("%q", r.names[c.SpanID()])
	}
	return "unknown"
}

// attributeOf is an attribute of a span as text, "" for none.
func attributeOf(s *tracetest.SpanStub, name string) string {
	for _, kv := range s.Attributes {
		if string(kv.Key) == name {
			return kv.Value.String()
		}
	}
	return ""
}
