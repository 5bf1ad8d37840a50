// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"connectrpc.com/connect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// TestCallersAndCertificatesAreReloaded: callers and certificates change while the process runs, and bad files leave the good ones
// in use. A misspelt name in the callers file is in the log and on a page, and the process is ready all the same.
func TestCallersAndCertificatesAreReloaded(t *testing.T) {
	t.Parallel()
	h := startGuarded(t)
	call := edges()["/rpc"]
	rewrite(t, h.callers, "callers: [{name: chief, token_sha256: ["+unknownToken+"]}]")
	testkit.Says(t, h.log, "callers file reload failed")
	if got := call(h.visitor(t, chiefToken), "lab.echo"); got.code != "" {
		t.Errorf("the last good callers are gone: %+v", got)
	}

	changed := strings.Replace(callersYAML(), "[lab.echo, lab.inspect, \"fleet.get_*\"]", "[lab.echo, \"flet.*\"]", 1)
	rewrite(t, h.callers, strings.ReplaceAll(changed, digestOf(chiefToken), digestOf(unknownToken)))
	testkit.Says(t, h.log, "callers file reloaded")
	if got := call(h.visitor(t, unknownToken), "lab.echo"); got.code != "" {
		t.Errorf("the new token: %+v", got)
	}
	if got := call(h.visitor(t, chiefToken), "lab.echo"); got.code != "UNAUTHENTICATED" {
		t.Errorf("the token from before: %+v", got)
	}
	if got := call(h.visitor(t, plannerToken), "lab.echo"); got.code != "" {
		t.Errorf("a caller whose entry stayed: %+v", got)
	}

	serial := func() string {
		resp, err := h.http(t, nil).Get(h.main + "/rpc") //nolint:noctx // only the certificate counts
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.TLS.PeerCertificates[0].SerialNumber.String()
	}
	before := serial()
	if err := os.WriteFile(h.pair.KeyFile, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Says(t, h.log, "certificate reload failed")
	if now := serial(); now != before {
		t.Error("a pair that cannot be used is in use")
	}
	h.ca.Reissue(t, h.pair, tlstest.Leaf{Hosts: []string{"127.0.0.1"}})
	testkit.Says(t, h.log, "certificates reloaded")
	if now := serial(); now == before {
		t.Error("the new pair is not in use")
	}
	status, page := fetch(t, getRequest(t, h.admin+"/readyz?verbose"))
	if status != http.StatusOK || !strings.Contains(page, `planner: tools "flet.*" match none`) || !strings.Contains(page, "listener_tls") {
		t.Errorf("/readyz?verbose: %d\n%s", status, page)
	}
	if !strings.Contains(h.log.String(), `"outrigger.caller":"planner","pattern":"flet.*"`) {
		t.Error("the log does not say that a pattern matches no tool")
	}
}

// TestStreamsEndWithTheirCallersEntry: every kind of stream that would last ends
// when what was said of its caller no longer holds, and says why where it can.
func TestStreamsEndWithTheirCallersEntry(t *testing.T) {
	t.Parallel()
	h := startGuarded(t)
	chief := h.visitor(t, chiefToken)
	ended := map[string]func() error{}

	watch, err := chief.api(connect.WithGRPC()).WatchTools(t.Context(), connect.NewRequest(&outriggerv1.WatchToolsRequest{}))
	if err != nil || !watch.Receive() {
		t.Fatalf("%v, %v", err, watch.Err())
	}
	events, err := chief.api().Subscribe(t.Context(), connect.NewRequest(&outriggerv1.SubscribeRequest{
		Filter: &outriggerv1.SubscribeRequest_Events{Events: &outriggerv1.EventFilter{Methods: []string{"*"}}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	changes, err := chief.api(connect.WithGRPCWeb()).Subscribe(t.Context(), connect.NewRequest(&outriggerv1.SubscribeRequest{
		Filter: &outriggerv1.SubscribeRequest_Changes{Changes: &outriggerv1.ChangeFilter{ToolsListChanged: true}},
	}))
	if err != nil || !changes.Receive() {
		t.Fatalf("%v, %v", err, changes.Err())
	}
	ended["WatchTools"], ended["events"], ended["changes"] = drainOf(watch), drainOf(events), drainOf(changes)

	exchange := chief.api(connect.WithGRPC()).Exchange(t.Context())
	if err := exchange.Send(&outriggerv1.Envelope{Message: &outriggerv1.Envelope_Request{Request: &outriggerv1.Request{
		Id: &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: "1"}}, Method: "ping",
	}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := exchange.Receive(); err != nil {
		t.Fatal(err)
	}
	ended["exchange"] = func() error {
		_, err := exchange.Receive()
		return err
	}

	resp, _ := chief.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	legacy := openStream(t, chief, http.MethodGet, "", "Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-06-18")
	listen := openStream(t, chief, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+modernMeta+`}}`,
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")

	rewrite(t, h.callers, strings.ReplaceAll(callersYAML(), "trust: trusted", "trust: untrusted"))
	for name, end := range ended {
		if err := end(); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("%s ended with %v", name, err)
		}
	}
	if _, err := io.ReadAll(legacy); err != nil {
		t.Errorf("the legacy stream: %v", err)
	}
	if said, err := io.ReadAll(listen); err != nil || !strings.Contains(string(said), "UNAUTHENTICATED") {
		t.Errorf("the modern stream said %q, %v", said, err)
	}
	if got := edges()["/rpc"](chief, "fleet.cancel_order"); got.code != "DESTRUCTIVE_BLOCKED" {
		t.Errorf("the caller's new entry: %+v", got)
	}
}

// drainOf reads a stream to its end.
func drainOf[T any](stream *connect.ServerStreamForClient[T]) func() error {
	return func() error {
		defer func() { _ = stream.Close() }()
		for stream.Receive() {
		}
		return stream.Err()
	}
}

// openStream begins a stream of events.
func openStream(t *testing.T, v *visitor, method, body string, headers ...string) io.Reader {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, v.guardedSidecar.main+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := v.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		raw, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s %s: %s", resp.Status, resp.Header.Get("Content-Type"), raw)
	}
	return resp.Body
}

func getRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
