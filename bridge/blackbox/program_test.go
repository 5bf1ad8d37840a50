// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

const runName = "catalog.run"

// called notes the calls of a backend, in their order.
type calledRPCs struct {
	mu    sync.Mutex
	names []string
	keys  []string
}

func (r *calledRPCs) echo(ctx context.Context, m *mcptest.Method, in []byte, header http.Header) (*mcptest.Answer, *errmap.Error) {
	r.mu.Lock()
	r.names = append(r.names, string(m.Descriptor.Name()))
	r.keys = append(r.keys, header.Get("Idempotency-Key"))
	r.mu.Unlock()
	return mcptest.Echo(ctx, m, in, header)
}

func (r *calledRPCs) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.names)
}

// askEach has users asked at each destructive call of a program.
func askEach(c *configv1.Config) { c.Catalog.Programs.Ask = proto.String("each") }

// program is a call of a program.
func program(b *mcptest.Rig, source string) *mcptest.Call {
	return toolCall(b, runName, `{"program":`+quoted(source)+`}`)
}

// TestPrograms shows what comes back from a program: its result with what was called, or an error that says where, and what had run.
func TestPrograms(t *testing.T) {
	t.Parallel()
	b := compactBridge(t)
	for _, tc := range []struct {
		name, arguments string
		want            string
		code            errmap.Code
		// says is in a violation, had in what had run.
		says, had string
	}{
		{"a call", `{"program":"result = lab.echo(nonce=\"n\", signed=5).signed"}`, `{"result":5,"ran":[{"tool":"lab.echo","calls":1}]}`, "", "", ""},
		{"inputs", `{"program":"result = [lab.echo(nonce=n).nonce for n in inputs.names]","inputs":{"names":["a","b"]}}`, `{"result":["a","b"],"ran":[{"tool":"lab.echo","calls":2}]}`, "", "", ""},
		{"nothing called", `{"program":"result = 1 + 1"}`, `{"result":2,"ran":[]}`, "", "", ""},
		{"at once", `{"program":"result = [e.nonce for e in parallel([lab.echo(nonce=str(i)) for i in range(9)])]"}`,
			`{"result":["0","1","2","3","4","5","6","7","8"],"ran":[{"tool":"lab.echo","calls":9}]}`, "", "", ""},
		{"the name of MCP", `{"program":"result = lab_echo(nonce=\"n\").nonce"}`, `{"result":"n","ran":[{"tool":"lab.echo","calls":1}]}`, "", "", ""},
		{"an unknown tool", `{"program":"result = lab.eco(nonce=1)"}`, "", errmap.InvalidToolInput, "line 1, column", ""},
		{"two faults", `{"program":"a = lab.echo(nonsense=1)\nresult = lab.eco()"}`, "", errmap.InvalidToolInput, "line 2", ""},
		{"not Starlark", `{"program":"import os\nresult = 1"}`, "", errmap.InvalidToolInput, "line 1", ""},
		{"a tool of the sidecar's own", `{"program":"result = catalog.call(name=\"lab.echo\")"}`, "", errmap.InvalidToolInput, "line 1", ""},
		{"a fault that shows late", `{"program":"x = lab.echo(nonce=\"n\")\nfail(\"no \" + x.nonce)\nresult = 1"}`, "", errmap.ToolExecutionFailed, "", `{"ran":[{"tool":"lab.echo","calls":1}],"line":2,`},
		{"no program", `{}`, "", errmap.InvalidToolInput, "", ""},
		{"inputs of another kind", `{"program":"result = 1","inputs":[1]}`, "", errmap.InvalidToolInput, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			resp := b.Handle(t.Context(), toolCall(b, runName, tc.arguments))
			if tc.code == "" {
				if resp.Err != nil || string(resp.Result) != tc.want {
					t.Errorf("got %s, %v %v", resp.Result, resp.Err, resp.Err)
				}
				return
			}
			if resp.Err == nil || codeOf(resp) != tc.code && tc.had == "" {
				t.Fatalf("got %s, %v", resp.Result, resp.Err)
			}
			if text := fmt.Sprint(resp.Err.Violations); !strings.Contains(text, tc.says) {
				t.Errorf("the faults are %s", text)
			}
			if !strings.HasPrefix(string(resp.Err.Partial), tc.had) {
				t.Errorf("what had run is %s", resp.Err.Partial)
			}
		})
	}
}

