// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/encoding/protowire"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// desk is a sidecar before the demo service, and what is sent to it byte by byte.
type desk struct {
	url    string
	client *http.Client
}

func openDesk(t *testing.T, limits jsonrpc.Limits) *desk {
	t.Helper()
	rig := mcptest.Start(t, mcptest.Options{})
	api := connectapi.New(rig.App().Bridge(), rig.Bridge, connectapi.Options{Limits: limits})
	mux := http.NewServeMux()
	api.Mount(mux)
	mux.Handle("/", api.PassThrough(api.NotFound()))
	return &desk{url: mcptest.Serve(t, mux), client: mcptest.Client(t, 2)}
}

func (d *desk) send(t *testing.T, method, path, kind string, body []byte, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, d.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := d.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// text is the whole answer, trailers included.
func (d *desk) text(t *testing.T, method, path, kind string, body []byte, headers ...string) (int, string) {
	t.Helper()
	resp := d.send(t, method, path, kind, body, headers...)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := string(raw)
	for _, h := range []http.Header{resp.Header, resp.Trailer} {
		out += h.Get("Grpc-Message")
		if details := h.Get("Grpc-Status-Details-Bin"); details != "" {
			decoded, err := connect.DecodeBinaryHeader(details)
			if err != nil {
				t.Fatal(err)
			}
			out += "status " + h.Get("Grpc-Status") + " " + string(decoded)
		}
	}
	return resp.StatusCode, out
}

// enveloped is a message of a stream.
func enveloped(body string) []byte {
	out := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body)))
	return append(out, body...)
}

const callTool, callStream, exchangeAll = "/outrigger.v1.ToolService/CallTool", "/outrigger.v1.ToolService/CallToolStream", "/outrigger.v1.ToolService/Exchange"

// A member that the contract does not have is refused with its name and the one that was meant, on every way in; nothing
// runs without it.
func TestUnknownMembersAreRefused(t *testing.T) {
	t.Parallel()
	d := openDesk(t, jsonrpc.Limits{})
	const body = `{"tool_name":"lab.echo","argumnets":{"signed":7}}`
	for name, send := range map[string]func() (int, string){
		"unary": func() (int, string) { return d.text(t, http.MethodPost, callTool, "application/json", []byte(body)) },
		"charset": func() (int, string) {
			return d.text(t, http.MethodPost, callTool, "application/json; charset=utf-8", []byte(body))
		},
		"charset without its hyphen": func() (int, string) {
			return d.text(t, http.MethodPost, callTool, "application/json; charset=utf8", []byte(body))
		},
		"gRPC JSON": func() (int, string) {
			return d.text(t, http.MethodPost, callTool, "application/grpc+json", enveloped(body), "TE", "trailers")
		},
		"gRPC-Web": func() (int, string) {
			return d.text(t, http.MethodPost, callTool, "application/grpc-web+json", enveloped(body))
		},
		"stream": func() (int, string) {
			return d.text(t, http.MethodPost, callStream, "application/connect+json", enveloped(body))
		},
		"web stream": func() (int, string) {
			return d.text(t, http.MethodPost, callStream, "application/grpc-web+json", enveloped(body))
		},
		"exchange": func() (int, string) {
			return d.text(t, http.MethodPost, exchangeAll, "application/connect+json", enveloped(`{"request":{"id":{"text":"a"},"method":"ping","argumnets":{}}}`))
		},
		"below": func() (int, string) {
			return d.text(t, http.MethodPost, callTool, "application/json", []byte(`{"tool_name":"lab.echo","context":{"argumnets":1}}`))
		},
		"GET": func() (int, string) {
			return d.text(t, http.MethodGet, "/outrigger.v1.ToolService/GetTool?connect=v1&encoding=json&message="+url.QueryEscape(`{"tool_nam":"lab.echo"}`), "", nil)
		},
	} {
		status, got := send()
		meant, named := "arguments", "argumnets"
		switch name {
		case "GET":
			meant, named = "tool_name", "tool_nam"
		case "exchange", "below":
			meant = ""
		}
		decoded := unpacked(got)
		if !strings.Contains(decoded, named) || meant != "" && !strings.Contains(decoded, `did you mean`) || strings.Contains(decoded, "signed") ||
			strings.Contains(decoded, `"status":"success"`) {
			t.Errorf("%s: %d %s", name, status, decoded)
		}
		if name == "unary" && (status != http.StatusBadRequest || !strings.Contains(got, "invalid_argument") || !strings.Contains(got, `"reason":"INVALID_PARAMS"`)) {
			t.Errorf("%d %s", status, got)
		}
	}
}

