// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// TestALargeJournalIsHeld: answers beyond what a state has room for are held, and no call runs twice.
func TestALargeJournalIsHeld(t *testing.T) {
	t.Parallel()
	const source = "a = [lab.echo(nonce=\"x\" * 1000) for i in range(40)]\nfleet.cancel_order(order_id=1)\nresult = len(a)"
	params := `"name":"catalog_run","arguments":{"program":` + quoted(source) + `}` + askable
	var backend calledRPCs
	key := keyFile(t)
	replica := both(compacted, asks, askEach, func(c *configv1.Config) { c.State.KeyFile = key })
	b := fake(t, backend.echo, replica)
	reply := replyTo(t.Context(), t, b, mcptest.Modern, "tools/call", params)
	state := memberOf(t, reply, "requestState")
	if len(state) > 1000 {
		t.Errorf("the state has %d bytes", len(state))
	}
	params += `,"inputResponses":{"41.outrigger_confirm":` + saysYes + `},"requestState":` + quoted(state)
	there := string(replyTo(t.Context(), t, fake(t, backend.echo, replica), mcptest.Modern, "tools/call", params))
	if !containsAll(there, "INVALID_PARAMS", "another replica asked", "call again without it, and send the answer to the replica that asks") {
		t.Errorf("at another replica: %s", there)
	}
	last := string(replyTo(t.Context(), t, b, mcptest.Modern, "tools/call", params))
	if got := backend.all(); !strings.Contains(last, `"result":40,`) || len(got) != 41 {
		t.Errorf("called %d times: %s", len(got), last)
	}
}

// TestWhatACutProgramReadCanBeRead by its caller, and by no other.
func TestWhatACutProgramReadCanBeRead(t *testing.T) {
	t.Parallel()
	b := compactBridge(t)
	resp := b.Handle(t.Context(), program(b, "x = lab.echo(nonce=\"kept\")\nfail(\"no\")\nresult = 1"))
	var partial struct{ URI, Until string }
	if resp.Err == nil || json.Unmarshal(resp.Err.Partial, &partial) != nil || partial.URI == "" {
		t.Fatalf("got %v", resp.Err)
	}
	if _, err := time.Parse(time.RFC3339, partial.Until); err != nil {
		t.Error(err)
	}
	read := modernClient{t: t, bridge: b}.send("resources/read", `"uri":`+quoted(partial.URI))
	if text := strings.ReplaceAll(read.raw, `\`, ``); !containsAll(text, `"call":1,"tool":"lab.echo","line":1`, `"nonce":"kept"`) {
		t.Errorf("read %s", read.raw)
	}
	if other := (modernClient{t: t, bridge: b, caller: "10.0.0.9"}).send("resources/read", `"uri":`+quoted(partial.URI)); other.Error == nil || strings.Contains(other.raw, "kept") {
		t.Errorf("another caller read %s", other.raw)
	}
}

// TestBudgetsHoldForResultsOfPrograms, and not for what the program reads.
func TestBudgetsHoldForResultsOfPrograms(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, both(compacted, budgetOf(300)))
	for source, want := range map[string][]string{
		`result = len(lab.echo(nonce="n" * 1000).nonce)`:     {`"result":1000`},
		`result = {"text": lab.echo(nonce="n" * 500).nonce}`: {`"cut":[{"path":"/result/text"}]`, `"uri":"outrigger://results/`},
	} {
		reply := string(replyTo(t.Context(), t, b, mcptest.Modern, "tools/call", `"name":"catalog_run","arguments":{"program":`+quoted(source)+`}`+askable))
		if !containsAll(reply, want...) {
			t.Errorf("%s: %s", source, reply)
		}
	}
}

// TestProgramsOfTheStrictProfile: everything is required and may be null, and inputs are a text.
func TestProgramsOfTheStrictProfile(t *testing.T) {
	t.Parallel()
	b := mcptest.Start(t, mcptest.Options{Configure: both(compacted, func(c *configv1.Config) { c.SchemaProfile = proto.String("strict") })})
	if list := string(replyTo(t.Context(), t, b, mcptest.Canonical, "tools/list", "")); !strings.Contains(list, `"required":["program","inputs","dry_run"],"additionalProperties":false`) {
		t.Errorf("the schema is another one: %s", list)
	}
	for arguments, want := range map[string]string{
		`{"program":"result = 1","inputs":null,"dry_run":null}`:                                               `{"result":1,"ran":[]}`,
		`{"program":"result = inputs.n","inputs":"{\"n\":[7]}","dry_run":false}`:                              `{"result":[7],"ran":[]}`,
		`{"program":"result = len(lab.echo().nonce)","inputs":null,"dry_run":null}`:                           `{"result":0,"ran":[{"tool":"lab.echo","calls":1}]}`,
		`{"program":"result = 1","inputs":null,"dry_run":true}`:                                               `{"findings":[],"plan":[]}`,
		`{"program":"result = fleet.list_vehicles(page_size=2).vehicles == []","inputs":null,"dry_run":true}`: `"findings":[]`,
	} {
		if resp := b.Handle(t.Context(), toolCall(b, runName, arguments)); resp.Err != nil || !strings.Contains(string(resp.Result), want) {
			t.Errorf("%s: %s, %v", arguments, resp.Result, resp.Err)
		}
	}
}