// TestADryRun calls nothing, and says what would be called.
func TestADryRun(t *testing.T) {
	t.Parallel()
	var backend calledRPCs
	b := fake(t, backend.echo, compacted)
	resp := b.Handle(t.Context(), toolCall(b, runName, `{"program":"for i in range(3):\n  fleet.cancel_order(order_id=i)\nresult = lab.echo().nonce","dry_run":true}`))
	want := `{"findings":[],"plan":[{"tool":"fleet.cancel_order","atMost":3,"destructive":true,"places":["2:21"]},{"tool":"lab.echo","atMost":1,"places":["3:18"]}]}`
	if resp.Err != nil || len(backend.all()) > 0 {
		t.Errorf("got %v, called %v", resp.Err, backend.all())
	}
	if got := placesOfCalls.ReplaceAllString(string(resp.Result), `["~"]`); got != placesOfCalls.ReplaceAllString(want, `["~"]`) {
		t.Errorf("got %s", resp.Result)
	}
	resp = b.Handle(t.Context(), toolCall(b, runName, `{"program":"result = lab.eco()","dry_run":true}`))
	if resp.Err != nil || !strings.Contains(string(resp.Result), `"findings":[{"line":1,`) {
		t.Errorf("got %s, %v", resp.Result, resp.Err)
	}
}

// TestProgramsWhereThereAreNone: the tool exists where the configuration says so.
func TestProgramsWhereThereAreNone(t *testing.T) {
	t.Parallel()
	mode := func(mode string) func(*configv1.Config) {
		return func(c *configv1.Config) { c.Catalog.Programs.Mode = &mode }
	}
	for name, tc := range map[string]struct {
		configure func(*configv1.Config)
		runs      bool
		listed    bool
	}{
		"full":                  {nil, false, false},
		"full, on":              {mode("on"), true, true},
		"compact":               {compacted, true, true},
		"compact, off":          {both(compacted, mode("off")), false, true}, // the kit's catalog always has it
		"auto below its budget": {func(c *configv1.Config) { c.Catalog.Mode = proto.String("auto") }, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := fake(t, mcptest.Echo, tc.configure)
			if resp := b.Handle(t.Context(), program(b, "result = 1")); (resp.Err == nil) != tc.runs {
				t.Errorf("got %v", resp.Err)
			}
			list := string(replyTo(t.Context(), t, b, mcptest.Canonical, "tools/list", ""))
			if strings.Contains(list, `"name":"catalog.run"`) != tc.listed {
				t.Errorf("listed: %s", list)
			}
		})
	}
}

