// SPDX-License-Identifier: Apache-2.0

package abuse_test

import (
	"crypto/tls"
	wire "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// impatient are the listeners of sidecars that wait a second for their readers, all
// of them without tokens: what is refused has no large answer.
func impatient(t *testing.T) []watched {
	t.Helper()
	start := func(args ...string) *sidecar.Server {
		return sidecar.ServeReady(t, binary, append([]string{"--demo", "--write-timeout", "1s", "--health", "127.0.0.1:0"}, args...)...)
	}
	ca := tlstest.NewAuthority(t)
	pair := ca.Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1"}})
	open, secured := start(), start("--tls-cert", pair.CertFile, "--tls-key", pair.KeyFile)
	return []watched{
		{open, listener{name: "main", addr: open.Addr(), main: true}},
		{secured, listener{name: "main with TLS", addr: secured.Addr(), main: true, tls: &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1"}}},
		{open, listener{name: "admin", addr: open.AdminURL("")[len("http://"):]}},
		{open, listener{name: "health", addr: address(t, open, "health")}},
	}
}

// watched is a listener and the sidecar that has it.
type watched struct {
	server *sidecar.Server
	listener
}

// stuck is how many answers a sidecar has ended because they were not read.
func (w watched) stuck(t *testing.T) int {
	t.Helper()
	_, page := w.server.Probe(t, "/metrics")
	found := regexp.MustCompile(`outrigger_limit_refused_total\{limit="write_timeout"\} (\d+)`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("no such metric: %s", page)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// modernHeaders are those of a call of MCP 2026-07-28, as pairs.
func modernHeaders(method, name string) []string {
	headers := []string{"accept", "application/json, text/event-stream", "mcp-protocol-version", "2026-07-28", "mcp-method", method}
	if name != "" {
		headers = append(headers, "mcp-name", name)
	}
	return headers
}

// post is a request of HTTP/1.1.
func post(path, contentType, body string, headers ...string) string {
	var more strings.Builder
	for i := 0; i+1 < len(headers); i += 2 {
		fmt.Fprintf(&more, "%s: %s\r\n", headers[i], headers[i+1])
	}
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: HOST\r\nContent-Type: %s\r\n%sContent-Length: %d\r\n\r\n%s", path, contentType, more.String(), len(body), body)
}

// framed is a message as gRPC and Connect's streams frame it.
func framed(m proto.Message) string {
	raw, err := proto.Marshal(m)
	if err != nil {
		panic("a message that cannot be written: " + err.Error())
	}
	return string(wire.BigEndian.AppendUint32([]byte{0}, uint32(len(raw)))) + string(raw)
}

// largeBytes is the payload of a large answer.
const largeBytes = 1_500_000

// TestUnreadAnswersOnHTTP1AreEnded has peers with a small window that read nothing
// of an answer, or of many small ones: their connections are closed.
func TestUnreadAnswersOnHTTP1AreEnded(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("A", largeBytes)
	const times = 6 // what a socket keeps for a peer grows to a few megabytes
	args := `{"payload":"` + text + `"}`
	call := `{"tool_name":"lab.echo","arguments":` + args + `}`
	main := map[string]string{
		"/rpc":                         strings.Repeat(post("/rpc", "application/json", largeCall()), times),
		"/mcp":                         strings.Repeat(post("/mcp", "application/json", caller.Modern.Request(caller.Call{ID: `"l"`, Tool: "lab.echo", Args: args}), modernHeaders("tools/call", "lab_echo")...), times),
		"ToolService, Connect":         strings.Repeat(post("/outrigger.v1.ToolService/CallTool", "application/json", call), times),
		"pass-through, Connect":        strings.Repeat(post("/outrigger.demo.v1.Lab/Echo", "application/json", args), times),
		"pass-through, gRPC-Web":       strings.Repeat(post("/outrigger.demo.v1.Lab/Echo", "application/grpc-web+proto", framed(&demov1.EchoRequest{Payload: []byte(text)})), times),
		"many that are not there":      strings.Repeat("GET /nothing HTTP/1.1\r\nHost: HOST\r\n\r\n", 40_000),
		"many for a host that is none": strings.Repeat("GET /mcp HTTP/1.1\r\nHost: evil.example\r\n\r\n", 20_000),
	}
	operators := map[string]string{"many scrapes": strings.Repeat("GET /metrics HTTP/1.1\r\nHost: HOST\r\n\r\n", 400)}
	unread := map[*sidecar.Server][]*unreadConn{}
	for _, at := range impatient(t) {
		rows := operators
		if at.main {
			rows = main
		}
		for name, text := range rows {
			unread[at.server] = append(unread[at.server], neglect(t, at, name, strings.ReplaceAll(text, "HOST", at.addr)))
		}
	}
	for server, conns := range unread {
		at := watched{server: server}
		awaitStuck(t, at, len(conns))
		for _, c := range conns {
			<-c.sent
			if err := c.SetDeadline(time.Now().Add(slack)); err != nil {
				t.Fatal(err)
			}
			var late net.Error
			if n, err := io.Copy(io.Discard, c.Conn); errors.As(err, &late) && late.Timeout() {
				t.Errorf("%s: the connection stays: %d bytes, %v", c.name, n, err)
			}
		}
	}
}

// unreadConn is a connection without a reader. sent is closed once the sidecar
// has taken all requests, or has closed it.
type unreadConn struct {
	net.Conn

	name string
	sent chan struct{}
}

// neglect sends requests on a connection with a small window.
func neglect(t *testing.T, at watched, name, text string) *unreadConn {
	t.Helper()
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) { failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		return errors.Join(err, failed)
	}}
	raw, err := dialer.DialContext(t.Context(), "tcp", at.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	if err := raw.SetDeadline(time.Now().Add(8 * slack)); err != nil {
		t.Fatal(err)
	}
	c := &unreadConn{Conn: raw, name: at.name + ", " + name, sent: make(chan struct{})}
	if at.tls != nil {
		c.Conn = tls.Client(raw, at.tls)
	}
	go func() {
		defer close(c.sent)
		_, _ = io.WriteString(c.Conn, text) // the sidecar may close it before
	}()
	return c
}

// awaitStuck waits until a sidecar has ended so many unread answers.
func awaitStuck(t *testing.T, at watched, want int) {
	t.Helper()
	testkit.Try(t, "unread answers are ended", func() error {
		if got := at.stuck(t); got < want {
			return fmt.Errorf("%d of %d", got, want)
		}
		return nil
	})
}

// TestUnreadAnswersOnHTTP2AreReset: a peer gives its streams no window, so that even
// a small answer waits. Each is reset, and the connection serves others.
func TestUnreadAnswersOnHTTP2AreReset(t *testing.T) {
	t.Parallel()
	call := caller.Modern.Request(caller.Call{ID: `"a"`, Tool: "lab.echo", Args: `{"nonce":"n"}`})
	listen := `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + caller.ModernMeta + `}}`
	exchanged := &outriggerv1.Envelope{Message: &outriggerv1.Envelope_Request{Request: &outriggerv1.Request{
		Id: &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: "a"}}, Method: "tools/call",
		ParamsForm: &outriggerv1.Request_ParamsJson{ParamsJson: []byte(`{"name":"lab.echo","arguments":{"nonce":"n"}}`)},
	}}}
	echo := framed(&demov1.EchoRequest{Nonce: "n"})
	const grpcType, jsonType = "application/grpc", "application/json"
	type row struct {
		name, path, contentType, body string
		headers                       []string
	}
	main := []row{
		{name: "/rpc", path: "/rpc", contentType: jsonType, body: rpcCall},
		{name: "/mcp, JSON", path: "/mcp", contentType: jsonType, body: call, headers: modernHeaders("tools/call", "lab_echo")},
		{name: "/mcp, SSE", path: "/mcp", contentType: jsonType, body: listen, headers: modernHeaders("subscriptions/listen", "")},
		{name: "ToolService, Connect", path: "/outrigger.v1.ToolService/CallTool", contentType: jsonType, body: `{"tool_name":"lab.echo","arguments":{"nonce":"n"}}`},
		{name: "Exchange, gRPC", path: "/outrigger.v1.ToolService/Exchange", contentType: grpcType, body: framed(exchanged)},
		{name: "pass-through, gRPC", path: "/outrigger.demo.v1.Lab/Echo", contentType: grpcType, body: echo},
		{name: "pass-through, gRPC-Web", path: "/outrigger.demo.v1.Lab/Echo", contentType: "application/grpc-web+proto", body: echo},
		{name: "pass-through, Connect", path: "/outrigger.demo.v1.Lab/Echo", contentType: jsonType, body: `{"nonce":"n"}`},
		{name: "a notice", path: "/nothing"},
	}
	operators := []row{{path: "/livez"}, {path: "/readyz"}, {path: "/metrics"}, {path: "/nothing"}}
	for _, at := range impatient(t) {
		t.Run(at.name, func(t *testing.T) {
			t.Parallel()
			rows := operators
			if at.main {
				rows = main
			}
			c := dialH2(t, at.listener)
			if err := c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				method := "GET"
				if row.contentType != "" {
					method, row.headers = "POST", append(row.headers, "content-type", row.contentType, "te", "trailers")
				}
				id := c.open(t, row.body == "", head(at.listener, method, row.path, row.headers...)...)
				if row.body != "" {
					if err := c.framer.WriteData(id, true, []byte(row.body)); err != nil {
						t.Fatal(err)
					}
				}
				if s, err := c.await(id, true); err != nil || s.status == "" || c.goAway {
					t.Errorf("%s %s: %+v, %v, GOAWAY %v", row.path, row.name, s, err, c.goAway)
				}
			}
			id := c.open(t, true, head(at.listener, "GET", "/nothing")...)
			if err := c.framer.WriteWindowUpdate(id, 1<<20); err != nil {
				t.Fatal(err)
			}
			if s, err := c.await(id, false); err != nil || s.status != "404" || c.goAway {
				t.Errorf("the connection does not go on: %+v, %v", s, err)
			}
		})
	}
}
