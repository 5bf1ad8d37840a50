// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// modernClient sends modern requests as one caller, without headers.
type modernClient struct {
	t      testing.TB
	bridge *mcptest.Rig
	caller string
	// capabilities are what it declares; empty declares nothing.
	capabilities string
	// heard takes notifications; nil drops them.
	heard func(string)
}

// modernAnswer is a reply in the members that tests look at.
type modernAnswer struct {
	raw    string
	status int
	Result map[string]json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    struct {
			Code string `json:"code"`
		} `json:"data"`
	} `json:"error"`
}

func (a modernAnswer) code() int {
	if a.Error == nil {
		return 0
	}
	return a.Error.Code
}

// text is a member of the result that is a string; empty for anything else.
func (a modernAnswer) text(member string) string {
	text, _ := jsonText(a.Result[member])
	return text
}

// toolError is the canonical code of a result with isError.
func (a modernAnswer) toolError() string {
	meta, _ := lookup(a.Result["_meta"], "dev.outrigger/error")
	code, _ := lookup(meta, "code")
	text, _ := jsonText(code)
	return text
}

// send sends a request with params, which begin with their first member.
func (c modernClient) send(method, params string) modernAnswer {
	c.t.Helper()
	capabilities := c.capabilities
	if capabilities == "" {
		capabilities = "{}"
	}
	if params != "" {
		params += ","
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}}}`
	return c.sendRaw(body)
}

func (c modernClient) sendRaw(body string) modernAnswer {
	c.t.Helper()
	in := &mcptest.Message{
		Dialect: mcptest.Modern, Origin: c.bridge.NewOrigin(), Text: body, Caller: c.caller, Transport: "test", Route: "test",
	}
	if c.heard != nil {
		in.Send = func(message []byte) error {
			c.heard(string(message))
			return nil
		}
	}
	reply := c.bridge.Send(context.Background(), in)
	got := modernAnswer{raw: string(reply.Bytes()), status: reply.Status}
	if err := json.Unmarshal(reply.Bytes(), &got); err != nil {
		c.t.Fatalf("%v: %s", err, reply.Bytes())
	}
	return got
}

// quoted is a text as JSON.
func quoted(text string) string {
	raw, _ := json.Marshal(text)
	return string(raw)
}

// ranTimes counts how often a native backend ran a tool.
func ranTimes(n *mcptest.Native, name string) int {
	count := 0
	for _, seen := range n.Seen() {
		if call, ok := seen.(interface{ GetToolName() string }); ok && call.GetToolName() == name {
			count++
		}
	}
	return count
}

// names are the names in a list of a result.
func (a modernAnswer) names(list string) []string {
	var out []string
	for _, entry := range elements(a.Result[list]) {
		raw, _ := lookup(entry, "name")
		text, _ := jsonText(raw)
		out = append(out, text)
	}
	return out
}

// numbered are n names in order.
func numbered(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = prefix + strings.Repeat("0", 3-len(strconv.Itoa(i))) + strconv.Itoa(i)
	}
	return out
}

// Keys in _meta that are not MCP's are meant for other software: a server
// between must not lose them, whatever the method.
func TestForeignKeysOfMetaReachTheBackendOnEveryMethod(t *testing.T) {
	t.Parallel()
	rig, ann := deskOf(t, mcptest.Options{})
	const own = `"com.example/key":{"deep":[9007199254740993]},"com.example/other":"\u0041"`
	for method, params := range map[string]string{
		"tools/call": `"name":"count"`, "prompts/get": `"name":"greet","arguments":{"name":"Ann"}`, "resources/read": `"uri":"desk://notes/1"`,
		"completion/complete": `"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"tone","value":""}`,
	} {
		got := ann.sendRaw(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,"_meta":{` + own +
			`,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":1}}}`)
		if got.Result == nil {
			t.Fatalf("%s: %s", method, got.raw)
		}
		seen := rig.Native.Seen()
		last, ok := seen[len(seen)-1].(interface{ GetMetaJson() []byte })
		if !ok || string(last.GetMetaJson()) != "{"+own+"}" {
			t.Errorf("%s: the backend got %v", method, seen[len(seen)-1])
		}
	}
}

// encodedHeader is a header value that may hold anything.
func encodedHeader(text string) string {
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
}

// What a backend says went wrong may hold what must stay private; on its way
// through a task it is no other text.
func TestSecretsInFailuresOfTasksStayInside(t *testing.T) {
	t.Parallel()
	const secret, said = "hunter2hunter2", "login failed: password=hunter2hunter2"
	backend := mcptest.Desk()
	backend.Tasks["binding"][1].GetResult().GetError().ErrorMessage = said
	backend.Tasks["drying"][0].GetError().Message = said
	backend.Tools = append(backend.Tools, mcptest.NativeTool{
		Declared: mcptest.JSONTool("leak", "Fail.", mcptest.NoArguments, ""),
		Outcome: &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
			Status: "failure", Error: &outriggerv1.ErrorDetail{ErrorType: "LoginFailed", ErrorMessage: said},
		}}},
	})
	rig := mcptest.Start(t, mcptest.Options{Native: backend, NoDemo: true})
	heard := make(chan string, 4)
	ann := modernClient{t: t, bridge: rig, caller: "ann", capabilities: withTasks, heard: func(message string) { heard <- message }}
	shown := []string{ann.send("tools/call", `"name":"leak"`).raw}
	ids := map[string]string{}
	for _, job := range []string{"binding", "drying"} {
		ids[job] = string(ann.send("tools/call", `"name":"do","arguments":{"job":"`+job+`"}`).Result["taskId"])
	}
	ended := make(chan modernAnswer, 1)
	go func() { ended <- ann.send("subscriptions/listen", `"notifications":{"taskIds":[`+ids["binding"]+`]}`) }()
	<-heard
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
	defer cancel()
	if err := rig.Native.Announce(ctx, &outriggerv1.Notification{
		Method: "notifications/tasks", ParamsForm: &outriggerv1.Notification_Task{Task: rig.Native.Advance("binding")},
	}); err != nil {
		t.Fatal(err)
	}
	shown = append(shown, <-heard)
	rig.EndStreams()
	<-ended
	for _, id := range ids {
		shown = append(shown, ann.send("tasks/get", `"taskId":`+id).raw)
	}
	for _, message := range shown {
		if strings.Contains(message, secret) || !strings.Contains(message, "login failed") {
			t.Errorf("got %s", message)
		}
	}
}
