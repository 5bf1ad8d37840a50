// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1/adminv1connect"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// consoleOf is a client of the API for operators.
func consoleOf(t *testing.T, r *mcptest.Rig) adminv1connect.AdminServiceClient {
	t.Helper()
	return adminv1connect.NewAdminServiceClient(mcptest.Client(t, 1), r.Operators(t))
}

// TestSearchTools pages through all tools, ranks those that fit a query as compact catalogs do, and refuses what is not right.
func TestSearchTools(t *testing.T) {
	t.Parallel()
	api := consoleOf(t, mcptest.Start(t, mcptest.Options{}))
	search := func(q *adminv1.SearchToolsRequest) *adminv1.SearchToolsResponse {
		t.Helper()
		resp, err := api.SearchTools(t.Context(), connect.NewRequest(q))
		if err != nil {
			t.Fatal(err)
		}
		return resp.Msg
	}
	var names []string
	for token := ""; ; {
		page := search(&adminv1.SearchToolsRequest{PageSize: 4, PageToken: token})
		for _, tool := range page.GetTools() {
			names = append(names, tool.GetName())
		}
		if token = page.GetNextPageToken(); token == "" {
			if len(names) != int(page.GetTotal()) || !slices.IsSorted(names) || len(slices.Compact(names)) != len(names) {
				t.Errorf("%d tools of %d: %v", len(names), page.GetTotal(), names)
			}
			break
		}
	}
	found := search(&adminv1.SearchToolsRequest{Query: "position of a vehicle on the road", PageSize: 3})
	if len(found.GetTools()) != 3 || !strings.HasPrefix(found.GetTools()[0].GetName(), "fleet.") || found.GetNextPageToken() == "" {
		t.Errorf("%v", found)
	}
	next := search(&adminv1.SearchToolsRequest{Query: "position of a vehicle on the road", PageSize: 3, PageToken: found.GetNextPageToken()})
	if len(next.GetTools()) > 0 && next.GetTools()[0].GetName() == found.GetTools()[0].GetName() {
		t.Errorf("the second page begins as the first: %v", next)
	}
	for _, bad := range []*adminv1.SearchToolsRequest{
		{Query: strings.Repeat("x", 1001)}, {PageToken: "!"}, {PageToken: "MQ"}, {PageToken: "LTEgeA"},
	} {
		if _, err := api.SearchTools(t.Context(), connect.NewRequest(bad)); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// TestGetTool shows tools of every kind as agents see them.
func TestGetTool(t *testing.T) {
	t.Parallel()
	api := consoleOf(t, mcptest.Start(t, mcptest.Options{Native: mcptest.Desk()}))
	kinds := map[string]string{
		"lab.echo": "unary", "lab.relay": "bidirectional stream", "fleet.report_positions": "client stream", "fleet.watch_vehicles": "server stream", "desk.weigh": "",
	}
	for name, kind := range kinds {
		resp, err := api.GetTool(t.Context(), connect.NewRequest(&adminv1.GetToolRequest{Name: name}))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := resp.Msg
		var listed struct {
			Name        string          `json:"name"`
			InputSchema json.RawMessage `json:"inputSchema"`
		}
		if err := json.Unmarshal([]byte(got.GetListed()["mcp"]), &listed); err != nil || listed.Name != got.GetTool().GetMcpName() {
			t.Errorf("%s: %v, %.200s", name, err, got.GetListed()["mcp"])
		}
		if got.GetKind() != kind || (got.GetRpc() == "") != (kind == "") || got.GetTokens() == 0 || !json.Valid([]byte(got.GetInputSchema())) || got.GetDescription() == "" {
			t.Errorf("%s: %v", name, got)
		}
		byOther, err := api.GetTool(t.Context(), connect.NewRequest(&adminv1.GetToolRequest{Name: got.GetTool().GetMcpName()}))
		if err != nil || byOther.Msg.GetFingerprint() != got.GetFingerprint() {
			t.Errorf("%s by its name in MCP: %v", name, err)
		}
	}
	gated, err := api.GetTool(t.Context(), connect.NewRequest(&adminv1.GetToolRequest{Name: "fleet.cancel_order"}))
	if err != nil || !gated.Msg.GetIsGated() || !gated.Msg.GetTool().GetDestructive() {
		t.Errorf("%v, %v", gated, err)
	}
	if _, err := api.GetTool(t.Context(), connect.NewRequest(&adminv1.GetToolRequest{Name: "lab.ech"})); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("a tool that does not exist: %v", err)
	}
}

// TestCheckArguments finds what a call would be refused for, at the same places, and calls nothing.
func TestCheckArguments(t *testing.T) {
	t.Parallel()
	r := mcptest.Start(t, mcptest.Options{Native: mcptest.Desk()})
	api := consoleOf(t, r)
	for _, tt := range []struct{ tool, arguments, code, paths string }{
		{"lab.echo", `{"nonce":"n","signed":"-9223372036854775808"}`, "", ""},
		{"lab_echo", `{}`, "", ""},
		{"lab.echo", `{"nonce":3,"signed":"x","zz":1}`, "INVALID_TOOL_INPUT", "/nonce /signed /zz"},
		{"lab.echo", `{"signed":9223372036854775808}`, "INVALID_TOOL_INPUT", "/signed"},
		{"lab.echo", `[]`, "INVALID_TOOL_INPUT", ""},
		{"lab.echo", `{"nonce":`, "INVALID_TOOL_INPUT", ""},
		{"lab.echo", ``, "INVALID_TOOL_INPUT", ""},
		{"lab.echo", strings.Repeat("[", 100), "INVALID_TOOL_INPUT", ""},
		{"lab.echo", `{"nonce":"a","nonce":"b"}`, "INVALID_TOOL_INPUT", ""},
		{"lab.relay", `{"items":[{"nonce":"n"},{"nonce":1}]}`, "INVALID_TOOL_INPUT", "/items/1/nonce"},
		{"lab.relay", `{"items":[{"nonce":0},{},{"nonce":"n","x":1}]}`, "INVALID_TOOL_INPUT", "/items/0/nonce /items/2/x"},
		{"fleet.cancel_order", `{"order_id":"1"}`, "", ""}, // the gate is not asked
	} {
		resp, err := api.CheckArguments(t.Context(), connect.NewRequest(&adminv1.CheckArgumentsRequest{Tool: tt.tool, Arguments: tt.arguments}))
		if err != nil {
			t.Errorf("%s %.60s: %v", tt.tool, tt.arguments, err)
			continue
		}
		var paths []string
		for _, v := range resp.Msg.GetViolations() {
			paths = append(paths, v.GetPath())
			if v.GetMessage() == "" || v.GetKeyword() == "" {
				t.Errorf("%s %.60s: %v", tt.tool, tt.arguments, v)
			}
		}
		if resp.Msg.GetCode() != tt.code || tt.paths != "" && strings.Join(paths, " ") != tt.paths || tt.code != "" && len(paths) == 0 {
			t.Errorf("%s %.60s: %v", tt.tool, tt.arguments, resp.Msg)
		}
	}
	if n := r.App().Bridge().Begun(); n != 0 {
		t.Errorf("%d requests have begun", n)
	}
	if _, err := api.CheckArguments(t.Context(), connect.NewRequest(&adminv1.CheckArgumentsRequest{Tool: "none", Arguments: "{}"})); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("%v", err)
	}
	large := connect.NewRequest(&adminv1.CheckArgumentsRequest{Tool: "lab.echo", Arguments: fmt.Sprintf(`{"nonce":%q}`, strings.Repeat("x", 11<<20))})
	if _, err := api.CheckArguments(t.Context(), large); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("arguments above --max-message-bytes: %v", err)
	}
}

