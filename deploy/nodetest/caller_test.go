// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

const (
	// callTimeout is far above what any call of these tests may take.
	callTimeout = 40 * time.Second
	// dialTimeout is how long it takes to see that a pod has gone with its address.
	dialTimeout = 2 * time.Second
)

// outcome is what became of one attempt to call.
type outcome uint8

const (
	// answered: the tool's own answer.
	answered outcome = iota
	// refused: the sidecar said that it does not take the call, and to try again.
	refused
	// unsent: there was no listener, so nothing was sent.
	unsent
	// lost: neither an answer nor a refusal.
	lost
)

// attempt is an outcome with what is behind it.
type attempt struct {
	outcome outcome
	// nonce is what came back in the answer.
	nonce string
	// hinted reports whether a refusal said when to try again.
	hinted bool
	err    error
}

// edge calls lab.sleep in one of the ways in which programs call.
type edge struct {
	name string
	dial func(addr string) func(ctx context.Context, nonce string, nap time.Duration) attempt
}

func edges() []edge {
	return []edge{
		{"JSON-RPC", func(addr string) func(context.Context, string, time.Duration) attempt { return dialJSON(addr, false) }},
		{"MCP", func(addr string) func(context.Context, string, time.Duration) attempt { return dialJSON(addr, true) }},
		{"ToolService over gRPC", dialTools},
		{"generated client over gRPC", dialLab},
	}
}

// httpClient has its own connections, with the token on every request.
func httpClient(h2 bool) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h2)
	protocols.SetUnencryptedHTTP2(h2)
	dialer := &net.Dialer{Timeout: dialTimeout}
	return &http.Client{Timeout: callTimeout, Transport: bearer{&http.Transport{
		Protocols: protocols, MaxIdleConnsPerHost: 64, DialContext: dialer.DialContext,
	}}}
}

type bearer struct{ next http.RoundTripper }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return b.next.RoundTrip(r)
}

// seconds writes a duration as Protobuf's JSON does.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }

func dialJSON(addr string, mcp bool) func(context.Context, string, time.Duration) attempt {
	client := httpClient(false)
	return func(ctx context.Context, nonce string, nap time.Duration) attempt {
		name, path, meta := "lab.sleep", "/rpc", ""
		if mcp {
			name, path = "lab_sleep", "/mcp"
			meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
		}
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q,"arguments":{"duration":%q,"nonce":%q}%s}}`,
			nonce, name, seconds(nap), nonce, meta)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+path, strings.NewReader(body))
		if err != nil {
			return attempt{outcome: lost, err: err}
		}
		// Without this the transport may send a request again by itself, and the
		// accounts would not show it.
		req.GetBody = nil
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("X-Request-Id", nonce)
		if mcp {
			req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
			req.Header.Set("Mcp-Method", "tools/call")
			req.Header.Set("Mcp-Name", name)
		}
		res, err := client.Do(req)
		if err != nil {
			return failure(err)
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			return attempt{outcome: lost, err: err}
		}
		return jsonAttempt(text, nonce, res)
	}
}

func jsonAttempt(text []byte, nonce string, res *http.Response) attempt {
	var reply struct {
		ID     string
		Result struct {
			StructuredContent struct{ Nonce string }
			IsError           bool
			Meta              map[string]struct{ Code string } `json:"_meta"`
		}
		Error *struct {
			Data struct{ Code string }
		}
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		return attempt{outcome: lost, err: fmt.Errorf("HTTP %d: %w: %.200s", res.StatusCode, err, text)}
	}
	code := reply.Result.Meta["dev.outrigger/error"].Code
	if reply.Error != nil {
		code = reply.Error.Data.Code
	}
	switch {
	case reply.ID != nonce:
		return attempt{outcome: lost, err: fmt.Errorf("the reply is to %q, the request was %q: %.200s", reply.ID, nonce, text)}
	case code == "UNAVAILABLE":
		hint := strings.Contains(string(text), "retryAfter") || res.Header.Get("Retry-After") != ""
		return attempt{outcome: refused, hinted: hint, err: fmt.Errorf("%.300s", text)}
	case code != "" || reply.Result.IsError:
		return attempt{outcome: lost, err: fmt.Errorf("HTTP %d: %.300s", res.StatusCode, text)}
	}
	return attempt{outcome: answered, nonce: reply.Result.StructuredContent.Nonce}
}

// failure tells what was never sent from what was lost on the way.
func failure(err error) attempt {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return attempt{outcome: unsent, err: err}
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return attempt{outcome: unsent, err: err}
	}
	return attempt{outcome: lost, err: err}
}

func connectFailure(err error) attempt {
	var fault *connect.Error
	if !errors.As(err, &fault) || !connect.IsWireError(err) {
		return failure(err)
	}
	if fault.Code() != connect.CodeUnavailable {
		return attempt{outcome: lost, err: err}
	}
	hinted := false
	for _, detail := range fault.Details() {
		hinted = hinted || detail.Type() == "google.rpc.RetryInfo"
	}
	return attempt{outcome: refused, hinted: hinted, err: err}
}

func dialTools(addr string) func(context.Context, string, time.Duration) attempt {
	client := outriggerv1connect.NewToolServiceClient(httpClient(true), "http://"+addr, connect.WithGRPC())
	return func(ctx context.Context, nonce string, nap time.Duration) attempt {
		req := connect.NewRequest(&outriggerv1.ToolCall{ToolName: "lab.sleep", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{
			ArgumentsJson: fmt.Appendf(nil, `{"duration":%q,"nonce":%q}`, seconds(nap), nonce),
		}})
		req.Header().Set("X-Request-Id", nonce)
		res, err := client.CallTool(ctx, req)
		if err != nil {
			return connectFailure(err)
		}
		var data struct{ Nonce string }
		if err := json.Unmarshal(res.Msg.GetResult().GetDataJson(), &data); err != nil {
			return attempt{outcome: lost, err: fmt.Errorf("%w: %v", err, res.Msg)}
		}
		return attempt{outcome: answered, nonce: data.Nonce}
	}
}

func dialLab(addr string) func(context.Context, string, time.Duration) attempt {
	client := demov1connect.NewLabClient(httpClient(true), "http://"+addr, connect.WithGRPC())
	return func(ctx context.Context, nonce string, nap time.Duration) attempt {
		req := connect.NewRequest(&demov1.SleepRequest{Duration: durationpb.New(nap), Nonce: nonce})
		req.Header().Set("X-Request-Id", nonce)
		res, err := client.Sleep(ctx, req)
		if err != nil {
			return connectFailure(err)
		}
		return attempt{outcome: answered, nonce: res.Msg.GetNonce()}
	}
}
