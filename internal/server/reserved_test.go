// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

const (
	sleepCall = `{"jsonrpc":"2.0","id":"s","method":"tools/call","params":{"name":"lab.sleep","arguments":{"duration":"20s"}}}`
	echoCall  = `{"jsonrpc":"2.0","id":"e","method":"tools/call","params":{"name":"lab.echo","arguments":{"payload":"AAAA"}}}`
)

// post sends a call as a caller whose token is its name.
func sendAs(ctx context.Context, client *http.Client, url, caller, body string, header ...string) (status int, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	if caller != "" {
		req.Header.Set("Authorization", "Bearer "+token(caller))
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	page, err := io.ReadAll(res.Body)
	return res.StatusCode, string(page), err
}

func token(caller string) string { return strings.Repeat(caller, 6) }

// callersFile has a file with callers.
func callersFile(t *testing.T, callers ...string) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("callers:\n")
	for _, name := range callers {
		fmt.Fprintf(&text, "- {name: %s, token_sha256: [%x], tools: ['*']}\n", name, sha256.Sum256([]byte(token(name))))
	}
	path := filepath.Join(t.TempDir(), "callers.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestReservedCallsBesideAFlood: calls of one caller to a slow tool take every slot that they can have. Another call gets one
// where slots are reserved for its tool or its caller, and else none in time.
func TestReservedCallsBesideAFlood(t *testing.T) {
	t.Parallel()
	tools := []*configv1.ToolClass{{Name: "quick", Tools: []string{"lab.ec*"}, ReservedCalls: proto.Int32(2)}}
	callers := []*configv1.CallerClass{{Name: "agents", Callers: []string{"caller:planner"}, ReservedCalls: proto.Int32(3), Weight: proto.Int32(2)}}
	for name, row := range map[string]struct {
		limits       *configv1.Limits
		running      int
		caller, body string
		status       int
		metric       string
	}{
		"nothing reserved": {&configv1.Limits{}, 8, "planner", echoCall, http.StatusServiceUnavailable, `outrigger_queue_rejected_total{limit="max_queue_wait",tool="lab.echo"} 1`},
		"a tool": {
			&configv1.Limits{ToolClasses: tools}, 6, "flooder", echoCall, http.StatusOK,
			`outrigger_class_reserved{class="quick",of="tools"} 2`,
		},
		"a caller": {
			&configv1.Limits{CallerClasses: callers}, 5, "planner", echoCall, http.StatusOK,
			`outrigger_class_reserved{class="agents",of="callers"} 3`,
		},
		"another tool of the caller that floods": {
			&configv1.Limits{CallerClasses: callers}, 5, "flooder", echoCall, http.StatusServiceUnavailable,
			`outrigger_class_rejected_total{class="agents",limit="max_queue_wait",of="callers"} 0`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
				c.Limits.ToolClasses, c.Limits.CallerClasses = row.limits.GetToolClasses(), row.limits.GetCallerClasses()
				c.Limits.MaxConcurrentCalls, c.Limits.MaxQueueWait = proto.Int32(8), durationpb.New(time.Second)
				c.Access.TokensFile = callersFile(t, "flooder", "planner")
			}})
			url, operators, client := rig.Serve(t), rig.Operators(t), mcptest.Client(t, 1)
			ctx, stop := context.WithCancel(t.Context())
			flooding := make(chan struct{})
			const flood = 40
			for range flood {
				go func() {
					_, _, _ = sendAs(ctx, client, url+"/rpc", "flooder", sleepCall)
					flooding <- struct{}{}
				}()
			}
			defer func() {
				stop()
				for range flood {
					<-flooding
				}
			}()
			running := fmt.Sprintf("outrigger_limit_used{limit=\"max_concurrent_calls\"} %d\n", row.running)
			await(t, client, operators, running, `outrigger_queue_tool_waiting{tool="lab.sleep"}`)
			if status, text, err := sendAs(t.Context(), client, url+"/rpc", row.caller, row.body); err != nil || status != row.status {
				t.Errorf("%d %s, %v; want %d", status, text, err, row.status)
			}
			await(t, client, operators, running, row.metric)
		})
	}
}

