// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/audit"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/logkey"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// wayOfRow is one row of the matrix: calls that are made by name and by way of the compact catalog, of a sidecar each.
type wayOfRow struct {
	name      string
	configure func(*configv1.Config)
	// capabilities are those of the client, meta further members of _meta, header further headers.
	capabilities, meta string
	header             http.Header
	calls              []rowCall
	// want is in the reply to the last call.
	want string
	// audited is the decision about it.
	audited audit.Decision
}

// rowCall is one call. says is the answer to the question that the call before it was answered with.
type rowCall struct {
	tool, arguments string
	says            string
	// getsTask asks for the task of the call before it until it has ended.
	getsTask bool
}

// ran is in the reply of the tool that cancels an order.
const ran = "there is no order 1001"

const asksForm = `{"elicitation":{"form":{}}}`

func rowsOfBothWays() []wayOfRow {
	cancel := rowCall{tool: "fleet_cancel_order", arguments: `{"orderId":"1001"}`}
	yes, no := cancel, cancel
	yes.says, no.says = `{"action":"accept","content":{"confirm":true}}`, `{"action":"decline"}`
	both := func(configure ...func(*configv1.Config)) func(*configv1.Config) {
		return func(c *configv1.Config) {
			for _, f := range configure {
				f(c)
			}
		}
	}
	noGoods := rule("no-nonce", "deny", `args.nonce == "bad"`, "lab.*")
	listed := rule("named", "allow", `args.order_id > 0u`, "fleet.cancel_order")
	slow := func(c *configv1.Config) {
		c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "outrigger.demo.v1.Lab/Sleep", Tool: &configv1.ToolOptions{
			TaskSupport: "optional", TaskAfter: durationpb.New(10 * time.Millisecond),
		}})
	}
	timed := func(c *configv1.Config) {
		c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "outrigger.demo.v1.Lab/Sleep", Tool: &configv1.ToolOptions{
			Timeout: durationpb.New(20 * time.Millisecond),
		}})
	}
	rare := func(c *configv1.Config) {
		c.Limits.ToolRate = &configv1.Rate{PerSecond: 0.001, Burst: proto.Int32(1)}
	}
	return []wayOfRow{
		{name: "plain", calls: []rowCall{{tool: "lab_echo", arguments: `{"nonce":"n","signed":"5"}`}}, want: `"signed":"5"`, audited: audit.Allowed},
		{name: "without arguments", calls: []rowCall{{tool: "lab_echo"}}, want: `"nonce":""`, audited: audit.Allowed},
		{name: "canonical name", calls: []rowCall{{tool: "lab.echo", arguments: `{"nonce":"n"}`}}, want: `"nonce":"n"`, audited: audit.Allowed},
		{name: "invalid arguments", calls: []rowCall{{tool: "lab_echo", arguments: `{"signed":"x"}`}}, want: string(errmap.InvalidToolInput), audited: audit.Allowed},
		{name: "repaired arguments", configure: func(c *configv1.Config) { c.RepairArguments = true }, calls: []rowCall{{tool: "lab_echo", arguments: `"{\"nonce\":\"n\"}"`}},
			want: `"dev.outrigger/repaired":[""]`, audited: audit.Allowed},
		{name: "field mask", meta: `,"dev.outrigger/fields":"nonce"`, calls: []rowCall{{tool: "lab_echo", arguments: `{"nonce":"n","signed":"5"}`}},
			want: `"structuredContent":{"nonce":"n"}`, audited: audit.Allowed},
		{name: "result budget", configure: budgetOf(300), calls: []rowCall{{tool: "lab_echo", arguments: `{"nonce":"` + strings.Repeat("n", 500) + `","signed":"5"}`}},
			want: `"cut":[{"path":"/nonce"}]`, audited: audit.Allowed},
		{name: "tool that fails", calls: []rowCall{{tool: "lab_fail", arguments: `{"code":5}`}}, want: string(errmap.ToolExecutionFailed), audited: audit.Allowed},
		{name: "policy, denied", configure: ruled(noGoods), calls: []rowCall{{tool: "lab_echo", arguments: `{"nonce":"bad"}`}}, want: string(errmap.PermissionDenied), audited: audit.Denied},
		{name: "policy, allowed", configure: ruled(noGoods), calls: []rowCall{{tool: "lab_echo", arguments: `{"nonce":"good"}`}}, want: `"nonce":"good"`, audited: audit.Allowed},
		{name: "policy, allowed by name, destructive", configure: ruled(listed), calls: []rowCall{cancel}, want: ran, audited: audit.Allowed},
		{name: "gate", calls: []rowCall{cancel}, want: string(errmap.DestructiveBlocked), audited: audit.Denied},
		{name: "gate of writes", configure: func(c *configv1.Config) { c.Gate = proto.String("writes") },
			calls: []rowCall{{tool: "fleet_update_vehicle", arguments: `{"vehicleId":"101","patch":{"driver":"A"},"updateMask":"driver"}`}}, want: string(errmap.DestructiveBlocked), audited: audit.Denied},
		{name: "confirm, asks", configure: asks, capabilities: asksForm, calls: []rowCall{cancel}, want: `"resultType":"input_required"`},
		{name: "confirm, yes", configure: asks, capabilities: asksForm, calls: []rowCall{cancel, yes}, want: ran, audited: audit.Consented},
		{name: "confirm, no", configure: asks, capabilities: asksForm, calls: []rowCall{cancel, no}, want: string(errmap.DestructiveBlocked), audited: audit.Denied},
		{name: "confirm, twice", configure: asks, capabilities: asksForm, calls: []rowCall{cancel, yes, cancel}, want: `"resultType":"input_required"`},
		{name: "rate of a tool", configure: rare, calls: []rowCall{{tool: "lab_echo"}, {tool: "lab_echo"}}, want: string(errmap.RateLimited)},
		{name: "progress of a stream", configure: func(c *configv1.Config) { c.Limits.MaxResultItems = proto.Int32(3) }, meta: `,"progressToken":"p"`,
			calls: []rowCall{{tool: "lab_relay", arguments: `{"items":[{"nonce":"a"},{"nonce":"b"}]}`}}, want: `"nonce":"b"`, audited: audit.Allowed},
		{name: "task", configure: both(slow), capabilities: `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`,
			calls: []rowCall{{tool: "lab_sleep", arguments: `{"duration":"0.05s"}`}, {getsTask: true}}, want: `"status":"completed"`},
		{name: "timeout of a tool", configure: timed, calls: []rowCall{{tool: "lab_sleep", arguments: `{"duration":"20s"}`}}, want: string(errmap.Timeout), audited: audit.Allowed},
		{name: "headers", header: http.Header{"X-Request-Id": {"r-1"}, "Cookie": {"secret"}}, calls: []rowCall{{tool: "lab_inspect", arguments: `{}`}}, want: "r-1", audited: audit.Allowed},
		{name: "idempotency key", header: http.Header{"Idempotency-Key": {"\x01"}}, calls: []rowCall{{tool: "lab_echo"}}, want: string(errmap.InvalidParams)},
	}
}

