// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

// overRPC calls with generated clients. The answer is the data, or the code of the error.
type overRPC struct {
	client *http.Client
	url    string
	tools  outriggerv1connect.ToolServiceClient
	lab    demov1connect.LabClient
	fleet  demov1connect.FleetClient
	typed  bool
}

func dialRPC(t *testing.T, addr string, h2, typed bool, options ...connect.ClientOption) *overRPC {
	t.Helper()
	client := caller.Client(h2)
	t.Cleanup(client.CloseIdleConnections)
	return rpcWith(client, "http://"+addr, typed, options...)
}

// rpcWith is dialRPC with its own client.
func rpcWith(client *http.Client, url string, typed bool, options ...connect.ClientOption) *overRPC {
	return &overRPC{
		client: client, url: url, typed: typed,
		tools: outriggerv1connect.NewToolServiceClient(client, url, options...),
		lab:   demov1connect.NewLabClient(client, url, options...),
		fleet: demov1connect.NewFleetClient(client, url, options...),
	}
}

func (w *overRPC) send(ctx context.Context, t *testing.T, a ask) string {
	t.Helper()
	text, err := w.call(ctx, a)
	if err != nil {
		return connect.CodeOf(err).String() + ": " + err.Error()
	}
	return text
}

func (w *overRPC) call(ctx context.Context, a ask) (string, error) {
	switch {
	case a.method == listing:
		res, err := w.tools.ListTools(ctx, request(a, &outriggerv1.ListToolsRequest{}))
		if err != nil {
			return "", err
		}
		return res.Msg.String(), nil
	case a.method != "":
		return "", w.unknown(ctx, a)
	}
	if w.typed {
		return w.typedCall(ctx, a)
	}
	req := request(a, &outriggerv1.ToolCall{ToolName: a.tool, ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(a.args)}})
	res, err := w.tools.CallTool(ctx, req)
	if err != nil {
		return "", err
	}
	return res.Msg.String(), nil
}

func request[T any](a ask, message *T) *connect.Request[T] {
	req := connect.NewRequest(message)
	maps.Copy(req.Header(), a.origin.header())
	return req
}

// typedCall knows the calls of the scenarios.
func (w *overRPC) typedCall(ctx context.Context, a ask) (string, error) {
	var err error
	switch a.tool {
	case "lab.echo":
		var res *connect.Response[demov1.EchoResponse]
		message := &demov1.EchoRequest{}
		if err := protojson.Unmarshal([]byte(a.args), message); err != nil {
			return "", err
		}
		if res, err = w.lab.Echo(ctx, request(a, message)); err == nil {
			return res.Msg.String(), nil
		}
	case "lab.fail":
		code := demov1.FailCode_FAIL_CODE_NOT_FOUND
		if strings.Contains(a.args, "UNAVAILABLE") {
			code = demov1.FailCode_FAIL_CODE_UNAVAILABLE
		}
		_, err = w.lab.Fail(ctx, request(a, &demov1.FailRequest{Code: code}))
	case "lab.sleep":
		_, err = w.lab.Sleep(ctx, request(a, &demov1.SleepRequest{Duration: durationpb.New(30e9)}))
	case "fleet.watch_vehicles":
		return w.watch(ctx, a)
	}
	return "", err
}

// listing is the method of a listing on every edge that has one.
const listing = "tools/list"

// watchVehicles opens a stream with two messages. The second comes an interval after the first.
func (w *overRPC) watchVehicles(ctx context.Context, a ask, interval time.Duration) (*connect.ServerStreamForClient[demov1.VehicleUpdate], error) {
	return w.fleet.WatchVehicles(ctx, request(a, &demov1.WatchVehiclesRequest{
		VehicleIds: []int64{101}, Rounds: 2, Interval: durationpb.New(interval),
	}))
}

func (w *overRPC) watch(ctx context.Context, a ask) (string, error) {
	stream, err := w.watchVehicles(ctx, a, 0)
	if err != nil {
		return "", err
	}
	text := "items"
	for stream.Receive() {
		text += " " + stream.Msg().String()
	}
	_ = stream.Close()
	return text, stream.Err()
}

// unknown calls a procedure that is nowhere.
func (w *overRPC) unknown(ctx context.Context, a ask) error {
	client := connect.NewClient[demov1.EchoRequest, demov1.EchoResponse](w.client, w.url+a.method)
	_, err := client.CallUnary(ctx, request(a, &demov1.EchoRequest{}))
	return err
}

// rpcScenarios are those of edges with Protobuf. The context is in the headers: messages have no place for it.
func rpcScenarios(typed bool) []scenario {
	call := func(name, tool, args, gives string) scenario {
		return scenario{name: name, ask: ask{tool: tool, args: args}, gives: gives, bare: true}
	}
	out := []scenario{
		call("success", "lab.echo", `{"nonce":"one"}`, `one`),
		call("tool error", "lab.fail", `{"code":"FAIL_CODE_NOT_FOUND"}`, `not_found`),
		call("invalid arguments", "lab.echo", `{"nonce":"`+strings.Repeat("long", 1000)+`"}`, `invalid_argument`),
		call("unavailable by itself", "lab.fail", `{"code":"FAIL_CODE_UNAVAILABLE"}`, `unavailable`),
		{name: "unavailable with retries", ask: ask{tool: "lab.echo", args: `{}`}, unreachable: true, gives: "unavailable", bare: true},
		call("timeout", "lab.sleep", `{"duration":"30s"}`, `deadline_exceeded`),
		call("server stream", "fleet.watch_vehicles", `{"vehicleIds":["101"],"rounds":2,"interval":"0s"}`, `items`),
		{name: "cancelled", ask: ask{tool: "lab.sleep", args: `{"duration":"30s"}`}, givenUp: true, bare: true},
		{name: "no context", ask: ask{tool: "lab.echo", args: `{"nonce":"one"}`}, alone: true, gives: `one`},
	}
	unknown := scenario{name: "unknown method", ask: ask{method: "/outrigger.v1.ToolService/Dance"}, gives: "unimplemented", bare: true}
	if typed {
		unknown.ask.method = "/outrigger.demo.v1.Lab/Dance"
		return append(out, unknown)
	}
	return append(out, unknown, call("unknown tool", "lab.dance", `{}`, `not_found`))
}

// TestRPCEdges does for the edges with Protobuf what TestJSONEdges does for the others.
func TestRPCEdges(t *testing.T) {
	for _, row := range edges() {
		if !row.isRPC() {
			continue
		}
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t)
			s := r.serve(t, "--timeout", timeout)
			w := dialRPC(t, s.Addr(), row.h2, row.typed, row.options...)
			all := rpcScenarios(row.typed)
			origins := play(t, r, row.name, w, all)
			w.client.CloseIdleConnections()
			s.Signal(t, syscall.SIGTERM)
			s.Wait(t)
			compare(t, r, row.name, all, origins)
		})
	}
}
