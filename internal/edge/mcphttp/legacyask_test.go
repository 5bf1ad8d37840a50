// SPDX-License-Identifier: Apache-2.0

package mcphttp_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// respond is the response to a request of the server's.
func respond(q *jsonrpc.Message, rest string) string {
	return `{"jsonrpc":"2.0","id":` + string(q.ID.Raw()) + `,` + rest + `}`
}

// answered posts a response and wants it to be taken.
func (c *legacy) answered(q *jsonrpc.Message, rest string) {
	c.t.Helper()
	if got := c.post(respond(q, rest)); got.status != 202 || got.body != "" {
		c.t.Fatalf("the answer to %s: %d %s", q.Method, got.status, got.body)
	}
}

const accepts = `"result":{"action":"accept","content":{"name":"Ann"}}`

// TestAToolAsksItsClient: what a backend wants to know becomes requests to the
// client, one after the other, on the stream of the call.
func TestAToolAsksItsClient(t *testing.T) {
	t.Parallel()
	for _, version := range []string{rev11, rev06} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			rig, url := office(t, officeOptions{})
			c := openWith(t, url, version, allAbilities)
			get := c.stream(http.MethodGet, "")
			call := c.stream(http.MethodPost, toolCall("3", "interview"))
			if version == rev11 {
				call.greeting()
				get.greeting()
			}
			roots := call.method("roots/list")
			if roots.Params != nil && string(roots.Params) != `{}` {
				t.Errorf("roots/list with %s", roots.Params)
			}
			c.answered(roots, `"result":{"roots":[{"uri":"file:///home/ann","name":"home"}]}`)
			form := call.method("elicitation/create")
			hasMode := strings.Contains(string(form.Params), `"mode":"form"`)
			if !strings.Contains(string(form.Params), `"message":"Who are you?"`) || hasMode != (version == rev11) {
				t.Errorf("asked %s", form.Params)
			}
			c.answered(form, accepts)
			model := call.method("sampling/createMessage")
			if !strings.Contains(string(model.Params), `"maxTokens":100`) {
				t.Errorf("asked %s", model.Params)
			}
			c.answered(model, `"result":{"role":"assistant","content":{"type":"text","text":"Order!"},"model":"m"}`)
			sure := call.method("elicitation/create")
			c.answered(sure, `"result":{"action":"accept","content":{"yes":true}}`)
			call.result("Thank you.")
			call.ended()
			// A second answer, and one to no question.
			for _, q := range []*jsonrpc.Message{roots, sure} {
				if got := c.post(respond(q, accepts)); got.status != 400 || got.errorCode() != -32600 || got.ID != nil {
					t.Errorf("a second answer: %d %s", got.status, got.body)
				}
			}
			tell(t, rig, lists()[0]) // and nothing of it is on the other stream
			get.method("notifications/tools/list_changed")
			checkInterview(t, rig)
		})
	}
}

// checkInterview wants the backend to have had the answers, each round with its
// own.
func checkInterview(t *testing.T, rig *mcptest.Rig) {
	t.Helper()
	seen := rig.Native.Seen()
	if len(seen) != 3 {
		t.Fatalf("%d calls, want one and two more with answers", len(seen))
	}
	second, _ := seen[1].(*outriggerv1.ToolCall)
	given := second.GetInputResponses()
	if len(given) != 3 || given["folders"].GetRoots().GetRoots()[0].GetUri() != "file:///home/ann" ||
		string(given["name"].GetElicitation().GetContentJson()) != `{"name":"Ann"}` ||
		given["slogan"].GetSampling().GetModel() != "m" || string(second.GetRequestState()) != "round-1" {
		t.Errorf("the second call had %v", second)
	}
	if last, _ := seen[2].(*outriggerv1.ToolCall); len(last.GetInputResponses()) != 1 || string(last.GetRequestState()) != "round-2" {
		t.Errorf("the third call had %v", last)
	}
}

// TestResourcesAndPromptsAskToo as tools do.
func TestResourcesAndPromptsAskToo(t *testing.T) {
	t.Parallel()
	_, url := office(t, officeOptions{})
	c := openWith(t, url, rev11, allAbilities)
	for body, want := range map[string]string{
		request("resources/read", `"uri":"desk://safe"`): "a coconut",
		request("prompts/get", `"name":"apologise"`):     "Say sorry.",
	} {
		call := c.stream(http.MethodPost, body)
		call.greeting()
		c.answered(call.method("elicitation/create"), `"result":{"action":"accept","content":{"why":"x","what":"y"}}`)
		call.result(want)
		call.ended()
	}
}