// observed is what becomes of the calls of a row.
type observed struct {
	Replies  []string
	Statuses []int
	Heard    []string
	Audited  []entryOfTrail
	Logged   []string
	Counted  []string
	Spans    string
}

type entryOfTrail struct {
	Operation, Tool string
	Destructive     bool
	Decision        audit.Decision
	Rule, Code      string
}

// TestACallByWayOfTheCompactCatalogIsACallByName: policy, gate, consent, rates, progress, tasks, headers, audit, log, metrics
// and spans are the same, to the last byte of the reply. But a text says where the fields of a result are named: not in _meta,
// which models cannot set.
func TestACallByWayOfTheCompactCatalogIsACallByName(t *testing.T) {
	t.Parallel()
	for _, row := range rowsOfBothWays() {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			byName, through := row.run(t, false), row.run(t, true)
			for i, reply := range through.Replies {
				through.Replies[i] = strings.ReplaceAll(reply, `in the argument fields, such as \"fields\": `, `in _meta, such as \"dev.outrigger/fields\": `)
			}
			if diff := cmp.Diff(byName, through); diff != "" {
				t.Errorf("(-by name +through the catalog):\n%s", diff)
			}
			if last := byName.Replies[len(byName.Replies)-1]; !strings.Contains(last, row.want) {
				t.Errorf("the last reply has no %s: %s", row.want, last)
			}
			if strings.Contains(row.meta, "progressToken") && len(byName.Heard) == 0 {
				t.Error("no progress was heard")
			}
			if len(byName.Counted) == 0 {
				t.Error("no metric counts the calls")
			}
			if n := len(through.Audited); row.audited != "" && (n == 0 || through.Audited[n-1].Decision != row.audited) {
				t.Errorf("audited as %v, want %s", through.Audited, row.audited)
			}
		})
	}
}