// unpacked adds what base64 in an answer holds, so that its text can be looked for.
func unpacked(text string) string {
	out := text
	for _, piece := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(`"{}[]:, `, r) }) {
		if raw, err := connect.DecodeBinaryHeader(piece); err == nil && len(piece) > 24 {
			out += " " + string(raw)
		}
	}
	return out
}

// Binary has no names: fields that are not known are refused by their numbers, wherever they stand.
func TestUnknownFieldsAreRefused(t *testing.T) {
	t.Parallel()
	d := openDesk(t, jsonrpc.Limits{})
	client := outriggerv1connect.NewToolServiceClient(d.client, d.url, connect.WithGRPC())
	newer := func(in *outriggerv1.ToolCall, into bool) *outriggerv1.ToolCall {
		field := protowire.AppendVarint(protowire.AppendTag(nil, 4711, protowire.VarintType), 1)
		if into {
			in.Context = &outriggerv1.RequestContext{}
			in.Context.ProtoReflect().SetUnknown(field)
		} else {
			in.ProtoReflect().SetUnknown(field)
		}
		return in
	}
	for _, below := range []bool{false, true} {
		_, err := client.CallTool(t.Context(), connect.NewRequest(newer(&outriggerv1.ToolCall{ToolName: "lab.echo"}, below)))
		bad := badRequest(t, err)
		want := map[bool]string{false: "", true: "context"}[below]
		if connect.CodeOf(err) != connect.CodeInvalidArgument || len(bad.GetFieldViolations()) != 1 || bad.GetFieldViolations()[0].GetField() != want ||
			!strings.Contains(bad.GetFieldViolations()[0].GetDescription(), "field number 4711") {
			t.Errorf("%v %v", err, bad)
		}
	}
	stream, err := client.CallToolStream(t.Context(), connect.NewRequest(newer(&outriggerv1.ToolCall{ToolName: "lab.echo"}, false)))
	if err != nil {
		t.Fatal(err)
	}
	for stream.Receive() {
		t.Errorf("event %v", stream.Msg())
	}
	if bad := badRequest(t, stream.Err()); len(bad.GetFieldViolations()) != 1 {
		t.Errorf("%v", stream.Err())
	}
	// One bad envelope is answered, and the stream goes on.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	talk := client.Exchange(ctx)
	defer func() { _, _ = talk.CloseRequest(), talk.CloseResponse() }()
	for i, envelope := range []*outriggerv1.Envelope{
		{Message: &outriggerv1.Envelope_Request{Request: &outriggerv1.Request{Id: &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: "newer"}}, Method: "ping"}}},
		{Message: &outriggerv1.Envelope_Request{Request: &outriggerv1.Request{Id: &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: "plain"}}, Method: "ping"}}},
	} {
		if i == 0 {
			envelope.GetRequest().ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))
		}
		if err := talk.Send(envelope); err != nil {
			t.Fatal(err)
		}
		answer, err := talk.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 && (answer.GetErrorResponse().GetId().GetText() != "newer" || !strings.Contains(string(answer.GetErrorResponse().GetError().GetDataJson()), "field number 99")) ||
			i == 1 && answer.GetSuccessResponse().GetId().GetText() != "plain" {
			t.Errorf("%d: %v", i, answer)
		}
	}
}

