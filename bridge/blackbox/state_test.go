// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

const (
	// stateTTL is how long a question can be answered.
	stateTTL = 15 * time.Minute
	canAsk   = `{"elicitation":{}}`
	// signed answers the question of the tool sign.
	signed = `"inputResponses":{"name":{"action":"accept","content":{"name":"Ann"}}}`
)

// deskOf is a bridge in front of the desk, and ann, who can be asked.
func deskOf(t *testing.T, o mcptest.Options, more ...mcptest.NativeTool) (*mcptest.Rig, modernClient) {
	t.Helper()
	backend := mcptest.Desk()
	backend.Tools = append(backend.Tools, more...)
	o.Native, o.NoDemo = backend, true
	rig := mcptest.Start(t, o)
	return rig, modernClient{t: t, bridge: rig, caller: "ann", capabilities: canAsk}
}

// A state is what an attacker can hand in. Servers that trust it run a tool for
// another caller, with other arguments, or long after it was asked for.
func TestARequestStateIsForOneCallerAndOneRequestAndATime(t *testing.T) {
	t.Parallel()
	now := time.Now()
	rig, ann := deskOf(t, mcptest.Options{Adjust: mcptest.SealedAt(&now)})
	bob := ann
	bob.caller = "bob"
	sign := `"name":"sign","arguments":{"letter":1,"more":{"b":[1,2],"a":"x"}}`
	state := func(of string) string { return `,"requestState":` + of }
	first := ann.send("tools/call", sign)
	own := string(first.Result["requestState"])
	if first.text("resultType") != "input_required" || own == "" {
		t.Fatalf("no question: %s", first.raw)
	}
	ran := ranTimes(rig.Native, "sign")

	plain := first.text("requestState")
	tampered := []string{plain + "-TAMPERED", plain[1:], plain[:len(plain)-1], strings.ToUpper(plain), "round-1", "v1.", " " + plain, plain + "="}
	for i := range len(plain) {
		changed := []byte(plain)
		changed[i] ^= 1
		tampered = append(tampered, string(changed))
	}
	if raw, err := base64.RawURLEncoding.DecodeString(plain[3:]); err == nil {
		for i := range raw {
			changed := bytes.Clone(raw)
			changed[i] ^= 0x80
			tampered = append(tampered, plain[:3]+base64.RawURLEncoding.EncodeToString(changed))
		}
	}
	for _, other := range []struct{ method, params, member string }{
		{"tools/call", `"name":"interview"`, "requestState"},
		{"prompts/get", `"name":"apologise"`, "requestState"},
		{"resources/read", `"uri":"desk://safe"`, "requestState"},
		{"tools/call", `"name":"sign","arguments":{"letter":2}`, "requestState"},
	} {
		wide := ann
		wide.capabilities = `{"elicitation":{},"sampling":{},"roots":{}}`
		got := wide.send(other.method, other.params)
		if got.text(other.member) == "" {
			t.Fatalf("no question: %s", got.raw)
		}
		tampered = append(tampered, got.text(other.member))
	}
	for _, wrong := range tampered {
		got := ann.send("tools/call", sign+","+signed+state(quoted(wrong)))
		if got.code() != -32602 || got.status != 200 {
			t.Errorf("the state %q: got %d %s", wrong, got.status, got.raw)
		}
	}
	for name, got := range map[string]modernAnswer{
		"another caller":       bob.send("tools/call", sign+","+signed+state(own)),
		"another tool":         ann.send("tools/call", `"name":"interview",`+signed+state(own)),
		"other arguments":      ann.send("tools/call", `"name":"sign","arguments":{"letter":2},`+signed+state(own)),
		"no arguments":         ann.send("tools/call", `"name":"sign",`+signed+state(own)),
		"another notation":     ann.send("tools/call", `"name":"sign","arguments":{"letter":1.0,"more":{"b":[1,2],"a":"x"}},`+signed+state(own)),
		"another method":       ann.send("prompts/get", `"name":"apologise",`+signed+state(own)),
		"a resource":           ann.send("resources/read", `"uri":"desk://safe",`+signed+state(own)),
		"a number for a state": ann.send("tools/call", sign+","+signed+state(`1`)),
		"null for a state":     ann.send("tools/call", sign+","+signed+state(`null`)),
	} {
		if got.code() != -32602 {
			t.Errorf("%s: got %s", name, got.raw)
		}
	}
	if again := ranTimes(rig.Native, "sign"); again != ran+1 { // for the letter 2
		t.Errorf("the backend was asked %d times more", again-ran)
	}

	// The arguments may come in another order and with other white space, and
	// what asks nothing again may be sent twice.
	for range 2 {
		got := ann.send("tools/call", `"arguments":{ "more":{"a":"\u0078","b":[1, 2]}, "letter":1 },"name":"desk.sign",`+signed+state(own))
		if !strings.Contains(got.raw, "Signed by Ann.") {
			t.Errorf("the same request in other words: %s", got.raw)
		}
	}
	now = now.Add(stateTTL)
	if got := ann.send("tools/call", sign+","+signed+state(own)); got.code() != -32602 || !strings.Contains(got.raw, "expired") {
		t.Errorf("too late: %s", got.raw)
	}
}

