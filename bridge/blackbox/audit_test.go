// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/testdata/schemas"
)

// audited is the configuration of a trail, and its file.
func audited(t *testing.T, more func(*configv1.Audit)) (string, func(*configv1.Config)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	return path, func(c *configv1.Config) {
		c.Audit.Path = proto.String(path)
		if more != nil {
			more(c.Audit)
		}
	}
}

// trail is every line of a trail, each checked against the schema.
func trail(t *testing.T, path string) []map[string]any {
	t.Helper()
	raw, err := schemas.Read(schemas.Audit)
	if err != nil {
		t.Fatal(err)
	}
	check := mcptest.Schema(t, raw)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]any
	for line := range bytes.Lines(text) {
		if err := check(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		out = append(out, fields)
	}
	return out
}

// linesWith are the lines whose member has one of these values.
func linesWith(lines []map[string]any, member string, values ...any) []map[string]any {
	var out []map[string]any
	for _, l := range lines {
		for _, v := range values {
			if l[member] == v {
				out = append(out, l)
			}
		}
	}
	return out
}

// edgeOfWay is the edge that a way is named after.
func edgeOfWay(name string) string {
	for _, one := range []struct{ prefix, edge string }{
		{"/rpc", "rpc"}, {"/mcp", "mcp"}, {"stdio", "stdio"}, {"typed", "typed"}, {"CallToolStream", "grpc"},
		{"CallTool, Connect", "connect"}, {"CallTool, gRPC-Web", "grpcweb"}, {"CallTool, gRPC", "grpc"},
		{"Exchange, Connect", "connect"}, {"Exchange, gRPC", "grpc"},
	} {
		if strings.HasPrefix(name, one.prefix) {
			return one.edge
		}
	}
	return "unknown: " + name
}

// Every way to call a tool leaves one line on every edge, or two with one id where the
// trail is required, whatever becomes of the call.
func TestEveryWayToCallIsAudited(t *testing.T) {
	t.Parallel()
	for _, required := range []bool{false, true} {
		path, configure := audited(t, func(a *configv1.Audit) { a.Required = required })
		g := newGatedBy(t, mcptest.Options{Configure: configure})
		var names []string
		var codes []errmap.Code
		for _, to := range []string{"untrusted", "trusted"} {
			g.trust(t, to)
			for _, w := range waysIn() {
				names, codes = append(names, w.name), append(codes, w.ask(t, g, g.order(t)))
			}
		}
		http.DefaultClient.CloseIdleConnections()
		g.one.CloseIdleConnections()
		g.two.CloseIdleConnections()
		g.end()
		lines := linesWith(trail(t, path), "tool", "fleet.cancel_order", "desk.tidy")
		ends, begins := linesWith(lines, "phase", "end"), linesWith(lines, "phase", "begin")
		if len(ends) != len(names) {
			t.Fatalf("required %v: %d lines for %d calls", required, len(ends), len(names))
		}
		if want := map[bool]int{true: len(names)}[required]; len(begins) != want {
			t.Errorf("required %v: %d calls begin, want %d", required, len(begins), want)
		}
		seen := map[any]bool{}
		for i, l := range ends {
			checkEnd(t, names[i], l, codes[i])
			if seen[l["id"]] {
				t.Errorf("%s: the id %v is not its own", names[i], l["id"])
			}
			seen[l["id"]] = true
			if required && begins[i]["id"] != l["id"] {
				t.Errorf("%s: begins as %v, ends as %v", names[i], begins[i]["id"], l["id"])
			}
		}
	}
}

func checkEnd(t *testing.T, name string, l map[string]any, code errmap.Code) {
	t.Helper()
	want := map[string]any{
		"edge": edgeOfWay(name), "operation": "call_tool", "destructive": true, "version": "1.0.0", "outcome": "result", "code": "OK",
		"decision": "allowed", "rule": nil, "trust": "trusted",
	}
	if l["tool"] == "desk.tidy" {
		want["version"] = l["version"]
		want["destructive"] = l["destructive"]
	}
	if code == errmap.DestructiveBlocked {
		want["code"], want["decision"], want["rule"], want["trust"], want["outcome"] = string(code), "denied", "destructive_gate", "untrusted", "error"
	} else if code != "" {
		t.Errorf("%s: %s", name, code)
	}
	for member, value := range want {
		if l[member] != value {
			t.Errorf("%s: %s is %v, want %v", name, member, l[member], value)
		}
	}
	caller, _ := l["caller"].(map[string]any)
	address := "127.0.0.1"
	if strings.HasPrefix(name, "stdio") {
		address = "stdio"
	}
	if caller["address"] != address || l["fingerprint"] == nil || l["era"] == nil && want["edge"] != "typed" {
		t.Errorf("%s: %v", name, l)
	}
}