// TestUnreadResultsOfATool: calls of a tool whose results are not read are refused, and those of other tools are not. It holds
// for every edge on which results are read slowly.
func TestUnreadResultsOfATool(t *testing.T) {
	t.Parallel()
	// More than the kernel keeps of a response for a peer with a small window. In JSON-RPC, a result has it twice.
	payload := strings.Repeat("A", 2_792_000)
	connectCall := fmt.Sprintf(`{"tool_name":"lab.echo","arguments":{"payload":%q}}`, payload)
	plain := []string{"Content-Type: application/json"}
	echo := fmt.Sprintf(`{"jsonrpc":"2.0","id":"e","method":"tools/call","params":{"name":"lab.echo","arguments":{"payload":%q}}}`, payload[:2_000_000])
	for name, row := range map[string]struct {
		path, body string
		header     []string
	}{
		"rpc":              {"/rpc", echo, plain},
		"mcp":              {"/mcp", echo, append(plain, "Accept: application/json, text/event-stream", "Mcp-Protocol-Version: 2025-06-18")},
		"mcp, as an event": {"/mcp", echo, append(plain, "Accept: text/event-stream", "Mcp-Protocol-Version: 2025-06-18")},
		"connect":          {"/outrigger.v1.ToolService/CallTool", connectCall, plain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
				c.Limits.MaxBufferedBytes, c.Limits.ToolSharePercent, c.Limits.CallerSharePercent = proto.Int64(20<<20), proto.Int32(10), proto.Int32(100)
			}})
			url, operators, client := rig.Serve(t), rig.Operators(t), mcptest.Client(t, 1)
			if name == "connect" { // the kernel may keep all of its result
				url = narrowly(t, rig.Handler(t))
			}
			if status, text, err := sendAs(t.Context(), client, url+"/rpc", "", strings.Replace(sleepCall, "20s", "0s", 1)); err != nil || status != http.StatusOK {
				t.Fatalf("another tool: %d %s, %v", status, text, err)
			}
			if status, text, err := sendAs(t.Context(), client, url+row.path, "", regexp.MustCompile("A{10,}").ReplaceAllString(row.body, "AAAA"), row.header...); err != nil || status != http.StatusOK {
				t.Fatalf("one that is read: %d %s, %v", status, text, err)
			}
			keepCalling(t, url)
			for range 2 {
				unread(t, strings.TrimPrefix(url, "http://"), row.path, row.body, row.header)
			}
			await(t, client, operators, `outrigger_limit_refused_total{limit="tool_share_percent"} [12]`)
			if status, text, err := sendAs(t.Context(), client, url+"/rpc", "", strings.Replace(sleepCall, "20s", "0s", 1)); err != nil || status != http.StatusOK {
				t.Errorf("another tool: %d %s, %v", status, text, err)
			}
		})
	}
}

// TestUnreadResultsOnHTTP2 is the same for results that are smaller than what a kernel keeps: the client's window is full.
func TestUnreadResultsOnHTTP2(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		path, body string
		size       int
	}{
		"connect, small": {"/outrigger.v1.ToolService/CallTool", `{"tool_name":"lab.echo","arguments":{"payload":%q}}`, 60_000},
		"connect, large": {"/outrigger.v1.ToolService/CallTool", `{"tool_name":"lab.echo","arguments":{"payload":%q}}`, 400_000},
		"typed, in JSON": {"/outrigger.demo.v1.Lab/Echo", `{"payload":%q}`, 64_000},
		"typed, large":   {"/outrigger.demo.v1.Lab/Echo", `{"payload":%q}`, 400_000},
		"rpc":            {"/rpc", `{"jsonrpc":"2.0","id":"e","method":"tools/call","params":{"name":"lab.echo","arguments":{"payload":%q}}}`, 400_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
				c.Limits.MaxBufferedBytes, c.Limits.ToolSharePercent, c.Limits.CallerSharePercent = proto.Int64(2<<20), proto.Int32(1), proto.Int32(100)
			}})
			url, operators, reader := rig.Serve(t), rig.Operators(t), mcptest.Client(t, 1)
			if status, text, err := sendAs(t.Context(), reader, url+"/rpc", "", strings.Replace(sleepCall, "20s", "0s", 1)); err != nil || status != http.StatusOK {
				t.Fatalf("another tool: %d %s, %v", status, text, err)
			}
			keepCalling(t, url)
			narrow := &http.Transport{Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 16 << 10}, DisableCompression: true}
			narrow.Protocols.SetUnencryptedHTTP2(true)
			t.Cleanup(narrow.CloseIdleConnections)
			for range 2 {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+row.path, strings.NewReader(fmt.Sprintf(row.body, strings.Repeat("A", row.size))))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				res, err := narrow.RoundTrip(req)
				if err != nil || res.StatusCode != http.StatusOK {
					t.Fatalf("%+v, %v", res, err)
				}
				t.Cleanup(func() { _ = res.Body.Close() })
			}
			await(t, reader, operators, `outrigger_limit_refused_total{limit="tool_share_percent"} [12]`)
		})
	}
}

// keepCalling calls another tool for as long as the test lasts: the share of a tool holds only while others are called.
func keepCalling(t *testing.T, url string) {
	t.Helper()
	client := mcptest.Client(t, 1)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_, _, _ = sendAs(ctx, client, url+"/rpc", "", strings.Replace(sleepCall, "20s", "0s", 1))
			time.Sleep(50 * time.Millisecond)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
}

// narrowly serves on connections for which the kernel keeps little. What it keeps otherwise
// grows to some megabytes by itself, sometimes before the response is written.
func narrowly(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Listener = narrowListener{server.Listener}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

type narrowListener struct{ net.Listener }

// Accept implements [net.Listener].
func (l narrowListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		err = errors.Join(err, tcp.SetWriteBuffer(64<<10))
	}
	return conn, err
}

// unread sends a request on its own connection, and does not read the response.
func unread(t *testing.T, address, path, body string, header []string) {
	t.Helper()
	dialer := net.Dialer{Control: testkit.SmallWindow}
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n%s\r\n\r\n%s", path, address, len(body), strings.Join(header, "\r\n"), body); err != nil {
		t.Fatal(err)
	}
}

// await waits until the metrics match some expressions.
func await(t *testing.T, client *http.Client, operators string, lines ...string) {
	t.Helper()
	testkit.Try(t, "the metrics", func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, operators+"/metrics", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if page := string(text); !regexp.MustCompile(line).MatchString(page) {
				return fmt.Errorf("no %s, but:\n%s", line, strings.Join(regexp.MustCompile("(?m)^outrigger_(limit|queue|class)_.*").FindAllString(page, -1), "\n"))
			}
		}
		return nil
	})
}
