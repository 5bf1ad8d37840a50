// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// A backend that takes down which headers reach it, and answers with its own.
type recorder struct {
	seen            http.Header
	header, trailer http.Header
}

func (r *recorder) call(_ context.Context, _ *mcptest.Method, in []byte, header http.Header) (*mcptest.Answer, *errmap.Error) {
	r.seen = header
	return &mcptest.Answer{Body: bytes.Clone(in), Header: r.header, Trailer: r.trailer}, nil
}

// crossing lets headers through, to the backend and back.
func crossing(inbound, outbound []string) func(*configv1.Config) {
	return func(c *configv1.Config) {
		c.Backend.Metadata = &configv1.Metadata{Inbound: inbound, Outbound: outbound}
	}
}

// hostile holds what must never cross, beside a few that may.
func hostile() http.Header {
	h := http.Header{}
	for _, name := range []string{
		"Authorization", "Cookie", "Set-Cookie", "Proxy-Authorization", "Www-Authenticate", "Host", "Connection", "Keep-Alive",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings", "Origin", "Content-Type", "Content-Length",
		"Grpc-Timeout", "Connect-Timeout-Ms", "Mcp-Session-Id", "Mcp-Name", "Sec-Fetch-Site", "User-Agent", "Forwarded",
		"Access-Control-Allow-Origin", "X-Api-Key", "X-Auth-Token", "X-Forwarded-Client-Cert", "X-Goog-Iap-Jwt-Assertion",
		"X-Tenant-Id", "X-Trace-Id", "Traceparent",
	} {
		h.Set(name, "v-"+strings.ToLower(name))
	}
	h.Add("X-Tenant-Id", "second")
	return h
}

// A header of a caller arrives in a form that every protocol can send, or not at all. It never ends the call.
func TestNoHeaderOfACallerEndsACall(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 1)
	_, lab := demov1connect.NewLabHandler(demov1connect.UnimplementedLabHandler{})
	address := strings.TrimPrefix(mcptest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Clone()
		lab.ServeHTTP(w, r)
	})), "http://")
	sidecars := map[string]*mcptest.Rig{}
	for _, scheme := range []string{"grpc", "connect+http", "grpcweb+http"} {
		sidecars[scheme] = mcptest.Pipe(t, mcptest.Parts{Behind: scheme + "://" + address, Configure: crossing([]string{"*"}, nil)})
	}
	for name, tc := range map[string]struct {
		header  string
		in, out []string
	}{
		"bytes that no protocol has":   {header: "X-A", in: []string{"fine", "b\xffd", "a\r\nb: c", "", "last"}, out: []string{"fine", "", "last"}},
		"whitespace at the ends":       {header: "X-Request-Id", in: []string{"\tid 7 \t"}, out: []string{"id 7"}},
		"a tab within":                 {header: "X-Request-Id", in: []string{"a\tb"}},
		"tabs around members":          {header: "X-List", in: []string{"a\t,\tb ,c"}, out: []string{"a, b, c"}},
		"tracestate":                   {header: "Tracestate", in: []string{"a=1,\tb=2\t,c=3"}, out: []string{"a=1,b=2,c=3"}},
		"tracestate, one bad member":   {header: "Tracestate", in: []string{"a=1,b=x\ty,é=2,,c=3"}, out: []string{"a=1,c=3"}},
		"tracestate, nothing good":     {header: "Tracestate", in: []string{"a=\t1"}},
		"baggage":                      {header: "Baggage", in: []string{"a\t=\t1\t;\tp=2\t,\tb=2", "c=3"}, out: []string{"a = 1 ; p=2,b=2,c=3"}},
		"baggage, one bad member":      {header: "Baggage", in: []string{"a=é,b=2"}, out: []string{"b=2"}},
		"baggage, as it should be":     {header: "Baggage", in: []string{"a=1, b=2;p"}, out: []string{"a=1,b=2;p"}},
		"binary":                       {header: "X-Bin", in: []string{"AAEC/w", "AAEC/w=="}, out: []string{"AAEC/w", "AAEC/w=="}},
		"binary, not base64":           {header: "X-Bin", in: []string{"!!", "AAE\tC"}},
		"binary, joined":               {header: "X-Bin", in: []string{"AAEC/w==,\tAAED"}, out: []string{"AAEC/w==", "AAED"}},
		"a name that gRPC has not":     {header: "X~A", in: []string{"1"}},
		"a name of no protocol at all": {header: "X A", in: []string{"1"}},
	} {
		for scheme, b := range sidecars {
			req := toolCall(b, "lab.echo", `{}`)
			req.Header = http.Header{tc.header: tc.in}
			resp := b.Handle(t.Context(), req)
			if resp.Err == nil || resp.Err.BackendCode != "unimplemented" {
				t.Errorf("%s, %s: got %v, want the backend's own status", name, scheme, resp.Err)
				continue
			}
			if diff := cmp.Diff(tc.out, (<-seen)[tc.header]); diff != "" {
				t.Errorf("%s: the backend saw over %s (-want +got):\n%s", name, scheme, diff)
			}
		}
	}
}

