// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// TestRulesDecideAboutTypedStreams: a rule sees each message as args, also on a stream
// that is under way. What came before the refused message was answered.
func TestRulesDecideAboutTypedStreams(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Trust = proto.String("trusted")
		c.Access.Policy = &configv1.Policy{Rules: []*configv1.PolicyRule{
			{Name: "bad", Effect: "deny", When: `args.nonce == "bad"`, Tools: []string{"lab.relay"}},
			{Name: "good", Effect: "allow", When: `args.nonce == "good"`, Tools: []string{"lab.relay"}},
			{Name: "all", Effect: "deny", When: `true`, Tools: []string{"fleet.watch_vehicles"}},
		}}
	}})
	url := mount(t, ofRig(rig), connectapi.Options{})
	for _, p := range wires() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			client := mcptest.Client(t, 2)
			lab, fleet := demov1connect.NewLabClient(client, url, p.options...), demov1connect.NewFleetClient(client, url, p.options...)
			for refused, nonces := range map[string][]string{
				"":                    {"good", "good"},
				"denied, the first":   {"bad"},
				"denied, the third":   {"good", "good", "bad"},
				"not allowed, second": {"good", "other"},
			} {
				relay := lab.Relay(t.Context())
				var err error
				answered := 0
				for _, nonce := range nonces {
					_ = relay.Send(&demov1.EchoRequest{Nonce: nonce})
					if _, err = relay.Receive(); err != nil {
						break
					}
					answered++
				}
				_ = relay.CloseRequest()
				if refused == "" {
					if _, err = relay.Receive(); answered != len(nonces) || !errors.Is(err, io.EOF) {
						t.Errorf("nothing to refuse: %d answered, %v", answered, err)
					}
				} else if connect.CodeOf(err) != connect.CodePermissionDenied || reason(t, err) != errmap.PermissionDenied || answered != len(nonces)-1 {
					t.Errorf("%s: %d answered, %v", refused, answered, err)
				}
				_ = relay.CloseResponse()
			}
			watch, err := fleet.WatchVehicles(t.Context(), connect.NewRequest(&demov1.WatchVehiclesRequest{VehicleIds: []int64{101}, Rounds: 1}))
			if err == nil {
				for watch.Receive() {
					t.Error("a refused stream has a message")
				}
				err = watch.Err()
				_ = watch.Close()
			}
			if connect.CodeOf(err) != connect.CodePermissionDenied {
				t.Errorf("a server's stream: %v", err)
			}
		})
	}
}

// TestTypedStreamsAreAudited once each, with how they ended.
func TestTypedStreamsAreAudited(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) { c.Audit.Path = proto.String(path) }})
	url := mount(t, ofRig(rig), connectapi.Options{Limits: jsonrpc.Limits{MaxBytes: 4 << 10}})
	want := map[string]int{}
	for _, p := range wires() {
		lab := demov1connect.NewLabClient(mcptest.Client(t, 2), url, p.options...)
		for _, size := range []int{1, 8 << 10} {
			relay := lab.Relay(t.Context())
			for range 3 {
				_ = relay.Send(&demov1.EchoRequest{Payload: make([]byte, size)})
				_, _ = relay.Receive()
			}
			_ = relay.CloseRequest()
			_, _ = relay.Receive()
			_ = relay.CloseResponse()
		}
		want["OK"]++
		want[string(errmap.PayloadTooLarge)]++
	}
	rig.End()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	got := map[string]int{}
	const least = 3 * 3 // three messages whose field of one byte takes three
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var line struct {
			Tool, Code, Edge string
			In               int `json:"bytes_in"`
			Out              int `json:"bytes_out"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if line.Tool == "lab.relay" && line.Edge == "typed" {
			got[line.Code]++
			if isOK := line.Code == "OK"; isOK && (line.In < least || line.Out < least || line.In > 300 || line.Out > 300) || !isOK && line.Out != 0 {
				t.Errorf("%s: %d bytes in, %d out", line.Code, line.In, line.Out)
			}
		}
	}
	for code, n := range want {
		if got[code] != n {
			t.Errorf("%d lines with %s, want %d; all: %v", got[code], code, n, got)
		}
	}
}