// What is not a call of a tool leaves a line too, and so does what is refused.
func TestOtherOperationsAreAudited(t *testing.T) {
	t.Parallel()
	path, configure := audited(t, func(a *configv1.Audit) { a.Payloads = true })
	rig := mcptest.Start(t, mcptest.Options{Native: mcptest.Desk(), Configure: func(c *configv1.Config) {
		configure(c)
		c.Audit.Redact = []string{"nonce"}
	}})
	url, client := rig.Serve(t), mcptest.Client(t, 1)
	ask := func(method, named, params string) {
		t.Helper()
		body := `{"jsonrpc":"2.0","id":"a","method":"` + method + `","params":{` + params + modernMeta + `}}`
		headers := []string{
			"Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method,
			"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		}
		if named != "" {
			headers = append(headers, "Mcp-Name", named)
		}
		send(t, client, http.MethodPost, url+"/mcp", body, headers...)
	}
	ask("resources/read", "desk://notes/1", `"uri":"desk://notes/1",`)
	ask("prompts/get", "greet", `"name":"greet","arguments":{"name":"Ann"},`)
	ask("completion/complete", "", `"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"tone","value":"f"},`)
	ask("tools/call", "lab.echo", `"name":"lab.echo","arguments":{"nonce":"hunter2","signed":5},`)
	ask("tools/call", "no.such", `"name":"no.such",`)
	ask("tools/call", "lab.echo", `"name":5,`)
	ask("tools/list", "", ``)
	client.CloseIdleConnections()
	rig.End()
	var got []string
	for _, l := range linesWith(trail(t, path), "phase", "end") {
		text := func(member string) string {
			s, _ := l[member].(string)
			return s
		}
		got = append(got, strings.Join([]string{text("operation"), text("tool") + text("target"), text("decision"), text("code"), text("outcome")}, " "))
		if l["era"] != "2026-07-28" || l["edge"] != "mcp" || l["request_id"] != "a" {
			t.Errorf("%v", l)
		}
		if text("code") == "OK" && (l["trace_id"] != "0af7651916cd43dd8448eb211c80319c" || l["result"] == nil || l["arguments"] == nil || l["bytes_out"] == 0.0) {
			t.Errorf("%v", l)
		}
	}
	want := []string{
		"read_resource desk://notes/1 allowed OK result", "get_prompt greet allowed OK result", "complete greet allowed OK result",
		"call_tool lab.echo allowed OK result", "call_tool no.such  TOOL_NOT_FOUND error", "call_tool   INVALID_PARAMS error",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	raw, err := os.ReadFile(path)
	if err != nil || bytes.Contains(raw, []byte("hunter2")) || !bytes.Contains(raw, []byte(`"arguments":{"nonce":"[redacted]","signed":5}`)) {
		t.Errorf("%v\n%s", err, raw)
	}
}

// A required trail that cannot be written refuses calls before the backend, and another
// one does not.
func TestATrailThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	for _, required := range []bool{true, false} {
		for _, fsync := range []string{"interval", "always"} {
			g := newGatedBy(t, mcptest.Options{
				Configure: func(c *configv1.Config) {
					c.Audit.Path, c.Audit.Required, c.Audit.Fsync, c.Trust = proto.String("/dev/full"), required, proto.String(fsync), proto.String("trusted")
				},
				Ended: func(err error) {
					if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "lines are not written") {
						t.Errorf("the end does not tell of the lines that are lost: %v", err)
					}
				},
			})
			resp := g.bridge.Handle(t.Context(), toolCall(g.bridge, "fleet.cancel_order", `{"orderId":"1"}`))
			reached := g.cancelled.Load() == 1
			if reached == required {
				t.Errorf("required %v, %s: the backend was reached: %v, %v", required, fsync, reached, resp.Err)
			}
			if isRefused := resp.Err != nil && resp.Err.Code == errmap.Unavailable && strings.Contains(resp.Err.Message, "audit trail"); isRefused != required {
				t.Errorf("required %v, %s: %v", required, fsync, resp.Err)
			}
		}
	}
}