// An answer that is none leads to the question again, or to an error; servers
// were seen to take it for consent.
func TestAnAnswerOfTheWrongShapeNeverCompletes(t *testing.T) {
	t.Parallel()
	_, ann := deskOf(t, mcptest.Options{})
	for method, params := range map[string]string{
		"tools/call": `"name":"sign"`, "prompts/get": `"name":"apologise"`, "resources/read": `"uri":"desk://safe"`,
	} {
		own := string(ann.send(method, params).Result["requestState"])
		for _, responses := range []string{
			`null`, `[]`, `7`, `"accept"`, `true`, `{}`, `{"name":null,"for":null,"why":null}`, `{"name":12345,"for":12345,"why":12345}`,
			`{"name":"Ann","for":"x","why":"x"}`, `{"name":[],"for":[],"why":[]}`, `{"name":{},"for":{},"why":{}}`,
			`{"name":{"action":"yes"},"for":{"action":"yes"},"why":{"action":"yes"}}`,
			`{"name":{"action":7},"for":{"action":7},"why":{"action":7}}`,
			`{"name":{"content":{}},"for":{"content":{}},"why":{"content":{}}}`,
			`{"name":{"action":"decline"},"for":{"action":"cancel"},"why":{"action":"decline"}}`,
			`{"name":{"action":"accept","content":7},"for":{"action":"accept","content":7},"why":{"action":"accept","content":7}}`,
			`{"name":{"roots":[]},"for":{"roots":[]},"why":{"roots":[]}}`,
			`{"wrong_key":{"action":"accept","content":{}}}`,
		} {
			got := ann.send(method, params+`,"inputResponses":`+responses+`,"requestState":`+own)
			if got.text("resultType") == "complete" || got.Result == nil && got.code() != -32602 {
				t.Errorf("%s with %s: %s", method, responses, got.raw)
			}
		}
		// Answers to what was never asked are no answers.
		if got := ann.send(method, params+`,"inputResponses":{"name":{"action":"accept","content":{"name":"Ann"}},"for":{"action":"accept"},"why":{"action":"accept"}}`); got.text("resultType") != "input_required" {
			t.Errorf("%s, answered before it asked: %s", method, got.raw)
		}
	}
}

// What a backend wants back it gets byte for byte, and the caller never sees it.
func TestTheBackendsOwnStateIsHiddenAndComesBackAsItWas(t *testing.T) {
	t.Parallel()
	for name, state := range map[string][]byte{
		"text": []byte("secret of the backend"), "bytes": {0, 0xFF, '"', '\n', 0x80}, "large": bytes.Repeat([]byte("s"), 32<<10),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asks := &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_InputRequired{InputRequired: &outriggerv1.InputRequired{RequestState: state}}}
			rig, ann := deskOf(t, mcptest.Options{}, mcptest.NativeTool{Declared: mcptest.JSONTool("remember", "Remember.", mcptest.NoArguments, ""), Outcome: asks})
			first := ann.send("tools/call", `"name":"remember"`)
			if strings.Contains(first.raw, "secret") || first.Result["inputRequests"] != nil {
				t.Errorf("it shows, or asks: %.300s", first.raw)
			}
			second := ann.send("tools/call", `"name":"remember","requestState":`+string(first.Result["requestState"]))
			if second.text("requestState") == first.text("requestState") {
				t.Error("the state is the same in both rounds")
			}
			seen := rig.Native.Seen()
			last, ok := seen[len(seen)-1].(*outriggerv1.ToolCall)
			if !ok || !bytes.Equal(last.GetRequestState(), state) {
				t.Errorf("the backend got %.100q", last.GetRequestState())
			}
		})
	}
}

