// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
)

// alternate sends each request to the next of several servers.
func alternate(t *testing.T, addrs ...string) (string, *[]atomic.Int64) {
	t.Helper()
	hits := make([]atomic.Int64, len(addrs))
	var next atomic.Uint64
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			at := int(next.Add(1)) % len(addrs)
			hits[at].Add(1)
			r.SetURL(&url.URL{Scheme: "http", Host: addrs[at]})
			r.Out.Host = addrs[at]
		},
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL + "/mcp", &hits
}

// keyFile holds one key that all replicas share.
func keyFile(t *testing.T) string {
	t.Helper()
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(base64.StdEncoding.EncodeToString(key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTwoReplicasServeOneClientAlternately: whatever a client brings back was
// handed out by the other one, and it never notices.
func TestTwoReplicasServeOneClientAlternately(t *testing.T) {
	t.Parallel()
	backend, keys := startFixture(t), keyFile(t)
	flags := []string{"--backend", backend, "--state-key", keys, "--page-size", "3"}
	endpoint, hits := alternate(t, serve(t, flags...).Addr(), serve(t, flags...).Addr())
	client := caller.Client(false)
	t.Cleanup(client.CloseIdleConnections)
	asked := atomic.Int64{}
	sdk := mcp.NewClient(&mcp.Implementation{Name: "replicas", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked.Add(1)
			content := map[string]any{}
			for _, name := range propertyNames(t, req.Params.RequestedSchema) {
				content[name] = map[bool]any{true: true, false: "Ann"}[name == "ok" || name == "confirm"]
			}
			return &mcp.ElicitResult{Action: "accept", Content: content}, nil
		},
	})
	session, err := sdk.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: client, MaxRetries: -1},
		&mcp.ClientSessionOptions{ProtocolVersion: caller.ModernVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()

	// Pages: each cursor goes to the other replica.
	var names []string
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	if len(names) < 30 || !slices.Contains(names, "test_simple_text") || len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) {
		t.Errorf("the pages do not add up: %d tools, %v", len(names), names)
	}
	prompts := 0
	for _, err := range session.Prompts(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		prompts++
	}
	if prompts < 5 {
		t.Errorf("%d prompts", prompts)
	}

	// Questions: the answer reaches the replica that did not ask.
	for _, tool := range []string{
		"test_input_required_result_elicitation", "test_input_required_result_request_state", "test_input_required_result_multi_round",
	} {
		before := asked.Load()
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool})
		if err != nil || result.IsError {
			t.Errorf("%s: %+v, %v", tool, result, err)
		}
		if asked.Load() == before {
			t.Errorf("%s asked nothing", tool)
		}
	}
	completion, err := session.Complete(t.Context(), &mcp.CompleteParams{
		Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: "test_prompt_with_arguments"},
		Argument: mcp.CompleteParamsArgument{Name: "arg1", Value: "test"},
	})
	if err != nil || completion == nil {
		t.Errorf("completion: %v, %v", completion, err)
	}
	for i := range *hits {
		if n := (*hits)[i].Load(); n < 10 {
			t.Errorf("replica %d answered %d requests only", i, n)
		}
	}
}

// TestWithoutACommonKeyAReplicaRefusesWhatAnotherHandedOut: the counterpart,
// which shows that the test above can fail.
func TestWithoutACommonKeyAReplicaRefusesWhatAnotherHandedOut(t *testing.T) {
	t.Parallel()
	backend := startFixture(t)
	one, two := serve(t, "--backend", backend, "--page-size", "3"), serve(t, "--backend", backend, "--page-size", "3")
	first := modernRequest(t, one.URL("/mcp"), "tools/list", "", `{}`)
	cursor := first.Result.NextCursor
	if cursor == "" {
		t.Fatalf("no cursor: %+v", first)
	}
	quoted, err := json.Marshal(cursor)
	if err != nil {
		t.Fatal(err)
	}
	if got := modernRequest(t, one.URL("/mcp"), "tools/list", "", `{"cursor":`+string(quoted)+`}`); got.Error.Code != 0 {
		t.Errorf("its own replica: %+v", got)
	}
	if got := modernRequest(t, two.URL("/mcp"), "tools/list", "", `{"cursor":`+string(quoted)+`}`); got.Error.Code != -32602 {
		t.Errorf("the other replica: %+v", got)
	}
}

// modernReply is what the tests here read of a reply.
type modernReply struct {
	Result struct {
		NextCursor string `json:"nextCursor"`
	} `json:"result"`
	Error struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// modernRequest posts one request of the modern era.
func modernRequest(t *testing.T, endpoint, method, name, params string) modernReply {
	t.Helper()
	var out modernReply
	if err := json.Unmarshal(modernBody(t, endpoint, method, name, params), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// modernBody posts one request of the modern era and returns the reply as it is.
func modernBody(t *testing.T, endpoint, method, name, params string) []byte {
	t.Helper()
	return modernBodyAs(t, endpoint, "", method, name, params)
}

// modernBodyAs is modernBody for a caller with a token; empty for none.
func modernBodyAs(t *testing.T, endpoint, token, method, name, params string) []byte {
	t.Helper()
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + caller.ModernVersion + `","io.modelcontextprotocol/clientCapabilities":{}}`
	inner := strings.TrimSuffix(strings.TrimPrefix(params, "{"), "}")
	if inner != "" {
		inner += ","
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint,
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+inner+meta+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Mcp-Protocol-Version", caller.ModernVersion)
	req.Header.Set("Mcp-Method", method)
	if name != "" {
		req.Header.Set("Mcp-Name", name)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// propertyNames are the fields of a form.
func propertyNames(t *testing.T, schema any) []string {
	t.Helper()
	raw, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	var form struct {
		Properties map[string]any `json:"properties"`
	}
	if err := json.Unmarshal(raw, &form); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range form.Properties {
		names = append(names, name)
	}
	return names
}
