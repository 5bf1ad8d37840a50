// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/protobuf/types/known/durationpb"

	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1/adminv1connect"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// The tokens of operators and of callers.
const (
	oliveToken = "canary-olive-4Hq81mXb5TnW"
	ottoToken  = "canary-otto-7Lw93pRc1VsE"
	ritaToken  = "canary-rita-9Kd02mXq77Zaa"
	aliceToken = "canary-alice-2Jf64nYb8QpT"
)

// governed is a sidecar with a console, whose backend, log and audit trail are taken note of.
type governed struct {
	*journal
	url, audit string
	rig        *mcptest.Rig
}

// govern starts a sidecar whose operators or callers authenticate, or neither.
func govern(t *testing.T, hasOperators, hasCallers bool) *governed {
	t.Helper()
	dir := t.TempDir()
	g := &governed{journal: &journal{texts: map[string]*bytes.Buffer{}}, audit: filepath.Join(dir, "audit.jsonl")}
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	digest := func(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(g.journal), zapcore.DebugLevel)
	g.rig = mcptest.Start(t, mcptest.Options{
		Native: mcptest.Desk(), Log: zap.New(core), Between: func(backend string) string { return g.tap(t, backend) },
		Configure: func(c *configv1.Config) {
			withTrail(g.audit)(c)
			c.Backend.Metadata.Inbound = append(c.Backend.Metadata.Inbound, "outrigger-*", "sec-*")
			if hasOperators {
				c.Listeners.AdminTokensFile = file("operators.yaml", "operators:\n"+
					"- {name: olive, role: operate, token_sha256: ['"+digest(oliveToken)+"'], calls_as: [alice, gone]}\n"+
					"- {name: otto, role: operate, token_sha256: ['"+digest(ottoToken)+"']}\n"+
					"- {name: rita, role: read, token_sha256: ['"+digest(ritaToken)+"']}\n")
			}
			if hasCallers {
				c.Access.TokensFile = file("callers.yaml", "callers:\n"+
					"- {name: alice, token_sha256: ['"+digest(aliceToken)+"'], tools: ['desk.weigh', 'weigh'], trust: trusted}\n"+
					"- {name: bob, token_sha256: ['"+digest(aliceToken+"b")+"'], tools: ['*']}\n")
			}
		},
	})
	g.url = g.rig.Operators(t)
	return g
}

