// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/metadata"
)

// Paths of the calls below.
const (
	callPath = "/outrigger.v1.ToolService/CallTool"
	echoPath = "/outrigger.demo.v1.Lab/Echo"
)

// prefixed is a message of gRPC.
func prefixed(flag byte, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(message))), message...)
}

func zipped(raw []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(raw)
	_ = w.Close()
	return out.Bytes()
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// sent is a request as it stands on the wire.
type sent struct {
	path   string
	header map[string]string
	body   []byte
	// open leaves the length of the body unsaid.
	open bool
}

func (s sent) with(name, value string) sent {
	s.header = maps.Clone(s.header)
	s.header[name] = value
	return s
}

// plainRows are requests that are plain, and those that nearly are.
func plainRows(t testing.TB) map[string]sent {
	t.Helper()
	call := func(nonce string) *outriggerv1.ToolCall {
		return toolCall("lab.echo", `{"nonce":"`+nonce+`","signed":"-1"}`)
	}
	grpc := func(path string, body []byte) sent {
		return sent{path: path, header: map[string]string{"Content-Type": "application/grpc", "Te": "trailers"}, body: body}
	}
	rpc := func(path, kind string, body []byte) sent {
		return sent{path: path, header: map[string]string{"Content-Type": kind, "Connect-Protocol-Version": "1"}, body: body}
	}
	echo := func(nonce string) []byte {
		return marshal(t, &demov1.EchoRequest{Nonce: nonce, Payload: []byte("\x00\xff")})
	}
	whole := prefixed(0, marshal(t, call("n")))
	rows := map[string]sent{}
	for _, nonce := range []string{"n", "fail", "status", "limited", "metadata", "panic", "slow", strings.Repeat("long ", 3000), strings.Repeat("longer ", 20_000)} {
		name := nonce[:min(len(nonce), 12)]
		rows["gRPC "+name] = grpc(callPath, prefixed(0, marshal(t, call(nonce))))
		rows["typed gRPC "+name] = grpc(echoPath, prefixed(0, echo(nonce)))
		rows["Connect "+name] = rpc(callPath, "application/proto", marshal(t, call(nonce)))
		rows["Connect JSON "+name] = rpc(callPath, "application/json", []byte(`{"tool_name":"lab.echo","arguments":{"nonce":"`+nonce+`","signed":"-1"}}`))
		rows["typed Connect "+name] = rpc(echoPath, "application/proto", echo(nonce))
		rows["typed Connect JSON "+name] = rpc(echoPath, "application/json", []byte(`{"nonce":"`+nonce+`"}`))
	}
	for name, body := range map[string][]byte{
		"no message": nil, "half a prefix": whole[:3], "half a message": whole[:len(whole)-2], "two messages": append(bytes.Clone(whole), whole...),
		"a byte too many": append(bytes.Clone(whole), 0), "an empty message": prefixed(0, nil), "an odd flag": prefixed(2, marshal(t, call("n"))),
		"compressed, unsaid": prefixed(1, zipped(marshal(t, call("n")))), "a length that is a lie": {0, 0xff, 0xff, 0xff, 0xff, 1},
		"no Protobuf": prefixed(0, []byte("\xff\xff")), "an unknown field": prefixed(0, append(marshal(t, call("n")), 0xa2, 0x06, 1, 'x')),
		"over the limit": prefixed(0, marshal(t, call(strings.Repeat("x", 200_000)))), "a name twice": prefixed(0, append(marshal(t, call("n")), 0x0a, 1, 'x')),
		"no name": prefixed(0, marshal(t, toolCall("", "{}"))), "a bad name": prefixed(0, marshal(t, toolCall("no such/tool", "{}"))),
		"no such tool": prefixed(0, marshal(t, toolCall("no.such_tool", "{}"))), "no JSON": prefixed(0, marshal(t, toolCall("lab.echo", "{"))),
		"no object": prefixed(0, marshal(t, toolCall("lab.echo", "[]"))), "null": prefixed(0, marshal(t, toolCall("lab.echo", "null"))),
		"a version": prefixed(0, marshal(t, &outriggerv1.ToolCall{ToolName: "lab.echo", Version: "^9"})),
		"meta":      prefixed(0, marshal(t, &outriggerv1.ToolCall{ToolName: "lab.echo", MetaForm: &outriggerv1.ToolCall_MetaJson{MetaJson: []byte(`{"traceparent":"x"}`)}})),
	} {
		rows["gRPC, "+name] = grpc(callPath, body)
		rows["typed gRPC, "+name] = grpc(echoPath, body)
	}
	for name, body := range map[string]string{
		"empty": "", "no JSON": "{", "not an object": "[]", "null": "null", "an unknown member": `{"tool_name":"lab.echo","x":1}`, "no name": `{"arguments":{}}`,
		"a name twice": `{"tool_name":"lab.echo","tool_name":"lab.echo"}`, "an escape in the name": `{"tool_name":"lab\u002eecho","arguments":{}}`, "a name that is null": `{"tool_name":null}`,
		"arguments that are none": `{"tool_name":"lab.echo","arguments":3}`, "arguments as bytes": `{"tool_name":"lab.echo","arguments_json":"e30="}`,
		"space": " {\n\"tool_name\" : \"lab.echo\" , \"arguments\" : { } } ", "a bad name": `{"tool_name":"a b"}`, "a version": `{"tool_name":"lab.echo","version":"^9"}`,
		"depth": `{"tool_name":"lab.echo","arguments":` + strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 201), "broken UTF-8": "{\"tool_name\":\"lab.echo\",\"arguments\":{\"nonce\":\"\xff\"}}",
		"trailing text": `{"tool_name":"lab.echo"} x`, "meta": `{"tool_name":"lab.echo","meta":{"a":1}}`, "arguments null": `{"tool_name":"lab.echo","arguments":null}`,
	} {
		rows["Connect JSON, "+name] = rpc(callPath, "application/json", []byte(body))
		rows["typed Connect JSON, "+name] = rpc(echoPath, "application/json", []byte(body))
		rows["Connect, "+name] = rpc(callPath, "application/proto", []byte(body))
	}
	plain, unary := grpc(callPath, whole), rpc(callPath, "application/json", []byte(`{"tool_name":"lab.echo"}`))
	for name, change := range map[string][2]string{
		"gzip": {"Grpc-Encoding", "gzip"}, "identity": {"Grpc-Encoding", "identity"}, "snappy": {"Grpc-Encoding", "snappy"}, "accepts gzip": {"Grpc-Accept-Encoding", "identity,gzip"},
		"zstd": {"Grpc-Encoding", "zstd"}, "accepts zstd": {"Grpc-Accept-Encoding", "identity,zstd"}, "accepts both": {"Grpc-Accept-Encoding", "zstd,gzip"},
		"accepts others": {"Grpc-Accept-Encoding", "identity, br"}, "+proto": {"Content-Type", "application/grpc+proto"}, "+json": {"Content-Type", "application/grpc+json"},
		"+thrift": {"Content-Type", "application/grpc+thrift"}, "web": {"Content-Type", "application/grpc-web"}, "upper case": {"Content-Type", "Application/GRPC"},
		"a parameter": {"Content-Type", "application/grpc; a=b"}, "no type": {"Content-Type", ""}, "binary metadata": {"X-Tenant-Bin", "AP8"}, "metadata": {"X-Tenant", "blue"},
		"10 s": {"Grpc-Timeout", "10S"}, "no unit": {"Grpc-Timeout", "10"}, "nine digits": {"Grpc-Timeout", "123456789n"}, "no time": {"Grpc-Timeout", "0n"}, "many hours": {"Grpc-Timeout", "99999999H"},
		"less than none": {"Grpc-Timeout", "-1S"}, "plus": {"Grpc-Timeout", "+1S"}, "an empty timeout": {"Grpc-Timeout", ""},
	} {
		rows["gRPC, "+name] = plain.with(change[0], change[1])
	}
	rows["gRPC, zipped"] = grpc(callPath, prefixed(1, zipped(marshal(t, call("n"))))).with("Grpc-Encoding", "gzip")
	rows["gRPC, zstd"] = grpc(callPath, prefixed(1, zstandard(t, marshal(t, call("n"))))).with("Grpc-Encoding", "zstd")
	rows["gRPC over HTTP/1.1"] = plain.with("over", "1")
	for name, change := range map[string][2]string{
		"gzip": {"Content-Encoding", "gzip"}, "identity": {"Content-Encoding", "identity"}, "br": {"Content-Encoding", "br"}, "accepts gzip": {"Accept-Encoding", "gzip"},
		"zstd": {"Content-Encoding", "zstd"}, "accepts zstd": {"Accept-Encoding", "zstd"}, "accepts what browsers do": {"Accept-Encoding", "gzip, deflate, br, zstd"}, "charset": {"Content-Type", "application/json; charset=utf-8"},
		"another charset": {"Content-Type", "application/json; charset=latin1"}, "another version": {"Connect-Protocol-Version", "2"}, "no version": {"Connect-Protocol-Version", ""},
		"10 s": {"Connect-Timeout-Ms", "10000"}, "no time": {"Connect-Timeout-Ms", "0"}, "eleven digits": {"Connect-Timeout-Ms", "12345678901"}, "no number": {"Connect-Timeout-Ms", "x"}, "text": {"Content-Type", "text/plain"},
	} {
		rows["Connect JSON, "+name] = unary.with(change[0], change[1])
	}
	rows["Connect JSON, zipped"] = rpc(callPath, "application/json", zipped([]byte(`{"tool_name":"lab.echo"}`))).with("Content-Encoding", "gzip")
	rows["Connect JSON, zstd"] = rpc(callPath, "application/json", zstandard(t, []byte(`{"tool_name":"lab.echo"}`))).with("Content-Encoding", "zstd")
	rows["Connect JSON, chunked"] = sent{path: callPath, header: unary.header, body: unary.body, open: true}
	rows["a streaming tool"] = grpc("/outrigger.demo.v1.Lab/Count", prefixed(0, nil))
	rows["no such method"] = grpc("/outrigger.v1.ToolService/Nothing", whole)
	rows["no such service"] = grpc("/no.such.Service/CallTool", whole)
	return rows
}