// A call that runs on as a task leaves a line when the caller gets the task, and another
// one with the same id when it ends.
func TestATaskIsAudited(t *testing.T) {
	t.Parallel()
	path, configure := audited(t, nil)
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		configure(c)
		c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "outrigger.demo.v1.Lab/Sleep", Tool: &configv1.ToolOptions{TaskSupport: "optional", TaskAfter: durationpb.New(10 * time.Millisecond)}})
	}})
	call := toolCall(rig, "lab.sleep", `{"duration":"0.5s"}`)
	call.Tasks = true
	resp := rig.Handle(t.Context(), call)
	if resp.Err != nil || resp.Outcome.GetTask() == nil {
		t.Fatalf("%v %v", resp.Err, resp.Outcome)
	}
	rig.End()
	lines := linesWith(trail(t, path), "tool", "lab.sleep")
	if len(lines) != 2 || lines[0]["phase"] != "end" || lines[0]["outcome"] != "task" || lines[1]["phase"] != "task" ||
		lines[1]["code"] != "OK" || lines[0]["id"] != lines[1]["id"] {
		t.Errorf("%v", lines)
	}
}

// BenchmarkAuditedCall measures a small call with and without a trail.
func BenchmarkAuditedCall(b *testing.B) {
	for _, tc := range []struct {
		name      string
		configure func(*configv1.Config)
	}{
		{"off", nil},
		{"interval", func(c *configv1.Config) { c.Audit.Path = proto.String(filepath.Join(b.TempDir(), "audit")) }},
		{"payloads", func(c *configv1.Config) {
			c.Audit.Path, c.Audit.Payloads = proto.String(filepath.Join(b.TempDir(), "audit")), true
		}},
		{"always", func(c *configv1.Config) {
			c.Audit.Path, c.Audit.Fsync = proto.String(filepath.Join(b.TempDir(), "audit")), proto.String("always")
		}},
	} {
		b.Run(tc.name, func(b *testing.B) {
			rig := mcptest.Start(b, mcptest.Options{Configure: tc.configure})
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					resp := rig.Handle(b.Context(), &mcptest.Call{
						Origin: rig.NewOrigin(), Tool: "lab.echo", Caller: "127.0.0.1", Arguments: `{"nonce":"n","signed":5}`,
					})
					if resp.Err != nil {
						b.Error(resp.Err)
					}
				}
			})
		})
	}
}

// Every way to call a tool leaves one line in the run record too, with tool, caller and
// route.
func TestEveryWayToCallIsRecorded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := newGatedBy(t, mcptest.Options{Configure: func(c *configv1.Config) { c.Record.Dir = proto.String(dir) }})
	g.trust(t, "trusted")
	ways := waysIn()
	for _, w := range ways {
		w.ask(t, g, g.order(t))
	}
	http.DefaultClient.CloseIdleConnections()
	g.one.CloseIdleConnections()
	g.two.CloseIdleConnections()
	g.end()
	files, err := filepath.Glob(filepath.Join(dir, "mcp_server", "envelope_validation", "*", "events.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var lines []map[string]any
	for line := range bytes.Lines(text) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		lines = append(lines, fields)
	}
	lines = linesWith(lines, "tool", "fleet.cancel_order", "desk.tidy")
	if len(lines) != len(ways) {
		t.Fatalf("%d lines for %d calls", len(lines), len(ways))
	}
	for i, l := range lines {
		caller := "127.0.0.1"
		if strings.HasPrefix(ways[i].name, "stdio") {
			caller = "stdio"
		}
		if l["caller"] != caller || l["route"] == nil || l["status"] != "ok" {
			t.Errorf("%s: %v", ways[i].name, l)
		}
	}
}

// The line of a call has the sizes of the items that followed it, too.
func TestItemsThatFollowAreAudited(t *testing.T) {
	t.Parallel()
	path, configure := audited(t, nil)
	rig := mcptest.Start(t, mcptest.Options{Configure: configure})
	const report = `{"vehicleId":"101","position":{"latitude":1,"longitude":2},"observedAt":"2026-06-01T06:00:00Z"}`
	left := 3
	resp := rig.Handle(t.Context(), &mcptest.Call{
		Origin: rig.NewOrigin(), Tool: "fleet.report_positions", Arguments: items(report),
		Items: func(context.Context) ([]byte, error) {
			if left--; left < 0 {
				return nil, io.EOF
			}
			return []byte(report), nil
		},
	})
	if resp.Err != nil {
		t.Fatal(resp.Err)
	}
	rig.End()
	lines := linesWith(trail(t, path), "tool", "fleet.report_positions")
	if want := float64(len(items(report)) + 3*len(report)); len(lines) != 1 || lines[0]["bytes_in"] != want {
		t.Errorf("%v, want %v bytes in", lines, want)
	}
}

