// SPDX-License-Identifier: Apache-2.0

package stranger

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

// rows are the additions. Each is what somebody could want, in as few lines as show it.
func rows() []row {
	return []row{setting(), method(), edge(), source(), counter(), code()}
}

// setting bounds the query of a URL: a field of the configuration, and the handler in front that has the configuration at hand.
func setting() row {
	return row{
		name: "setting", page: "a setting",
		edits: []edit{{
			file: "proto/outrigger/config/v1/limits.proto", anchor: "message Limits {", text: `  // Maximum length of the query of a URL, in bytes; requests with longer ones are INVALID_ENVELOPE. Range: 16 to 16777216.
  optional int32 max_query_bytes = 900 [
    json_name = "max_query_bytes",
    (default) = "1048576",
    (flag) = {
      name: "max-query-bytes"
      group: HELP_GROUP_LIMITS
      help: "maximum length of the query of a URL"
    },
    (buf.validate.field).int32 = {
      gte: 16
      lte: 16777216
    }
  ];
`,
		}, {
			file: "internal/server/front/front.go", anchor: "func (f *Front) wrap(", text: `	if isForCallers {
		handler = f.withQueries(handler)
	}
`,
		}, {
			file: "internal/server/front/front.go", anchor: "func (f *Front) wrap(", at: atEnd, text: `
// withQueries refuses requests whose query is too long.
func (f *Front) withQueries(next http.Handler) http.Handler {
	most := int(f.opts.Config.GetLimits().GetMaxQueryBytes())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.URL.RawQuery) > most {
			f.table.refuse(w, r, errmap.New(errmap.InvalidEnvelope, errmap.WithViolations(errmap.Violation{
				Path: "/query", Keyword: "maxLength", Message: fmt.Sprintf("the query has more than %d bytes", most),
			})))
			return
		}
		next.ServeHTTP(w, r)
	})
}
`,
		}},
		generate: [][]string{{"make", "-o", ".tmp/bin/buf", "generate"}}, // buf is there: make stranger-test asks for it
		shown: func(t *testing.T, c *tree, binary string) {
			help, _ := output(t, binary, "serve", "--help-all")
			says(t, "--help-all", help, "--max-query-bytes", "maximum length of the query of a URL (default 1")
			says(t, "docs/configuration.md", document(t, c, "docs/configuration.md"), "`--max-query-bytes`")
			if text, ok := output(t, binary, "serve", "--demo", "--max-query-bytes", "3"); ok || !strings.Contains(text, "16") {
				t.Errorf("a value below its bound is accepted: %s", text)
			}
			s := demo(t, binary, "--max-query-bytes", "32")
			list := jsonrpc("tools/list", map[string]any{})
			if status, text := post(t, s.URL("/rpc?q="+strings.Repeat("a", 20)), list); status != http.StatusOK {
				t.Errorf("a short query: %d %s", status, text)
			}
			status, text := post(t, s.URL("/rpc?q="+strings.Repeat("a", 40)), list)
			says(t, "the answer to a long query", text, "the query has more than 32 bytes")
			if status != http.StatusBadRequest {
				t.Errorf("a long query: %d", status)
			}
		},
	}
}

// method gives MCP the tools/get of the canonical dialect, in every era: the operation is there.
func method() row {
	return row{
		name: "method", page: "a method of MCP",
		edits: []edit{{
			file: "internal/dialect/mcp_read.go", anchor: "func readMCPCall(", at: atEnd, text: `
// readGetTool reads {"name"}.
func readGetTool(call *exchange) *errmap.Error {
	call.req.Names = bridge.NamesMCP
	return readToolName(call, "name")
}
`,
		}, {
			file: "internal/dialect/mcp_write.go", anchor: "func writeResources(", at: above, text: `// writeGetTool renders one tool.
func writeGetTool(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	dst := []byte(` + "`" + `{"tool":` + "`" + `)
	if call.in.Dialect == Legacy {
		return append(appendLegacyTool(dst, call.resp.Tool, catalog.ListForm{}), '}'), nil
	}
	return append(appendMCPTool(dst, call.resp.Tool, catalog.ListForm{}), h.introduction().modernTail...), nil
}

`,
		}, {
			file: "internal/dialect/mcp_write.go", anchor: `"github.com/outrigger-mcp/outrigger/internal/content"`, text: `	"github.com/outrigger-mcp/outrigger/internal/catalog"
`,
		}, {
			file: "internal/dialect/era_mcp.go", anchor: "maps.Copy(methods, map[string]*method{", text: `		"tools/get": {op: bridge.OpGet, read: readGetTool, write: writeGetTool},
`,
		}},
		shown: func(t *testing.T, _ *tree, binary string) {
			s := demo(t, binary)
			params := map[string]any{"name": "fleet_get_vehicle"}
			_, text := post(t, s.URL("/mcp"), jsonrpc("tools/get", params))
			says(t, "the legacy answer", text, `"result":{"tool":{"name":"fleet_get_vehicle"`, `"inputSchema":`)
			params["_meta"] = map[string]any{
				"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{},
			}
			_, text = post(t, s.URL("/mcp"), jsonrpc("tools/get", params), "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/get")
			says(t, "the modern answer", text, `"result":{"tool":{"name":"fleet_get_vehicle"`, `"resultType":"complete"`)
			params["name"] = "fleet_get_nothing"
			_, text = post(t, s.URL("/mcp"), jsonrpc("tools/get", params), "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/get")
			says(t, "the answer about no tool", text, `"error":`, "fleet_get_nothing")
		},
	}
}

