// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

var update = flag.Bool("update", false, "write the bytes of the edges instead of comparing with them")

// message is a request over HTTP/1.1, or over HTTP/2 where it has a procedure of gRPC.
type message struct {
	name, method, path string
	header             []string // "Name: value"
	body               string
	grpc               bool
	// until ends the reading of a stream that goes on for ever.
	until string
	// again has it sent until the answer has a text, which something in the background brings about.
	again string
	// beside is sent once the answer has the text when.
	when   string
	beside *message
	// isWhole leaves the chunks of a stream out of the record: how its events fall into them depends on time.
	isWhole bool
}

// TestWire compares the bytes of every edge with those on record: each method and each error in each era and protocol. The sidecars
// have a fixed clock and fixed ids. Behind one is the example service, behind another a backend with everything that it can offer itself.
func TestWire(t *testing.T) {
	t.Parallel()
	example := serve(t, "--demo", "--deterministic", "--max-message-bytes", "64KiB")
	native := serve(t, "--backend", startFixture(t), "--deterministic", "--page-size", "20")
	slow := serve(t, "--deterministic", "--config", written(t, "sidecar.yaml", slowTools))
	var got strings.Builder
	for _, on := range []struct {
		addr     string
		messages []message
	}{{example.Addr(), messages()}, {native.Addr(), natives()}, {slow.Addr(), slowCalls()}} {
		known := map[string]string{}
		for _, m := range on.messages {
			fmt.Fprintf(&got, "=== %s\n%s", m.name, m.send(t, on.addr, known))
		}
	}
	path := filepath.Join("testdata", "wire.txt")
	if *update {
		if err := os.WriteFile(path, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	is, was := exchangesOf(got.String()), exchangesOf(string(want))
	const enough = 200
	if len(is) < enough {
		t.Errorf("%d exchanges, want %d", len(is), enough)
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if diff := cmp.Diff(was[name], is[name]); diff != "" {
			t.Errorf("%s (-on record +now):\n%s", name, diff)
		}
	}
	for name := range was {
		if _, ok := is[name]; !ok {
			t.Errorf("%s is on record, and is not sent any more", name)
		}
	}
}

// exchangesOf are the exchanges of a record by name.
func exchangesOf(text string) map[string]string {
	out := map[string]string{}
	for _, part := range strings.Split(text, "=== ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		out[name] = rest
	}
	return out
}

// handedOut are values of answers that later messages bring back, as {name}.
var handedOut = map[string]*regexp.Regexp{
	"session":      regexp.MustCompile(`(?m)^Mcp-Session-Id: (\S+)`),
	"requestState": regexp.MustCompile(`"requestState": ?"([^"]+)"`),
	"taskId":       regexp.MustCompile(`"(?:taskId|task_id)": ?"([^"]+)"`),
	"cursor":       regexp.MustCompile(`"(?:nextCursor|next_cursor)": ?"([^"]+)"`),
	"asked":        regexp.MustCompile(`"id":("[^"]*"|\d+),"method":"`),
}

// send sends a message, with what earlier answers handed out, and returns both for the record.
func (m *message) send(t *testing.T, addr string, known map[string]string) string {
	t.Helper()
	asWritten := m.text()
	fill := func(text string) string {
		for name, value := range known {
			text = strings.ReplaceAll(text, "{"+name+"}", value)
		}
		return text
	}
	filled := *m
	filled.body, filled.header = fill(m.body), nil
	for _, h := range m.header {
		filled.header = append(filled.header, fill(h))
	}
	learn := func(answer string) {
		for name, pattern := range handedOut {
			if found := pattern.FindStringSubmatch(answer); found != nil {
				known[name] = found[1]
			}
		}
	}
	beside := ""
	during := func(answer string) {
		if m.beside != nil && beside == "" && strings.Contains(answer, m.when) {
			learn(answer)
			beside = m.beside.send(t, addr, known)
		}
	}
	answer := filled.raw(t, addr, during)
	for end := time.Now().Add(testkit.Limit()); m.again != "" && !strings.Contains(answer, m.again); answer = filled.raw(t, addr, during) {
		if time.Now().After(end) || !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
			t.Fatalf("%s: no %s in %s", m.name, m.again, answer)
		}
	}
	learn(answer)
	return asWritten + "\n" + m.onRecord(answer) + "\n" + beside
}

// raw sends a message on a new connection, and returns all that comes back. It shows during what has come so far.
func (m *message) raw(t *testing.T, addr string, during func(string)) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
	defer cancel()
	if m.grpc {
		return m.overHTTP2(ctx, t, addr)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if end, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(end)
	}
	if _, err := io.WriteString(conn, m.request()); err != nil {
		t.Fatalf("%s: %v", m.name, err)
	}
	var answer bytes.Buffer
	for buffer := make([]byte, 32<<10); ; {
		n, err := conn.Read(buffer)
		answer.Write(buffer[:n])
		during(answer.String())
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) && answer.Len() > 0 || m.until != "" && strings.Contains(answer.String(), m.until) && strings.HasSuffix(answer.String(), "\n\r\n") { // the end of a chunk
			return answer.String()
		}
		if err != nil {
			t.Fatalf("%s: %v after %q", m.name, err, answer.String())
		}
	}
}