func badRequest(t *testing.T, err error) *errdetails.BadRequest {
	t.Helper()
	var failed *connect.Error
	if e, ok := err.(*connect.Error); ok { //nolint:errorlint // that is what the client returns
		failed = e
	} else {
		t.Fatalf("%T: %v", err, err)
	}
	for _, d := range failed.Details() {
		if v, err := d.Value(); err == nil {
			if bad, ok := v.(*errdetails.BadRequest); ok {
				return bad
			}
		}
	}
	t.Fatalf("no BadRequest: %v", err)
	return nil
}

// Numbers in the form for people are what was written, on every way in.
func TestNumbersOfStructsAreExact(t *testing.T) {
	t.Parallel()
	d := openDesk(t, jsonrpc.Limits{})
	const arguments = `{"signed": 9007199254740993, "nonce":"a\u0062\"}"}`
	for name, send := range map[string]func() (int, string){
		"unary": func() (int, string) {
			return d.text(t, http.MethodPost, callTool, "application/json", []byte(`{ "arguments" : `+arguments+` , "tool_name":"lab.echo"}`))
		},
		"stream": func() (int, string) {
			return d.text(t, http.MethodPost, callStream, "application/connect+json", enveloped(`{"tool_name":"lab.echo","arguments":`+arguments+`}`))
		},
		"exchange": func() (int, string) {
			return d.text(t, http.MethodPost, exchangeAll, "application/connect+json", enveloped(`{"request":{"id":{"text":"1"},"method":"tools/call","params":{"name":"lab.echo","arguments":`+arguments+`}}}`))
		},
	} {
		if status, got := send(); !strings.Contains(unpacked(got), `"signed":"9007199254740993"`) || !strings.Contains(unpacked(got), `"nonce":"ab\"}"`) {
			t.Errorf("%s: %d %s", name, status, unpacked(got))
		}
	}
	for body, want := range map[string]string{
		`{"tool_name":"lab.echo","arguments":[1]}`:                                                   "/arguments",
		`{"tool_name":"lab.echo","arguments":{"signed":1},"arguments_json":"e30="}`:                  "arguments_json",
		`{"tool_name":"lab.echo","arguments":{"signed":` + strings.Repeat("7", 100_000) + `}}`:       "/signed",
		`{"tool_name":"lab.echo","arguments":{"signed":1e999}}`:                                      "/signed",
		`{"tool_name":"lab.echo","arguments":{"signed":1,"signed":2}}`:                               "PARSE_ERROR",
		`{"tool_name":"lab.echo","arguments":` + strings.Repeat("[", 100) + strings.Repeat("]", 100): "PARSE_ERROR",
		`{"tool_name":7}`:  "/tool_name",
		`{"tool_name":"l`:  "PARSE_ERROR",
		`[]`:               "INVALID_PARAMS",
		``:                 "The body is empty",
		"\ufeff{}":         "PARSE_ERROR",
		`{"page_size":{}}`: "page_size",
	} {
		start := time.Now()
		status, got := d.text(t, http.MethodPost, callTool, "application/json", []byte(body))
		if status != http.StatusBadRequest || !strings.Contains(unpacked(got), want) || len(got) > 4096 || speaksOfLibraries(unpacked(got)) {
			t.Errorf("%.60s: %d %.600s", body, status, unpacked(got))
		}
		if took := time.Since(start); took > testkit.Limit() { // it takes a moment, or hours
			t.Errorf("%.60s: took %v", body, took)
		}
	}
	if status, got := d.text(t, http.MethodPost, callTool, "application/json", []byte(`{"tool_name":"lab.echo","arguments":null}`)); status != http.StatusOK {
		t.Errorf("null: %d %s", status, got)
	}
}

// speaksOfLibraries finds the words of protojson, of Connect and of Go.
func speaksOfLibraries(text string) bool {
	for _, words := range []string{"proto:", "protojson", "unmarshal", "larger than configured", "unexpected EOF", "decompress:", "protocol error", "promised", "gzip:", "syntax error"} {
		if strings.Contains(strings.ToLower(text), words) {
			return true
		}
	}
	return false
}

