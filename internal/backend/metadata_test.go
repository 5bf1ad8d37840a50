// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
)

func TestMetadataArrives(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 1)
	mux := http.NewServeMux()
	unary(mux, echoProcedure, func(ctx context.Context, req *connect.Request[rawMessage]) (*connect.Response[rawMessage], error) {
		seen <- req.Header().Clone()
		return echo(ctx, req)
	})
	p := servePeer(t, mux, clearProtocols(true, true))
	md := http.Header{
		"Authorization":   {"Bearer token"},
		"x-lower":         {"a", "b, c"},
		"X-Data-Bin":      {"AAEC/w"},
		"Traceparent":     {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		"Idempotency-Key": {"k1"},
		// Not the caller's to say:
		"Content-Type":       {"text/evil"},
		"Content-Length":     {"1"},
		"Host":               {"evil.example"},
		"Te":                 {"gzip"},
		"Connection":         {"close"},
		"Transfer-Encoding":  {"chunked"},
		"Grpc-Timeout":       {"1n"},
		"Connect-Timeout-Ms": {"1"},
		"User-Agent":         {"evil"},
	}
	for _, scheme := range allSchemes() {
		c := newClient(t, p.as(scheme), Options{UserAgent: "outrigger-test/1"})
		if _, err := c.Call(t.Context(), echoProcedure, []byte("x"), md); err != nil {
			t.Fatalf("%s: %v", scheme, err)
		}
		got := <-seen
		want := http.Header{
			"Authorization": {"Bearer token"}, "X-Lower": {"a", "b, c"}, "X-Data-Bin": {"AAEC/w"},
			"Traceparent": md["Traceparent"], "Idempotency-Key": {"k1"},
		}
		if diff := cmp.Diff(want, incoming(got)); diff != "" {
			t.Errorf("%s: metadata (-want +got):\n%s", scheme, diff)
		}
		if got.Get("User-Agent") != "outrigger-test/1" || strings.Contains(got.Get("Content-Type"), "evil") || got.Get("Grpc-Timeout")+got.Get("Connect-Timeout-Ms") != "" {
			t.Errorf("%s: protocol headers %v", scheme, got)
		}
		if len(md) != 14 || md.Get("Host") != "evil.example" {
			t.Errorf("the caller's metadata changed: %v", md)
		}
	}
}

func TestMetadataRefusals(t *testing.T) {
	t.Parallel()
	p := servePeer(t, echoMux(), clearProtocols(true, true))
	c := newClient(t, p.as("grpc"), Options{MaxMetadataBytes: 100})
	for name, md := range map[string]http.Header{
		"newline in a value":     {"X-A": {"a\r\nX-Evil: 1"}},
		"zero byte":              {"X-A": {"a\x00"}},
		"tab":                    {"X-A": {"a\tb"}},
		"not ASCII":              {"X-A": {"ü"}},
		"space before":           {"X-A": {" a"}},
		"space after":            {"X-A": {"a "}},
		"newline in a name":      {"X-A\nX-Evil": {"1"}},
		"colon in a name":        {"X-A:": {"1"}},
		"space in a name":        {"X A": {"1"}},
		"empty name":             {"": {"1"}},
		"name that is not ASCII": {"X-\u017f": {"1"}},
		"too long":               {"X-A": {strings.Repeat("x", 98)}},
		"too long together":      {"X-A": {strings.Repeat("x", 60)}, "X-B": {strings.Repeat("x", 60)}},
	} {
		_, err := c.Call(t.Context(), echoProcedure, nil, md)
		want := KindRejected
		if strings.HasPrefix(name, "too long") {
			want = KindRequestTooLarge
		}
		if e := failure(t, err); e.Kind != want || e.Sent {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if n := p.conns.Load(); n != 0 {
		t.Errorf("%d connections for calls that were refused", n)
	}
	if _, err := c.Call(t.Context(), echoProcedure, nil, http.Header{"X-A": {strings.Repeat("x", 97)}}); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if got := incoming(http.Header{"Date": {"x"}, "X-Empty": nil}); got != nil {
		t.Errorf("no metadata shows as %v", got)
	}
}

func TestProcedures(t *testing.T) {
	t.Parallel()
	c := newClient(t, "grpc://127.0.0.1:1", Options{})
	for procedure, want := range map[string]bool{
		"/a.B/C": true, "/B/C": true, "/pkg.v1.Svc_1/Do_It2": true,
		"": false, "/": false, "a.B/C": false, "/a.B": false, "/a.B/": false, "//C": false, "/a.B/C/D": false,
		"/a..B/C": false, "/.B/C": false, "/B./C": false, "/1a/C": false, "/B/1C": false, "/B/C.D": false,
		"/a.B/C?x": false, "/a.B/../C": false, "/a.B/C#": false, "/a b/C": false, "/a%2fB/C": false, "/ä/C": false,
	} {
		m, err := c.method(procedure)
		if (err == nil) != want {
			t.Errorf("%q: got %v", procedure, err)
		}
		if err == nil && m.procedure != procedure {
			t.Errorf("%q reads back %q", procedure, m.procedure)
		}
		if err != nil && failure(t, err).Kind != KindRejected {
			t.Errorf("%q: got %v", procedure, err)
		}
	}
	if _, err := c.Call(t.Context(), "/x", nil, nil); failure(t, err).Kind != KindRejected {
		t.Errorf("got %v", err)
	}
}