// request is what goes over an HTTP/1.1 connection.
func (m *message) request() string {
	head := []string{m.method + " " + m.path + " HTTP/1.1", "Host: localhost"}
	head = append(head, m.header...)
	if m.body != "" || m.method == http.MethodPost {
		head = append(head, "Content-Length: "+strconv.Itoa(len(m.body)))
	}
	return strings.Join(append(head, "Connection: close"), "\r\n") + "\r\n\r\n" + m.body
}

// overHTTP2 makes a gRPC call, and writes what comes back as HTTP/1.1 would have it, headers and trailers sorted.
func (m *message) overHTTP2(ctx context.Context, t *testing.T, addr string) string {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Transport{Protocols: protocols}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, m.method, "http://"+addr+m.path, strings.NewReader(m.body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range m.header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := client.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s: %v", m.name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", m.name, err)
	}
	lines := func(h http.Header) string {
		var out strings.Builder
		for _, name := range slices.Sorted(maps.Keys(h)) {
			fmt.Fprintf(&out, "%s: %s\r\n", name, strings.Join(h[name], " | "))
		}
		return out.String()
	}
	return "HTTP/2.0 " + strconv.Itoa(resp.StatusCode) + "\r\n" + lines(resp.Header) + "\r\n" + string(body) + "\r\n" + lines(resp.Trailer)
}

// text is a request for the record.
func (m *message) text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "> %s %s\n", m.method, m.path)
	for _, h := range m.header {
		if !strings.HasPrefix(h, "Mcp-Session-Id") {
			fmt.Fprintf(&out, "> %s\n", h)
		}
	}
	fmt.Fprintf(&out, "> %s\n", printable(m.body))
	return out.String()
}

// ourVersion is the version of the build where an answer has it.
var ourVersion = regexp.MustCompile(`("name":"outrigger","version":")[^"]*`)

// moment is a time, which a reply of a service has from its clock.
var moment = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.0-9]*Z`)

// byChance are values with random bytes (base64 of them in Connect's JSON), ids of tasks and of questions, and what a task took.
var byChance = regexp.MustCompile(`\b(v1\.)[A-Za-z0-9_-]{40,}|("(?:t_|djEu|ask-))[A-Za-z0-9_+/=-]{8,}|("ttlMs":36[01]|"slept\\?":\\?")[0-9.]+`)

// withoutChance is a text without times of today, and without what byChance has.
func withoutChance(text string) string {
	text = byChance.ReplaceAllString(text, "$1$2$3…")
	return moment.ReplaceAllStringFunc(text, func(found string) string {
		if at, err := time.Parse(time.RFC3339Nano, found); err == nil && time.Since(at).Abs() > 24*time.Hour {
			return found
		}
		return "…"
	})
}

// whole is a body without the lengths of its chunks, to where it was read.
func whole(body string) string {
	var out strings.Builder
	for {
		size, rest, ok := strings.Cut(body, "\r\n")
		n, err := strconv.ParseInt(size, 16, 32)
		if !ok || err != nil {
			return out.String() + body
		}
		n = min(n, int64(len(rest)))
		out.WriteString(rest[:n])
		body = strings.TrimPrefix(rest[n:], "\r\n")
	}
}

// space is what protojson puts between the members of an object, or does not, by chance of the build. So do the prefixes of a stream's
// messages, and their chunks.
var space = regexp.MustCompile(`([,:]) (["{\[0-9tfn-])`)

// onRecord is an answer for the record: without its date, times of today, the key of a session and the version of the build, and with a digest in place
// of what is long. protojson's JSON is without its spaces and its lengths.
func (m *message) onRecord(answer string) string {
	head, body, _ := strings.Cut(answer, "\r\n\r\n")
	isProtoJSON := strings.HasPrefix(m.path, "/outrigger.") && strings.Contains(head, "json")
	if m.isWhole || isProtoJSON && strings.Contains(head, "Transfer-Encoding: chunked") {
		body = whole(body)
	}
	if strings.Contains(head, "Content-Type: application/connect+json") {
		body = regexp.MustCompile(`(?s)([0-9a-f]+\r\n)?[\x00\x02]\x00.{3}(\{)`).ReplaceAllString(body, "$2")
	}
	if isProtoJSON {
		body = space.ReplaceAllString(body, "$1$2")
		head = regexp.MustCompile(`(?m)^(Content-Length): .*$`).ReplaceAllString(head, "$1: …\r")
	}
	fixed := withoutChance(ourVersion.ReplaceAllString(body, "$1…"))
	if fixed != body {
		body = regexp.MustCompile(`(?m)^[0-9a-f]+\r$`).ReplaceAllString(fixed, "…\r")
		head = regexp.MustCompile(`(?m)^(Content-Length): .*$`).ReplaceAllString(head, "$1: …")
	}
	head = regexp.MustCompile(`(?m)^(Date|Mcp-Session-Id): .*$`).ReplaceAllString(strings.ReplaceAll(head, "\r\n", "\n"), "$1: …")
	return head + "\n\n" + printable(body) + "\n"
}

// printable is a text with a line for each event of a stream, quoted where it is not text.
func printable(body string) string {
	const most = 2000
	if !utf8.ValidString(body) || strings.ContainsFunc(body, func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' }) {
		body = strconv.Quote(body)
	}
	if len(body) > most {
		cut := most
		for !utf8.RuneStart(body[cut]) {
			cut--
		}
		body = fmt.Sprintf("%s… (%d bytes, SHA-256 %x)", body[:cut], len(body), sha256.Sum256([]byte(body)))
	}
	return strings.ReplaceAll(body, "\r", "")
}

// framed is a message of gRPC or of a Connect stream with its prefix.
func framed(payload []byte) string {
	prefix := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(payload)))
	return string(prefix) + string(payload)
}