const askable = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`

// rounds makes a call of a program and answers each of its questions, until there is none left. It returns the last reply and the
// questions.
func rounds(t *testing.T, b *mcptest.Rig, source, answer string) (last string, questions []string) {
	t.Helper()
	params := `"name":"catalog_run","arguments":{"program":` + quoted(source) + `}` + askable
	more := ""
	for range 9 {
		reply := replyTo(t.Context(), t, b, mcptest.Modern, "tools/call", params+more)
		result, _ := lookup(reply, "result")
		asks, ok := lookup(result, "inputRequests")
		if !ok {
			return string(reply), questions
		}
		var keys map[string]struct{ Params struct{ Message string } }
		if err := json.Unmarshal(asks, &keys); err != nil {
			t.Fatal(err)
		}
		var responses []string
		for key, ask := range keys {
			questions = append(questions, ask.Params.Message)
			responses = append(responses, quoted(key)+`:`+answer)
		}
		more = `,"inputResponses":{` + strings.Join(responses, ",") + `},"requestState":` + quoted(memberOf(t, reply, "requestState"))
	}
	t.Fatal("too many questions")
	return "", nil
}

const (
	saysYes = `{"action":"accept","content":{"confirm":true}}`
	saysNo  = `{"action":"decline"}`
	// cancels reads, changes twice, and reads again.
	cancels = "a = lab.echo(nonce=\"first\")\nfleet.cancel_order(order_id=1)\nfleet.cancel_order(order_id=2)\nresult = a.nonce + lab.echo(nonce=\"last\").nonce"
)

// TestAProgramAsks: by default once, before the run, with all calls; or at each call. No call runs twice.
func TestAProgramAsks(t *testing.T) {
	t.Parallel()
	all := []string{"Echo", "CancelOrder", "CancelOrder", "Echo"}
	for _, tc := range []struct {
		name      string
		configure func(*configv1.Config)
		answer    string
		asked     int
		ran       []string
		want      string
	}{
		{"once", nil, saysYes, 1, all, `"result":"firstlast"`},
		{"once, no", nil, saysNo, 1, nil, string(errmap.DestructiveBlocked)},
		{"each", askEach, saysYes, 2, all, `"result":"firstlast"`},
		{"each, no", askEach, saysNo, 1, []string{"Echo"}, string(errmap.DestructiveBlocked)},
		{"nothing to ask", ruled(rule("named", "allow", `true`, "fleet.cancel_order")), saysNo, 0, all, `"result":"firstlast"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var backend calledRPCs
			b := fake(t, backend.echo, both(compacted, asks, tc.configure))
			last, questions := rounds(t, b, cancels, tc.answer)
			if len(questions) != tc.asked || !strings.Contains(last, tc.want) {
				t.Errorf("asked %q, at last %s", questions, last)
			}
			if diff := cmp.Diff(tc.ran, backend.all()); diff != "" {
				t.Errorf("called (-want +got):\n%s", diff)
			}
			if tc.name == "once" && (len(questions) == 0 || !containsAll(questions[0], "fleet.cancel_order", "at most 2 times", "line 2: fleet.cancel_order(order_id=1)", "line 3:")) {
				t.Errorf("the question is %q", questions)
			}
		})
	}
}

// TestACallerWhoCannotBeAsked is refused before anything runs.
func TestACallerWhoCannotBeAsked(t *testing.T) {
	t.Parallel()
	var backend calledRPCs
	b := fake(t, backend.echo, both(compacted, trusted))
	resp := b.Handle(t.Context(), program(b, cancels))
	if codeOf(resp) != errmap.DestructiveBlocked || len(backend.all()) > 0 {
		t.Errorf("got %v, called %v", resp.Err, backend.all())
	}
	if text := fmt.Sprint(resp.Err.Violations); !containsAll(text, "line 2", "line 3", "fleet.cancel_order") {
		t.Errorf("the places are %s", text)
	}
}

// TestParallelQuestionsAreOneRound asks about all calls that ran at once, and runs none of the others twice.
func TestParallelQuestionsAreOneRound(t *testing.T) {
	t.Parallel()
	var backend calledRPCs
	b := fake(t, backend.echo, both(compacted, asks, askEach))
	last, questions := rounds(t, b, `got = parallel([fleet.cancel_order(order_id=1), lab.echo(nonce="a"), fleet.cancel_order(order_id=2), lab.echo(nonce="b")])
result = [got[1].nonce, got[3].nonce]`, saysYes)
	if !strings.Contains(last, `"result":["a","b"]`) {
		t.Errorf("got %s", last)
	}
	got := backend.all()
	slices.Sort(got)
	if diff := cmp.Diff([]string{"CancelOrder", "CancelOrder", "Echo", "Echo"}, got); diff != "" || len(questions) != 2 {
		t.Errorf("asked %q, called (-want +got):\n%s", questions, diff)
	}
}

// TestAStateOfAProgramCountsOnce: what comes behind its question would be called again.
func TestAStateOfAProgramCountsOnce(t *testing.T) {
	t.Parallel()
	var backend calledRPCs
	b := fake(t, backend.echo, both(compacted, asks))
	params := `"name":"catalog_run","arguments":{"program":` + quoted(cancels) + `}` + askable
	reply := replyTo(t.Context(), t, b, mcptest.Modern, "tools/call", params)
	params += `,"inputResponses":{"outrigger_confirm":` + saysYes + `},"requestState":` + quoted(memberOf(t, reply, "requestState"))
	if first := string(replyTo(t.Context(), t, b, mcptest.Modern, "tools/call", params)); !strings.Contains(first, `"result":"firstlast"`) {
		t.Errorf("first: %s", first)
	}
	if second := string(replyTo(t.Context(), t, b, mcptest.Modern, "tools/call", params)); !strings.Contains(second, "was used before") {
		t.Errorf("second: %s", second)
	}
	if n := len(backend.all()); n != 4 {
		t.Errorf("%d calls", n)
	}
}