// TestAClientThatRefuses, declines or answers nonsense: the tool learns it, and
// never takes it for an answer.
func TestAClientThatRefuses(t *testing.T) {
	t.Parallel()
	_, url := office(t, officeOptions{})
	c := openWith(t, url, rev11, allAbilities)
	refused := c.stream(http.MethodPost, toolCall("1", "sign"))
	refused.greeting()
	c.answered(refused.method("elicitation/create"), `"error":{"code":-1,"message":"The user is away."}`)
	if m := refused.result("The user is away."); !strings.Contains(string(m.Result), `"isError":true`) {
		t.Errorf("got %s", m.Result)
	}
	refused.ended()
	for _, nonsense := range []string{`{}`, `{"action":"accept"}`, `{"action":"later"}`, `{"roots":[]}`, `{"action":"decline"}`, `{"action":"cancel"}`} {
		call := c.stream(http.MethodPost, toolCall("1", "sign"))
		call.greeting()
		c.answered(call.method("elicitation/create"), `"result":`+nonsense)
		switch m := call.next().message(t); {
		case m.Kind == jsonrpc.KindSuccess && strings.Contains(string(m.Result), "Signed by ."):
			// It accepted, and left out a name: the tool's affair.
			if nonsense != `{"action":"accept"}` {
				t.Errorf("%s: %s", nonsense, m.Result)
			}
		case m.Method == "elicitation/create": // asked again
			c.answered(m, accepts)
			call.result("Signed by Ann.")
		default:
			t.Errorf("%s: %s %s", nonsense, m.Method, m.Result)
		}
		call.ended()
	}
	for _, wrong := range []string{`"result":7`, `"result":null`, `"result":{},"error":{"code":1,"message":"x"}`} {
		call := c.stream(http.MethodPost, toolCall("1", "sign"))
		call.greeting()
		q := call.method("elicitation/create")
		if got := c.post(respond(q, wrong)); got.status != 400 {
			t.Errorf("%s: %d %s", wrong, got.status, got.body)
		}
		c.answered(q, accepts) // what could not be read was no answer
		call.result("Signed by Ann.")
		call.ended()
	}
}

// TestNothingIsAskedThatWasNotDeclared (MCP lifecycle, capability negotiation):
// not by what the revision has, not by what the client said, and not where the
// client takes no stream.
func TestNothingIsAskedThatWasNotDeclared(t *testing.T) {
	t.Parallel()
	_, url := office(t, officeOptions{})
	for _, tc := range []struct {
		name, version, abilities, tool string
		headers                        []string
	}{
		{"nothing declared", rev11, `{}`, "sign", nil},
		{"other things declared", rev11, `{"sampling":{},"roots":{},"elicitation":{"url":{}}}`, "sign", nil},
		{"no URLs", rev11, `{"elicitation":{}}`, "pay", nil},
		{"one of three is missing", rev11, `{"elicitation":{},"roots":{}}`, "interview", nil},
		{"no URLs in 2025-06-18", rev06, allAbilities, "pay", nil},
		{"no elicitation in 2025-03-26", rev03, allAbilities, "sign", nil},
		{"no stream", rev11, allAbilities, "sign", []string{"Accept: application/json"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := openWith(t, url, tc.version, tc.abilities)
			got := c.post(toolCall("1", tc.tool), tc.headers...)
			if got.status != 200 || got.header.Get("Content-Type") != "application/json" ||
				!strings.Contains(got.body, `"isError":true`) || !strings.Contains(got.body, "MISSING_CLIENT_CAPABILITY") {
				t.Errorf("got %d %v %s", got.status, got.header, got.body)
			}
		})
	}
	t.Run("no stream in a batch", func(t *testing.T) {
		t.Parallel()
		c := openWith(t, url, rev03, allAbilities)
		if got := c.post("[" + request("resources/read", `"uri":"desk://safe"`) + "," + request("ping", "") + "]"); got.status != 200 || strings.Contains(got.body, "elicitation/create") {
			t.Errorf("got %d %s", got.status, got.body)
		}
	})
}