// A request that is recorded runs once, like any other.
func TestARecordedRequestRuns(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, func(c *configv1.Config) { c.Record.Dir = proto.String(t.TempDir()) })
	in := inbound(1, mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo"}}`)
	in.Transport = "stdio"
	if got := decode(t, b.Send(t.Context(), in)); got.code() != "" || got.Result == nil {
		t.Errorf("got %+v", got)
	}
}

// TestEveryCauseIsKnownToTheOperatorAlone walks the error table: the cause of each error is
// in the log, the span and the audit trail, and at no edge is it shown to the caller.
func TestEveryCauseIsKnownToTheOperatorAlone(t *testing.T) {
	t.Parallel()
	for _, code := range errmap.Codes() {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			const cause = "dial tcp 192.0.2.7:443: cause 4f9c"
			c := causeRig(t, func(context.Context, *mcptest.Method, []byte, http.Header) (*mcptest.Answer, *errmap.Error) {
				return nil, errmap.Wrap(code, errors.New(cause))
			})
			c.isKnown(t, []string{cause}, "cause 4f9c", "192.0.2.7")
		})
	}
}

// TestTheCauseOfAnUnreadableResponse has the path of the field and its first bytes.
func TestTheCauseOfAnUnreadableResponse(t *testing.T) {
	t.Parallel()
	c := causeRig(t, func(context.Context, *mcptest.Method, []byte, http.Header) (*mcptest.Answer, *errmap.Error) {
		return &mcptest.Answer{Body: []byte("\x0a\x02\xffA")}, nil
	})
	c.isKnown(t, []string{"SERIALIZATION_ERROR: transcode: decode answer", `(at "/nonce": invalid UTF-8 at byte 0, bytes ff 41)`}, "ff 41", "/nonce")
}

// causes is a sidecar whose log, spans and audit trail a test reads.
type causes struct {
	url   string
	lines *observer.ObservedLogs
	spans *tracetest.InMemoryExporter
	file  string
	end   func()
}

func causeRig(t *testing.T, call mcptest.Upstream) *causes {
	t.Helper()
	core, lines := observer.New(zap.InfoLevel)
	c := &causes{lines: lines, spans: tracetest.NewInMemoryExporter(), file: filepath.Join(t.TempDir(), "audit.jsonl")}
	rig := mcptest.Pipe(t, mcptest.Parts{
		Backend: call, Log: zap.New(core), Configure: func(to *configv1.Config) { to.Audit.Path = &c.file },
		Change: mcptest.Traced(sdktrace.NewTracerProvider(sdktrace.WithSyncer(c.spans)), time.Hour),
	})
	c.url, c.end = rig.Serve(t), rig.End
	return c
}

// isKnown makes a call at every edge, and looks for parts of a cause wherever it has to be,
// and for secret parts of it at the caller.
func (c *causes) isKnown(t *testing.T, parts []string, secrets ...string) {
	t.Helper()
	hasAll := func(text string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
	}
	edges := map[string]string{
		"/rpc": `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{}}}`,
		"/mcp": `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab_echo","arguments":{},"_meta":` +
			`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"/outrigger.v1.ToolService/CallTool": `{"tool_name":"lab.echo"}`,
		"/outrigger.demo.v1.Lab/Echo":        `{}`,
	}
	for path, body := range edges {
		c.lines.TakeAll()
		c.spans.Reset()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", "tools/call")
		r.Header.Set("Mcp-Name", "lab_echo")
		resp, err := mcptest.Client(t, 1).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		shown, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets {
			if strings.Contains(string(shown), secret) {
				t.Errorf("%s: the caller sees %q: %s", path, secret, shown)
			}
		}
		calls := c.lines.FilterMessage("call").All()
		if len(calls) != 1 || !hasAll(textOf(calls[0].ContextMap()["exception.message"])) {
			t.Errorf("%s: the log lacks %q: %v %s", path, parts, calls, shown)
		}
		testkit.Until(t, path+": the span has the cause", func() bool { return hasAll(causesIn(c.spans)) })
	}
	c.end()
	lines := trail(t, c.file)
	for _, line := range lines {
		if !hasAll(textOf(line["cause"])) {
			t.Errorf("the audit trail lacks %q: %v", parts, line)
		}
	}
	if len(lines) != len(edges) {
		t.Errorf("%d lines of the audit trail, want %d", len(lines), len(edges))
	}
}

func textOf(value any) string {
	text, _ := value.(string)
	return text
}

// causesIn are the causes that spans have.
func causesIn(s *tracetest.InMemoryExporter) string {
	var b strings.Builder
	for _, span := range s.GetSpans() {
		for _, a := range span.Attributes {
			if a.Key == "exception.message" {
				b.WriteString(a.Value.AsString() + "\n")
			}
		}
	}
	return b.String()
}
