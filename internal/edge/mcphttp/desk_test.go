// SPDX-License-Identifier: Apache-2.0

package mcphttp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// desk is the handler in front of a backend that speaks the tool API, with more
// tools than mcptest.Desk has.
func desk(t *testing.T, o mcphttp.Options, more ...mcptest.NativeTool) (*mcptest.Rig, string) {
	t.Helper()
	backend := mcptest.Desk()
	backend.Tools = append(backend.Tools, more...)
	rig := mcptest.Start(t, mcptest.Options{Native: backend, NoDemo: true})
	return rig, mcptest.Serve(t, mcphttp.New(rig.Bridge, o))
}

// events is a reply that is read as it comes.
type events struct {
	t      *testing.T
	resp   *http.Response
	lines  *bufio.Scanner
	hangUp context.CancelFunc
}

// open sends a request over one HTTP version and returns its reply unread.
func open(t *testing.T, version int, url, body string, headers ...string) *events {
	t.Helper()
	ctx, hangUp := context.WithCancel(context.Background())
	t.Cleanup(hangUp)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := mcptest.Client(t, version).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	e := &events{t: t, resp: resp, lines: bufio.NewScanner(resp.Body), hangUp: hangUp}
	e.lines.Buffer(nil, 16<<20)
	return e
}

// next returns the data of the next event; false at the end of the stream.
func (e *events) next() (string, bool) {
	e.t.Helper()
	for e.lines.Scan() {
		line := e.lines.Text()
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			return data, true
		}
		if line != "" && line != "event: message" && line != ":" {
			e.t.Errorf("the stream has the line %q", line)
		}
	}
	return "", false
}

// want takes events that hold these texts, in this order.
func (e *events) want(texts ...string) {
	e.t.Helper()
	for _, text := range texts {
		if got, ok := e.next(); !ok || !strings.Contains(got, text) {
			e.t.Fatalf("got %q, want an event with %q", got, text)
		}
	}
}

// end wants the end of the stream.
func (e *events) end() {
	e.t.Helper()
	if more, ok := e.next(); ok {
		e.t.Errorf("the stream goes on with %s", more)
	}
	if err := e.lines.Err(); err != nil {
		e.t.Errorf("the stream was cut: %v", err)
	}
}

// encoded is a header value between the markers.
func encoded(text string) string {
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
}

// named makes a request that names something, with the headers for it.
func named(method, member, name, more string) (body string, headers []string) {
	body = request(method, string(jsontext.AppendString([]byte(`"`+member+`":`), name))+","+more+metaOf(everything, ""))
	return body, modern(method)
}

const everything = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// metaOf is the _meta of a request with capabilities and more.
func metaOf(capabilities, more string) string {
	return `"_meta":{` + version + `,"io.modelcontextprotocol/clientCapabilities":` + capabilities + more + `}`
}

// Servers that compare the header as it came refuse clients that have to encode
// what they name.
func TestTheNameInTheHeaderMayBeEncodedForEveryMethodThatHasOne(t *testing.T) {
	t.Parallel()
	rig, url := desk(t, mcphttp.Options{})
	begun := post(t, url, request("tools/call", `"name":"begin","arguments":{"job":"binding"},`+metaOf(everything, "")), modern("tools/call", "Mcp-Name: begin")...)
	id, _ := jsontext.Lookup(begun.Result, "taskId")
	task, ok := jsontext.Text(id)
	if !ok {
		t.Fatalf("no task: %s", begun.body)
	}
	for _, tc := range []struct{ method, member, name, more string }{
		{"tools/call", "name", "count", ""},
		{"prompts/get", "name", "greet", `"arguments":{"name":"Ann"},`},
		{"resources/read", "uri", "desk://notes/1", ""},
		{"tasks/get", "taskId", task, ""},
		{"tasks/update", "taskId", task, `"inputResponses":{},`},
		{"tasks/cancel", "taskId", task, ""},
	} {
		t.Run(tc.method, func(t *testing.T) {
			t.Parallel()
			body, headers := named(tc.method, tc.member, tc.name, tc.more)
			for header, want := range map[string]int{
				tc.name: 0, encoded(tc.name): 0, " " + encoded(tc.name) + "\t": 0,
				encoded(tc.name + "x"): -32020,
				strings.Replace(encoded(tc.name), "base64", "BASE64", 1):                                                         -32020,
				strings.TrimSuffix(encoded(tc.name), "?="):                                                                       -32020,
				"=?base64?" + base64.RawStdEncoding.EncodeToString([]byte(tc.name+strings.Repeat("!", 1+len(tc.name)%3))) + "?=": -32020,
				encoded(encoded(tc.name)): -32020,
				"":                        -32020,
			} {
				got := post(t, url, body, append(headers, "Mcp-Name: "+header)...)
				if got.errorCode() != want || (want == 0) != (got.status == 200) || want != 0 && got.status != 400 {
					t.Errorf("Mcp-Name %q: got %d %s, want %d", header, got.status, got.body, want)
				}
			}
			if got := post(t, url, body, headers...); got.status != 400 || got.errorCode() != -32020 {
				t.Errorf("without the header: %d %s", got.status, got.body)
			}
		})
	}
	// What only the encoding can carry gets as far as code that knows that it does
	// not exist.
	for method, member := range map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId"} {
		body, headers := named(method, member, "λ:/\u0001 ", "")
		if got := post(t, url, body, append(headers, "Mcp-Name: "+encoded("λ:/\u0001 "))...); got.status != 200 || got.errorCode() != -32602 {
			t.Errorf("%s: got %d %s, want 200 and -32602", method, got.status, got.body)
		}
	}
	if n := rig.Bridge.Flights().InFlight(); n != 0 {
		t.Errorf("%d requests are still in flight", n)
	}
}