// TestWatchOfOperators sends the state at once and at the interval, to a bounded number of clients, which share what was found out for
// one of them.
func TestWatchOfOperators(t *testing.T) {
	t.Parallel()
	began := time.Now()
	api := consoleOf(t, mcptest.Start(t, mcptest.Options{}))
	const most = 32
	request := connect.NewRequest(&adminv1.WatchRequest{Interval: durationpb.New(time.Nanosecond)})
	ctx, cancel := context.WithCancel(t.Context())
	var streams []*connect.ServerStreamForClient[adminv1.WatchResponse]
	atOnce := map[time.Time]bool{}
	for i := range most {
		stream, err := api.Watch(ctx, request)
		if err != nil || !stream.Receive() {
			t.Fatalf("client %d: %v, %v", i, err, stream.Err())
		}
		if now := stream.Msg(); !now.GetReady() || now.GetState() != "ready" || int(now.GetWatchers()) != i+1 || len(now.GetLimits()) < 30 || len(now.GetChecks()) < 4 ||
			now.GetCatalogTools() < 10 || now.GetCatalogFingerprint() == "" || now.GetTrust() != "untrusted" {
			t.Fatalf("client %d: %v", i, now)
		}
		if up := stream.Msg().GetTime().AsTime().Sub(stream.Msg().GetStarted().AsTime()); up <= 0 || up > time.Since(began) {
			t.Fatalf("it says that it has been running for %v", up)
		}
		streams = append(streams, stream)
		atOnce[stream.Msg().GetTime().AsTime()] = true
	}
	// An eighth of a second and more is between two states, but those that a new client gets.
	states := map[time.Time]int{}
	for i, stream := range streams {
		next := func() *adminv1.WatchResponse {
			if !stream.Receive() {
				t.Fatalf("client %d: %v", i, stream.Err())
			}
			if at := stream.Msg().GetTime().AsTime(); !atOnce[at] {
				states[at]++
			}
			return stream.Msg()
		}
		// As many watch, each waits for a second; a state may be an eighth of a second old.
		before := next()
		for before.GetWatchers() < most {
			before = next()
		}
		if apart := next().GetTime().AsTime().Sub(before.GetTime().AsTime()); apart < time.Second-125*time.Millisecond {
			t.Errorf("client %d: messages %v apart", i, apart)
		}
	}
	times := slices.SortedFunc(maps.Keys(states), time.Time.Compare)
	for i := 1; i < len(times); i++ {
		if apart := times[i].Sub(times[i-1]); apart < 125*time.Millisecond {
			t.Errorf("states %v apart for %d clients", apart, most)
		}
	}
	stream, err := api.Watch(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	if stream.Receive() || connect.CodeOf(stream.Err()) != connect.CodeResourceExhausted {
		t.Errorf("one more: %v", stream.Err())
	}
	cancel()
	testkit.Until(t, "a place comes back", func() bool {
		again, err := api.Watch(t.Context(), request)
		return err == nil && again.Receive()
	})
}

// TestActionsOfOperators changes trust and the catalog, and leaves a line in the audit trail for each.
func TestActionsOfOperators(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/audit.jsonl"
	r := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Audit = &configv1.Audit{Path: proto.String(path), Fsync: proto.String("never")}
	}})
	api := consoleOf(t, r)
	trust, err := api.SetTrust(t.Context(), connect.NewRequest(&adminv1.SetTrustRequest{Trust: "trusted"}))
	if err != nil || trust.Msg.GetTrust() != "trusted" || trust.Msg.GetBefore() != "untrusted" {
		t.Errorf("%v, %v", trust, err)
	}
	if _, err := api.SetTrust(t.Context(), connect.NewRequest(&adminv1.SetTrustRequest{Trust: "maybe"})); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("%v", err)
	}
	fresh, err := api.Refresh(t.Context(), connect.NewRequest(&adminv1.RefreshRequest{}))
	if err != nil || fresh.Msg.GetTools() < 10 || fresh.Msg.GetFingerprint() == "" {
		t.Errorf("%v, %v", fresh, err)
	}
	kinds := map[string]int{}
	testkit.Try(t, "the lines of both changes, which are written later", func() error {
		clear(kinds)
		for _, line := range auditLines(t, path) {
			kinds[line.Operation]++
		}
		if kinds["trust"] == 0 || kinds["refresh"] != 1 {
			return fmt.Errorf("%v", kinds)
		}
		return nil
	})
}