func TestOnlyAllowedMetadataCrosses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		allow []string
		want  []string
	}{
		{"nothing", nil, nil},
		{"one", []string{"x-tenant-id"}, []string{"X-Tenant-Id"}},
		{"a glob", []string{"x-*-id"}, []string{"X-Tenant-Id", "X-Trace-Id"}},
		{"everything but credentials and what belongs to one hop", []string{"*"}, []string{"Traceparent", "X-Tenant-Id", "X-Trace-Id"}},
		{"a glob over credentials", []string{"x-a*", "authoriz*"}, nil},
		{"a vendor's key, named in full", []string{"x-api-key"}, []string{"X-Api-Key"}},
		{"several wildcards", []string{"*-tenant-*"}, []string{"X-Tenant-Id"}},
		{"an end that overlaps", []string{"x-trace-id*id"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backend := &recorder{header: hostile(), trailer: hostile()}
			b := fake(t, backend.call, crossing(tc.allow, tc.allow))
			req := toolCall(b, "lab.echo", `{}`)
			req.Header = hostile()
			resp := b.Handle(t.Context(), req)
			if resp.Err != nil {
				t.Fatal(resp.Err)
			}
			for where, got := range map[string]http.Header{"to the backend": backend.seen, "header": resp.Header, "trailer": resp.Trailer} {
				names := make([]string, 0, len(got))
				for name, values := range got {
					names = append(names, name)
					if !slices.Equal(values, hostile()[name]) {
						t.Errorf("%s: %s is %q", where, name, values)
					}
				}
				slices.Sort(names)
				if diff := cmp.Diff(append([]string{}, tc.want...), names); diff != "" {
					t.Errorf("%s (-want +got):\n%s", where, diff)
				}
			}
		})
	}
}

// The real backend shows what arrived, and the reply what came back: as headers
// where the transport has them.
func TestMetadataCrossesToARealBackend(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Backend.Metadata = &configv1.Metadata{Inbound: []string{"x-tenant", "traceparent"}, Outbound: []string{"x-reply-*"}}
	}})
	in := inbound(rig.NewOrigin(), mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{`+
		`"name":"lab.inspect","arguments":{"replyHeaders":{"x-reply-a":"1","x-session":"c"},"replyTrailers":{"x-reply-b":"2","x-other":"3"}},`+
		`"_meta":{"traceparent":"00-from-the-message-01"}}}`)
	in.Header = http.Header{"X-Tenant": {"blue"}, "Authorization": {"Bearer hunter2"}, "Cookie": {"c=1"}, "Traceparent": {"00-from-the-header-00"}}
	reply := rig.Send(t.Context(), in)
	var seen struct {
		Metadata map[string]struct {
			Values []string `json:"values"`
		} `json:"metadata"`
	}
	got := decode(t, reply)
	if got.Result == nil {
		t.Fatalf("got %s", reply.Bytes())
	}
	if err := json.Unmarshal(got.Result.StructuredContent, &seen); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"x-tenant": {"blue"}, "traceparent": {"00-from-the-message-01"}, "authorization": nil, "cookie": nil,
	} {
		if diff := cmp.Diff(want, seen.Metadata[name].Values); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(http.Header{"X-Reply-A": {"1"}, "X-Reply-B": {"2"}}, reply.Header); diff != "" {
		t.Errorf("the reply's headers (-want +got):\n%s", diff)
	}
}

func TestTraceContextOfAMessageGoesBeforeTheConnections(t *testing.T) {
	t.Parallel()
	connection := http.Header{"Traceparent": {"tp-header"}, "Tracestate": {"ts-header"}, "Baggage": {"from=header"}}
	for _, tc := range []struct {
		name   string
		header http.Header
		meta   string
		want   http.Header
	}{
		{"no meta", connection, `{}`, connection},
		{"no header", nil, `{"traceparent":"tp"}`, http.Header{"Traceparent": {"tp"}}},
		{"neither", nil, `{}`, nil},
		{"all three", connection, `{"traceparent":"tp","tracestate":"ts","baggage":"k=v"}`,
			http.Header{"Traceparent": {"tp"}, "Tracestate": {"ts"}, "Baggage": {"k=v"}}},
		{"a parent alone leaves the connection's state behind", connection, `{"traceparent":"tp"}`,
			http.Header{"Traceparent": {"tp"}, "Baggage": {"from=header"}}},
		{"baggage alone", connection, `{"baggage":"k=v"}`,
			http.Header{"Traceparent": {"tp-header"}, "Tracestate": {"ts-header"}, "Baggage": {"k=v"}}},
		{"a second header", connection, `{"traceparent":"tp\r\nauthorization: Bearer x"}`, connection},
		{"a line end", connection, `{"tracestate":"a\n"}`, connection},
		{"a zero byte", connection, `{"baggage":"a\u0000"}`, connection},
		{"not ASCII", connection, `{"baggage":"k=ü"}`, connection},
		{"empty", connection, `{"traceparent":""}`, connection},
		{"no string", connection, `{"traceparent":7,"tracestate":null,"baggage":["x"]}`, connection},
		{"as long as may be", nil, `{"baggage":"k=` + strings.Repeat("b", 8190) + `"}`, http.Header{"Baggage": {"k=" + strings.Repeat("b", 8190)}}},
		{"too long", nil, `{"baggage":"k=` + strings.Repeat("b", 8191) + `"}`, nil},
		{"other names do not cross", nil, `{"authorization":"Bearer x","x-request-id":"r"}`, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backend := &recorder{}
			b := fake(t, backend.call, crossing([]string{"*"}, nil))
			in := inbound(b.NewOrigin(), mcptest.Canonical,
				`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","_meta":`+tc.meta+`}}`)
			in.Header = tc.header.Clone()
			if got := decode(t, b.Send(t.Context(), in)); got.code() != "" {
				t.Fatalf("got %+v", got)
			}
			if diff := cmp.Diff(tc.want, backend.seen); diff != "" {
				t.Errorf("the backend saw (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.header, in.Header); diff != "" {
				t.Errorf("the edge's own headers were changed:\n%s", diff)
			}
		})
	}
}