// TestACallerHasItsShareOfPrograms: others still find room.
func TestACallerHasItsShareOfPrograms(t *testing.T) {
	t.Parallel()
	h := newHeld()
	b := fake(t, h.call, both(compacted, func(c *configv1.Config) {
		c.Catalog.Programs.MaxRunning, c.Limits.CallerSharePercent = proto.Int32(8), proto.Int32(50)
	}))
	ended := make(chan *mcptest.Outcome, 16)
	begin := func(caller string) {
		c := program(b, "result = lab.echo().nonce")
		c.Caller = caller
		go func() { ended <- b.Handle(t.Context(), c) }()
	}
	running := 0
	for range 8 {
		begin("10.0.0.1")
		select {
		case <-h.entered:
			running++
		case out := <-ended:
			if codeOf(out) != errmap.RateLimited {
				t.Errorf("got %v, %s", out.Err, out.Result)
			}
		}
	}
	if running == 0 || running > 5 {
		t.Errorf("one caller runs %d of 8 programs", running)
	}
	begin("10.0.0.2")
	select {
	case <-h.entered:
		running++
	case out := <-ended:
		t.Errorf("another caller got %v", out.Err)
	}
	close(h.release)
	for range running {
		if out := <-ended; out.Err != nil {
			t.Error(out.Err)
		}
	}
}

// TestSpansOfProgramsHaveThoseOfTheirCalls below them.
func TestSpansOfProgramsHaveThoseOfTheirCalls(t *testing.T) {
	t.Parallel()
	recorded, options := traced(mcptest.Options{Configure: compacted}, 0)
	b := mcptest.Start(t, options)
	resp := b.Send(t.Context(), inbound(b.NewOrigin(), mcptest.Modern,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"catalog_run","arguments":{"program":"lab.echo()\nresult = len(lab.echo().nonce)"},`+modernMeta+`}}`))
	if !strings.Contains(string(resp.Bytes()), `"result":0`) {
		t.Errorf("got %s", resp.Bytes())
	}
	names := map[string]string{}
	for _, s := range recorded.GetSpans() {
		names[s.SpanContext.SpanID().String()] = s.Name
	}
	below := 0
	for _, s := range recorded.GetSpans() {
		if strings.Contains(s.Name, "lab.echo") && strings.Contains(names[s.Parent.SpanID().String()], mcpName(runName)) {
			below++
		}
	}
	if below != 2 {
		t.Errorf("%d calls are below the run:\n%s", below, recorded.tree())
	}
}

// TestAToolAsksWithinAProgram: its question comes to the caller of the program, and the answer to the tool, which is called again alone.
func TestAToolAsksWithinAProgram(t *testing.T) {
	t.Parallel()
	backend := mcptest.Desk()
	b := mcptest.Start(t, mcptest.Options{Native: backend, NoDemo: true, Configure: compacted})
	last, questions := rounds(t, b, "a = sign(letter=1)\nresult = \"signed\"", `{"action":"accept","content":{"name":"Ann"}}`)
	if len(questions) != 1 || questions[0] != "Who signs?" || !strings.Contains(last, `"result":"signed"`) {
		t.Errorf("asked %q, got %s", questions, last)
	}
	if n := ranTimes(backend, "sign"); n != 2 {
		t.Errorf("the tool ran %d times", n)
	}
}

// TestTheSkillOfPrograms: it can be served, is short, and its examples run over the demo.
func TestTheSkillOfPrograms(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "..", "docs", "agents")
	b := mcptest.Start(t, mcptest.Options{Configure: withSkills(folder, compacted)})
	if got, _ := (asker{context.Background(), b, mcptest.Modern}).all(t, "skills/list", "", "skills"); !strings.Contains(fmt.Sprint(got), "skill://write-programs/SKILL.md") {
		t.Errorf("the skills are %v", got)
	}
	text, err := os.ReadFile(filepath.Join(folder, "write-programs", "SKILL.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > 60 {
		t.Errorf("the skill has %d lines", n)
	}
	examples := strings.Split(string(text), "```python\n")[1:]
	if len(examples) < 4 {
		t.Errorf("there are %d examples", len(examples))
	}
	for _, example := range examples {
		source, _, _ := strings.Cut(example, "```")
		resp := b.Handle(t.Context(), toolCall(b, runName, `{"inputs":{"ids":["101","102"]},"program":`+quoted(source)+`}`))
		if resp.Err != nil {
			t.Errorf("%s: %v %+v", source, resp.Err, resp.Err.Violations)
		}
	}
}