const (
	modern = "2026-07-28"
)

// call is a method with its parameters, as JSON.
type call struct{ method, params string }

// methods are those of MCP, with parameters that the example service answers, and some that are refused.
func methods() []call {
	return []call{
		{"ping", `{}`},
		{"tools/list", `{}`},
		{"tools/list", `{"cursor":"none"}`},
		{"tools/get", `{"name":"lab.echo"}`},
		{"tools/call", `{"name":"lab_echo","arguments":{"nonce":"n","signed":"-9223372036854775808","unsigned":"18446744073709551615","payload":"AAECAw=="}}`},
		{"tools/call", `{"name":"lab.echo","arguments":{"nonce":"n"}}`},
		{"tools/call", `{"name":"lab_echo","arguments":{"nonse":"n"}}`},
		{"tools/call", `{"name":"lab_echo","arguments":{"signed":"9223372036854775808","payload":"?"}}`},
		{"tools/call", `{"name":"lab_echo"}`},
		{"tools/call", `{"name":"lab_none","arguments":{}}`},
		{"tools/call", `{"name":"lab_relay","arguments":{"items":[{"nonce":"a"},{"nonce":"b"}]}}`},
		{"tools/call", `{"name":"fleet_cancel_order","arguments":{"orderId":"1"}}`},
		{"tools/call", `{"name":"fleet_get_map","arguments":{}}`},
		{"tools/call", `{"name":"fleet_watch_vehicles","arguments":{"rounds":2,"interval":"0s","vehicleIds":["1"]},"_meta":{"progressToken":"p"}}`},
		{"tools/call", `{"name":"fleet_watch_vehicles","arguments":{"rounds":1,"interval":"0s","vehicleIds":["101"]},"_meta":{"progressToken":"p"}}`},
		{"resources/list", `{}`},
		{"resources/templates/list", `{}`},
		{"resources/read", `{"uri":"none://1"}`},
		{"prompts/list", `{}`},
		{"prompts/get", `{"name":"none"}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"none"},"argument":{"name":"a","value":"b"}}`},
		{"tasks/get", `{"taskId":"none"}`},
		{"tasks/cancel", `{"taskId":"none"}`},
		{"logging/setLevel", `{"level":"warning"}`},
		{"skills/list", `{}`},
		{"server/describe", `{}`},
		{"server/discover", `{}`},
		{"no/such", `{}`},
	}
}

// failCodes are those of lab.fail.
func failCodes() []string {
	values := demov1.FailCode(0).Descriptor().Values()
	var out []string
	for i := 1; i < values.Len(); i++ {
		out = append(out, string(values.Get(i).Name()))
	}
	return out
}

// messages are all that is sent, in order.
func messages() []message {
	var out []message
	out = append(out, overJSONRPC()...)
	out = append(out, ofEras()...)
	out = append(out, overConnect()...)
	out = append(out, badRequests()...)
	return numbered(out)
}

// numbered gives messages names of their own.
func numbered(out []message) []message {
	count := map[string]int{}
	for i := range out {
		name := out[i].name
		if count[name]++; count[name] > 1 {
			out[i].name += fmt.Sprintf(", %d", count[name])
		}
	}
	return out
}

func envelope(id string, c call) string {
	return `{"jsonrpc":"2.0","id":"` + id + `","method":"` + c.method + `","params":` + c.params + `}`
}