// run makes the calls of a row one way.
func (row *wayOfRow) run(t *testing.T, through bool) observed {
	t.Helper()
	core, logged := observer.New(zap.InfoLevel)
	trail := filepath.Join(t.TempDir(), "audit.jsonl")
	recorded, options := traced(mcptest.Options{Log: zap.New(core), Configure: func(c *configv1.Config) {
		c.Catalog.Mode = proto.String("compact")
		c.Audit = &configv1.Audit{Path: &trail, Fsync: proto.String("never")}
		if row.configure != nil {
			row.configure(c)
		}
	}}, time.Hour)
	rig := mcptest.Start(t, options)
	var out observed
	polls := false
	var last []byte
	for _, call := range row.calls {
		var status int
		polls = polls || call.getsTask
		for {
			last, status = row.call(t, rig.Bridge, call, through, last, &out.Heard)
			if !call.getsTask || !bytes.Contains(last, []byte(`"status":"working"`)) {
				break
			}
		}
		out.Replies, out.Statuses = append(out.Replies, withoutSecrets(last)), append(out.Statuses, status)
	}
	_, page := send(t, mcptest.Client(t, 1), http.MethodGet, rig.Operators(t)+"/metrics", "")
	for line := range strings.Lines(string(page)) {
		if ofCalls.MatchString(line) && !strings.Contains(line, `"tasks/get"`) { // as often as the task takes
			out.Counted = append(out.Counted, line)
		}
	}
	rig.End()
	if !polls { // a task is asked for as often as it takes
		out.Spans = withoutSecrets([]byte(recorded.tree()))
	}
	for _, line := range logged.FilterMessage("call").All() {
		fields := line.ContextMap()
		text, err := json.Marshal([]any{fields[logkey.CanonicalTool], fields[logkey.ErrorCode]})
		if err != nil {
			t.Fatal(err)
		}
		out.Logged = append(out.Logged, string(text))
	}
	out.Audited = trailOf(t, trail)
	return out
}

// ofCalls are the metrics that count calls by tool.
var ofCalls = regexp.MustCompile(`^(outrigger_(calls|calls_refused|queue_rejected)_total|outrigger_call_duration_seconds_count|mcp_server_operation_duration_seconds_count)\{.*tool.*="`)

func trailOf(t *testing.T, path string) []entryOfTrail {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var out []entryOfTrail
	err = audit.Read(f, func(l *audit.Line) error {
		if l.Phase == audit.PhaseChange || l.Operation == "get_task" { // of which there are as many as the task takes
			return nil
		}
		isDestructive, _ := jsontext.Lookup(l.Raw, "destructive")
		out = append(out, entryOfTrail{l.Operation, l.Tool, string(isDestructive) == "true", l.Decision, l.Rule, l.Code})
		return nil
	}, func(f audit.Fault) { t.Error(f) })
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// call makes one call as a modern client over HTTP does. before is the reply to the one before it.
func (row *wayOfRow) call(t *testing.T, b *dialect.Handler, call rowCall, through bool, before []byte, heard *[]string) ([]byte, int) {
	t.Helper()
	capabilities := row.capabilities
	if capabilities == "" {
		capabilities = `{}`
	}
	method, name, params := "tools/call", call.tool, `"taskId":`
	switch {
	case call.getsTask:
		method, name = "tasks/get", memberOf(t, before, "taskId")
		params += quoted(name)
	default:
		inner := `"name":` + quoted(call.tool)
		if call.arguments != "" {
			inner += `,"arguments":` + call.arguments
		}
		if params = inner; through {
			name = "catalog_call"
			params = `"name":"catalog_call","arguments":{` + inner + `}`
		}
	}
	if call.says != "" {
		params += `,"inputResponses":{"outrigger_confirm":` + call.says + `},"requestState":` + quoted(memberOf(t, before, "requestState"))
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":` + capabilities + row.meta + `}}}`
	header := http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}, "Mcp-Name": {name}}
	maps.Copy(header, row.header)
	msg := jsonrpc.Parse([]byte(body), jsonrpc.ProfileMCP, jsonrpc.Limits{})
	in := &dialect.Inbound{
		Dialect: dialect.Modern, Origin: b.Flights().NewOrigin(), Message: &msg, Header: header, Caller: "10.0.0.1", Transport: "http", Route: "/mcp",
		Send: func(message []byte) error {
			*heard = append(*heard, string(message))
			return nil
		},
	}
	reply := b.HandleMessage(t.Context(), in)
	return bytes.Clone(reply.Bytes()), reply.Status
}

