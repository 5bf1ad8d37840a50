// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

func echoing(t testing.TB) *connectapi.Service {
	t.Helper()
	return connectapi.New(dialect.New(bridge.New(mcptest.Memory(t), mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{}), connectapi.Options{})
}

// plainRequest is one that needs no library.
func plainRequest(t testing.TB, kind string, body []byte) *http.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, callPath, bytes.NewReader(body))
	r.Header.Set("Content-Type", kind)
	r.Proto, r.ProtoMajor = "HTTP/2.0", 2
	return r
}

// TestPlainCallsDoWithoutTheLibrary: otherwise comparing the two would show nothing.
func TestPlainCallsDoWithoutTheLibrary(t *testing.T) {
	t.Parallel()
	called := false
	handler := echoing(t).PlainTool(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
	call := marshal(t, toolCall("lab.echo", `{"nonce":"n"}`))
	for kind, body := range map[string][]byte{
		"application/grpc": prefixed(0, call), "application/grpc+proto": prefixed(0, call), "application/proto": call,
		"application/json": []byte(`{"tool_name":"lab.echo","arguments":{"nonce":"n"}}`),
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, plainRequest(t, kind, body))
		if called || w.Body.Len() == 0 {
			t.Errorf("%s: left to the library %t, answered %q", kind, called, w.Body)
		}
	}
	handler.ServeHTTP(httptest.NewRecorder(), plainRequest(t, "application/grpc", append(prefixed(0, call), 0)))
	if !called {
		t.Error("what is not plain is not left to the library")
	}
}

// BenchmarkPlainCall is one plain call with its handler and without its sockets.
func BenchmarkPlainCall(b *testing.B) {
	service := echoing(b)
	call := prefixed(0, marshal(b, toolCall("lab.echo", `{"nonce":"n","signed":"-1"}`)))
	for name, handler := range map[string]http.Handler{"own": service.PlainTool(http.NotFoundHandler()), "library": service.Library()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, plainRequest(b, "application/grpc", call))
				if w.Body.Len() < 10 {
					b.Fatal(w.Body)
				}
			}
		})
	}
}

// A ToolCall that is read as a short one is what the codecs read, and keeps the rules.
func FuzzShortCall(f *testing.F) {
	service := echoing(f)
	for _, call := range []*outriggerv1.ToolCall{
		toolCall("lab.echo", `{"nonce":"n"}`), toolCall("a b", "{}"), toolCall(strings.Repeat("n", 257), "{}"), {ToolName: "lab.echo"}, {ToolName: "lab.echo", Version: "1"},
	} {
		f.Add(marshal(f, call), false)
		shown, err := protojson.Marshal(call)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(shown, true)
	}
	f.Add([]byte(` {"tool_name" : "lab.echo", "arguments": {"a" : [1 , 2]} } `), true)
	f.Add([]byte(`{"tool_name":"lab.echo","arguments":{}}`), true)
	f.Fuzz(func(t *testing.T, body []byte, isJSON bool) {
		short := connectapi.ReadShort(body, isJSON, jsonrpc.Limits{}.WithDefaults())
		if short == nil {
			return
		}
		long, err := service.ReadLong(body, isJSON)
		if err != nil {
			t.Fatalf("%q is refused: %v", body, err)
		}
		if diff := cmp.Diff(long, short, protocmp.Transform()); diff != "" {
			t.Errorf("%q: -long +short\n%s", body, diff)
		}
	})
}

// TestOutcomes: what is written by hand is what the codecs write.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for name, resp := range map[string]*bridge.Response{
		"data":          {Result: bridge.Payload{Bytes: []byte(`{"a":"\u00e9\n"}`)}},
		"much data":     {Result: bridge.Payload{Bytes: bytes.Repeat([]byte("x"), 100_000)}},
		"no data":       {},
		"empty":         {Result: bridge.Payload{Bytes: []byte{}}},
		"truncated":     {Truncated: true, Result: bridge.Payload{Bytes: []byte("[]")}},
		"an outcome":    {Outcome: &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Task{Task: &outriggerv1.Task{TaskId: "t"}}}},
		"with a reason": {Explanation: "why", Result: bridge.Payload{Bytes: []byte("1")}},
	} {
		raw, err := connectapi.AppendOutcome([]byte("before"), resp, false)
		if want := append([]byte("before"), marshal(t, resp.ToolOutcome())...); err != nil || !bytes.Equal(raw, want) {
			t.Errorf("%s: %q, %v; want %q", name, raw, err, want)
		}
		shown, err := connectapi.AppendOutcome(nil, resp, true)
		var got outriggerv1.ToolOutcome
		if err != nil || !json.Valid(shown) || protojson.Unmarshal(shown, &got) != nil || !proto.Equal(&got, resp.ToolOutcome()) {
			t.Errorf("%s: %s, %v", name, shown, err)
		}
	}
}