// scripted is a backend that does what a nonce says, and tells what it saw.
type scripted struct {
	mu   sync.Mutex
	seen []string
}

func (s *scripted) call(ctx context.Context, m *catalog.Method, in []byte, header http.Header) (*bridge.Answer, *errmap.Error) {
	var req demov1.EchoRequest
	_ = proto.Unmarshal(in, &req)
	_, timed := ctx.Deadline()
	s.mu.Lock()
	s.seen = append(s.seen, fmt.Sprint(m.Descriptor.FullName(), timed, header, in))
	s.mu.Unlock()
	switch req.GetNonce() {
	case "fail":
		return nil, errmap.New(errmap.ResourceNotFound, errmap.Message("nothing: 100 % of \u00e9 and \n"), errmap.RetryAfter(time.Second))
	case "status":
		return nil, &errmap.Error{Code: errmap.ToolExecutionFailed, Message: "odd", BackendStatus: 77}
	case "limited":
		return nil, errmap.New(errmap.RateLimited, errmap.RetryAfter(2*time.Second))
	case "panic":
		panic("on purpose")
	case "metadata":
		return &bridge.Answer{Body: in, Header: http.Header{"X-Reply-H": {"1", "2"}, "Content-Type": {"odd"}, "X-Reply-Bin": {"AP8"}}, Trailer: http.Header{"X-Reply-T": {"3"}, "Grpc-Status": {"9"}}}, nil
	case "slow":
		time.Sleep(5 * time.Millisecond)
	}
	return &bridge.Answer{Body: in}, nil
}