func memberOf(t *testing.T, reply []byte, member string) string {
	t.Helper()
	result, _ := jsontext.Lookup(reply, "result")
	raw, _ := jsontext.Lookup(result, member)
	text, ok := jsontext.Text(raw)
	if !ok {
		t.Fatalf("no %s: %s", member, reply)
	}
	return text
}

// changing is what differs from run to run.
var changing = regexp.MustCompile(`"(requestState|taskId|createdAt|lastUpdatedAt)":"[^"]*"|"ttlMs":[0-9]+|\\?"slept\\?":\\?"[0-9.]+s|[0-9]+u\b|\\?"[a-z]*(trace|span|peer|time|port|retryAfter|retry_after)[A-Za-z_]*\\?":(\\?"[^"]*"|[0-9.]+|\[[^\]]*\])|127\.0\.0\.1:[0-9]+|00-[0-9a-f]{32}-[0-9a-f]{16}-0[0-9]|retry after [0-9a-z.]+|outrigger://results/[\w.-]+|20[0-9]{2}-[0-9-]+T[0-9:]+Z`)

// withoutSecrets is a reply without what differs from run to run, and without where the caller wrote the name of the tool.
func withoutSecrets(reply []byte) string {
	return changing.ReplaceAllString(strings.ReplaceAll(string(reply), "/params/arguments/name", "/params/name"), "~")
}

// TestADestructiveToolThroughTheCompactCatalogAsksAlways is what is not as by name: trust in a caller is no consent there,
// because a host that may always call the one tool may not for that call all.
func TestADestructiveToolThroughTheCompactCatalogAsksAlways(t *testing.T) {
	t.Parallel()
	trusted := func(c *configv1.Config) { c.Trust = proto.String("trusted") }
	call := rowCall{tool: "fleet_cancel_order", arguments: `{"orderId":"1001"}`}
	yes := call
	yes.says = `{"action":"accept","content":{"confirm":true}}`
	for _, tc := range []struct {
		name            string
		row             wayOfRow
		byName, through string
	}{
		{"a client that can be asked", wayOfRow{configure: trusted, capabilities: asksForm, calls: []rowCall{call}}, ran, `"resultType":"input_required"`},
		{"a client that cannot", wayOfRow{configure: trusted, calls: []rowCall{call}}, ran, string(errmap.DestructiveBlocked)},
		{"a rule with a pattern", wayOfRow{configure: ruled(rule("all", "allow", "true", "fleet.*")), calls: []rowCall{call}}, ran, string(errmap.DestructiveBlocked)},
		{"a deny rule that names the tool", wayOfRow{configure: ruled(rule("none", "deny", "false", "fleet.cancel_order")), calls: []rowCall{call}}, ran, string(errmap.DestructiveBlocked)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for through, want := range map[bool]string{false: tc.byName, true: tc.through} {
				got := tc.row.run(t, through)
				if !strings.Contains(got.Replies[0], want) {
					t.Errorf("through the catalog: %v: no %s: %s", through, want, got.Replies[0])
				}
			}
		})
	}
	t.Run("consent", func(t *testing.T) {
		t.Parallel()
		row := wayOfRow{configure: trusted, capabilities: asksForm, calls: []rowCall{call, yes, call}}
		got := row.run(t, true)
		for i, want := range []string{`"resultType":"input_required"`, ran, `"resultType":"input_required"`} {
			if !strings.Contains(got.Replies[i], want) {
				t.Errorf("reply %d has no %s: %s", i, want, got.Replies[i])
			}
		}
		for _, e := range got.Audited {
			if e.Tool != "fleet.cancel_order" || !e.Destructive {
				t.Errorf("audited as %+v", e)
			}
		}
	})
}
