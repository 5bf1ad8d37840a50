// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
)

// TestReplayOnEveryEdge records what callers of each edge get of the example service, and gets the same without it, byte for byte.
func TestReplayOnEveryEdge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	live := startBinary(t, "serve", "--demo", "--record-dir", dir, "--record-payloads")
	want := askEveryEdge(t, live)
	if err := live.cmd.Process.Signal(syscall.SIGTERM); err != nil { // the record is whole when it has ended
		t.Fatal(err)
	}
	_ = live.cmd.Wait()
	demo, err := filepath.Abs("../../internal/demo/demo.binpb")
	if err != nil {
		t.Fatal(err)
	}
	replay := startBinary(t, "serve", "--replay", dir, "--replay-match", "exact", "--descriptors", demo,
		"--include", "outrigger.demo.v1.Fleet", "--include", "outrigger.demo.v1.Lab", "--record-dir", "off")
	got := askEveryEdge(t, replay)
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("recorded\n%s\nreplayed\n%s", want[i], got[i])
		}
	}
	if !strings.Contains(replay.log, `"msg":"no backend: answers are not real"`) {
		t.Errorf("the log does not say that answers are not real: %s", replay.log)
	}
	page, _ := get(t, http.DefaultClient, "http://"+replay.admin+"/readyz?verbose")
	if !strings.HasPrefix(page, "ready\n") || !strings.Contains(page, "answers are not real: ") {
		t.Errorf("not ready: %s", page)
	}
}

// askEveryEdge calls tools over MCP, JSON-RPC and typed gRPC and Connect, and returns what each call got.
func askEveryEdge(t *testing.T, p *binary) (out []string) {
	t.Helper()
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for _, c := range []struct{ path, name, arguments string }{
		{"/mcp", "fleet_get_vehicle", `{"vehicleId":"101"}`},
		{"/mcp", "fleet_get_map", `{}`},
		{"/mcp", "lab_fail", `{"code":"FAIL_CODE_ABORTED","details":["FAIL_DETAIL_ERROR_INFO"]}`},
		{"/mcp", "fleet_watch_vehicles", `{"vehicleIds":["102"],"rounds":2,"interval":"0.1s"}`},
		{"/rpc", "fleet.list_vehicles", `{"pageSize":2}`},
		{"/rpc", "lab.fail", `{"code":"FAIL_CODE_UNAVAILABLE"}`},
		{"/rpc", "lab.echo", `{"unsigned":"18446744073709551615"}`},
	} {
		body, headers := `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"`+c.name+`","arguments":`+c.arguments, http.Header{}
		if c.path == "/mcp" {
			body += "," + meta
			headers = http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {c.name}}
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.main+c.path, bytes.NewBufferString(body+"}}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = headers
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode == http.StatusBadRequest {
			t.Errorf("%s %s: %d %s, %v", c.path, c.name, resp.StatusCode, text, err)
		}
		out = append(out, fmt.Sprintf("%s %s: %d %s", c.path, c.name, resp.StatusCode, text))
	}
	for _, options := range [][]connect.ClientOption{{connect.WithGRPC()}, nil, {connect.WithProtoJSON()}} {
		fleet, lab := demov1connect.NewFleetClient(webClient(2), "http://"+p.main, options...), demov1connect.NewLabClient(webClient(2), "http://"+p.main, options...)
		order, err := fleet.GetOrder(t.Context(), connect.NewRequest(&demov1.GetOrderRequest{OrderId: 9007199254740993}))
		out = append(out, typed(order, err))
		_, err = lab.Fail(t.Context(), connect.NewRequest(&demov1.FailRequest{Code: demov1.FailCode_FAIL_CODE_NOT_FOUND, Details: []demov1.FailDetail{demov1.FailDetail_FAIL_DETAIL_RESOURCE_INFO}}))
		out = append(out, typed[demov1.FailResponse](nil, err))
	}
	return out
}

// typed is what a typed call got.
func typed[T any](resp *connect.Response[T], err error) string {
	var failed *connect.Error
	if errors.As(err, &failed) {
		text := failed.Error()
		for _, d := range failed.Details() {
			text += fmt.Sprintf(" %s %x", d.Type(), d.Bytes())
		}
		return text
	}
	m, _ := any(resp.Msg).(proto.Message)
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	return fmt.Sprintf("%x %v", slices.Clip(wire), err)
}
