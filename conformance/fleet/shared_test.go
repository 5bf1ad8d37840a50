// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// together starts sidecars that share state, each with the demo as its backend.
func together(t *testing.T, n *natsServer, replicas int, args ...string) []*sidecar.Server {
	t.Helper()
	return togetherAs(t, built.binary, n, replicas, args...)
}

// togetherAs is together for another binary.
func togetherAs(t *testing.T, binary string, n *natsServer, replicas int, args ...string) []*sidecar.Server {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte(base64.StdEncoding.EncodeToString([]byte("a key that all replicas share 00"))), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"--demo", "--record-dir", "off", "--state", n.URL(), "--state-key", keys}, args...)
	out := make([]*sidecar.Server, replicas)
	for i := range out {
		out[i] = sidecar.ServeReady(t, binary, args...)
		stateIs(t, out[i], true)
	}
	return out
}

// stateIs waits until /readyz says that the state can be used, or that it degrades the replica, which is ready all the same.
func stateIs(t *testing.T, s *sidecar.Server, usable bool) {
	t.Helper()
	testkit.Until(t, fmt.Sprintf("the state is usable: %v", usable), func() bool {
		status, text := s.Probe(t, "/readyz")
		return status == http.StatusOK && strings.Contains(text, "degraded: state") != usable
	})
}