// A tool that the operator holds back until the user consents.
func destructive(name string, dialogue mcptest.Dialogue) mcptest.NativeTool {
	tool := mcptest.JSONTool(name, "Cut a letter to pieces.", `{"type":"object"}`, "")
	tool.Metadata = &outriggerv1.ToolMetadata{Destructive: true}
	return mcptest.NativeTool{Declared: tool, Dialogue: dialogue, Outcome: mcptest.Success("", mcptest.TextBlock("gone"))}
}

// consent is the answer that runs a tool, with the state of the question.
func consent(asked modernAnswer) string {
	return `,"inputResponses":{"outrigger_confirm":{"action":"accept","content":{"confirm":true}}},"requestState":` + string(asked.Result["requestState"])
}

// isNo reports whether an answer says no: one that closes the question, or whose form cannot be read, does not.
func isNo(answer string) bool {
	return strings.Contains(answer, `"decline"`) || strings.Contains(answer, `"confirm":false`)
}

// A consent that can be used again, or for something else, is none.
func TestAConsentIsForOneRunOfWhatWasAsked(t *testing.T) {
	t.Parallel()
	rig, ann := deskOf(t, mcptest.Options{Configure: asks}, destructive("shred", nil), destructive("burn", nil))
	bob, mute := ann, ann
	bob.caller, mute.capabilities = "bob", `{}`
	shred := `"name":"shred","arguments":{"letter":1}`
	yes := consent(ann.send("tools/call", shred))
	bare, _, _ := strings.Cut(yes, `,"requestState"`)
	for name, got := range map[string]modernAnswer{
		"another caller":           bob.send("tools/call", shred+yes),
		"other arguments":          ann.send("tools/call", `"name":"shred","arguments":{"letter":2}`+yes),
		"more arguments":           ann.send("tools/call", `"name":"shred","arguments":{"letter":1,"all":true}`+yes),
		"no arguments":             ann.send("tools/call", `"name":"shred"`+yes),
		"another tool":             ann.send("tools/call", `"name":"burn","arguments":{"letter":1}`+yes),
		"a client without a form":  mute.send("tools/call", shred+yes),
		"a consent without state":  ann.send("tools/call", shred+bare),
		"a state without consent":  ann.send("tools/call", shred+`,"requestState":`+string(ann.send("tools/call", shred).Result["requestState"])),
		"the state of the backend": ann.send("tools/call", shred+`,"inputResponses":{"outrigger_confirm":{"action":"accept","content":{"confirm":true}}},"requestState":`+string(ann.send("tools/call", `"name":"sign"`).Result["requestState"])),
	} {
		if got.code() != -32602 && got.text("resultType") != "input_required" && got.toolError() != "DESTRUCTIVE_BLOCKED" {
			t.Errorf("%s: %s", name, got.raw)
		}
	}
	for _, answer := range []string{
		`{"action":"decline"}`, `{"action":"cancel"}`, `{"action":"decline","content":{"confirm":true}}`, `{"action":"decline","content":{}}`,
		`{"action":"cancel","content":{}}`, `{"action":"accept","content":{"confirm":false}}`, `{"action":"accept","content":{"confirm":"true"}}`,
		`{"action":"accept","content":{"confirm":1}}`, `{"action":"accept","content":{"confirm":null}}`, `{"action":"accept","content":{"Confirm":true}}`,
		`{"action":"accept","content":[true]}`, `{"action":"ACCEPT","content":{"confirm":true}}`, `{"confirm":true}`, `true`, `null`, `{"roots":[]}`,
	} {
		state := string(ann.send("tools/call", shred).Result["requestState"])
		got := ann.send("tools/call", shred+`,"inputResponses":{"outrigger_confirm":`+answer+`},"requestState":`+state)
		if got.toolError() != "DESTRUCTIVE_BLOCKED" && got.text("resultType") != "input_required" {
			t.Errorf("%s: %s", answer, got.raw)
		}
		if strings.Contains(got.raw, "said no") != isNo(answer) && got.toolError() != "" {
			t.Errorf("%s: %s", answer, got.raw)
		}
	}
	if n := ranTimes(rig.Native, "shred") + ranTimes(rig.Native, "burn"); n != 0 {
		t.Fatalf("without consent a tool ran %d times", n)
	}

	// There is nothing to fill in. The last is the answer to the question of an earlier version.
	for i, answer := range []string{`{"action":"accept"}`, `{"action":"accept","content":{}}`, `{"action":"accept","content":{ }}`, `{"action":"accept","content":null}`, `{"action":"accept","content":{"confirm":true}}`} {
		burn := fmt.Sprintf(`"name":"burn","arguments":{"letter":%d}`, i)
		state := string(ann.send("tools/call", burn).Result["requestState"])
		if got := ann.send("tools/call", burn+`,"inputResponses":{"outrigger_confirm":`+answer+`},"requestState":`+state); got.toolError() != "" || ranTimes(rig.Native, "burn") != i+1 {
			t.Errorf("%s: %s", answer, got.raw)
		}
	}

	yes = consent(ann.send("tools/call", shred))
	const callers = 16
	done := make(chan bool, callers)
	for range callers {
		go func() { done <- strings.Contains(ann.send("tools/call", shred+yes).raw, "gone") }()
	}
	ran := 0
	for range callers {
		if <-done {
			ran++
		}
	}
	if n := ranTimes(rig.Native, "shred"); ran != 1 || n != 1 {
		t.Errorf("one consent, sent %d times at once, ran the tool %d times and was answered %d times", callers, n, ran)
	}
}