// TestAProgramWaitsForApproval: its error has a handle, and it goes on with it where it was when others have approved.
func TestAProgramWaitsForApproval(t *testing.T) {
	t.Parallel()
	var backend calledRPCs
	b := fake(t, backend.echo, both(compacted, ruled(rule("named", "allow", "true", "fleet.cancel_order"), approved(nil))))
	const source = "a = lab.echo(nonce=\"n\")\nfleet.cancel_order(order_id=1)\nresult = a.nonce"
	resp := b.Handle(t.Context(), program(b, source))
	if codeOf(resp) != errmap.ApprovalRequired {
		t.Fatalf("got %v, %s", resp.Err, resp.Result)
	}
	again := program(b, source)
	again.Header = http.Header{"Outrigger-Approval": {resp.Err.Handle}}
	if resp = b.Handle(t.Context(), again); codeOf(resp) != errmap.ApprovalRequired {
		t.Fatalf("again: %v, %s", resp.Err, resp.Result)
	}
	for _, id := range b.Waiting(t) {
		b.Decide(t, id, true, "fine")
	}
	again.Header = http.Header{"Outrigger-Approval": {resp.Err.Handle}}
	again.Origin = b.NewOrigin()
	if resp = b.Handle(t.Context(), again); resp.Err != nil || !strings.Contains(string(resp.Result), `"result":"n"`) {
		t.Errorf("approved: %v, %s", resp.Err, resp.Result)
	}
	if diff := cmp.Diff([]string{"Echo", "CancelOrder"}, backend.all()); diff != "" {
		t.Errorf("called (-want +got):\n%s", diff)
	}
	again.Header = http.Header{"Outrigger-Approval": {"forged"}}
	if resp = b.Handle(t.Context(), again); codeOf(resp) != errmap.InvalidParams {
		t.Errorf("forged: %v", resp.Err)
	}
}

// TestOneSlotIsEnough: a program has no slot while it waits for those of its calls.
func TestOneSlotIsEnough(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, both(compacted, atOnce(1), func(c *configv1.Config) { c.Limits.MaxInFlight = proto.Int32(1) }))
	resp := b.Handle(t.Context(), program(b, `result = len(parallel([lab.echo(nonce=str(i)) for i in range(20)]))`))
	if resp.Err != nil || !strings.Contains(string(resp.Result), `"result":20`) {
		t.Errorf("got %v, %s", resp.Err, resp.Result)
	}
}

// TestACancelledProgramEndsItsCalls, and one that takes too long says what had run.
func TestACancelledProgramEndsItsCalls(t *testing.T) {
	t.Parallel()
	h := newHeld()
	b := fake(t, h.call, compacted)
	c := program(b, `result = lab.echo(nonce="n")`)
	run := b.BeginCall(t.Context(), c)
	ended := make(chan *mcptest.Outcome)
	go func() { ended <- run() }()
	<-h.entered
	if !b.Cancel(c) {
		t.Error("there is nothing to cancel")
	}
	if out := <-ended; !out.IsSilent {
		t.Errorf("got %v", out.Err)
	}
	c = program(b, "lab.echo(nonce=\"n\")\nresult = 1")
	c.Timeout = 2 * time.Second // long enough for a busy machine to come to the call
	const had = `"tool":"lab.echo","calls":1,"failed":1`
	if out := b.Handle(t.Context(), c); codeOf(out) != errmap.Timeout || !strings.Contains(string(out.Err.Partial), had) || strings.Contains(out.Err.Message, "Program") {
		t.Errorf("got %v, %+v", out.Err, out.Err)
	}
	b = fake(t, h.call, both(compacted, func(c *configv1.Config) { c.Catalog.Programs.MaxTime = durationpb.New(2 * time.Second) }))
	out := b.Handle(t.Context(), program(b, "lab.echo(nonce=\"n\")\nresult = 1"))
	if codeOf(out) != errmap.Timeout || out.Err.Message != "Program timed out: it ran longer than 2s" || !strings.Contains(string(out.Err.Partial), had) {
		t.Errorf("by its own time: %v, %s", out.Err, out.Err.Partial)
	}
}

