// SPDX-License-Identifier: Apache-2.0

package mcphttp_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	version = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	able    = `"io.modelcontextprotocol/clientCapabilities":{}`
	meta    = `"_meta":{` + version + `,` + able + `}`
)

// edge is the handler over the demo's tools with a backend that echoes.
func edge(t *testing.T) string {
	t.Helper()
	b := dialect.New(bridge.New(mcptest.Memory(t), mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
	return mcptest.Serve(t, mcphttp.New(b, mcphttp.Options{}))
}

// answer is a reply over HTTP, in the members that tests look at.
type answer struct {
	status int
	header http.Header
	body   string
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    struct {
			Code      errmap.Code `json:"code"`
			Supported []string    `json:"supported"`
			Requested string      `json:"requested"`
		} `json:"data"`
	} `json:"error"`
}

func (a answer) errorCode() int {
	if a.Error == nil {
		return 0
	}
	return a.Error.Code
}

// post sends a message with "Name: value" headers beside the content type.
func post(t *testing.T, url, body string, headers ...string) answer {
	t.Helper()
	return send(t, http.MethodPost, url, body, headers...)
}

func send(t *testing.T, method, url, body string, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	resp, err := mcptest.Client(t, 1).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answerOf(t, resp, raw)
}

// answerOf is a reply that was read to its end.
func answerOf(t testing.TB, resp *http.Response, body []byte) answer {
	t.Helper()
	got := answer{status: resp.StatusCode, header: resp.Header, body: string(body)}
	if resp.Header.Get("Content-Type") == "application/json" && !jsonrpc.IsBatch(body) {
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
	}
	return got
}

// request is a message with id 0, which is a good one.
func request(method, params string) string {
	return `{"jsonrpc":"2.0","id":0,"method":"` + method + `","params":{` + params + `}}`
}

// modern are the headers that repeat the body. Tests append to them, also at the same time.
func modern(method string, more ...string) []string {
	return slices.Clip(append([]string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: " + method}, more...))
}
