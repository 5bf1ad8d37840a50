// SPDX-License-Identifier: Apache-2.0

package mcphttp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// withID gives a request another id.
func withID(id, body string) string { return strings.Replace(body, `"id":0`, `"id":`+id, 1) }

// TestBatches are for sessions of 2025-03-26, where they must be taken.
func TestBatches(t *testing.T) {
	t.Parallel()
	_, url := office(t, officeOptions{http: mcphttp.Options{MaxBatch: 5}})
	c := openWith(t, url, rev03, `{}`)
	const note = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	ping := request("ping", "")
	for _, tc := range []struct {
		name, body string
		status     int
		// want is what each reply has, in order.
		want []string
	}{
		{"requests and a notification", "[" + withID(`"a"`, ping) + "," + note + "," + toolCall("2", "tidy") + "]", 200, []string{`"id":"a","result":{}`, "Everything is in its place"}},
		{"notifications", "[" + note + "," + note + "]", 202, nil},
		{"a faulty one among good ones", "[" + withID("1", ping) + `,7,{"jsonrpc":"2.0","id":2},` + withID("3", ping) + "]", 200, []string{`"id":1,"result"`, `-32600`, `"id":2,"error":{"code":-32600`, `"id":3,"result"`}},
		{"an id twice", "[" + withID("1", ping) + "," + withID("1", ping) + "]", 200, []string{`"id":1,"result":{}`, `DUPLICATE_REQUEST_ID`}},
		{"an unexpected answer", `[{"jsonrpc":"2.0","id":"ask-1","result":{}}]`, 202, nil},
		{"initialize", "[" + opening(rev03, `{}`) + "]", 200, []string{`-32600`}},
		{"a modern message", "[" + request("tools/list", meta) + "," + withID("1", ping) + "]", 200, []string{`-32600`, `"result":{}`}},
		{"nothing", "[]", 400, []string{`-32600`}},
		{"too much", "[" + strings.Repeat(note+",", 5) + note + "]", 413, []string{`-32600`}},
		{"not JSON", "[" + ping, 400, []string{`-32700`}},
	} {
		got := c.post(tc.body)
		var replies []json.RawMessage
		if strings.HasPrefix(got.body, "[") {
			if err := json.Unmarshal([]byte(got.body), &replies); err != nil {
				t.Fatal(err)
			}
		} else if got.body != "" {
			replies = append(replies, json.RawMessage(got.body))
		}
		if got.status != tc.status || len(replies) != len(tc.want) || strings.HasPrefix(got.body, "[") != (tc.status == 200) {
			t.Errorf("%s: %d %s", tc.name, got.status, got.body)
			continue
		}
		for i, want := range tc.want {
			if !strings.Contains(string(replies[i]), want) {
				t.Errorf("%s: reply %d is %s, want %s in it", tc.name, i, replies[i], want)
			}
		}
	}
	for _, version := range []string{rev11, rev06} {
		c := openWith(t, url, version, `{}`)
		for _, header := range []string{version, rev03, ""} {
			if got := c.post("["+ping+"]", "MCP-Protocol-Version: "+header); got.status != 400 || got.errorCode() != -32600 {
				t.Errorf("%s as %q: %d %s", version, header, got.status, got.body)
			}
		}
	}
}

// TestABatchOfAnswers answers several questions at once, and cancels.
func TestABatchOfAnswers(t *testing.T) {
	t.Parallel()
	waits := newSteps("wait")
	rig, url := office(t, officeOptions{more: []mcptest.NativeTool{waits.tool(), {
		Declared: mcptest.JSONTool("muse", "Ask the model.", mcptest.NoArguments, ""),
		Dialogue: mcptest.Dialogue{{"slogan": mcptest.AskModel("A slogan, please.")}},
		Outcome:  mcptest.Success("", mcptest.TextBlock("How true.")),
	}}})
	c := openWith(t, url, rev03, `{"sampling":{},"roots":{}}`)
	one, two := c.stream(http.MethodPost, toolCall("1", "muse")), c.stream(http.MethodPost, toolCall("2", "muse"))
	const slogan = `"result":{"role":"assistant","content":{"type":"text","text":"Order!"},"model":"m"}`
	answers := "[" + respond(two.method("sampling/createMessage"), slogan) + "," + respond(one.method("sampling/createMessage"), slogan) + "]"
	if got := c.post(answers); got.status != 202 || got.body != "" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	one.result("How true.")
	two.result("How true.")
	waiting := c.begin(http.MethodPost, toolCall("9", "wait"))
	<-waits.entered
	if got := c.post(`[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}]`); got.status != 202 || got.body != "" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if err := <-waits.ended; err == nil {
		t.Error("the call went on")
	}
	if got := waiting.answer(); got.status == 200 {
		t.Errorf("it was answered: %s", got.body)
	}
	idle(t, rig.Bridge)
}
