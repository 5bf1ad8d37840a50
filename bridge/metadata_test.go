// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/metadata"
)

// A backend that takes down which headers reach it, and answers with its own.
type recorder struct {
	seen            http.Header
	header, trailer http.Header
}

func (r *recorder) call(_ context.Context, _ *catalog.Method, in []byte, header http.Header) (*bridge.Answer, *errmap.Error) {
	r.seen = header
	return &bridge.Answer{Body: bytes.Clone(in), Header: r.header, Trailer: r.trailer}, nil
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

func TestValuesThatNotEveryProtocolCanSendAreLeftOut(t *testing.T) {
	t.Parallel()
	rules, err := metadata.NewRules([]string{"x-*"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	backend := &recorder{}
	b := fake(t, backend.call, bridge.Options{Metadata: rules})
	req := toolCall(b, "lab.echo", `{}`)
	req.Header = http.Header{"X-A": {"fine", "b\xffd", "a\r\nb: c", "", "last"}}
	if resp := b.Handle(t.Context(), req); resp.Err != nil {
		t.Fatal(resp.Err)
	}
	if diff := cmp.Diff(http.Header{"X-A": {"fine", "", "last"}}, backend.seen); diff != "" {
		t.Errorf("the backend saw (-want +got):\n%s", diff)
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
			rules, err := metadata.NewRules(tc.allow, tc.allow)
			if err != nil {
				t.Fatal(err)
			}
			backend := &recorder{header: hostile(), trailer: hostile()}
			b := fake(t, backend.call, bridge.Options{Metadata: rules})
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
	in := inbound(t, rig.Bridge.Flights().NewOrigin(), dialect.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{`+
		`"name":"lab.inspect","arguments":{"replyHeaders":{"x-reply-a":"1","x-session":"c"},"replyTrailers":{"x-reply-b":"2","x-other":"3"}},`+
		`"_meta":{"traceparent":"00-from-the-message-01"}}}`)
	in.Header = http.Header{"X-Tenant": {"blue"}, "Authorization": {"Bearer hunter2"}, "Cookie": {"c=1"}, "Traceparent": {"00-from-the-header-00"}}
	reply := rig.Bridge.HandleMessage(t.Context(), in)
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