// modern makes a call of MCP 2026-07-28 and returns the answer.
func modern(t *testing.T, s *sidecar.Server, tool, params string) string {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `",` + params +
		`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL("/mcp"), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool,
	} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const cancels = `"arguments":{"orderId":"9007199254740999","reason":"moved"}`

// consented asks for a destructive call, and returns it with the user's consent.
func consented(t *testing.T, s *sidecar.Server) string {
	t.Helper()
	var asked struct {
		Result struct {
			RequestState string `json:"requestState"`
		} `json:"result"`
	}
	text := modern(t, s, "fleet_cancel_order", cancels)
	if err := json.Unmarshal([]byte(text), &asked); err != nil || asked.Result.RequestState == "" {
		t.Fatalf("%v: %s", err, text)
	}
	return cancels + `,"inputResponses":{"outrigger_confirm":{"action":"accept","content":{"confirm":true}}},"requestState":"` + asked.Result.RequestState + `"`
}

// TestAConsentRunsOnce: whichever replica it comes to, and however many at a time.
func TestAConsentRunsOnce(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	all := together(t, n, 3, "--destructive", "confirm")
	for round := range 3 {
		yes := consented(t, all[round])
		var ran, again atomic.Int32
		var sent sync.WaitGroup
		for i := range 9 {
			sent.Go(func() {
				switch text := modern(t, all[i%3], "fleet_cancel_order", yes); {
				case strings.Contains(text, `"resultType":"complete"`): // also of an order that was cancelled in an earlier round
					ran.Add(1)
				case strings.Contains(text, "was used before"):
					again.Add(1)
				default:
					t.Errorf("got %s", text)
				}
			})
		}
		sent.Wait()
		if ran.Load() != 1 || again.Load() != 8 {
			t.Errorf("a consent that came nine times ran %d times, and was refused %d times", ran.Load(), again.Load())
		}
	}
}

// TestAConsentWithoutNATS: what needs no state goes on, and a consent is not lost by an attempt that could not be counted.
func TestAConsentWithoutNATS(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	all := together(t, n, 2, "--destructive", "confirm")
	yes := consented(t, all[0])
	n.stop()
	stateIs(t, all[1], false)
	if text := modern(t, all[1], "fleet_cancel_order", yes); !strings.Contains(text, `"code":"UNAVAILABLE"`) || !strings.Contains(text, `"retryable":true`) || !strings.Contains(text, `"retryAfterMs":1000`) {
		t.Errorf("a consent without NATS: %s", text)
	}
	if text := modern(t, all[1], "lab_echo", `"arguments":{"nonce":"n"}`); !strings.Contains(text, `"nonce":"n"`) {
		t.Errorf("a call without NATS: %s", text)
	}
	n.start()
	stateIs(t, all[1], true)
	if text := modern(t, all[1], "fleet_cancel_order", yes); !strings.Contains(text, `"resultType":"complete"`) {
		t.Errorf("the same consent, when NATS is back: %s", text)
	}
	if text := modern(t, all[0], "fleet_cancel_order", yes); !strings.Contains(text, "was used before") {
		t.Errorf("and again at the other replica: %s", text)
	}
}

// TestEventsOfAllReplicas: subscribers hear publishers at other replicas, and go on elsewhere after their replica is gone.
func TestEventsOfAllReplicas(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	all := together(t, n, 2)
	tools := func(s *sidecar.Server) outriggerv1connect.ToolServiceClient {
		client := caller.Client(true)
		t.Cleanup(client.CloseIdleConnections)
		return outriggerv1connect.NewToolServiceClient(client, s.URL(""), connect.WithGRPC())
	}
	subscribe := func(s *sidecar.Server, after *uint64) *connect.ServerStreamForClient[outriggerv1.Notification] {
		stream, err := tools(s).Subscribe(t.Context(), connect.NewRequest(&outriggerv1.SubscribeRequest{
			Filter: &outriggerv1.SubscribeRequest_Events{Events: &outriggerv1.EventFilter{Methods: []string{"orders/*"}, After: after}},
		}))
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	hear := func(stream *connect.ServerStreamForClient[outriggerv1.Notification], want int) uint64 {
		if !stream.Receive() {
			t.Fatalf("event %d: %v", want, stream.Err())
		}
		if got := string(stream.Msg().GetParamsJson()); got != fmt.Sprintf(`{"n":%d}`, want) {
			t.Fatalf("got %s, want event %d", got, want)
		}
		return stream.Msg().GetSequence()
	}
	sent := 0
	publish := func(s *sidecar.Server, events int) {
		for range events {
			_, err := tools(s).Publish(t.Context(), connect.NewRequest(&outriggerv1.Notification{
				Method: "orders/changed", ParamsForm: &outriggerv1.Notification_ParamsJson{ParamsJson: fmt.Appendf(nil, `{"n":%d}`, sent)},
			}))
			if err != nil {
				t.Fatal(err)
			}
			sent++
		}
	}
	heard := 0
	stream := subscribe(all[0], nil)
	publish(all[1], 5)
	publish(all[0], 5)
	var last uint64
	for ; heard < 7; heard++ {
		last = hear(stream, heard)
	}
	all[0].ExpectExit(-1)
	all[0].Signal(t, syscall.SIGKILL)
	all[0].Wait(t)
	publish(all[1], 5)
	stream = subscribe(all[1], &last)
	for ; heard < sent; heard++ {
		hear(stream, heard)
	}
	publish(all[1], 1)
	hear(stream, heard)
	_ = stream.Close()
	far := uint64(1 << 40)
	stream = subscribe(all[1], &far)
	if stream.Receive() || connect.CodeOf(stream.Err()) != connect.CodeInvalidArgument || !strings.Contains(stream.Err().Error(), "Invalid params") {
		t.Errorf("after an event that is none yet: %v", stream.Err())
	}
}

// administers is the API of operators of a replica.
func administers(t *testing.T, s *sidecar.Server) outriggerv1connect.ToolServiceClient {
	t.Helper()
	client := caller.Client(false)
	t.Cleanup(client.CloseIdleConnections)
	return outriggerv1connect.NewToolServiceClient(client, s.AdminURL(""))
}

func echoAs(name, version string) *outriggerv1.RegisterToolRequest {
	return &outriggerv1.RegisterToolRequest{
		Name: name, Description: "Says it again, version " + version + ".", Version: version,
		Binding: &outriggerv1.ToolBinding{Service: "outrigger.demo.v1.Lab", Method: "Echo"},
		InputSchemaForm: &outriggerv1.RegisterToolRequest_InputSchemaJson{
			InputSchemaJson: []byte(`{"type":"object","properties":{"nonce":{"type":"string"}},"required":["nonce"],"additionalProperties":false}`),
		},
	}
}

// has waits until a replica has a tool in a version; "" is none.
func has(t *testing.T, s *sidecar.Server, name, version string) {
	t.Helper()
	admin := administers(t, s)
	testkit.Until(t, fmt.Sprintf("the replica has %s %q", name, version), func() bool {
		got, err := admin.GetTool(t.Context(), connect.NewRequest(&outriggerv1.GetToolRequest{ToolName: name}))
		if version == "" {
			return connect.CodeOf(err) == connect.CodeNotFound
		}
		return err == nil && got.Msg.GetVersion() == version
	})
}

// TestRegistrationsOfAllReplicas: they are at every replica, also at one that starts later, and are changed and removed anywhere.
func TestRegistrationsOfAllReplicas(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	all := together(t, n, 2)
	register := func(s *sidecar.Server, r *outriggerv1.RegisterToolRequest) error {
		_, err := administers(t, s).RegisterTool(t.Context(), connect.NewRequest(r))
		return err
	}
	unregister := func(s *sidecar.Server, name string) error {
		_, err := administers(t, s).UnregisterTool(t.Context(), connect.NewRequest(&outriggerv1.UnregisterToolRequest{Name: name}))
		return err
	}
	for _, err := range []error{register(all[0], echoAs("say.one", "1.0.0")), register(all[0], echoAs("say.two", "1.0.0")), register(all[0], echoAs("say.two", "1.0.0"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	has(t, all[1], "say.one", "1.0.0")
	has(t, all[1], "say.two", "1.0.0")
	if text := modern(t, all[1], "say_one", `"arguments":{"nonce":"n"}`); !strings.Contains(text, `"nonce":"n"`) {
		t.Errorf("a call at the other replica: %s", text)
	}
	if err := register(all[1], echoAs("say.one", "2.0.0")); err != nil {
		t.Fatal(err)
	}
	has(t, all[0], "say.one", "2.0.0")
	if err := register(all[0], echoAs("say.one", "1.5.0")); connect.CodeOf(err) != connect.CodeAlreadyExists {
		t.Errorf("a lower version: %v", err)
	}
	if err := unregister(all[1], "say.two"); err != nil {
		t.Fatal(err)
	}
	has(t, all[0], "say.two", "")
	// A lower version comes after all, and a replica that was away hears only of that.
	if err := unregister(all[0], "say.one"); err != nil {
		t.Fatal(err)
	}
	if err := register(all[0], echoAs("say.one", "1.1.0")); err != nil {
		t.Fatal(err)
	}
	has(t, all[1], "say.one", "1.1.0")
	n.stop()
	stateIs(t, all[0], false)
	if err := register(all[0], echoAs("say.three", "1.0.0")); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("a registration without NATS: %v", err)
	}
	if err := unregister(all[0], "say.one"); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("an unregistration without NATS: %v", err)
	}
	has(t, all[0], "say.one", "1.1.0")
	has(t, all[0], "say.three", "")
	n.start()
	stateIs(t, all[0], true)
	if err := register(all[0], echoAs("say.three", "1.0.0")); err != nil {
		t.Fatal(err)
	}
	has(t, all[1], "say.three", "1.0.0")
	// A lost bucket comes back from the replicas.
	if err := n.admin().DeleteStream(t.Context(), "KV_outrigger_default_registrations"); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the bucket is there again", func() bool {
		bucket, err := n.admin().Stream(t.Context(), "KV_outrigger_default_registrations")
		if err != nil {
			return false
		}
		info, err := bucket.Info(t.Context())
		return err == nil && info.State.Msgs == 2
	})
	for _, s := range all {
		s.Signal(t, syscall.SIGTERM)
		s.Wait(t)
	}
	late := together(t, n, 1)
	has(t, late[0], "say.one", "1.1.0")
	has(t, late[0], "say.three", "1.0.0")
	has(t, late[0], "say.two", "")
}

// TestTrustOfAllReplicas: it is switched for all, and taken away even where the others cannot be told.
func TestTrustOfAllReplicas(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	all := together(t, n, 2)
	set := func(s *sidecar.Server, to string) int {
		resp, err := http.Post(s.AdminURL("/trust"), "application/json", strings.NewReader(`{"trust":"`+to+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	is := func(s *sidecar.Server, want string) {
		t.Helper()
		testkit.Until(t, "the replica is "+want, func() bool {
			_, text := s.Probe(t, "/trust")
			return strings.Contains(text, `"trust":"`+want+`"`)
		})
	}
	for _, to := range []string{"trusted", "untrusted", "trusted"} {
		if got := set(all[0], to); got != http.StatusOK {
			t.Fatalf("%s: HTTP %d", to, got)
		}
		is(all[0], to)
		is(all[1], to)
	}
	n.stop()
	stateIs(t, all[1], false)
	if got := set(all[1], "untrusted"); got != http.StatusServiceUnavailable {
		t.Errorf("without NATS: HTTP %d", got)
	}
	is(all[1], "untrusted")
	is(all[0], "trusted")
	if got := set(all[1], "trusted"); got != http.StatusServiceUnavailable {
		t.Errorf("without NATS: HTTP %d", got)
	}
	is(all[1], "untrusted")
	n.start()
	stateIs(t, all[1], true)
	if got := set(all[1], "untrusted"); got != http.StatusOK {
		t.Errorf("when NATS is back: HTTP %d", got)
	}
	is(all[0], "untrusted")
	late := together(t, n, 1, "--trust", "trusted")
	is(late[0], "untrusted")
}