// call calls a tool in the console, on /rpc or by MCP.
func (g *governed) call(t *testing.T, token, as, path, tool string) (status int, body string) {
	t.Helper()
	body = `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"` + tool + `","arguments":{"parcel":"p-1"}}}`
	header := http.Header{"Content-Type": {"application/json"}, "Cookie": {"session=canary-cookie"}, "X-Outrigger-Subject": {"root"}}
	if path == "mcp" {
		body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"parcel":"p-1"},` +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
		header["Accept"] = []string{"application/json, text/event-stream"}
		header["Mcp-Protocol-Version"], header["Mcp-Method"], header["Mcp-Name"] = []string{"2026-07-28"}, []string{"tools/call"}, []string{tool}
	}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	if as != "" {
		header.Set("Outrigger-Caller", as)
	}
	return g.ask(t, "/console/call/"+path, body, header)
}

func (g *governed) ask(t *testing.T, path, body string, header http.Header) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	resp, err := mcptest.Client(t, 1).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode, bodyOf(t, resp)
}

// TestCallsInTheConsole: who may call as whom, in which setting, and what a call leaves: the names of the caller and of the operator in
// the audit trail and in the log, and nothing of the operator's credentials anywhere.
func TestCallsInTheConsole(t *testing.T) {
	t.Parallel()
	const weigh = `"content":[`
	for _, setting := range []struct {
		name                     string
		hasOperators, hasCallers bool
		calls                    []consoleCall
	}{
		{"neither", false, false, []consoleCall{
			{"", "", 200, weigh, "", "local"},
			{"", "alice", 403, "calls_as", "", ""},
		}},
		{"callers", false, true, []consoleCall{
			{"", "", 403, "--admin-tokens", "", ""},
			{"", "alice", 403, "--admin-tokens", "", ""},
			{aliceToken, "alice", 403, "--admin-tokens", "", ""},
		}},
		{"operators", true, false, []consoleCall{
			{"", "", 401, "Authorization", "", ""},
			{ritaToken, "", 403, "role operate", "", ""},
			{oliveToken, "", 200, weigh, "", "olive"},
			{ottoToken, "", 200, weigh, "", "otto"},
			{oliveToken, "alice", 403, "calls_as", "", ""},
		}},
		{"both", true, true, []consoleCall{
			{"", "alice", 401, "Authorization", "", ""},
			{aliceToken, "alice", 401, "unknown credentials", "", ""},
			{ritaToken, "alice", 403, "role operate", "", ""},
			{oliveToken, "alice", 200, weigh, "alice", "olive"},
			{oliveToken, "", 403, "Outrigger-Caller: alice", "", ""},
			{oliveToken, "bob", 403, "calls_as", "", ""},
			{oliveToken, "gone", 403, "calls_as", "", ""},
			{ottoToken, "alice", 403, "calls_as", "", ""},
		}},
	} {
		t.Run(setting.name, func(t *testing.T) {
			t.Parallel()
			g := govern(t, setting.hasOperators, setting.hasCallers)
			var want []consoleLine
			for _, call := range setting.calls {
				for _, path := range []string{"rpc", "mcp"} {
					status, body := g.call(t, call.token, call.as, path, "weigh")
					if status != call.status || !strings.Contains(body, call.body) || call.status != 200 && !strings.HasPrefix(body, `{"error":"`) {
						t.Errorf("%q as %q on %s: %d %s\nwant %d with %q", call.token, call.as, path, status, body, call.status, call.body)
					}
					if call.status == http.StatusOK {
						want = append(want, consoleLine{call.caller, call.operator, path})
					}
				}
			}
			g.check(t, want)
		})
	}
}

// consoleCall is a call, and what comes of it.
type consoleCall struct {
	token, as string
	status    int
	body      string
	// The names in the trail.
	caller, operator string
}

// consoleLine is what a line of the trail says of a call.
type consoleLine struct{ caller, operator, edge string }

// check compares what calls have left with what they should.
func (g *governed) check(t *testing.T, want []consoleLine) {
	t.Helper()
	g.rig.End()
	data, err := os.ReadFile(g.audit)
	if err != nil {
		t.Fatal(err)
	}
	var got []consoleLine
	err = trail.ReadAudit(bytes.NewReader(data), func(l *trail.AuditLine) error {
		if l.Phase == trail.PhaseEnd {
			got = append(got, consoleLine{l.Caller.Name, l.Caller.Operator, l.Edge})
		}
		return nil
	}, func(f trail.Fault) { t.Error(f) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(consoleLine{})); diff != "" {
		t.Errorf("the trail (-want +got):\n%s", diff)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	lines := 0
	for line := range strings.Lines(g.texts["the log"].String()) {
		var said struct {
			Msg      string
			Operator string `json:"outrigger.operator"`
		}
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "call" && said.Operator != "" {
			lines++
		}
	}
	if wanted := len(slices.DeleteFunc(slices.Clone(want), func(l consoleLine) bool { return l.operator == "" })); lines != wanted {
		t.Errorf("%d lines of the log name an operator, want %d", lines, wanted)
	}
	g.texts["the trail"] = bytes.NewBuffer(data)
	for place, text := range g.texts {
		for _, secret := range []string{"canary", "Outrigger-Caller", "Sec-Fetch"} {
			if place == "what the backend gets" && strings.Contains(text.String(), secret) && secret != "Sec-Fetch" || secret == "canary" && strings.Contains(text.String(), secret) {
				t.Errorf("%s is in %s", secret, place)
			}
		}
	}
	for _, call := range g.calls {
		if name := one(call.subject); name == "root" {
			t.Errorf("%s: an operator names the caller to the backend", call.path)
		}
	}
}

// TestAnOperatorHasTheRightsOfTheCaller: the permissions of a call are those of the entry, whatever the operator may do.
func TestAnOperatorHasTheRightsOfTheCaller(t *testing.T) {
	t.Parallel()
	g := govern(t, true, true)
	if status, body := g.call(t, oliveToken, "alice", "rpc", "lab.echo"); status != http.StatusForbidden || !strings.Contains(body, "PERMISSION_DENIED") {
		t.Errorf("%d %s", status, body)
	}
	status, body := g.ask(t, "/console/call/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`,
		http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + oliveToken}, "Outrigger-Caller": {"alice"}})
	if status != http.StatusOK || strings.Contains(body, "lab.echo") || !strings.Contains(body, "weigh") {
		t.Errorf("%d %s", status, body)
	}
	for _, path := range []string{"/console/call/", "/console/call/trust", "/console/call/outrigger.v1.ToolService/CallTool", "/console/call/mcp/x"} {
		if status, body := g.ask(t, path, "{}", http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + oliveToken}}); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	two := http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + oliveToken}, "Outrigger-Caller": {"alice", "alice"}}
	if status, body := g.ask(t, "/console/call/rpc", "{}", two); status != http.StatusForbidden {
		t.Errorf("two callers: %d %s", status, body)
	}
}