// fails is a call that fails with a code and two details.
func fails(tool, code string) call {
	return call{"tools/call", `{"name":"` + tool + `","arguments":{"code":"` + code + `","message":"as asked","details":["FAIL_DETAIL_ERROR_INFO","FAIL_DETAIL_RETRY_INFO"]}}`}
}

const (
	asJSON   = "Content-Type: application/json"
	anything = "Accept: application/json, text/event-stream"
)

// canonicalID is one that the canonical dialect takes.
const canonicalID = "0b8cf4d8-8d1c-4c8e-9d6e-3a5a1f6d2c10"

func overJSONRPC() []message {
	var out []message
	for _, c := range methods() {
		out = append(out, message{name: "/rpc " + c.method, method: "POST", path: "/rpc", header: []string{asJSON}, body: envelope(canonicalID, c)})
	}
	for _, code := range failCodes() {
		out = append(out, message{name: "/rpc " + code, method: "POST", path: "/rpc", header: []string{asJSON}, body: envelope(canonicalID, fails("lab.fail", code))})
	}
	ping, none := call{"ping", `{}`}, call{"no/such", `{}`}
	for _, body := range []string{
		`[]`, `[1]`, `[` + envelope("a", ping) + `,` + envelope("b", none) + `]`, `{"jsonrpc":"2.0","method":"ping","params":{}}`, envelope("r", ping),
		`[` + envelope(canonicalID, ping) + `,` + envelope(canonicalID[:35]+"1", none) + `]`, `{"jsonrpc":"2.0","method":"fleet/moved","params":{}}`,
	} {
		out = append(out, message{name: "/rpc message", method: "POST", path: "/rpc", header: []string{asJSON}, body: body})
	}
	return out
}

// modernHeader are the headers of a request of the revision 2026-07-28.
func modernHeader(c call) []string {
	header := []string{asJSON, anything, "MCP-Protocol-Version: " + modern, "Mcp-Method: " + c.method}
	if found := regexp.MustCompile(`"(?:name|uri|taskId)":"([^"]*)"`).FindStringSubmatch(c.params); found != nil && regexp.MustCompile(`^(tools/call|prompts/get|resources/read|tasks/)`).MatchString(c.method) {
		header = append(header, "Mcp-Name: "+found[1])
	}
	return header
}

// ofModern is a call with what that revision wants in every request.
func ofModern(c call) message {
	meta := `"io.modelcontextprotocol/protocolVersion":"` + modern + `","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"wire","version":"1"}`
	params := c.params
	if before, after, ok := strings.Cut(params, `"_meta":{`); ok {
		params = before + `"_meta":{` + meta + `,` + after
	} else if params == `{}` {
		params = `{"_meta":{` + meta + `}}`
	} else {
		params = strings.TrimSuffix(params, "}") + `,"_meta":{` + meta + `}}`
	}
	return message{name: "/mcp " + modern + " " + c.method, method: "POST", path: "/mcp", header: modernHeader(c), body: envelope("m", call{c.method, params})}
}