// TestAnswersOfOthersAreNone: ids of questions mean something in their own
// session alone.
func TestAnswersOfOthersAreNone(t *testing.T) {
	t.Parallel()
	_, url := office(t, officeOptions{})
	ann, bob := openWith(t, url, rev11, allAbilities), openWith(t, url, rev11, allAbilities)
	anns, bobs := ann.stream(http.MethodPost, toolCall("1", "sign")), bob.stream(http.MethodPost, toolCall("1", "sign"))
	anns.greeting()
	bobs.greeting()
	toAnn, toBob := anns.method("elicitation/create"), bobs.method("elicitation/create")
	if string(toAnn.ID.Raw()) == string(toBob.ID.Raw()) {
		t.Errorf("two questions with the id %s", toAnn.ID.Raw())
	}
	forged := `"result":{"action":"accept","content":{"name":"Mallory"}}`
	for _, tc := range []struct {
		c *legacy
		q *jsonrpc.Message
	}{{ann, toBob}, {bob, toAnn}, {&legacy{t: t, url: url, http: ann.http}, toAnn}} {
		if got := tc.c.post(respond(tc.q, forged)); got.status != 400 {
			t.Errorf("got %d %s", got.status, got.body)
		}
	}
	bob.answered(toBob, strings.Replace(accepts, "Ann", "Bob", 1))
	ann.answered(toAnn, accepts)
	anns.result("Signed by Ann.")
	bobs.result("Signed by Bob.")
}

// TestAQuestionOutlivesItsConnection: the client comes back for it.
func TestAQuestionOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	_, url := office(t, officeOptions{})
	c := openWith(t, url, rev11, allAbilities)
	call := c.stream(http.MethodPost, toolCall("1", "sign"))
	call.greeting()
	seen := call.last
	call.close()
	again := c.stream(http.MethodGet, "", "Last-Event-ID: "+seen)
	q := again.method("elicitation/create")
	again.close()
	c.answered(q, accepts)
	last := c.stream(http.MethodGet, "", "Last-Event-ID: "+again.last)
	last.result("Signed by Ann.")
	last.ended()
}

// withdrawn wants the client to be told that a question is over, and its late
// answer to be no fault.
func withdrawn(t *testing.T, c *legacy, call *sse, q *jsonrpc.Message) {
	t.Helper()
	m := call.method("notifications/cancelled")
	if id, _ := jsontext.Lookup(m.Params, "requestId"); string(id) != string(q.ID.Raw()) {
		t.Errorf("withdrawn is %s, not %s", id, q.ID.Raw())
	}
	c.answered(q, accepts)
}

func TestACancelledCallWithdrawsItsQuestion(t *testing.T) {
	t.Parallel()
	rig, url := office(t, officeOptions{})
	c := openWith(t, url, rev11, allAbilities)
	call := c.stream(http.MethodPost, toolCall("1", "sign"))
	call.greeting()
	q := call.method("elicitation/create")
	if got := c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"changed my mind"}}`); got.status != 202 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	withdrawn(t, c, call, q)
	call.ended()
	idle(t, rig.Bridge)
}

func TestAQuestionThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	_, url := office(t, officeOptions{session: func(o *session.Options) { o.AskTimeout = 50 * time.Millisecond }})
	c := openWith(t, url, rev11, allAbilities)
	call := c.stream(http.MethodPost, toolCall("1", "sign"))
	call.greeting()
	q := call.method("elicitation/create")
	withdrawn(t, c, call, q)
	if m := call.result("did not answer in time"); !strings.Contains(string(m.Result), `"isError":true`) {
		t.Errorf("got %s", m.Result)
	}
	call.ended()
}

// TestAQuestionThroughAWebPage has the name that 2025-11-25 requires, another one
// each time.
func TestAQuestionThroughAWebPage(t *testing.T) {
	t.Parallel()
	_, url := office(t, officeOptions{})
	c, other := openWith(t, url, rev11, allAbilities), openWith(t, url, rev11, allAbilities)
	names := map[string]bool{}
	for _, c := range []*legacy{c, c, other} {
		call := c.stream(http.MethodPost, toolCall("1", "pay"))
		call.greeting()
		q := call.method("elicitation/create")
		raw, _ := jsontext.Lookup(q.Params, "elicitationId")
		name, ok := jsontext.Text(raw)
		if !ok || names[name] || !strings.Contains(string(q.Params), `"mode":"url"`) {
			t.Errorf("asked %s", q.Params)
		}
		names[name] = true
		c.answered(q, `"result":{"action":"accept"}`)
		call.result("Paid.")
	}
}