// received is an answer as it stands on the wire.
type received struct {
	Status          int
	Header, Trailer http.Header
	Body            any
	Backend         []string
	Failed          bool
}

func (s *scripted) ask(t *testing.T, url string, what sent) received {
	t.Helper()
	version := 2
	if what.header["over"] == "1" {
		version = 1
	}
	body := io.Reader(bytes.NewReader(what.body))
	if what.open {
		body = io.MultiReader(body)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+what.path, body)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range what.header {
		r.Header.Set(name, value)
	}
	s.mu.Lock()
	s.seen = nil
	s.mu.Unlock()
	res, err := mcptest.Client(t, version).Do(r)
	if err != nil {
		return received{Failed: true}
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	out := received{Status: res.StatusCode, Header: res.Header, Trailer: res.Trailer, Body: string(raw), Failed: err != nil}
	var decoded any
	if json.Unmarshal(raw, &decoded) == nil {
		out.Body = withoutBytes(decoded) // protojson varies its spaces
	}
	readDetails(out.Trailer)
	out.Header.Del("Date")
	out.Header.Del("Content-Length")
	s.mu.Lock()
	out.Backend = slices.Clone(s.seen)
	s.mu.Unlock()
	return out
}

// withoutBytes leaves details in their readable form alone: the order within maps varies in
// Protobuf.
func withoutBytes(doc any) any {
	shown, _ := doc.(map[string]any)
	details, _ := shown["details"].([]any)
	for _, d := range details {
		if one, ok := d.(map[string]any); ok && one["debug"] != nil {
			delete(one, "value")
		}
	}
	return doc
}

// readDetails does the same for the details of gRPC.
func readDetails(trailer http.Header) {
	for i, text := range trailer["Grpc-Status-Details-Bin"] {
		raw, err := base64.RawStdEncoding.DecodeString(text)
		var status statuspb.Status
		if err == nil && proto.Unmarshal(raw, &status) == nil {
			shown, _ := json.Marshal(json.RawMessage(protojson.Format(&status)))
			trailer["Grpc-Status-Details-Bin"][i] = string(shown)
		}
	}
}

// TestPlainCallsAreAnsweredAsByTheLibrary asks the same of the edge with and without its
// own reading of plain calls.
func TestPlainCallsAreAnsweredAsByTheLibrary(t *testing.T) {
	t.Parallel()
	rules, err := metadata.NewRules([]string{"x-tenant", "x-tenant-bin", "host"}, []string{"x-reply-*", "content-type", "grpc-status"})
	if err != nil {
		rules, err = metadata.NewRules([]string{"x-tenant", "x-tenant-bin"}, []string{"x-reply-*"})
	}
	if err != nil {
		t.Fatal(err)
	}
	backend := &scripted{}
	b := dialect.New(bridge.New(mcptest.Memory(t), mcptest.Upstream(backend.call), correlate.New(correlate.Options{}), bridge.Options{Metadata: rules}), dialect.Options{})
	s := connectapi.New(b, connectapi.Options{Limits: jsonrpc.Limits{MaxBytes: 150_000}})
	library := mcptest.Serve(t, s.Library())
	own := mcptest.Serve(t, s.Root(s.PassThrough(s.NotFound())))
	for name, row := range plainRows(t) {
		t.Run(name, func(t *testing.T) {
			want, got := backend.ask(t, library, row), backend.ask(t, own, row)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-library +own\n%s", diff)
			}
		})
	}
}