func ofEras() []message {
	var out []message
	for _, c := range methods() {
		out = append(out, ofModern(c))
	}
	for _, code := range failCodes() {
		m := ofModern(fails("lab_fail", code))
		m.name = "/mcp " + modern + " " + code
		out = append(out, m)
	}
	listen := ofModern(call{"subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`})
	listen.until = "\n\n"
	out = append(out, listen)
	for _, era := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
		header := []string{asJSON, anything}
		out = append(out, message{name: "/mcp " + era + " initialize", method: "POST", path: "/mcp", header: slices.Clone(header),
			body: envelope("i", call{"initialize", `{"protocolVersion":"` + era + `","capabilities":{},"clientInfo":{"name":"wire","version":"1"}}`})})
		header = append(header, "MCP-Protocol-Version: "+era, "Mcp-Session-Id: {session}")
		out = append(out, message{name: "/mcp " + era + " initialized", method: "POST", path: "/mcp", header: slices.Clone(header), body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`})
		for _, c := range methods() {
			out = append(out, message{name: "/mcp " + era + " " + c.method, method: "POST", path: "/mcp", header: slices.Clone(header), body: envelope("l", c)})
		}
		if era == "2025-11-25" {
			for _, code := range failCodes() {
				out = append(out, message{name: "/mcp " + era + " " + code, method: "POST", path: "/mcp", header: slices.Clone(header), body: envelope("l", fails("lab_fail", code))})
			}
		}
		out = append(out, message{name: "/mcp " + era + " end", method: "DELETE", path: "/mcp", header: slices.Clone(header)},
			message{name: "/mcp " + era + " ended", method: "POST", path: "/mcp", header: slices.Clone(header), body: envelope("e", call{"ping", `{}`})})
	}
	return out
}

// overConnect are typed calls, and those of the tool service, over Connect, gRPC-Web and gRPC.
func overConnect() []message {
	var out []message
	for name, body := range map[string]string{
		"CallTool": `{"tool_name":"lab.echo","arguments":{"nonce":"n"}}`, "ListTools": `{}`, "GetTool": `{"name":"lab.echo"}`, "ListResources": `{}`,
		"ListResourceTemplates": `{}`, "ReadResource": `{"uri":"none://1"}`, "ListSkills": `{}`, "GetSkill": `{"name":"none"}`, "ReadDirectory": `{}`,
		"ListPrompts": `{}`, "GetPrompt": `{"name":"none"}`, "Complete": `{}`, "Publish": `{"topic":"a","data":"AA=="}`, "GetTask": `{"task_id":"none"}`,
		"UpdateTask": `{"taskId":"none"}`, "CancelTask": `{"task_id":"none"}`, "Describe": `{}`, "RegisterTool": `{}`, "UnregisterTool": `{"name":"none"}`, "NoSuch": `{}`,
	} {
		out = append(out, message{name: "Connect " + name, method: "POST", path: "/outrigger.v1.ToolService/" + name, header: []string{asJSON, "Connect-Protocol-Version: 1"}, body: body})
	}
	slices.SortFunc(out, func(a, b message) int { return strings.Compare(a.name, b.name) })
	stream := []string{"Content-Type: application/connect+json", "Connect-Protocol-Version: 1"}
	out = append(out,
		message{name: "Connect CallToolStream", method: "POST", path: "/outrigger.v1.ToolService/CallToolStream", header: stream, body: framed([]byte(`{"tool_name":"lab.relay","arguments":{"items":[{"nonce":"a"}]}}`))},
		message{name: "Connect WatchVehicles", method: "POST", path: "/outrigger.demo.v1.Fleet/WatchVehicles", header: stream, body: framed([]byte(`{"rounds":1,"interval":"0s","vehicleIds":["1"]}`))},
		message{name: "Connect GET", method: "GET", path: "/outrigger.demo.v1.Lab/Echo?connect=v1&encoding=json&message=" + base64.RawURLEncoding.EncodeToString([]byte(`{"nonce":"g"}`)) + "&base64=1"},
	)
	echo, err := proto.Marshal(&demov1.EchoRequest{Nonce: "n", Signed: -1, Unsigned: 1 << 63, Payload: []byte{0, 255}})
	if err != nil {
		panic(err)
	}
	typed := func(name, procedure, asked string, binary []byte) {
		path := "/outrigger.demo.v1.Lab/" + procedure
		out = append(out,
			message{name: "Connect JSON " + name, method: "POST", path: path, header: []string{asJSON, "Connect-Protocol-Version: 1"}, body: asked},
			message{name: "Connect " + name, method: "POST", path: path, header: []string{"Content-Type: application/proto", "Connect-Protocol-Version: 1"}, body: string(binary)},
			message{name: "gRPC-Web " + name, method: "POST", path: path, header: []string{"Content-Type: application/grpc-web+proto"}, body: framed(binary)},
			message{name: "gRPC " + name, method: "POST", path: path, header: []string{"Content-Type: application/grpc", "Te: trailers"}, body: framed(binary), grpc: true},
		)
	}
	for _, asked := range []*outriggerv1.Request{
		{Id: &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: canonicalID}}, Method: "ping"},
		{Id: &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: canonicalID}}, Method: "tools/call", ParamsForm: &outriggerv1.Request_ParamsJson{ParamsJson: []byte(`{"name":"lab.echo","arguments":{"nonce":"n"}}`)}},
	} {
		binary, err := proto.Marshal(&outriggerv1.Envelope{Message: &outriggerv1.Envelope_Request{Request: asked}})
		if err != nil {
			panic(err)
		}
		out = append(out, message{name: "gRPC Exchange " + asked.GetMethod(), method: "POST", path: "/outrigger.v1.ToolService/Exchange", header: []string{"Content-Type: application/grpc", "Te: trailers"}, body: framed(binary), grpc: true})
	}
	typed("Echo", "Echo", `{"nonce":"n","signed":"-1","unsigned":"9223372036854775808","payload":"AP8="}`, echo)
	typed("bytes that are no message", "Echo", `{"nonse":"n"}`, []byte{0xff})
	for _, code := range failCodes() {
		value := demov1.FailCode_value[code]
		binary, err := proto.Marshal(&demov1.FailRequest{Code: demov1.FailCode(value), Message: "as asked"})
		if err != nil {
			panic(err)
		}
		typed(code, "Fail", `{"code":"`+code+`","message":"as asked"}`, binary)
	}
	return out
}

// badRequests are refused before they are read, or because of what they are.
func badRequests() []message {
	var out []message
	for _, path := range []string{"/rpc", "/mcp", "/outrigger.v1.ToolService/CallTool", "/outrigger.demo.v1.Lab/Echo"} {
		add := func(name, method, body string, header ...string) {
			out = append(out, message{name: path + " " + name, method: method, path: path, header: header, body: body})
		}
		add("no JSON", "POST", `{`, asJSON, anything)
		add("no UTF-8", "POST", "{\"a\":\"\xff\"}", asJSON, anything)
		add("two members of one name", "POST", `{"jsonrpc":"2.0","jsonrpc":"2.0"}`, asJSON, anything)
		add("too deep", "POST", strings.Repeat("[", 200)+strings.Repeat("]", 200), asJSON, anything)
		add("too large", "POST", `"`+strings.Repeat("x", 70<<10)+`"`, asJSON, anything)
		add("another type", "POST", `{}`, "Content-Type: text/plain", anything)
		add("nothing accepted", "POST", `{}`, asJSON, "Accept: text/html")
		add("PUT", "PUT", `{}`, asJSON)
		add("a page of another origin", "POST", `{}`, asJSON, anything, "Origin: https://elsewhere.example")
		add("an unknown version", "POST", envelope("v", call{"ping", `{}`}), asJSON, anything, "MCP-Protocol-Version: 1999-01-01")
		add("an encoding that there is not", "POST", `{}`, asJSON, anything, "Content-Encoding: none")
	}
	out = append(out, message{name: "nothing there", method: "GET", path: "/nothing"},
		message{name: "/mcp by GET", method: "GET", path: "/mcp", header: []string{"Accept: text/event-stream"}},
		message{name: "/rpc by GET", method: "GET", path: "/rpc"})
	return out
}

// capable is a message of a client that answers questions and follows tasks.
func capable(m message) message {
	const everything = `clientCapabilities":{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{"listChanged":true},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	m.body = strings.Replace(m.body, `clientCapabilities":{}`, everything, 1)
	m.name, m.isWhole = "native "+m.name, true
	return m
}

// answers are those to the questions of the fixture's tools.
const answers = `"inputResponses":{"user_name":{"action":"accept","content":{"name":"Ann"}},"reader":{"action":"accept","content":{"name":"Ann"}},"confirm":{"action":"accept","content":{"ok":true,"confirm":true}},` +
	`"capital_question":{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m"},"client_roots":{"roots":[{"uri":"file:///a"}]}}`

// offered are requests about what the fixture offers.
func offered() []call {
	out := []call{
		{"tools/list", `{}`}, {"resources/list", `{}`}, {"resources/templates/list", `{}`}, {"prompts/list", `{}`}, {"skills/list", `{}`}, {"skills/get", `{"uri":"skill://fixture-guide/SKILL.md"}`},
		{"resources/directory/read", `{"uri":"skill://fixture-guide"}`}, {"resources/directory/read", `{"uri":"skill://none"}`},
	}
	for _, uri := range []string{"test://static-text", "test://static-binary", "test://watched-resource", "test://template/7/data", "test://none", "skill://fixture-guide/reference/tools.md"} {
		out = append(out, call{"resources/read", `{"uri":"` + uri + `"}`})
	}
	for _, prompt := range []string{
		`"name":"test_simple_prompt"`, `"name":"test_prompt_with_image"`, `"name":"test_prompt_with_arguments","arguments":{"arg1":"a","arg2":"b"}`, `"name":"test_prompt_with_arguments"`,
		`"name":"test_prompt_with_embedded_resource","arguments":{"resourceUri":"test://static-text"}`, `"name":"none"`,
	} {
		out = append(out, call{"prompts/get", `{` + prompt + `}`})
	}
	for _, name := range []string{"arg1", "arg3"} {
		out = append(out, call{"completion/complete", `{"ref":{"type":"ref/prompt","name":"test_prompt_with_arguments"},"argument":{"name":"` + name + `","value":"p"}}`})
	}
	for _, tool := range []string{"test_simple_text", "test_image_content", "test_audio_content", "test_embedded_resource", "test_multiple_content_types", "test_error_handling", "test_missing_capability"} {
		out = append(out, call{"tools/call", `{"name":"` + tool + `","arguments":{}}`})
	}
	return append(out,
		call{"tools/call", `{"name":"test_structured_output","arguments":{"value":9007199254740993}}`},
		call{"tools/call", `{"name":"test_structured_output","arguments":{"value":"x"}}`},
		call{"tools/call", `{"name":"test_tool_with_progress","arguments":{},"_meta":{"progressToken":7}}`},
		call{"tools/call", `{"name":"test_tool_with_logging","arguments":{},"_meta":{"io.modelcontextprotocol/logLevel":"info"}}`},
	)
}

// trigger is a call that has the fixture change.
func trigger(what string) *message {
	m := ofModern(call{"tools/call", `{"name":"test_trigger_` + what + `","arguments":{}}`})
	return &m
}

// natives are messages for the fixture, in order: what it offers, dialogues, tasks and changes.
func natives() []message {
	var out []message
	modernly := func(method, params string, change ...func(*message)) {
		m := capable(ofModern(call{method, params}))
		for _, c := range change {
			c(&m)
		}
		out = append(out, m)
	}
	for _, c := range offered() {
		modernly(c.method, c.params)
	}
	modernly("tools/list", `{}`)
	modernly("tools/list", `{"cursor":"{cursor}"}`)
	modernly("prompts/list", `{"cursor":"{cursor}"}`) // that of another list
	for _, tool := range []string{"elicitation", "sampling", "list_roots", "request_state"} {
		name, state := `{"name":"test_input_required_result_`+tool+`","arguments":{}`, ""
		if tool == "request_state" {
			state = `,"requestState":"{requestState}"`
		}
		modernly("tools/call", name+`}`)
		modernly("tools/call", name+`,`+answers+state+`}`)
	}
	modernly("tools/call", `{"name":"test_input_required_result_request_state","arguments":{},`+answers+`,"requestState":"v1.AAAA"}`)
	modernly("resources/read", `{"uri":"test://input-required"}`)
	modernly("resources/read", `{"uri":"test://input-required",`+answers+`,"requestState":"{requestState}"}`)
	about := func(method, more string, change ...func(*message)) {
		modernly(method, `{"taskId":"{taskId}"`+more+`}`, change...)
	}
	until := func(text string) func(*message) { return func(m *message) { m.again = text } }
	modernly("tools/call", `{"name":"slow_compute","arguments":{"seconds":300}}`)
	about("tasks/get", "")
	about("tasks/cancel", "")
	about("tasks/get", "", until(`"status":"cancelled"`))
	modernly("tools/call", `{"name":"failing_job","arguments":{}}`)
	about("tasks/get", "", until(`"status":"completed"`))
	modernly("tools/call", `{"name":"protocol_error_job","arguments":{}}`)
	about("tasks/get", "", until(`"status":"failed"`))
	modernly("tools/call", `{"name":"confirm_delete","arguments":{"filename":"a"}}`)
	about("tasks/get", "", until(`"status":"input_required"`))
	about("tasks/update", `,"inputResponses":{"other":{"action":"decline"}}`)
	about("tasks/update", `,`+answers)
	about("tasks/get", "", until(`"status":"completed"`))
	for _, change := range []struct{ filter, trigger, method string }{
		{`"toolsListChanged":true`, "tool_change", "notifications/tools/list_changed"}, {`"promptsListChanged":true`, "prompt_change", "notifications/prompts/list_changed"},
		{`"resourcesListChanged":true`, "resource_change", "notifications/resources/list_changed"}, {`"resourceSubscriptions":["test://watched-resource"]`, "resource_update", "notifications/resources/updated"},
	} {
		modernly("subscriptions/listen", `{"notifications":{`+change.filter+`}}`, func(m *message) { m.when, m.beside, m.until = "\n\n", trigger(change.trigger), change.method })
	}
	out = append(out, legacyNatives()...)
	for _, c := range []call{
		{"tools/call", `{"name":"test_multiple_content_types","arguments":{}}`}, {"tools/call", `{"name":"test_input_required_result_elicitation","arguments":{}}`},
		{"tools/call", `{"name":"failing_job","arguments":{}}`}, {"tools/call", `{"name":"test_error_handling","arguments":{}}`},
	} {
		out = append(out, message{name: "native /rpc " + c.method, method: "POST", path: "/rpc", header: []string{asJSON}, body: envelope(canonicalID, c)})
	}
	const withTasks = `"context":{"capabilities":{"tasks":true,"elicitation":{"form":true}}}`
	for _, c := range []call{
		{"ListTools", `{}`}, {"ListResources", `{}`}, {"ListResourceTemplates", `{}`}, {"ListPrompts", `{}`}, {"ListSkills", `{}`}, {"GetSkill", `{"uri":"skill://fixture-guide/SKILL.md"}`}, {"ReadDirectory", `{"uri":"skill://fixture-guide"}`},
		{"ReadResource", `{"uri":"test://static-binary"}`}, {"ReadResource", `{"uri":"test://none"}`}, {"GetPrompt", `{"name":"test_prompt_with_arguments","arguments":{"arg1":"a","arg2":"b"}}`},
		{"Complete", `{"prompt":"test_prompt_with_arguments","argument":{"name":"arg1","value":"p"}}`}, {"CallTool", `{"tool_name":"test_multiple_content_types"}`},
		{"CallTool", `{"tool_name":"test_input_required_result_request_state",` + withTasks + `}`}, {"CallTool", `{"tool_name":"slow_compute","arguments":{"seconds":300},` + withTasks + `}`},
		{"GetTask", `{"task_id":"{taskId}",` + withTasks + `}`}, {"CancelTask", `{"task_id":"{taskId}",` + withTasks + `}`}, {"Describe", `{}`},
	} {
		out = append(out, message{name: "native Connect " + c.method, method: "POST", path: "/outrigger.v1.ToolService/" + c.method, header: []string{asJSON, "Connect-Protocol-Version: 1"}, body: c.params})
	}
	return numbered(out)
}

// legacyNatives are a conversation of an older revision, in which the sidecar asks its client while a call runs.
func legacyNatives() []message {
	header := []string{asJSON, anything}
	out := []message{{body: envelope("i", call{"initialize", `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"sampling":{},"roots":{}},"clientInfo":{"name":"wire","version":"1"}}`})}}
	legacy := func(c call) { out = append(out, message{body: envelope("l", c)}) }
	for _, c := range offered() {
		legacy(c)
	}
	for tool, answer := range map[string]string{
		"elicitation": `{"action":"accept","content":{"name":"Ann"}}`, "list_roots": `{"roots":[{"uri":"file:///a"}]}`, "sampling": `{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m"}`,
	} {
		out = append(out, message{
			name: "native legacy " + tool, body: envelope("l", call{"tools/call", `{"name":"test_input_required_result_` + tool + `","arguments":{}}`}), when: `"method":"` + map[string]string{"elicitation": "elicitation/create", "list_roots": "roots/list", "sampling": "sampling/createMessage"}[tool],
			beside: &message{name: "answer", method: "POST", path: "/mcp", header: append(slices.Clone(header), "MCP-Protocol-Version: 2025-11-25", "Mcp-Session-Id: {session}"), body: `{"jsonrpc":"2.0","id":{asked},"result":` + answer + `}`},
		})
	}
	slices.SortFunc(out[len(out)-3:], func(a, b message) int { return strings.Compare(a.name, b.name) })
	legacy(call{"logging/setLevel", `{"level":"debug"}`})
	legacy(call{"tools/call", `{"name":"test_tool_with_logging","arguments":{}}`})
	legacy(call{"resources/subscribe", `{"uri":"test://watched-resource"}`})
	out = append(out, message{name: "native legacy stream", method: "GET", when: "200 OK", beside: trigger("resource_update"), until: "notifications/resources/updated"})
	legacy(call{"resources/unsubscribe", `{"uri":"test://watched-resource"}`})
	out = append(out, message{name: "native legacy end", method: "DELETE"})
	for i := range out {
		m := &out[i]
		m.path, m.isWhole, m.header = "/mcp", true, slices.Clone(header)
		if m.name == "" {
			m.name = "native legacy " + regexp.MustCompile(`"method":"([^"]*)"`).FindStringSubmatch(m.body)[1]
		}
		if m.method == "" {
			m.method = "POST"
		}
		if i > 0 {
			m.header = append(m.header, "MCP-Protocol-Version: 2025-11-25", "Mcp-Session-Id: {session}")
		}
	}
	return out
}

// slowTools has a tool of an RPC that becomes a task, and one that is asked about.
const slowTools = `
demo: true
destructive: confirm
tools: [{method: outrigger.demo.v1.Lab/Sleep, tool: {task_support: optional, task_after: 1ms}}]
`

// slowCalls are the lives of tasks that the sidecar keeps itself, and a consent.
func slowCalls() []message {
	var out []message
	for _, c := range []call{
		{"tools/call", `{"name":"lab_sleep","arguments":{"duration":"25s"}}`}, {"tasks/get", `{"taskId":"{taskId}"}`}, {"tasks/cancel", `{"taskId":"{taskId}"}`}, {"tasks/get", `{"taskId":"{taskId}"}`},
		{"tools/call", `{"name":"lab_sleep","arguments":{"duration":"0.1s"}}`}, {"tasks/get", `{"taskId":"{taskId}"}`},
		{"tools/call", `{"name":"fleet_cancel_order","arguments":{"orderId":"4"}}`},
		{"tools/call", `{"name":"fleet_cancel_order","arguments":{"orderId":"4"},"requestState":"{requestState}","inputResponses":{"outrigger_confirm":{"action":"accept","content":{"confirm":true}}}}`},
	} {
		m := capable(ofModern(c))
		m.name = strings.Replace(m.name, "native", "task", 1)
		if c.method == "tasks/get" && len(out) > 1 {
			m.again = map[bool]string{true: `"status":"cancelled"`, false: `"status":"completed"`}[len(out) < 5]
		}
		out = append(out, m)
	}
	return numbered(out)
}
