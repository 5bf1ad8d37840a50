// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// Tokens of the callers in callersYAML. None of their texts may ever come out of
// a sidecar.
const (
	plannerToken = "canary-planner-8J3kd02mXq77"
	chiefToken   = "canary-chief-Zq81mXb5TnW0"
	unknownToken = "canary-unknown-Lw93nXc6RmV1"
)

// agentURI is a caller by certificate.
const agentURI = "spiffe://example.org/agents/echo"

func digestOf(token string) string {
	digest := sha256.Sum256([]byte(token))
	return hex.EncodeToString(digest[:])
}

// callersYAML is a planner who may echo and look, a chief who may everything,
// and an agent by certificate who may echo.
func callersYAML() string {
	return fmt.Sprintf(`callers:
  - name: planner
    token_sha256: [%q]
    tools: [lab.echo, lab.inspect, "fleet.get_*"]
  - name: chief
    token_sha256: [%q]
    tools: ["*"]
    publish: ["*"]
    subscribe: ["*"]
    trust: trusted
  - name: agent
    certificate_uris: [%q]
    tools: [lab.echo, lab.inspect]
`, digestOf(plannerToken), digestOf(chiefToken), agentURI)
}

// guardedSidecar is a sidecar with authentication, and all of its output.
type guardedSidecar struct {
	main, admin, health string // URLs
	ca                  *tlstest.Authority
	pair                tlstest.Pair
	callers, records    string // files
	stop                context.CancelFunc
	code                chan int
	log                 *lockedBuffer
}

// lockedBuffer is the log as far as it has been written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// startGuarded starts a sidecar with TLS and the callers of callersYAML in front of the
// example service, whose lab.inspect tells what metadata it was called with.
func startGuarded(t *testing.T, args ...string) *guardedSidecar {
	t.Helper()
	dir := t.TempDir()
	h := &guardedSidecar{
		ca: tlstest.NewAuthority(t), callers: filepath.Join(dir, "callers.yaml"), records: filepath.Join(dir, "runs"),
		code: make(chan int, 1), log: &lockedBuffer{},
	}
	h.pair = h.ca.Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1"}})
	rewrite(t, h.callers, callersYAML())
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	all := append([]string{
		"serve", "--demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--health", "127.0.0.1:0",
		"--record-dir", h.records, "--record-payloads", "--log-format", "json", "--log-level", "debug", "--reload-interval", "50ms",
		"--tokens", h.callers, "--tls-cert", h.pair.CertFile, "--tls-key", h.pair.KeyFile,
		"--metadata-in", "x-tenant,x-outrigger-subject,x-*",
	}, args...)
	go func() {
		h.code <- run(ctx, all, strings.NewReader(""), io.Discard, h.log, nil)
	}()
	t.Cleanup(func() { h.end(t) })
	testkit.Says(t, h.log, `"msg":"ready"`)
	h.addresses()
	h.main = "https" + strings.TrimPrefix(h.main, "http")
	return h
}

// addresses takes the listeners from the log.
func (h *guardedSidecar) addresses() {
	for line := range strings.SplitSeq(h.log.String(), "\n") {
		var l logLine
		if json.Unmarshal([]byte(line), &l) != nil || l.Message != "listening" {
			continue
		}
		switch l.Listener {
		case "main":
			h.main = "http://" + l.Addr
		case "admin":
			h.admin = "http://" + l.Addr
		case "health":
			h.health = "http://" + l.Addr
		}
	}
}

// end stops the sidecar, once.
func (h *guardedSidecar) end(t *testing.T) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections() // the drain would wait for them
	h.stop()
	code := testkit.Receive(t, "the process ends", h.code)
	h.code <- code
	if code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	// As Kubernetes does: the new file takes the old one's place at once.
	next := path + ".next"
	if err := errors.Join(os.WriteFile(next, []byte(text), 0o600), os.Rename(next, path)); err != nil {
		t.Fatal(err)
	}
}