// Many unknown members cost time in proportion to their bytes, and the answer is short. In the square, eight times as many would take 64 times as long.
func TestManyUnknownMembersAreCheap(t *testing.T) {
	t.Parallel()
	d := openDesk(t, jsonrpc.Limits{MaxBytes: 10 << 20})
	shortest := func(size int) time.Duration {
		var body bytes.Buffer
		body.WriteString(`{"tool_name":"lab.echo"`)
		for i := 0; body.Len() < size; i++ {
			fmt.Fprintf(&body, `,"argument%d":1`, i)
		}
		body.WriteString(`}`)
		took := time.Duration(math.MaxInt64)
		for range 3 {
			start := time.Now()
			status, got := d.text(t, http.MethodPost, callTool, "application/json", body.Bytes())
			took = min(took, time.Since(start))
			if status != http.StatusBadRequest || len(got) > 16<<10 || !strings.Contains(got, "INVALID_PARAMS") {
				t.Fatalf("%d bytes: %d, %d bytes: %.300s", size, status, len(got), got)
			}
		}
		return took
	}
	var few, many time.Duration
	for range 5 { // other processes may take the CPU from one of the two
		few, many = shortest(1<<20), shortest(8<<20)
		if many < 24*few {
			return
		}
	}
	t.Errorf("eight times the members took %v in place of %v", many, few)
}