// TestLimitsOfPrograms: one that is cut says what had run, and where that can be read.
func TestLimitsOfPrograms(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, both(compacted, func(c *configv1.Config) {
		p := c.Catalog.Programs
		p.MaxCalls, p.MaxSteps, p.MaxMemoryBytes, p.MaxProgramBytes, p.MaxDepth = proto.Int32(3), proto.Int64(5000), proto.Int64(65536), proto.Int32(300), proto.Int32(8)
	}))
	for name, source := range map[string]string{
		"calls":  `result = [lab.echo(nonce=str(i)) for i in range(inputs.get("n", 9))]`,
		"steps":  "lab.echo()\nfor i in range(100000):\n  x = i\nresult = 1",
		"memory": "lab.echo()\nx = \"aaaaaaaaaaaaaaaa\"\nfor i in range(30):\n  x = x + x\nresult = len(x)",
		"bytes":  "result = " + quoted(strings.Repeat("x", 400)),
		"depth":  "result = " + strings.Repeat("[", 20) + strings.Repeat("]", 20),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp := b.Handle(t.Context(), program(b, source))
			if resp.Err == nil {
				t.Fatalf("got %s", resp.Result)
			}
			if name == "steps" || name == "memory" {
				if !strings.Contains(string(resp.Err.Partial), `"tool":"lab.echo","calls":1`) {
					t.Errorf("%v: what had run is %s", resp.Err, resp.Err.Partial)
				}
			}
		})
	}
}

// TestCallsOfProgramsAreAudited: each has its line with the run and its place, and the line of the run has the digest of the program.
func TestCallsOfProgramsAreAudited(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	noGoods := rule("no-nonce", "deny", `args.nonce == "bad"`, "lab.*")
	b := fake(t, mcptest.Echo, both(compacted, ruled(noGoods), func(c *configv1.Config) {
		c.Audit = &configv1.Audit{Path: &path, Fsync: proto.String("never")}
	}))
	resp := b.Handle(t.Context(), program(b, "lab.echo(nonce=\"good\")\nlab.echo(nonce=\"bad\")\nresult = 1"))
	if codeOf(resp) != errmap.PermissionDenied || !strings.Contains(string(resp.Err.Partial), `"calls":2,"failed":1`) {
		t.Errorf("got %v, %s", resp.Err, resp.Err.Partial)
	}
	b.End()
	var lines []string
	var run string
	for _, l := range trail(t, path) {
		if l["phase"] == "change" {
			continue
		}
		if l["tool"] == runName {
			run, _ = l["id"].(string)
		}
		program, _ := json.Marshal(l["program"])
		lines = append(lines, fmt.Sprint(l["tool"], " ", l["decision"], " ", l["rule"], " ", l["code"], " ", string(program)))
	}
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], run, "RUN")
	}
	if len(lines) != 3 || !containsAll(lines[0], "lab.echo allowed <nil> OK", `"call":1`, `"run":"RUN"`, `"line":1`) ||
		!containsAll(lines[1], "lab.echo denied no-nonce PERMISSION_DENIED", `"call":2`, `"line":2`) || !containsAll(lines[2], runName+" allowed <nil> PERMISSION_DENIED", `"digest":"sha256:`) {
		t.Errorf("the lines are\n%s", strings.Join(lines, "\n"))
	}
}

// TestRatesCountCallsOfPrograms as calls by name.
func TestRatesCountCallsOfPrograms(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, both(compacted, toolRate(onceInALongTime())))
	resp := b.Handle(t.Context(), program(b, "lab.echo()\nresult = lab.echo()"))
	if codeOf(resp) != errmap.RateLimited {
		t.Errorf("got %v, %s", resp.Err, resp.Result)
	}
}