// edge calls tools with plain HTTP: the name in the query, arguments and result as bodies.
func edge() row {
	return row{
		name: "edge", page: "an HTTP edge",
		edits: []edit{{
			file: "internal/edge/plainhttp/handler.go", text: `// SPDX-License-Identifier: Apache-2.0

// Package plainhttp is the edge for programs that know nothing but HTTP: POST /plain?tool=NAME with the arguments as the body,
// and the result as the answer. A Handler is safe for concurrent use.
package plainhttp

import (
	"net/http"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpbody"
)

// Path is the path of the endpoint.
const Path = "/plain"

// Handler serves calls. Its fields are required.
type Handler struct {
	Bridge *bridge.Bridge
	// MaxBytes is the maximum size of the arguments.
	MaxBytes int
}

// ServeHTTP handles one call.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := httpbody.Read(w, r, h.MaxBytes)
	if err != nil {
		h.Refuse(w, r, err)
		return
	}
	resp := h.Bridge.Handle(r.Context(), &bridge.Request{
		Op: bridge.OpCall, Origin: h.Bridge.Flights().NewOrigin(), Tool: r.URL.Query().Get("tool"), Arguments: bridge.Payload{Bytes: body},
		Header: r.Header, Caller: bridge.CallerOf(r.Context(), r.RemoteAddr), Peer: r.RemoteAddr, Transport: "http", Route: Path,
	})
	if resp.Err != nil {
		write(w, resp.Err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(resp.Result.Bytes)
	resp.Release(h.Bridge.Buffers())
}

// Refuse responds to a request that was refused before it was read.
func (h *Handler) Refuse(w http.ResponseWriter, r *http.Request, err *errmap.Error) {
	h.Bridge.Refused(&bridge.Refusal{Transport: "http", Route: Path, Caller: bridge.CallerOf(r.Context(), r.RemoteAddr), Header: r.Header, Err: err})
	write(w, err)
}

func write(w http.ResponseWriter, err *errmap.Error) {
	http.Error(w, string(err.Code)+": "+err.ModelText(errmap.About{ToolCall: true}), err.HTTPStatus())
}
`,
		}, {
			file: "internal/server/front/edges.go", anchor: `"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"`, text: `	"github.com/outrigger-mcp/outrigger/internal/edge/plainhttp"
`,
		}, {
			file: "internal/server/front/edges.go", anchor: "func (f *Front) openEdges() {", text: `	plain := &plainhttp.Handler{Bridge: f.opts.Bridge, MaxBytes: JSONLimits(f.opts.Config).MaxBytes}
	f.table.register(&edge{name: is("plain"), paths: map[string]http.Handler{plainhttp.Path: plain}, refuse: plain.Refuse})
`,
		}},
		shown: func(t *testing.T, _ *tree, binary string) {
			s := demo(t, binary)
			status, text := post(t, s.URL("/plain?tool=lab.echo"), `{"nonce":"over plain HTTP"}`)
			if says(t, "the result", text, "over plain HTTP"); status != http.StatusOK {
				t.Errorf("a call: %d", status)
			}
			status, text = post(t, s.URL("/plain?tool=lab.nothing"), `{}`)
			if says(t, "the answer about no tool", text, "TOOL_NOT_FOUND"); status != http.StatusNotFound {
				t.Errorf("no such tool: %d", status)
			}
			status, text = post(t, s.URL("/plain?tool=lab.echo"), `{}`, "Origin", "https://elsewhere.example")
			if says(t, "the answer to a foreign page", text, "ORIGIN_FORBIDDEN"); status != http.StatusForbidden {
				t.Errorf("a foreign page: %d", status)
			}
			says(t, "/metrics", metrics(t, s, "outrigger_calls_total"), `outrigger_calls_total{code="OK",edge="plain",tool="lab.echo"} 1`)
		},
	}
}