// A tool that asks its own question is not run twice for one consent
// either, and the consent lasts to its end.
func TestAConsentOutlivesTheBackendsOwnQuestions(t *testing.T) {
	t.Parallel()
	rig, ann := deskOf(t, mcptest.Options{Configure: asks}, destructive("shred", mcptest.Dialogue{
		{"name": mcptest.AskForm("Who?", `{"type":"object","properties":{"name":{"type":"string"}}}`)},
		{"name": mcptest.AskForm("Really?", `{"type":"object","properties":{"name":{"type":"string"}}}`)},
	}))
	shred := `"name":"shred"`
	asked := ann.send("tools/call", shred+consent(ann.send("tools/call", shred)))
	var used []string
	for range 2 {
		state := `,"requestState":` + string(asked.Result["requestState"])
		used = append(used, state)
		if strings.Contains(asked.raw, "outrigger_confirm") || asked.text("resultType") != "input_required" {
			t.Fatalf("the backend's own question: %s", asked.raw)
		}
		asked = ann.send("tools/call", shred+","+signed+state)
	}
	if !strings.Contains(asked.raw, "gone") {
		t.Fatalf("at the end: %s", asked.raw)
	}
	before := ranTimes(rig.Native, "shred")
	for _, state := range used {
		if got := ann.send("tools/call", shred+","+signed+state); got.code() != -32602 {
			t.Errorf("a round was repeated: %s", got.raw)
		}
	}
	if n := ranTimes(rig.Native, "shred"); n != before {
		t.Errorf("a repeated round reached the backend")
	}
}

// Whatever way a tool is named, the gate knows it.
func TestNoNameOfADestructiveToolGetsAroundTheQuestion(t *testing.T) {
	t.Parallel()
	rig, ann := deskOf(t, mcptest.Options{Configure: asks}, destructive("shred", nil))
	mute := ann
	mute.capabilities = `{}`
	for _, name := range []string{
		"shred", "desk.shred", "desk_shred", "Shred", "SHRED", "desk.Shred", " shred", "shred ", "shred@1.0.0", "shred@^1", "desk.shred@1.0.0", "shred:1",
		"shred.", ".shred", "desk..shred", "desk/shred", "/outrigger.v1.ToolService/CallTool", "shred\u0000", "ſhred", "shred\u200b", "%73hred", "", "*",
	} {
		for _, version := range []string{"", `,"version":"1.0.0"`, `,"version":"*"`} {
			call := `"name":` + quoted(name) + version
			if got := ann.send("tools/call", call); got.text("resultType") != "input_required" && got.code() != -32602 {
				t.Errorf("%q: %s", name+version, got.raw)
			}
			if got := mute.send("tools/call", call); got.toolError() != "DESTRUCTIVE_BLOCKED" && got.code() != -32602 {
				t.Errorf("%q, without a form: %s", name+version, got.raw)
			}
		}
	}
	for _, d := range []mcptest.Dialect{mcptest.Canonical, mcptest.Legacy} {
		for _, params := range []string{
			`"name":"shred"`, `"name":"desk.shred"`, `"name":"desk.shred","version":"1.0.0"`, `"tool_name":"desk.shred","arguments":{}`,
			`"name":"shred","inputResponses":{"outrigger_confirm":{"action":"accept","content":{"confirm":true}}}`,
			`"name":"shred"` + consent(ann.send("tools/call", `"name":"shred"`)),
		} {
			got := answer(t, rig, d, fmt.Sprintf(`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{%s}}`, params))
			if got.code() == "" {
				t.Errorf("%v %s: it was not refused", d, params)
			}
		}
	}
	if n := ranTimes(rig.Native, "shred"); n != 0 {
		t.Errorf("the tool ran %d times", n)
	}
}
