// SPDX-License-Identifier: Apache-2.0

package abuse_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

const (
	// divided is the limit that callers share, and share the part of it that one
	// caller gets by default.
	divided, share = 10, 8
	// tries is how much one caller asks for.
	tries = 2 * divided
)

// sharing is a sidecar whose limits are low.
type sharing struct {
	base   string
	config *tls.Config // nil for a plain listener
}

// client is a caller: its address is its name.
func (s sharing) client(t *testing.T, ip string) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: s.config, DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// sharings starts a sidecar for each kind of main listener. Listeners for operators
// have no callers.
func sharings(t *testing.T, limits ...string) map[string]sharing {
	t.Helper()
	ca := tlstest.NewAuthority(t)
	pair := ca.Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1"}})
	args := append([]string{"--demo"}, limits...)
	open := sidecar.ServeReady(t, binary, args...)
	secured := sidecar.ServeReady(t, binary, append(args, "--tls-cert", pair.CertFile, "--tls-key", pair.KeyFile)...)
	return map[string]sharing{
		"main":          {base: open.URL("")},
		"main with TLS": {base: "https://" + secured.Addr(), config: &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1"}},
	}
}

// request is one that is sent from a table.
type request struct {
	method, path, body string
	headers            []string
}

// send returns the status and what there is of the answer at once: all of a short
// one, and of a stream its head. The stream lasts as long as ctx.
func (s sharing) send(ctx context.Context, client *http.Client, r request) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, s.base+r.path, strings.NewReader(r.body))
	if err != nil {
		return nil, "", err
	}
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(r.headers); i += 2 {
		req.Header.Set(r.headers[i], r.headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, "", err
	}
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		context.AfterFunc(ctx, func() { _ = resp.Body.Close() })
		return resp, "", nil
	}
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), errors.Join(err, resp.Body.Close())
}

// TestOneCallerLeavesStreamsAndTasks has one caller ask for more of what lasts than
// there is: it gets its share, the rest is RATE_LIMITED, and another caller gets what
// it asks for.
func TestOneCallerLeavesStreamsAndTasks(t *testing.T) {
	t.Parallel()
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	listen := request{
		method: "POST", path: "/mcp", headers: modernHeaders("subscriptions/listen", ""),
		body: `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + caller.ModernMeta + `}}`,
	}
	task := request{
		method: "POST", path: "/outrigger.v1.ToolService/CallTool",
		body: `{"tool_name":"lab.sleep","arguments":{"duration":"60s"},"context":{"capabilities":{"tasks":true}}}`,
	}
	for _, row := range []struct {
		name, limit string
		// session: a new one is opened before each request.
		session bool
		request request
	}{
		{name: "listen streams", limit: "--max-streams", request: listen},
		{name: "streams of sessions", limit: "--max-streams", session: true, request: request{method: "GET", path: "/mcp", headers: []string{"Accept", "text/event-stream"}}},
		{name: "tasks", limit: "--max-tasks", request: task},
	} {
		for listener, at := range sharings(t, row.limit, fmt.Sprint(divided), "--grace", "0s") {
			t.Run(row.name+"/"+listener, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				take := func(client *http.Client) (int, string) {
					t.Helper()
					wanted := row.request
					if row.session {
						resp, text, err := at.send(ctx, client, request{method: "POST", path: "/mcp", body: initialize, headers: []string{"Accept", "application/json, text/event-stream"}})
						if err != nil || resp.StatusCode != http.StatusOK {
							t.Fatalf("no session: %s, %v", text, err)
						}
						wanted.headers = append([]string{"Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id")}, wanted.headers...)
					}
					resp, text, err := at.send(ctx, client, wanted)
					if err != nil {
						t.Fatal(err)
					}
					return resp.StatusCode, text
				}
				greedy, got := at.client(t, "127.0.0.1"), 0
				for range tries {
					switch status, text := take(greedy); {
					case status == http.StatusOK:
						got++
					case status != http.StatusTooManyRequests || !strings.Contains(text, "RATE_LIMITED") && !strings.Contains(text, "resource_exhausted"):
						t.Fatalf("over the share: %d %s", status, text)
					}
				}
				if got != share {
					t.Errorf("one caller got %d of %d, want %d", got, divided, share)
				}
				if status, text := take(at.client(t, "127.0.0.2")); status != http.StatusOK {
					t.Errorf("another caller: %d %s", status, text)
				}
			})
		}
	}
}

// TestOneCallerLeavesPlacesForCalls has one caller begin more long calls than may run
// and wait, soon after somebody else has called. Those over its share are RATE_LIMITED, and
// another caller's calls run.
func TestOneCallerLeavesPlacesForCalls(t *testing.T) {
	t.Parallel()
	sleep := request{method: "POST", path: "/rpc", body: `{"jsonrpc":"2.0","id":"s","method":"tools/call","params":{"name":"lab.sleep","arguments":{"duration":"60s"}}}`}
	for listener, at := range sharings(t, "--max-calls", fmt.Sprint(divided), "--max-queued", fmt.Sprint(divided), "--queue-wait", "200ms", "--grace", "0s") {
		t.Run(listener, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			other := at.client(t, "127.0.0.2")
			call := func(i int) {
				resp, text, err := at.send(ctx, other, request{method: "POST", path: "/rpc", body: rpcCall})
				if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(text, `"result"`) {
					t.Fatalf("call %d of another caller: %s, %v", i, text, err)
				}
			}
			call(0)
			greedy, answers := at.client(t, "127.0.0.1"), make(chan string, 2*tries)
			for range 2 * tries {
				go func() {
					resp, text, err := at.send(ctx, greedy, sleep)
					if err == nil {
						text = resp.Status + " " + text
					}
					answers <- text
				}()
			}
			for range 2*tries - share {
				if text := <-answers; !strings.HasPrefix(text, "429 ") || !strings.Contains(text, "RATE_LIMITED") {
					t.Fatalf("over the share: %s", text)
				}
			}
			for i := range divided {
				call(i + 1)
			}
			cancel()
			for range share {
				<-answers
			}
		})
	}
}