// http is a client with its own connections; shown is its certificate, nil
// for none.
func (h *guardedSidecar) http(t *testing.T, shown *tls.Certificate) *http.Client {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: h.ca.Pool}
	if shown != nil {
		cfg.Certificates = []tls.Certificate{*shown}
	}
	transport := &http.Transport{TLSClientConfig: cfg, Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// visitor is an HTTP client with a bearer token; an empty token sends no
// Authorization header.
type visitor struct {
	t              *testing.T
	guardedSidecar *guardedSidecar
	client         *http.Client
	token          string
	// heard is everything that came back.
	heard *lockedBuffer
}

func (h *guardedSidecar) visitor(t *testing.T, token string) *visitor {
	t.Helper()
	return &visitor{t: t, guardedSidecar: h, client: h.http(t, nil), token: token, heard: &lockedBuffer{}}
}

// RoundTrip adds the token, and headers by which a caller would say who it is.
func (v *visitor) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if v.token != "" {
		r.Header.Set("Authorization", "Bearer "+v.token)
	}
	r.Header.Set("X-Outrigger-Subject", "root")
	r.Header["X_outrigger_subject"] = []string{"root"}
	r.Header.Set("X-Tenant", "reef")
	return v.client.Transport.RoundTrip(r)
}

// post sends one JSON message.
func (v *visitor) post(path, body string, headers ...string) (*http.Response, string) {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, v.guardedSidecar.main+path, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := v.RoundTrip(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	fmt.Fprintln(v.heard, resp.Status, resp.Header, string(raw))
	return resp, string(raw)
}

// answer is what a visitor got, in words that all edges share.
type answer struct {
	// code is the canonical code, empty for success.
	code string
	// status is the HTTP status, 0 where it is not the edge's to choose.
	status int
	// challenge is WWW-Authenticate.
	challenge string
	// said is the result, or the error.
	said string
}

// jsonAnswer reads a JSON-RPC reply.
func (v *visitor) jsonAnswer(resp *http.Response, raw string) answer {
	v.t.Helper()
	type data struct {
		Code string `json:"code"`
	}
	var m struct {
		Error *struct {
			Data data `json:"data"`
		} `json:"error"`
		Result struct {
			Meta struct {
				Error data `json:"dev.outrigger/error"`
			} `json:"_meta"`
			Failure struct {
				Details data `json:"error_details"`
			} `json:"error"`
		} `json:"result"`
	}
	if _, event, ok := strings.Cut(raw, "data: "); ok {
		raw = event
	}
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		v.t.Errorf("no JSON: %s", raw)
	}
	out := answer{status: resp.StatusCode, challenge: resp.Header.Get("WWW-Authenticate"), said: raw}
	out.code = m.Result.Meta.Error.Code + m.Result.Failure.Details.Code
	if m.Error != nil {
		out.code = m.Error.Data.Code
	}
	return out
}

// rpcAnswer reads the outcome of an RPC.
func (v *visitor) rpcAnswer(msg any, err error) answer {
	v.t.Helper()
	if err == nil {
		out := answer{}
		if m, ok := msg.(proto.Message); ok {
			out.said = fmt.Sprint(m)
		}
		fmt.Fprintln(v.heard, out.said)
		return out
	}
	fmt.Fprintln(v.heard, err)
	var failed *connect.Error
	if !errors.As(err, &failed) {
		v.t.Errorf("no RPC error: %v", err)
		return answer{code: "?"}
	}
	out := answer{challenge: failed.Meta().Get("WWW-Authenticate"), said: err.Error()}
	fmt.Fprintln(v.heard, failed.Meta())
	for _, d := range failed.Details() {
		if value, err := d.Value(); err == nil {
			fmt.Fprintln(v.heard, value)
			if info, ok := value.(*errdetails.ErrorInfo); ok {
				out.code = info.GetReason()
			}
		}
	}
	return out
}