// A gRPC body that is read as one message is one, whatever the pieces in which it comes, and
// of any other nothing is lost.
func FuzzPrefixedMessage(f *testing.F) {
	f.Add(prefixed(0, []byte("message")), false)
	f.Add(prefixed(1, []byte("message")), true)
	f.Add(append(prefixed(0, nil), 0), true)
	f.Add([]byte{0, 0, 0}, false)
	f.Add(prefixed(0, make([]byte, 2000)), true)
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff}, false)
	f.Fuzz(func(t *testing.T, body []byte, inPieces bool) {
		const most = 1500
		whole := bytes.NewReader(body)
		from := io.Reader(whole)
		if inPieces {
			from = iotest.OneByteReader(from)
		}
		message, consumed, err := connectapi.ReadPrefixed(from, most)
		isOne := len(body) >= 5 && body[0] == 0 && int64(binary.BigEndian.Uint32(body[1:])) == int64(len(body)-5) && len(body)-5 <= most
		if isOne != (message != nil) {
			t.Fatalf("%q: is one message %t, read %q", body, isOne, message)
		}
		if isOne {
			if !bytes.Equal(message, body[5:]) {
				t.Errorf("%q is read as %q", body, message)
			}
			return
		}
		rest, _ := io.ReadAll(whole)
		if !bytes.Equal(append(bytes.Clone(consumed), rest...), body) {
			t.Errorf("%q is %q and %q afterwards", body, consumed, rest)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
}

// TestTimeouts: what is not of the protocol is left to the library.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	const none = time.Duration(-1)
	for text, want := range map[string]time.Duration{
		"1n": 1, "10u": 10 * time.Microsecond, "5m": 5 * time.Millisecond, "99999999S": 99_999_999 * time.Second, "1M": time.Minute, "2H": 2 * time.Hour,
		"": none, "S": none, "1": none, "1s": none, "-1S": none, "+1S": none, "123456789n": none, "99999999H": none, "1.5S": none, "1S\n": none, "0S": 0,
	} {
		if got, ok := connectapi.GRPCTimeout(text); ok != (want != none) || ok && got != want {
			t.Errorf("grpc-timeout %q: %v, %t", text, got, ok)
		}
	}
	for text, want := range map[string]time.Duration{
		"1": time.Millisecond, "9999999999": 9_999_999_999 * time.Millisecond, "0": 0, "": none, "12345678901": none, "-1": none, "+1": none, "x": none,
	} {
		if got, ok := connectapi.ConnectTimeout(text); ok != (want != none) || ok && got != want {
			t.Errorf("connect-timeout-ms %q: %v, %t", text, got, ok)
		}
	}
}

// TestAHeaderOfTheProtocolThatIsRefusedIsNamed, on calls of every protocol and on streams.
func TestAHeaderOfTheProtocolThatIsRefusedIsNamed(t *testing.T) {
	t.Parallel()
	service := echoing(t)
	url := mcptest.Serve(t, service.Root(service.PassThrough(service.NotFound())))
	frame := []byte{0, 0, 0, 0, 0}
	for _, tc := range []struct{ path, contentType, header, value string }{
		{callPath, "application/grpc", "Grpc-Timeout", "5x"},
		{callPath, "application/grpc", "Grpc-Timeout", "123456789n"},
		{callPath, "application/grpc", "Grpc-Timeout", "S"},
		{callPath, "application/grpc-web", "Grpc-Timeout", "-1S"},
		{"/outrigger.demo.v1.Lab/Echo", "application/grpc", "Grpc-Timeout", "5x"},
		{"/outrigger.demo.v1.Lab/Relay", "application/grpc", "Grpc-Timeout", "soon"},
		{callPath, "application/json", "Connect-Timeout-Ms", "soon"},
		{callPath, "application/json", "Connect-Protocol-Version", "2"},
		{"/outrigger.demo.v1.Lab/Relay", "application/connect+proto", "Connect-Timeout-Ms", "12345678901"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+tc.path, bytes.NewReader(frame))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", tc.contentType)
		r.Header.Set(tc.header, tc.value)
		res, err := mcptest.Client(t, 2).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		told := string(raw) + res.Header.Get("Grpc-Message") + res.Trailer.Get("Grpc-Message")
		if err != nil || !strings.Contains(told, "the header "+tc.header+" is ") || !strings.Contains(told, tc.value) {
			t.Errorf("%s, %s %s: %v, %d %q", tc.contentType, tc.header, tc.value, err, res.StatusCode, told)
		}
	}
}

// TestOrdinaryPathsAreThoseOfTheMux: what is found in a map is what the mux would find.
func TestOrdinaryPathsAreThoseOfTheMux(t *testing.T) {
	t.Parallel()
	service := echoing(t)
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	mux := http.NewServeMux()
	service.Mount(mux)
	mux.Handle("/", next)
	root := service.Root(next)
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodConnect} {
		for _, path := range []string{
			callPath, "/outrigger.v1.ToolService/Nothing", "/outrigger.v1.ToolService/", "/outrigger.v1.ToolService", "/outrigger.v1.ToolService/a/b", "/grpc.health.v1.Health/Check",
			"/outrigger.v1.ToolService/..", "/outrigger.v1.ToolService/.", "//outrigger.v1.ToolService/CallTool", "/a/../outrigger.v1.ToolService/CallTool", "/outrigger.v1.ToolService/%43allTool",
			"/outrigger%2Ev1.ToolService/CallTool", "/outrigger.v1.ToolService%2FCallTool", "/x.Y/Z", "/", "/x", "/../x/y", "/.x/y",
		} {
			want, got := httptest.NewRecorder(), httptest.NewRecorder()
			mux.ServeHTTP(want, httptest.NewRequest(method, path, nil))
			root.ServeHTTP(got, httptest.NewRequest(method, path, nil))
			if want.Code != got.Code || want.Header().Get("Location") != got.Header().Get("Location") {
				t.Errorf("%s %s: %d, want %d", method, path, got.Code, want.Code)
			}
		}
	}
}