// TestKeysOfPrograms: a program's key makes one for each of its calls, the same each time.
func TestKeysOfPrograms(t *testing.T) {
	t.Parallel()
	var backend calledRPCs
	b := fake(t, backend.echo, compacted)
	for range 2 {
		c := program(b, "lab.echo()\nresult = lab.echo()")
		c.Header = http.Header{"Idempotency-Key": {"k"}}
		if resp := b.Handle(t.Context(), c); resp.Err != nil {
			t.Fatal(resp.Err)
		}
	}
	k := backend.keys
	if len(k) != 4 || k[0] == k[1] || k[0] == "" || k[0] != k[2] || k[1] != k[3] {
		t.Errorf("the keys are %v", k)
	}
}

// TestProgressOfPrograms names each call.
func TestProgressOfPrograms(t *testing.T) {
	t.Parallel()
	b := compactBridge(t)
	c := program(b, "for i in range(3):\n  lab.echo()\nresult = 1")
	var heard []string
	c.Events = func(e *outriggerv1.ToolEvent) {
		heard = append(heard, fmt.Sprintf("%s (%g)", e.GetProgress().GetMessage(), e.GetProgress().GetProgress()))
	}
	if resp := b.Handle(t.Context(), c); resp.Err != nil {
		t.Fatal(resp.Err)
	}
	if want := []string{"call 1 of at most 3: lab.echo (1)", "call 2 of at most 3: lab.echo (2)", "call 3 of at most 3: lab.echo (3)"}; !slices.Equal(heard, want) {
		t.Errorf("heard %q", heard)
	}
}

// TestAHiddenFieldIsNoAttribute: a program sees of results what its caller sees.
func TestAHiddenFieldIsNoAttribute(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, both(compacted, partly))
	resp := b.Handle(t.Context(), program(b, "result = fleet.get_order(order_id=1).customer"))
	if codeOf(resp) != errmap.InvalidToolInput || !strings.Contains(fmt.Sprint(resp.Err.Violations), "customer") {
		t.Errorf("got %v, %s", resp.Err, resp.Result)
	}
}

// TestTheDescriptionOfPrograms has examples that the check finds right, and less than 400 tokens of four bytes.
func TestTheDescriptionOfPrograms(t *testing.T) {
	t.Parallel()
	b := compactBridge(t)
	result, _ := lookup(replyTo(t.Context(), t, b, mcptest.Canonical, "tools/list", ""), "result")
	tools, _ := lookup(result, "tools")
	for _, entry := range elements(tools) {
		raw, _ := lookup(entry, "name")
		if name, _ := jsonText(raw); name != runName {
			continue
		}
		raw, _ = lookup(entry, "description")
		text, _ := jsonText(raw)
		if len(text) >= 1600 {
			t.Errorf("the description has %d bytes", len(text))
		}
		examples := strings.Split(text, "\n\n")[1:]
		if len(examples) != 3 {
			t.Errorf("the examples are %q", examples)
		}
		for _, example := range examples {
			resp := b.Handle(t.Context(), toolCall(b, runName, `{"dry_run":true,"inputs":{"ids":[]},"program":`+quoted(example)+`}`))
			if resp.Err != nil || !strings.Contains(string(resp.Result), `"findings":[]`) {
				t.Errorf("%s: %s, %v", example, resp.Result, resp.Err)
			}
		}
	}
}

// TestACallOfAProgramIsACallByName: what policy, gate, consent, rates and timeouts make of a call, its line in the audit trail and its
// counters are the same. What is said around a result is not: a program reads it.
func TestACallOfAProgramIsACallByName(t *testing.T) {
	t.Parallel()
	for _, row := range rowsOfBothWays() {
		switch row.name {
		case "repaired arguments", "field mask", "result budget", "progress of a stream", "task", "invalid arguments", "idempotency key":
			continue // of the message around a call, or refused before the call
		case "gate", "gate of writes", "rate of a tool":
			continue // the program is refused before it runs: see TestACallerWhoCannotBeAsked and TestRatesCountCallsOfPrograms
		}
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			configure := row.configure
			row.configure = both(askEach, configure)
			byName, inProgram := row.run(t, byItsName), row.run(t, inAProgram)
			var audited []entryOfTrail
			for _, line := range inProgram.Audited {
				if line.Tool != runName {
					audited = append(audited, line)
				}
			}
			if diff := cmp.Diff(byName.Audited, audited); diff != "" {
				t.Errorf("the trail (-by name +in a program):\n%s", diff)
			}
			ours := func(lines []string) (out []string) {
				for _, line := range lines {
					if !strings.Contains(line, "catalog") && (strings.HasPrefix(line, "outrigger_calls_total") || strings.HasPrefix(line, "outrigger_policy_decisions_total")) {
						out = append(out, line)
					}
				}
				return out
			}
			if diff := cmp.Diff(ours(byName.Counted), ours(inProgram.Counted)); diff != "" {
				t.Errorf("the counters (-by name +in a program):\n%s", diff)
			}
			if last := inProgram.Replies[len(inProgram.Replies)-1]; !strings.Contains(last, row.want) {
				t.Errorf("the last reply has no %s: %s", row.want, last)
			}
		})
	}
}

