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

	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
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
}

// TestWire compares the bytes of every edge with those on record: each method and each error in each era and protocol. The sidecar has a
// fixed clock, fixed ids and the example service.
func TestWire(t *testing.T) {
	t.Parallel()
	s := serve(t, "--demo", "--deterministic", "--max-message-bytes", "64KiB")
	var got strings.Builder
	session := ""
	for _, m := range messages() {
		for i, h := range m.header {
			m.header[i] = strings.ReplaceAll(h, "{session}", session)
		}
		answer := m.raw(t, s.Addr())
		if found := regexp.MustCompile(`(?m)^Mcp-Session-Id: (\S+)`).FindStringSubmatch(answer); found != nil {
			session = found[1]
		}
		fmt.Fprintf(&got, "=== %s\n%s\n%s\n", m.name, m.text(), m.onRecord(answer))
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

// raw sends a message on a new connection, and returns all that comes back.
func (m *message) raw(t *testing.T, addr string) string {
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
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) && answer.Len() > 0 || m.until != "" && strings.Contains(answer.String(), m.until) {
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

// space is what protojson puts between the members of an object, or does not, by chance of the build. So do the prefixes of a stream's
// messages, and their chunks.
var space = regexp.MustCompile(`([,:]) (["{\[0-9tfn-])`)

// onRecord is an answer for the record: without its date, the key of a session and the version of the build, and with a digest in place
// of what is long. protojson's JSON is without its spaces and its lengths.
func (m *message) onRecord(answer string) string {
	head, body, _ := strings.Cut(answer, "\r\n\r\n")
	if strings.Contains(head, "Content-Type: application/connect+json") {
		body = regexp.MustCompile(`(?s)([0-9a-f]+\r\n)?[\x00\x02]\x00.{3}(\{)`).ReplaceAllString(body, "$2")
	}
	if strings.HasPrefix(m.path, "/outrigger.") && strings.Contains(head, "json") {
		body = space.ReplaceAllString(body, "$1$2")
		head = regexp.MustCompile(`(?m)^(Content-Length): .*$`).ReplaceAllString(head, "$1: …\r")
	}
	if ourVersion.MatchString(body) {
		body = ourVersion.ReplaceAllString(body, "$1…")
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
	for i := range out {
		out[i].name = fmt.Sprintf("%03d %s", i+1, out[i].name)
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

func overJSONRPC() []message {
	var out []message
	for _, c := range methods() {
		out = append(out, message{name: "/rpc " + c.method, method: "POST", path: "/rpc", header: []string{asJSON}, body: envelope("r", c)})
	}
	for _, code := range failCodes() {
		out = append(out, message{name: "/rpc " + code, method: "POST", path: "/rpc", header: []string{asJSON}, body: envelope("f", fails("lab.fail", code))})
	}
	for _, body := range []string{`[]`, `[1]`, `[` + envelope("a", call{"ping", `{}`}) + `,` + envelope("b", call{"no/such", `{}`}) + `]`, `{"jsonrpc":"2.0","method":"ping","params":{}}`} {
		out = append(out, message{name: "/rpc batch", method: "POST", path: "/rpc", header: []string{asJSON}, body: body})
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
