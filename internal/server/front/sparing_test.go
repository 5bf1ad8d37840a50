// SPDX-License-Identifier: Apache-2.0

package front

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// TestWhatIsReadWhileCallsAreShed: small messages, streams, and what has no body. Of one without a length, as much as a small
// one has.
func TestWhatIsReadWhileCallsAreShed(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		path         string
		size, length int
		major        int
		read         int
		closes       bool
	}{
		"small":                    {path: "/rpc", size: 100, length: 100, major: 1, read: 100},
		"as large as a small one":  {path: "/rpc", size: smallBody, length: smallBody, major: 1, read: smallBody},
		"one byte larger":          {path: "/rpc", size: smallBody + 1, length: smallBody + 1, major: 1, closes: true},
		"large, over HTTP/2":       {path: "/rpc", size: smallBody + 1, length: smallBody + 1, major: 2},
		"small, without a length":  {path: "/mcp", size: 100, length: -1, major: 1, read: 100},
		"large, without a length":  {path: "/mcp", size: 3 * smallBody, length: -1, major: 1, read: smallBody, closes: true},
		"a stream with many calls": {path: outriggerv1connect.ToolServiceExchangeProcedure, size: 3 * smallBody, length: -1, major: 2, read: 3 * smallBody},
		"nothing":                  {path: "/mcp", length: 0, major: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shed := func() *errmap.Error { return errmap.New(errmap.Unavailable) }
			var got []byte
			var err error
			h := sparing(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got, err = io.ReadAll(r.Body) }), shed)
			r := httptest.NewRequest(http.MethodPost, row.path, strings.NewReader(strings.Repeat("x", row.size)))
			r.ContentLength, r.ProtoMajor = int64(row.length), row.major
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if len(got) != row.read || (w.Header().Get("Connection") == "close") != row.closes {
				t.Errorf("%d bytes were read, header %v", len(got), w.Header())
			}
			var rejected *errmap.Error
			if isCut := errors.As(err, &rejected); isCut != (row.read < row.size) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestAllIsReadWhileNothingIsShed, and a message is cut when that begins.
func TestAllIsReadWhileNothingIsShed(t *testing.T) {
	t.Parallel()
	var failed *errmap.Error
	h := sparing(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if n, err := io.ReadFull(r.Body, make([]byte, smallBody)); n != smallBody || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		failed = errmap.New(errmap.Unavailable)
		if n, err := r.Body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, failed) {
			t.Errorf("%d, %v", n, err)
		}
	}), func() *errmap.Error { return failed })
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/rpc", strings.NewReader(strings.Repeat("x", 2*smallBody))))
}

// TestTheSpanSaysThatAMessageWasNotRead: the RPC library answers such a request by itself.
func TestTheSpanSaysThatAMessageWasNotRead(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	shed := func() *errmap.Error { return errmap.New(errmap.Unavailable) }
	h := telemetry.HTTPHandler(sparing(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
	}), shed), telemetry.HTTPOptions{
		Tracer: telemetry.NewTracer(telemetry.TracerOptions{Provider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))}),
		Route:  func(*http.Request) telemetry.Route { return telemetry.Route{} },
		Edge:   func(*http.Request) telemetry.Edge { return telemetry.EdgeGRPC },
	})
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", smallBody+1)))
	h.ServeHTTP(httptest.NewRecorder(), r)
	spans := exporter.GetSpans()
	if len(spans) != 1 || spans[0].Status.Code != codes.Error {
		t.Fatalf("%+v", spans)
	}
	for _, want := range []telemetry.Attribute{telemetry.Text(telemetry.ErrorCode, "UNAVAILABLE"), telemetry.Text(telemetry.StatusCode, "UNAVAILABLE")} {
		if !slices.Contains(spans[0].Attributes, want) {
			t.Errorf("no %v in %v", want, spans[0].Attributes)
		}
	}
}