// A body that is cut short is refused by the library, too, although the head of its request is in order.
func TestABodyCutShortIsACanonicalError(t *testing.T) {
	t.Parallel()
	d := openDesk(t, jsonrpc.Limits{})
	for _, path := range []string{callTool, "/outrigger.v1.ToolService/ListTools", "/outrigger.demo.v1.Lab/Echo"} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(d.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{", path)
		if tcp, ok := conn.(*net.TCPConn); !ok || tcp.CloseWrite() != nil {
			t.Fatal("the connection has no half")
		}
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.Contains(string(answer), `"outrigger.v1.ErrorDetail"`) {
			t.Errorf("%s: %v, %s", path, err, answer)
		}
	}
}

// What the library refuses by itself has canonical details and none of its words.
func TestErrorsOfFramingAreCanonical(t *testing.T) {
	t.Parallel()
	d := openDesk(t, jsonrpc.Limits{MaxBytes: 4096})
	const typed = "/outrigger.demo.v1.Lab/Echo"
	large := []byte(`{"tool_name":"` + strings.Repeat("x", 8192) + `"}`)
	broken := binary.BigEndian.AppendUint32([]byte{0}, 100)
	for name, tt := range map[string]struct {
		path, kind string
		body       []byte
		headers    []string
		reason     string
	}{
		"too large":                     {callTool, "application/json", large, nil, "PAYLOAD_TOO_LARGE"},
		"too large, binary":             {callTool, "application/proto", large, nil, "PAYLOAD_TOO_LARGE"},
		"too large, typed":              {typed, "application/json", large, nil, "PAYLOAD_TOO_LARGE"},
		"too large, gRPC":               {callTool, "application/grpc+proto", enveloped(string(large)), []string{"TE", "trailers"}, "PAYLOAD_TOO_LARGE"},
		"too large, typed gRPC":         {typed, "application/grpc", enveloped(string(large)), []string{"TE", "trailers"}, "PAYLOAD_TOO_LARGE"},
		"too large, gRPC-Web":           {callTool, "application/grpc-web+proto", enveloped(string(large)), nil, "PAYLOAD_TOO_LARGE"},
		"too large, stream":             {callStream, "application/connect+json", enveloped(string(large)), nil, "PAYLOAD_TOO_LARGE"},
		"too large, gRPC stream":        {callStream, "application/grpc+json", enveloped(string(large)), []string{"TE", "trailers"}, "PAYLOAD_TOO_LARGE"},
		"not gzip":                      {callTool, "application/json", []byte("{}"), []string{"Content-Encoding", "gzip"}, "PARSE_ERROR"},
		"not gzip, typed":               {typed, "application/proto", []byte("{}"), []string{"Content-Encoding", "gzip"}, "PARSE_ERROR"},
		"unknown compression":           {callTool, "application/json", []byte("{}"), []string{"Content-Encoding", "br"}, "INVALID_ENVELOPE"},
		"unknown compression, stream":   {callStream, "application/connect+json", enveloped("{}"), []string{"Connect-Content-Encoding", "br"}, "PARSE_ERROR"},
		"unknown compression, gRPC":     {callTool, "application/grpc", enveloped(""), []string{"Grpc-Encoding", "br", "TE", "trailers"}, "INVALID_ENVELOPE"},
		"incomplete envelope":           {callStream, "application/connect+json", broken, nil, "PARSE_ERROR"},
		"incomplete envelope, gRPC":     {callTool, "application/grpc", broken, []string{"TE", "trailers"}, "PARSE_ERROR"},
		"incomplete envelope, gRPC-Web": {typed, "application/grpc-web", broken, nil, "PARSE_ERROR"},
		"no message, gRPC":              {callTool, "application/grpc", nil, []string{"TE", "trailers"}, "INVALID_ENVELOPE"},
		"garbage":                       {callTool, "application/proto", []byte{0xff, 0xff}, nil, "PARSE_ERROR"},
		"garbage, gRPC":                 {callTool, "application/grpc", enveloped("\xff\xff"), []string{"TE", "trailers"}, "PARSE_ERROR"},
		"garbage, stream":               {callStream, "application/connect+proto", enveloped("\xff\xff"), nil, "PARSE_ERROR"},
		"unknown codec":                 {callTool, "application/xml", []byte("<a/>"), nil, "UNSUPPORTED_MEDIA_TYPE"},
		"unknown codec, gRPC":           {callTool, "application/grpc+xml", enveloped("<a/>"), []string{"TE", "trailers"}, "UNSUPPORTED_MEDIA_TYPE"},
		"bad timeout":                   {callTool, "application/json", []byte("{}"), []string{"Connect-Timeout-Ms", "soon"}, "PARSE_ERROR"},
		"bad timeout, typed":            {typed, "application/json", []byte("{}"), []string{"Connect-Timeout-Ms", "soon"}, "PARSE_ERROR"},
		"unknown version":               {callTool, "application/json", []byte("{}"), []string{"Connect-Protocol-Version", "2"}, "PARSE_ERROR"},
	} {
		status, got := d.text(t, http.MethodPost, tt.path, tt.kind, tt.body, tt.headers...)
		if !strings.Contains(got, tt.reason) || speaksOfLibraries(unpacked(got)) {
			t.Errorf("%s: %d %.500s", name, status, unpacked(got))
		}
	}
	for name, query := range map[string]string{
		"no message": "connect=v1&encoding=json", "bad base64": "connect=v1&encoding=json&base64=1&message=*", "unknown encoding": "connect=v1&encoding=xml&message=a",
		"unknown compression": "connect=v1&encoding=json&message=a&compression=br",
	} {
		status, got := d.text(t, http.MethodGet, "/outrigger.v1.ToolService/GetTool?"+query, "", nil)
		if !json.Valid([]byte(got)) || !strings.Contains(got, "ErrorInfo") && !strings.Contains(got, "UNSUPPORTED_MEDIA_TYPE") || speaksOfLibraries(unpacked(got)) {
			t.Errorf("GET, %s: %d %s", name, status, got)
		}
	}
	if status, got := d.text(t, http.MethodDelete, callTool, "", nil); status != http.StatusMethodNotAllowed || !strings.Contains(got, "METHOD_NOT_ALLOWED") {
		t.Errorf("%d %s", status, got)
	}
}