func (v *visitor) api(options ...connect.ClientOption) outriggerv1connect.ToolServiceClient {
	return outriggerv1connect.NewToolServiceClient(&http.Client{Transport: v}, v.guardedSidecar.main, options...)
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// edges are all ways to call a tool. The tool is lab.echo, lab.inspect, which
// tells what metadata it was called with, or fleet.cancel_order.
func edges() map[string]func(v *visitor, tool string) answer {
	mcpName := func(tool string) string { return strings.ReplaceAll(tool, ".", "_") }
	arguments := func(tool string) string {
		switch tool {
		case "lab.echo":
			return `{"nonce":"n"}`
		case "lab.inspect":
			return `{}`
		}
		return `{"orderId":"1001"}`
	}
	overAPI := func(options ...connect.ClientOption) func(*visitor, string) answer {
		return func(v *visitor, tool string) answer {
			resp, err := v.api(options...).CallTool(v.t.Context(), connect.NewRequest(&outriggerv1.ToolCall{
				ToolName: tool, ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(arguments(tool))},
			}))
			if err != nil {
				return v.rpcAnswer(nil, err)
			}
			return v.rpcAnswer(resp.Msg, nil)
		}
	}
	typed := func(options ...connect.ClientOption) func(*visitor, string) answer {
		return func(v *visitor, tool string) answer {
			client := &http.Client{Transport: v}
			if tool == "lab.inspect" {
				resp, err := demov1connect.NewLabClient(client, v.guardedSidecar.main, options...).Inspect(v.t.Context(), connect.NewRequest(&demov1.InspectRequest{}))
				if err != nil {
					return v.rpcAnswer(nil, err)
				}
				return v.rpcAnswer(resp.Msg, nil)
			}
			if tool == "lab.echo" {
				resp, err := demov1connect.NewLabClient(client, v.guardedSidecar.main, options...).Echo(v.t.Context(), connect.NewRequest(&demov1.EchoRequest{Nonce: "n"}))
				if err != nil {
					return v.rpcAnswer(nil, err)
				}
				return v.rpcAnswer(resp.Msg, nil)
			}
			resp, err := demov1connect.NewFleetClient(client, v.guardedSidecar.main, options...).CancelOrder(v.t.Context(), connect.NewRequest(&demov1.CancelOrderRequest{OrderId: 1001}))
			if err != nil {
				return v.rpcAnswer(nil, err)
			}
			return v.rpcAnswer(resp.Msg, nil)
		}
	}
	return map[string]func(v *visitor, tool string) answer{
		"/rpc": func(v *visitor, tool string) answer {
			return v.jsonAnswer(v.post("/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments(tool)+`}}`))
		},
		"/rpc, message form": func(v *visitor, tool string) answer {
			return v.jsonAnswer(v.post("/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"tool_name":"`+tool+`","arguments":`+arguments(tool)+`}}`))
		},
		"/mcp modern": func(v *visitor, tool string) answer {
			return v.jsonAnswer(v.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+mcpName(tool)+`","arguments":`+arguments(tool)+`,`+modernMeta+`}}`,
				"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", mcpName(tool)))
		},
		"/mcp legacy": func(v *visitor, tool string) answer {
			return v.jsonAnswer(v.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+mcpName(tool)+`","arguments":`+arguments(tool)+`}}`,
				"MCP-Protocol-Version", "2025-06-18"))
		},
		"tool API, Connect":      overAPI(),
		"tool API, gRPC":         overAPI(connect.WithGRPC()),
		"tool API, gRPC-Web":     overAPI(connect.WithGRPCWeb()),
		"typed, Connect":         typed(),
		"typed, Connect as JSON": typed(connect.WithProtoJSON()),
		"typed, gRPC":            typed(connect.WithGRPC()),
		"typed, gRPC-Web":        typed(connect.WithGRPCWeb()),
		"exchange": func(v *visitor, tool string) answer {
			stream := v.api(connect.WithGRPC()).Exchange(v.t.Context())
			defer func() { _ = stream.CloseResponse() }()
			params := `{"name":"` + tool + `","arguments":` + arguments(tool) + `}`
			// If authentication fails, the first read of the stream returns the error.
			_ = stream.Send(&outriggerv1.Envelope{Message: &outriggerv1.Envelope_Request{Request: &outriggerv1.Request{
				Id: &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: "1"}}, Method: "tools/call",
				ParamsForm: &outriggerv1.Request_ParamsJson{ParamsJson: []byte(params)},
			}}})
			_ = stream.CloseRequest()
			envelope, err := stream.Receive()
			if err != nil {
				return v.rpcAnswer(nil, err)
			}
			out := v.rpcAnswer(envelope, nil)
			var data struct {
				Code string `json:"code"`
			}
			if raw := envelope.GetErrorResponse().GetError().GetDataJson(); raw != nil && json.Unmarshal(raw, &data) == nil {
				out.code = data.Code
			}
			out.said = string(envelope.GetSuccessResponse().GetResultJson())
			return out
		},
	}
}