// The method and the version are in the header as they are; a server that
// decodes them reads another request than a proxy that routes by them.
func TestWhatIsNeverEncodedIsALiteral(t *testing.T) {
	t.Parallel()
	_, url := desk(t, mcphttp.Options{})
	body := request("tools/list", meta)
	for _, headers := range [][]string{
		{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: " + encoded("tools/list")},
		{"MCP-Protocol-Version: " + encoded("2026-07-28"), "Mcp-Method: tools/list"},
	} {
		if got := post(t, url, body, headers...); got.status != 400 || got.errorCode() != -32020 {
			t.Errorf("%v: got %d %s", headers, got.status, got.body)
		}
	}
}

// The keys of a client that it means for others go through, on every method.
func TestUnknownMembersAreLetByOnEveryMethod(t *testing.T) {
	t.Parallel()
	_, url := desk(t, mcphttp.Options{})
	more := `"unknown":{"a":[1]},`
	wide := metaOf(`{"roots":{"listChanged":true},"unknown":{},"extensions":{"com.example/x":{"y":1}},"experimental":{"z":{}}}`,
		`,"com.example/k":7,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","io.modelcontextprotocol/clientInfo":{"name":7}`)
	for method, params := range map[string]string{
		"server/discover": "", "tools/list": "", "resources/list": "", "resources/templates/list": "", "prompts/list": "",
		"tools/call": `"name":"count",`, "resources/read": `"uri":"desk://notes/1",`, "prompts/get": `"name":"greet","arguments":{"name":"Ann"},`,
		"completion/complete": `"ref":{"type":"ref/prompt","name":"greet","title":"x"},"argument":{"name":"tone","value":"w","x":1},`,
	} {
		name := ""
		for _, n := range []string{"count", "desk://notes/1", "greet"} {
			if strings.Contains(params, `"`+n+`"`) {
				name = n
			}
		}
		got := post(t, url, request(method, params+more+wide), modern(method, "Mcp-Name: "+name)...)
		if got.status != 200 || got.Error != nil {
			t.Errorf("%s: %d %s", method, got.status, got.body)
		}
	}
}

// Capabilities are those of this request alone, also on one connection.
func TestCapabilitiesAreNotRemembered(t *testing.T) {
	t.Parallel()
	_, url := desk(t, mcphttp.Options{})
	client := mcptest.Client(t, 1)
	if status, body := callWith(t, client, url, "sign", `{"elicitation":{}}`); status != 200 || !strings.Contains(body, "input_required") {
		t.Errorf("with the capability: %d %s", status, body)
	}
	status, body := callWith(t, client, url, "sign", `{}`)
	if status != 400 || !strings.Contains(body, `"requiredCapabilities":{"elicitation":{"form":{}}}`) || !strings.Contains(body, "-32021") {
		t.Errorf("without it, on the same connection: %d %s", status, body)
	}
}

// TestABackendCanGoAnotherWay: it learns what the client of this very request can do, so that it need not ask where
// it can do without.
func TestABackendCanGoAnotherWay(t *testing.T) {
	t.Parallel()
	greet := tool("greet", func(_ context.Context, call *outriggerv1.ToolCall, _ func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
		if call.GetContext().GetCapabilities().GetElicitation() == nil {
			return mcptest.Success(`{"greeting":"Hello, stranger."}`), nil
		}
		return &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_InputRequired{InputRequired: &outriggerv1.InputRequired{
			InputRequests: map[string]*outriggerv1.InputRequest{"name": mcptest.AskForm("Who are you?", `{"type":"object","properties":{"name":{"type":"string"}}}`)},
		}}}, nil
	})
	_, url := desk(t, mcphttp.Options{}, greet)
	client := mcptest.Client(t, 1)
	if status, body := callWith(t, client, url, "greet", `{"elicitation":{"form":{}}}`); status != 200 || !strings.Contains(body, "Who are you?") {
		t.Errorf("who can be asked: %d %s", status, body)
	}
	for _, capabilities := range []string{`{}`, `{"sampling":{},"roots":{}}`} {
		status, body := callWith(t, client, url, "greet", capabilities)
		if status != 200 || !strings.Contains(body, "Hello, stranger.") || strings.Contains(body, "inputRequests") || !strings.Contains(body, `"resultType":"complete"`) {
			t.Errorf("%s: %d %s", capabilities, status, body)
		}
	}
}

// callWith calls a tool for a client with these capabilities.
func callWith(t *testing.T, client *http.Client, url, name, capabilities string) (int, string) {
	t.Helper()
	body := request("tools/call", `"name":"`+name+`",`+metaOf(capabilities, ""))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range append(modern("tools/call"), "Mcp-Name: "+name, "Content-Type: application/json") {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer.String()
}

// progressOf is a report that says nothing; its token is the caller's.
func progressOf(*outriggerv1.ToolCall) *outriggerv1.ToolEvent { return mcptest.Progress(1, "") }

// success answers with the token that the backend was told of.
func success(call *outriggerv1.ToolCall) *outriggerv1.ToolOutcome {
	id := call.GetContext().GetProgressToken()
	return mcptest.Success(fmt.Sprintf(`{"token":%s}`, idText(id)))
}

// idText is an id as JSON.
func idText(id *outriggerv1.Id) string {
	switch kind := id.GetKind().(type) {
	case *outriggerv1.Id_Text:
		return string(jsontext.AppendString(nil, kind.Text))
	case *outriggerv1.Id_BigInteger:
		return kind.BigInteger
	}
	return strconv.FormatInt(id.GetInteger(), 10)
}
