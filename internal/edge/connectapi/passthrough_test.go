// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// A caller's own generated client reaches the backend through the sidecar, over
// every protocol, and numbers of 64 bits arrive as they were sent.
func TestAGeneratedClientPassesThrough(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: tenantsAndReplies})
	url := mount(t, ofRig(rig), connectapi.Options{Limits: jsonrpc.Limits{MaxBytes: 64 << 10}})
	for _, p := range wires() {
		client := mcptest.Client(t, 2)
		lab := demov1connect.NewLabClient(client, url, p.options...)
		fleet := demov1connect.NewFleetClient(client, url, p.options...)
		t.Run(p.name+"/a call", func(t *testing.T) {
			t.Parallel()
			resp, err := lab.Echo(t.Context(), connect.NewRequest(&demov1.EchoRequest{
				Nonce: "n", Signed: math.MinInt64, Unsigned: math.MaxUint64, Payload: []byte{0, 255},
			}))
			if err != nil {
				t.Fatal(err)
			}
			if m := resp.Msg; m.GetNonce() != "n" || m.GetSigned() != math.MinInt64 || m.GetUnsigned() != math.MaxUint64 || string(m.GetPayload()) != "\x00\xff" {
				t.Errorf("got %v", m)
			}
		})
		t.Run(p.name+"/metadata", func(t *testing.T) {
			t.Parallel()
			req := connect.NewRequest(&demov1.InspectRequest{
				ReplyHeaders: map[string]string{"x-reply-h": "1", "x-other": "2"}, ReplyTrailers: map[string]string{"x-reply-t": "3", "x-else": "4"},
			})
			req.Header().Set("X-Tenant", "blue")
			req.Header().Set("Authorization", "Bearer hunter2")
			resp, err := lab.Inspect(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			seen := resp.Msg.GetMetadata()
			if seen["x-tenant"].GetValues()[0] != "blue" || seen["authorization"] != nil {
				t.Errorf("the backend saw %v", seen)
			}
			h, tr := resp.Header(), resp.Trailer()
			if h.Get("X-Reply-H") != "1" || tr.Get("X-Reply-T") != "3" || h.Get("X-Other") != "" || tr.Get("X-Else") != "4" {
				t.Errorf("got headers %v, trailers %v", h, tr)
			}
		})
		for _, tc := range []struct {
			name string
			call func() error
			code connect.Code
			says errmap.Code
		}{
			{"a broken rule", func() error {
				_, err := fleet.GetVehicle(t.Context(), connect.NewRequest(&demov1.GetVehicleRequest{}))
				return err
			}, connect.CodeInvalidArgument, errmap.InvalidToolInput},
			{"a destructive tool", func() error {
				_, err := fleet.CancelOrder(t.Context(), connect.NewRequest(&demov1.CancelOrderRequest{OrderId: 1}))
				return err
			}, connect.CodePermissionDenied, errmap.DestructiveBlocked},
			{"over the limit", func() error {
				_, err := lab.Echo(t.Context(), connect.NewRequest(&demov1.EchoRequest{Payload: make([]byte, 65<<10)}))
				return err
			}, connect.CodeResourceExhausted, errmap.PayloadTooLarge},
			{"a procedure that is none", func() error {
				_, err := connect.NewClient[emptypb.Empty, emptypb.Empty](client, url+"/outrigger.demo.v1.Lab/Nothing", p.options...).
					CallUnary(t.Context(), connect.NewRequest(&emptypb.Empty{}))
				return err
			}, connect.CodeUnimplemented, errmap.MethodNotFound},
		} {
			t.Run(p.name+"/"+tc.name, func(t *testing.T) {
				t.Parallel()
				err := tc.call()
				if connect.CodeOf(err) != tc.code || reason(t, err) != tc.says {
					t.Errorf("got %v (%s), want %v (%s)", err, reason(t, err), tc.code, tc.says)
				}
			})
		}
		t.Run(p.name+"/details of the backend", func(t *testing.T) {
			t.Parallel()
			_, err := lab.Fail(t.Context(), connect.NewRequest(&demov1.FailRequest{
				Code: demov1.FailCode_FAIL_CODE_RESOURCE_EXHAUSTED, Message: "quota",
				Details: []demov1.FailDetail{demov1.FailDetail_FAIL_DETAIL_QUOTA_FAILURE, demov1.FailDetail_FAIL_DETAIL_HELP},
			}))
			if connect.CodeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "quota") {
				t.Errorf("got %v", err)
			}
			if detail[*errdetails.QuotaFailure](t, err) == nil || detail[*errdetails.Help](t, err) == nil {
				t.Errorf("the details are gone: %v", err)
			}
			if reason(t, err) != "" || detail[*outriggerv1.ErrorDetail](t, err) != nil {
				t.Errorf("details were added: %q", reason(t, err))
			}
		})
	}
}