// TestTwoOperatorsInTheConsole sign in beside each other, and each hears who it is and as whom it may call.
func TestTwoOperatorsInTheConsole(t *testing.T) {
	t.Parallel()
	g := govern(t, true, true)
	for _, tt := range []struct {
		token, operator, refusal string
		callers                  []string
		mayOperate               bool
	}{
		{oliveToken, "olive", "", []string{"alice"}, true},
		{ottoToken, "otto", "calls_as", nil, true},
		{ritaToken, "rita", "role operate", nil, false},
	} {
		client := mcptest.Client(t, 1)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/console/sign-in", strings.NewReader(`{"token":"`+tt.token+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if len(resp.Cookies()) != 1 {
			t.Fatalf("%d %v", resp.StatusCode, resp.Header)
		}
		req := connect.NewRequest(&adminv1.GetServerRequest{})
		req.Header().Set("Cookie", resp.Cookies()[0].Name+"="+resp.Cookies()[0].Value)
		req.Header().Set("Sec-Fetch-Site", "same-origin")
		got, err := adminv1connect.NewAdminServiceClient(client, g.url).GetServer(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if m := got.Msg; m.GetOperator() != tt.operator || !slices.Equal(m.GetCallers(), tt.callers) || m.GetCanOperate() != tt.mayOperate || !m.GetCanSignOut() ||
			!strings.Contains(m.GetCallRefusal(), tt.refusal) || (m.GetCallRefusal() == "") != (tt.refusal == "") {
			t.Errorf("%s: %v", tt.operator, m)
		}
	}
}

// TestItemsInTheConsole: the operator that called a stream in the console sees its items while it runs, and no other operator does.
func TestItemsInTheConsole(t *testing.T) {
	t.Parallel()
	g := govern(t, true, false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/console/call/rpc", strings.NewReader(
			`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"fleet.watch_vehicles","arguments":{"rounds":1000,"interval":"0.01s"}}}`))
		if err != nil {
			t.Error(err)
			return
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + oliveToken}}
		if resp, err := mcptest.Client(t, 1).Do(r); err == nil { // else it was cancelled
			_ = resp.Body.Close()
		}
	}()
	api := adminv1connect.NewAdminServiceClient(mcptest.Client(t, 1), g.url)
	items := func(token string, after uint64) *adminv1.ListStreamItemsResponse {
		t.Helper()
		req := connect.NewRequest(&adminv1.ListStreamItemsRequest{CallId: 1, After: after})
		req.Header().Set("Authorization", "Bearer "+token)
		resp, err := api.ListStreamItems(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Msg
	}
	var last uint64
	testkit.Until(t, "items come", func() bool {
		for _, one := range items(oliveToken, last).GetItems() {
			if one.GetNumber() <= last || !json.Valid([]byte(one.GetJson())) || int(one.GetSize()) != len(one.GetJson()) {
				t.Fatalf("after item %d: %v", last, one)
			}
			last = one.GetNumber()
		}
		return last > 100 // more than are kept
	})
	for _, token := range []string{ottoToken, ritaToken} {
		if got := items(token, 0); !got.GetEnded() || len(got.GetItems()) > 0 || got.GetOmitted() > 0 {
			t.Errorf("another operator: %v", got)
		}
	}
	cancel()
	<-done
	testkit.Until(t, "the call ends", func() bool { return items(oliveToken, 0).GetEnded() })
}

// TestLongLivedOfOperators lists a session, a task and a stream: as many as Watch counts.
func TestLongLivedOfOperators(t *testing.T) {
	t.Parallel()
	r := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "outrigger.demo.v1.Lab/Sleep", Tool: &configv1.ToolOptions{TaskSupport: "optional", TaskAfter: durationpb.New(time.Millisecond)}})
	}})
	api, url, client := consoleOf(t, r), r.Serve(t), mcptest.Client(t, 1)
	session := sent{"/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, nil}.
		post(t, client, url).Get("Mcp-Session-Id")
	call := newest("tools/call", "lab_sleep", `"name":"lab_sleep","arguments":{"duration":"60s"},`)
	call.body = strings.Replace(call.body, `clientCapabilities":{}`, `clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
	call.post(t, client, url)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changes, err := outriggerv1connect.NewToolServiceClient(client, url).WatchTools(ctx, connect.NewRequest(&outriggerv1.WatchToolsRequest{}))
	if err != nil || !changes.Receive() {
		t.Fatal(err, changes.Err())
	}
	watch, err := api.Watch(ctx, connect.NewRequest(&adminv1.WatchRequest{}))
	if err != nil || !watch.Receive() {
		t.Fatal(err, watch.Err())
	}
	now := watch.Msg()
	for _, tt := range []struct {
		kind                adminv1.LongLivedKind
		count               int32
		state, tool, detail string
		ends                bool
	}{
		{adminv1.LongLivedKind_LONG_LIVED_KIND_SESSION, now.GetSessions(), "idle", "", "2025-06-18", true},
		{adminv1.LongLivedKind_LONG_LIVED_KIND_TASK, now.GetTasks(), "working", "lab.sleep", "", true},
		{adminv1.LongLivedKind_LONG_LIVED_KIND_STREAM, now.GetStreams(), "open", "", "tools (WatchTools)", false},
	} {
		got, err := api.ListLongLived(t.Context(), connect.NewRequest(&adminv1.ListLongLivedRequest{Kind: tt.kind}))
		if err != nil || tt.count != 1 || got.Msg.GetTotal() != tt.count || len(got.Msg.GetEntries()) != 1 {
			t.Errorf("%v: counted %d; %v, %v", tt.kind, tt.count, got, err)
			continue
		}
		one := got.Msg.GetEntries()[0]
		age := now.GetTime().AsTime().Sub(one.GetBegan().AsTime())
		if one.GetState() != tt.state || one.GetTool() != tt.tool || one.GetDetail() != tt.detail || one.GetCaller() == "" || one.GetId() == "" ||
			(one.GetEnds() != nil) != tt.ends || tt.ends && !one.GetEnds().AsTime().After(now.GetTime().AsTime()) || age <= 0 || age > time.Minute {
			t.Errorf("%v: %v", tt.kind, one)
		}
		if tt.tool == "" && tt.state == "idle" && strings.Contains(session, one.GetId()) {
			t.Errorf("%q is a part of an id that is secret", one.GetId())
		}
	}
	cancel()
	testkit.Until(t, "the stream ends", func() bool {
		got, err := api.ListLongLived(t.Context(), connect.NewRequest(&adminv1.ListLongLivedRequest{Kind: adminv1.LongLivedKind_LONG_LIVED_KIND_STREAM}))
		return err == nil && got.Msg.GetTotal() == 0
	})
}