// TestErrorsOfCallsOfPrograms: whatever a call fails with, the program ends with that error, its tool and its place.
func TestErrorsOfCallsOfPrograms(t *testing.T) {
	t.Parallel()
	failing := func(_ context.Context, _ *mcptest.Method, in []byte, _ http.Header) (*mcptest.Answer, *errmap.Error) {
		var asked demov1.EchoRequest
		if err := proto.Unmarshal(in, &asked); err != nil {
			return nil, errmap.Wrap(errmap.InternalError, err)
		}
		return nil, errmap.New(errmap.Code(asked.GetNonce()), errmap.Message("no luck"), errmap.BackendCode("not_found"))
	}
	for _, code := range errmap.Codes() {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			b := fake(t, failing, compacted) // each its own circuit breaker
			byName := b.Handle(t.Context(), toolCall(b, "lab.echo", `{"nonce":`+quoted(string(code))+`}`))
			inProgram := b.Handle(t.Context(), program(b, "x = 1\nresult = [x, lab.echo(nonce=\""+string(code)+"\")]"))
			want, got := byName.Err, inProgram.Err
			if want == nil || got == nil {
				t.Fatal(want, got)
			}
			if got.Code != want.Code || got.Message != want.Message || got.BackendCode != want.BackendCode || got.Type() != want.Type() || got.HTTPStatus() != want.HTTPStatus() {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if got.Tool != "lab.echo" || got.Line != 2 || got.Column != 14 || !strings.Contains(string(got.Partial), `"line":2,"column":14`) {
				t.Errorf("%s %d:%d %s", got.Tool, got.Line, got.Column, got.Partial)
			}
			if text := got.ModelText(errmap.About{ToolCall: true}); !strings.HasPrefix(text, "line 2, column 14: ") || !strings.Contains(text, "lab.echo") {
				t.Error(text)
			}
		})
	}
}

// inProgram are the arguments of a program that makes one call.
func (call *rowCall) inProgram(t *testing.T) string {
	t.Helper()
	var arguments map[string]json.RawMessage
	if call.arguments != "" {
		if err := json.Unmarshal([]byte(call.arguments), &arguments); err != nil {
			t.Fatal(err)
		}
	}
	var words []string
	for name, value := range arguments {
		words = append(words, name+"="+string(value))
	}
	return `{"program":` + quoted("result = "+call.tool+"("+strings.Join(words, ", ")+")") + `}`
}

// TestHostilePrograms leave other callers their answers.
func TestHostilePrograms(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, both(compacted, func(c *configv1.Config) { c.Limits.CallerSharePercent = proto.Int32(100) }))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			b.Handle(ctx, program(b, "x = 0\nfor i in range(100000000):\n  x += i\nresult = x"))
		})
	}
	for range 20 {
		start := time.Now()
		if resp := b.Handle(t.Context(), toolCall(b, "lab.echo", `{}`)); resp.Err != nil {
			t.Error(resp.Err)
		}
		if took := time.Since(start); took > testkit.Limit() {
			t.Errorf("a call took %v", took)
		}
	}
	cancel()
	running.Wait()
}

// placesOfCalls are the places of a plan.
var placesOfCalls = regexp.MustCompile(`\["[0-9]+:[0-9]+"\]`)