// raw posts a body as curl would.
func raw(t *testing.T, method, url, contentType, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := mcptest.Client(t, 1).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(got)
}

func TestConnectJSONPassesThrough(t *testing.T) {
	t.Parallel()
	url := mount(t, ofRig(mcptest.Start(t, mcptest.Options{})), connectapi.Options{}) + "/outrigger.demo.v1.Lab/Echo"
	for _, tc := range []struct {
		name, contentType, body string
		status                  int
		want                    string
	}{
		{"JSON", "application/json", `{"unsigned":"18446744073709551615"}`, 200, `"unsigned":"18446744073709551615"`},
		{"a number", "application/json", `{"unsigned":18446744073709551615}`, 200, `"unsigned":"18446744073709551615"`},
		{"with its charset", "application/json; charset=utf-8", `{"nonce":"n"}`, 200, `"nonce":"n"`},
		{"with its charset in capitals", "application/json;charset=UTF-8", `{"nonce":"n"}`, 200, `"nonce":"n"`},
		{"with its charset without a hyphen", "application/json; charset=utf8", `{"nonce":"n"}`, 200, `"nonce":"n"`},
		{"another charset", "application/json; charset=latin1", `{"nonce":"n"}`, 415, ""},
		{"wire bytes", "application/proto", "\x0a\x01n", 200, "\x0a\x01n"},
		{"nothing is an empty message", "application/proto", "", 200, ""},
		{"an unknown field", "application/json", `{"x":1}`, 400, `"code":"invalid_argument"`},
		{"not JSON", "application/json", `{`, 400, `"code":"invalid_argument"`},
		{"an array", "application/json", `[]`, 400, `"code":"invalid_argument"`},
		{"wire bytes that are none", "application/proto", "\x0a\xff", 400, `"code":"invalid_argument"`},
		{"text", "text/plain", `{}`, 415, "gRPC uses application/grpc, gRPC-Web application/grpc-web"},
		{"gRPC-Web in base64", "application/grpc-web-text+proto", "AAAAAAA=", 415, "set the client's mode from grpcwebtext to grpcweb"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if status, got := raw(t, http.MethodPost, url, tc.contentType, tc.body); status != tc.status || !strings.Contains(got, tc.want) {
				t.Errorf("got %d %q, want %d %q", status, got, tc.status, tc.want)
			}
		})
	}
}

func TestPathsThatAreNothing(t *testing.T) {
	t.Parallel()
	url := mount(t, bridgeInMemory(t, mcptest.Echo), connectapi.Options{})
	for _, path := range []string{"/", "/mcp2", "/outrigger.demo.v1.Lab", "/outrigger.demo.v1.Lab/", "/outrigger.demo.v1.Lab/Echo/", "/x/../y"} {
		for method, contentType := range map[string]string{http.MethodGet: "", http.MethodPost: "application/json"} {
			if status, got := raw(t, method, url+path, contentType, ""); status != http.StatusNotFound || !strings.Contains(got, "/mcp") {
				t.Errorf("%s %s: got %d %q, want 404 with a hint", method, path, status, got)
			}
		}
	}
}

