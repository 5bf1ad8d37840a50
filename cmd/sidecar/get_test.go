// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/oddtest"
)

// TestConnectGetPassesThrough: methods without side effects are called by GET, behind the same guard, authentication and
// limits as by POST; others are not.
func TestConnectGetPassesThrough(t *testing.T) {
	t.Parallel()
	odd := oddtest.Start(t)
	p := startProcess(t, "serve", "--backend", odd.URL, "--max-message-bytes", "1024")
	var methods []string
	client := connect.NewClient[dynamicpb.Message, dynamicpb.Message](&http.Client{Transport: &noting{methods: &methods}}, p.main+"/odd.v1.Odd/Peek",
		connect.WithHTTPGet(), connect.WithIdempotency(connect.IdempotencyNoSideEffects),
		connect.WithResponseInitializer(func(_ connect.Spec, m any) error {
			*m.(*dynamicpb.Message) = *oddMessage(t, "odd.v1.Box", "")
			return nil
		}))
	sent := oddMessage(t, "odd.v1.Box", `content { type_url: "x/odd.nowhere.v1.Thing" value: "\001" }`)
	resp, err := client.CallUnary(t.Context(), connect.NewRequest(sent))
	if err != nil || string(encodedOdd(t, resp.Msg)) != string(encodedOdd(t, sent)) || strings.Join(methods, " ") != http.MethodGet {
		t.Errorf("got %v %v by %v", resp, err, methods)
	}

	get := func(procedure, encoding, message string, headers ...string) (int, string) {
		t.Helper()
		query := url.Values{"connect": {"v1"}, "encoding": {encoding}, "message": {message}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.main+procedure+"?"+query.Encode(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(headers); i += 2 {
			if req.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
				req.Host = headers[i+1]
			}
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	for name, tt := range map[string]struct {
		procedure, encoding, message string
		headers                      []string
		status                       int
		says                         string
	}{
		"JSON":                       {"/odd.v1.Odd/Peek", "json", `{"kind":"reserved"}`, nil, 200, `"already started"`},
		"no side effects not stated": {"/odd.v1.Odd/Open", "json", `{}`, nil, 405, ""},
		"an unknown member":          {"/odd.v1.Odd/Peek", "json", `{"knid":""}`, nil, 400, `SchemaError`},
		"too large":                  {"/odd.v1.Odd/Peek", "json", `{"kind":"` + strings.Repeat("x", 2000) + `"}`, nil, 429, "resource_exhausted"},
		"a foreign origin":           {"/odd.v1.Odd/Peek", "json", `{}`, []string{"Origin", "https://evil.example"}, 403, "ORIGIN_FORBIDDEN"},
		"an image of a foreign page": {"/odd.v1.Odd/Peek", "json", `{}`, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, 403, "ORIGIN_FORBIDDEN"},
		"an address that was typed":  {"/odd.v1.Odd/Peek", "json", `{"kind":"reserved"}`, []string{"Sec-Fetch-Site", "none"}, 200, `"already started"`},
		"a foreign host":             {"/odd.v1.Odd/Peek", "json", `{}`, []string{"Host", "evil.example"}, 403, "ORIGIN_FORBIDDEN"},
	} {
		if status, body := get(tt.procedure, tt.encoding, tt.message, tt.headers...); status != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}

	callers := filepath.Join(t.TempDir(), "callers.yaml")
	if err := os.WriteFile(callers, []byte(callersYAML()), 0o600); err != nil {
		t.Fatal(err)
	}
	p = startProcess(t, "serve", "--backend", odd.URL, "--tokens", callers)
	if status, body := get("/odd.v1.Odd/Peek", "json", `{}`); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d %s", status, body)
	}
	if status, body := get("/odd.v1.Odd/Peek", "json", `{}`, "Authorization", "Bearer "+chiefToken); status != http.StatusOK {
		t.Errorf("with a token: %d %s", status, body)
	}
}

// noting notes the methods of requests.
type noting struct{ methods *[]string }

// RoundTrip implements [http.RoundTripper].
func (n *noting) RoundTrip(r *http.Request) (*http.Response, error) {
	*n.methods = append(*n.methods, r.Method)
	return http.DefaultTransport.RoundTrip(r)
}

func encodedOdd(t *testing.T, m proto.Message) []byte {
	t.Helper()
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