// auditLines reads a trail.
func auditLines(t *testing.T, path string) (out []trail.AuditLine) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	err = trail.ReadAudit(f, func(l *trail.AuditLine) error {
		out = append(out, *l)
		return nil
	}, func(f trail.Fault) {
		if !f.IsPartial {
			t.Error(f)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestOneCallOfOperators finds the lines of a call wherever they are kept, without what it sent and got, even if files have that.
func TestOneCallOfOperators(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	core, _ := observer.New(zap.DebugLevel)
	r := mcptest.Start(t, mcptest.Options{Log: zap.New(core), Configure: func(c *configv1.Config) {
		c.Audit = &configv1.Audit{Path: proto.String(dir + "/audit.jsonl"), Fsync: proto.String("never"), Payloads: true}
		c.Record = &configv1.Record{Dir: proto.String(dir + "/runs"), Payloads: true}
	}})
	api, url := consoleOf(t, r), mcptest.Serve(t, r.Handler(t))
	stream, err := api.Watch(t.Context(), connect.NewRequest(&adminv1.WatchRequest{}))
	if err != nil || !stream.Receive() {
		t.Fatal(err, stream.Err())
	}
	const secret = "nothing-of-this-is-shown"
	calls := map[string]string{
		"one": `{"name":"lab.echo","arguments":{"nonce":"` + secret + `"}}`,
		"two": `{"name":"lab.fail","arguments":{"code":"FAIL_CODE_NOT_FOUND","message":"gone"}}`,
	}
	for id, params := range calls {
		asked(t, url, sent{path: "/rpc", body: `{"jsonrpc":"2.0","id":"` + id + `","method":"tools/call","params":` + params + `}`}, "")
	}
	found := map[string]*adminv1.GetCallResponse{}
	testkit.Try(t, "the lines of both calls", func() error { // trail and record are written when there is time
		for id := range uint64(8) {
			got, err := api.GetCall(t.Context(), connect.NewRequest(&adminv1.GetCallRequest{Id: id}))
			if err != nil && connect.CodeOf(err) != connect.CodeNotFound {
				t.Fatal(err)
			}
			if err == nil && len(got.Msg.GetAuditLines()) > 0 && got.Msg.GetRecord() != "" && len(got.Msg.GetLogLines()) > 0 {
				found[got.Msg.GetCall().GetRequestId()] = got.Msg
			}
		}
		if len(found) < len(calls) {
			return fmt.Errorf("%v", found)
		}
		return nil
	})
	for id, got := range found {
		call := got.GetCall()
		if strings.Contains(got.String(), secret) || got.GetAuditNote()+got.GetRecordNote() != "" {
			t.Errorf("%s: %v", id, got)
		}
		if isFailed := id == "two"; isFailed != (len(got.GetAdvice()) > 0) || isFailed != (call.GetMessage() != "") || isFailed != (call.GetCode() == "TOOL_EXECUTION_FAILED") {
			t.Errorf("%s: %v", id, got)
		}
		total := time.Duration(0)
		for _, step := range call.GetSteps() {
			total += step.GetTook().AsDuration()
		}
		if total != call.GetTook().AsDuration() || len(call.GetSteps()) < 5 || call.GetUpstream().AsDuration() <= 0 {
			t.Errorf("%s: steps take %v of %v", id, total, call)
		}
		if !strings.Contains(got.GetAuditLines()[0], `"request_id":"`+id+`"`) || !strings.Contains(got.GetRecord(), `"requestId":"`+id+`"`) ||
			!strings.Contains(strings.Join(got.GetLogLines(), "\n"), `"jsonrpc.request.id":"`+id+`"`) {
			t.Errorf("%s: %v", id, got)
		}
	}
	header, _ := asked(t, r.Operators(t), sent{path: "/console/call/rpc", body: `{"jsonrpc":"2.0","id":"three","method":"tools/call","params":{"name":"lab.fail","arguments":{"code":"FAIL_CODE_NOT_FOUND"}}}`}, "")
	number, err := strconv.ParseUint(header.Get("Outrigger-Call-Id"), 10, 64)
	if err != nil {
		t.Fatal(err, header)
	}
	if got, err := api.GetCall(t.Context(), connect.NewRequest(&adminv1.GetCallRequest{Id: number})); err != nil || got.Msg.GetCall().GetRequestId() != "three" {
		t.Errorf("the number that a call of the console has: %v, %v", got, err)
	}
	for isSeen := false; !isSeen; { // earlier states come first
		if !stream.Receive() {
			t.Fatal(stream.Err())
		}
		isSeen = slices.ContainsFunc(stream.Msg().GetTools(), func(c *adminv1.ToolCounts) bool { return c.GetName() == "lab.fail" && c.GetCalls() == 2 })
	}
	for _, counts := range stream.Msg().GetTools() {
		failed, all := uint64(0), uint64(1)
		if counts.GetName() == "lab.fail" {
			failed, all = 2, 2
		}
		sum := uint64(0)
		for _, n := range counts.GetBuckets() {
			sum += n
		}
		if counts.GetCalls() != all || sum != all || counts.GetFailed() != failed || counts.GetInFlight() != 0 || len(counts.GetBuckets()) != len(counts.GetBounds())+1 {
			t.Errorf("%v", counts)
		}
	}
	if len(stream.Msg().GetTools()) != 2 {
		t.Errorf("%v", stream.Msg().GetTools())
	}
}