func TestBeforeTheFirstCatalogNothingIsUnknown(t *testing.T) {
	t.Parallel()
	live := catalog.NewLive([]source.Source{mcptest.Source()}, catalog.LiveOptions{})
	b := inFront(bridge.New(live, mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{}))
	url := mount(t, b, connectapi.Options{})
	for _, p := range wires() {
		lab := demov1connect.NewLabClient(mcptest.Client(t, 2), url, p.options...)
		_, err := lab.Echo(t.Context(), connect.NewRequest(&demov1.EchoRequest{}))
		if connect.CodeOf(err) != connect.CodeUnavailable || reason(t, err) != errmap.Unavailable || detail[*errdetails.RetryInfo](t, err) == nil {
			t.Errorf("%s: got %v", p.name, err)
		}
	}
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := demov1connect.NewLabClient(mcptest.Client(t, 2), url).Echo(t.Context(), connect.NewRequest(&demov1.EchoRequest{})); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestAPanicIsAnInternalError(t *testing.T) {
	t.Parallel()
	url := mount(t, bridgeInMemory(t, nil), connectapi.Options{})
	for _, p := range wires() {
		_, err := demov1connect.NewLabClient(mcptest.Client(t, 2), url, p.options...).Echo(t.Context(), connect.NewRequest(&demov1.EchoRequest{}))
		if connect.CodeOf(err) != connect.CodeInternal || reason(t, err) != errmap.InternalError || strings.Contains(err.Error(), "nil pointer") {
			t.Errorf("%s: got %v", p.name, err)
		}
	}
}

// A typed caller's deadline goes to the service, and none if it has none. An agent's
// service learns the default, which is what the agent will wait for.
func TestTheDefaultDeadlineIsNotSent(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{})
	url := mount(t, ofRig(rig), connectapi.Options{})
	for _, p := range wires() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			client := mcptest.Client(t, 2)
			lab := demov1connect.NewLabClient(client, url, p.options...)
			got, err := lab.Inspect(t.Context(), connect.NewRequest(&demov1.InspectRequest{}))
			if err != nil || got.Msg.GetTimeLeft() != nil {
				t.Errorf("without a deadline: %v, %v", got, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			got, err = lab.Inspect(ctx, connect.NewRequest(&demov1.InspectRequest{}))
			if err != nil || got.Msg.GetTimeLeft() == nil {
				t.Errorf("with a deadline: %v, %v", got, err)
			}
			result, err := outriggerv1connect.NewToolServiceClient(client, url, p.options...).CallTool(t.Context(),
				connect.NewRequest(&outriggerv1.ToolCall{ToolName: "lab.inspect"}))
			if err != nil || !strings.Contains(result.Msg.String(), "timeLeft") {
				t.Errorf("as a tool: %v, %v", result, err)
			}
		})
	}
}

// A typed call with the digest of its tool runs as long as the tool has it, over every protocol, unary and streaming.
func TestATypedCallNamesItsTool(t *testing.T) {
	t.Parallel()
	at := func(names ...string) (string, *mcptest.Rig) {
		rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) { c.Experimental = names }})
		return mount(t, ofRig(rig), connectapi.Options{}), rig
	}
	off, _ := at()
	url, rig := at("tool-digest")
	digest := func(name string) string {
		tool, ok := rig.Live.Current().Lookup(name)
		if !ok {
			t.Fatal(name)
		}
		return tool.Digest()
	}
	other := strings.Repeat("0", 64)
	const text = "tool lab.%s has changed since its client read it: its digest is %s, not %s; what changed is not known here"
	for _, p := range wires() {
		client := mcptest.Client(t, 2)
		call := func(url, digest string) error {
			req := connect.NewRequest(&demov1.EchoRequest{Nonce: "n"})
			req.Header().Set("Outrigger-Digest", digest)
			_, err := demov1connect.NewLabClient(client, url, p.options...).Echo(t.Context(), req)
			return err
		}
		stream := func(url, digest string) error {
			relay := demov1connect.NewLabClient(client, url, p.options...).Relay(t.Context())
			relay.RequestHeader().Set("Outrigger-Digest", digest)
			_ = relay.Send(&demov1.EchoRequest{Nonce: "n"}) // what fails, Receive says
			_ = relay.CloseRequest()
			_, err := relay.Receive()
			_ = relay.CloseResponse()
			return err
		}
		for name, ask := range map[string]func(url, digest string) error{"echo": call, "relay": stream} {
			now := digest("lab." + name)
			for _, good := range []string{now, "sha256:" + now} {
				if err := ask(url, good); err != nil {
					t.Errorf("%s, %s: %v", p.name, name, err)
				}
			}
			for _, tc := range []struct{ url, digest, says string }{
				{url, other, fmt.Sprintf(text, name, now, other)},
				{url, strings.ToUpper(now), "Outrigger-Digest: want the digest of the tool: 64 lowercase hex digits"},
				{url, "", "64 lowercase hex digits"},
				{off, now, "the operator turns it on with --experimental tool-digest"},
			} {
				err := ask(tc.url, tc.digest)
				if connect.CodeOf(err) != connect.CodeInvalidArgument || reason(t, err) != errmap.InvalidParams || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%s, %s, %q: %v", p.name, name, tc.digest, err)
				}
			}
		}
	}
}