// source reads descriptors from a variable of the environment.
func source() row {
	return row{
		name: "source", page: "a descriptor source of `--descriptors`",
		edits: []edit{{
			file: "internal/source/fetch.go", anchor: "func ParseFetcher(", text: `	if name, ok := strings.CutPrefix(ref, "env://"); ok {
		return environment(name), nil
	}
`,
		}, {
			file: "internal/source/fetch.go", anchor: "func ParseFetcher(", at: atEnd, text: `
// environment is the variable that has a descriptor set in base64.
type environment string

// Name implements [Fetcher].
func (e environment) Name() string { return "descriptor set of the variable " + string(e) }

// ID implements [Fetcher].
func (e environment) ID() string { return "env://" + string(e) }

// Fetch implements [Fetcher].
func (e environment) Fetch(_ context.Context, _ string, most int) (*Fetched, error) {
	body, err := base64.StdEncoding.DecodeString(os.Getenv(string(e)))
	switch {
	case err != nil:
		return nil, err
	case len(body) == 0 || len(body) > most:
		return nil, fmt.Errorf("it has %d bytes, want 1 to %d", len(body), most)
	}
	return &Fetched{Sets: []FetchedSet{{Name: string(e), Body: body}}}, nil
}
`,
		}, {
			file: "internal/source/fetch.go", anchor: `	"encoding/hex"`, at: above, text: `	"encoding/base64"
`,
		}, {
			file: "internal/source/fetch.go", anchor: `	"path"`, at: above, text: `	"os"
`,
		}},
		shown: func(t *testing.T, c *tree, binary string) {
			t.Setenv("ORDERS_API", base64.StdEncoding.EncodeToString([]byte(document(t, c, "internal/demo/demo.binpb"))))
			s := sidecar.ServeReady(t, binary, "--backend", "grpc://127.0.0.1:1", "--descriptors", "env://ORDERS_API", "--native", "off")
			_, text := post(t, s.URL("/rpc"), jsonrpc("tools/list", map[string]any{}))
			says(t, "the list of tools", text, `"name":"fleet.get_vehicle"`)
		},
	}
}

// counter counts calls for which the backend was not asked.
func counter() row {
	const stats = "internal/telemetry/stats.go"
	return row{
		name: "counter", page: "a counter",
		edits: []edit{
			{file: stats, anchor: "type Stats struct {", text: "	unasked prometheus.Counter\n"},
			{file: stats, anchor: "	t.addMCP(maxTools)", at: above, text: `	t.unasked = t.counters("calls_unasked_total", "Finished tool calls for which the backend was not asked.").WithLabelValues()
`},
			{file: stats, anchor: "	s.inFlight.Dec()", text: `	if e.Upstream == 0 {
		s.stats.unasked.Inc()
	}
`},
		},
		generate: [][]string{{"go", "test", "./internal/telemetry/export", "-run", "TestThePageNamesEveryMetric", "-update"}},
		shown: func(t *testing.T, c *tree, binary string) {
			says(t, "docs/metrics.md", document(t, c, "docs/metrics.md"),
				"| `outrigger_calls_unasked_total` | counter | Finished tool calls for which the backend was not asked |")
			s := demo(t, binary)
			call := func(tool string) {
				post(t, s.URL("/rpc"), jsonrpc("tools/call", map[string]any{"name": tool, "arguments": map[string]any{}}))
			}
			says(t, "/metrics", metrics(t, s, "outrigger_calls_unasked_total"), "# TYPE outrigger_calls_unasked_total counter\noutrigger_calls_unasked_total 0\n")
			call("lab.echo")
			call("lab.nothing")
			says(t, "/metrics after a call of the backend and one of no tool", metrics(t, s, "outrigger_calls_unasked_total"), "\noutrigger_calls_unasked_total 1\n")
		},
	}
}

// code refuses requests that TLS early data brought (RFC 8470), on one edge.
func code() row {
	return row{
		name: "code", page: "an error code",
		edits: []edit{{
			file: "errmap/table.go", anchor: "		Code: Unauthenticated, ", at: above, text: `		Code: TooEarly, HTTP: 425, JSONRPC: rpcInvalidRequest,
		Modern: protocol(425, rpcInvalidRequest), Legacy: protocol(425, rpcInvalidRequest),
		Connect: connect.CodeUnavailable, ErrorType: TypeValidation,
		Message: "Too early", Retryable: RetryYes, BlamesCaller: true, Hop: true,
	},
	{
`,
		}, {
			file: "errmap/table.go", anchor: "	// Unauthenticated: ", at: above, text: `	// TooEarly: the request came in TLS early data, which an attacker can send again.
	TooEarly Code = "TOO_EARLY"
`,
		}, {
			file: "internal/edge/rpchttp/handler.go", anchor: "func (h *Handler) ServeHTTP(", text: `	if r.Header.Get("Early-Data") == "1" {
		h.Refuse(w, r, errmap.New(errmap.TooEarly))
		return
	}
`,
		}},
		generate: [][]string{{"go", "test", "./errmap", "-run", "TestTableGolden|TestDocument", "-update"}},
		shown: func(t *testing.T, c *tree, binary string) {
			says(t, "docs/errors.md", document(t, c, "docs/errors.md"), "TOO_EARLY")
			s := demo(t, binary)
			status, text := post(t, s.URL("/rpc"), jsonrpc("tools/list", map[string]any{}), "Early-Data", "1")
			says(t, "the answer", text, `"code":-32600`, `"message":"Too early"`, `TOO_EARLY`)
			if status != http.StatusTooEarly {
				t.Errorf("status %d", status)
			}
			says(t, "/metrics", metrics(t, s, "outrigger_requests_total"), `code="TOO_EARLY"`)
		},
	}
}
