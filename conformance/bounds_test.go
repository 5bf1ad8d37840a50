// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/peer"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// smallLimit is the message limit of these tests: large enough for any honest
// message in them.
const smallLimit = 64 << 10

// bigPing is a valid message of about n bytes.
func bigPing(n int) string {
	return `{"jsonrpc":"2.0","id":"big","method":"ping","params":{"_meta":{"pad":"` + strings.Repeat("x", n) + `"}}}`
}

// TestLargeBodiesAreRefused sends too much in every way that HTTP has.
func TestLargeBodiesAreRefused(t *testing.T) {
	t.Parallel()
	server := serve(t, "--demo", "--max-message-bytes", fmt.Sprint(smallLimit))
	bomb := gzipped(t, strings.NewReader(bigPing(64<<20)))
	if len(bomb) > smallLimit+(64<<10) {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	for name, prepare := range map[string]func(*http.Request){
		"announced": func(r *http.Request) { setBody(r, []byte(bigPing(smallLimit)), true) },
		"chunked":   func(r *http.Request) { setBody(r, []byte(bigPing(smallLimit)), false) },
		"one byte over": func(r *http.Request) {
			setBody(r, []byte(bigPing(smallLimit+1-len(bigPing(0)))), true)
		},
		"compressed bomb": func(r *http.Request) {
			setBody(r, bomb, true)
			r.Header.Set("Content-Encoding", "gzip")
		},
	} {
		for _, path := range []string{"/rpc", "/mcp"} {
			t.Run(path+" "+name, func(t *testing.T) {
				t.Parallel()
				req := request(t, http.MethodPost, server.URL(path), nil)
				prepare(req)
				got := send(t, req)
				if got.status != http.StatusRequestEntityTooLarge || errorCode(reply(t, got.body)) != "PAYLOAD_TOO_LARGE" {
					t.Errorf("%d: %s", got.status, got.body)
				}
			})
		}
	}
	t.Run("at the limit", func(t *testing.T) {
		t.Parallel()
		for _, raw := range [][]byte{[]byte(bigPing(smallLimit - len(bigPing(0)))), gzipped(t, strings.NewReader(bigPing(1000)))} {
			req := request(t, http.MethodPost, server.URL("/rpc"), nil)
			setBody(req, raw, true)
			if raw[0] != '{' {
				req.Header.Set("Content-Encoding", "gzip")
			}
			if got := send(t, req); got.status != http.StatusOK {
				t.Errorf("%d: %s", got.status, got.body)
			}
		}
	})
	t.Run("RPC", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"tool-connect", "tool-grpc-go", "typed-grpc", "typed-grpcweb", "typed-connect-json"} {
			agent := caller.Find(t, name).Dial(t, target(server))
			got := caller.One(t.Context(), agent, caller.Call{
				Tool: toolEcho, Procedure: procEcho, Args: `{"payload":"` + strings.Repeat("AAAA", smallLimit/3) + `"}`,
			})
			// The frame is refused before there is a message, so the RPC
			// library's own error is all that the caller gets.
			if code := caller.RPCCode(got); code != "resource_exhausted" {
				t.Errorf("%s: %s: %v; %v", name, code, got.Err, got.Fault)
			}
			agent.Close()
		}
	})
}

func setBody(r *http.Request, raw []byte, announce bool) {
	r.Body = io.NopCloser(bytes.NewReader(raw))
	r.ContentLength = -1
	if announce {
		r.ContentLength = int64(len(raw))
	}
}

func gzipped(t *testing.T, r io.Reader) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.Copy(w, r); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestLargeLinesAreRefused sends a line over the limit: it is answered, and the
// next line is read.
func TestLargeLinesAreRefused(t *testing.T) {
	t.Parallel()
	pipe := sidecar.Pipe(t, built.binary, "--demo", "--max-message-bytes", fmt.Sprint(smallLimit))
	for _, n := range []int{smallLimit, 8 << 20} {
		pipe.MustSend(t, bigPing(n))
		if got := reply(t, []byte(pipe.Next(t))); errorCode(got) != "PAYLOAD_TOO_LARGE" {
			t.Errorf("%d bytes: %+v", n, got)
		}
		pipe.MustSend(t, bigPing(0))
		if got := reply(t, []byte(pipe.Next(t))); string(got.ID) != `"big"` || got.Error != nil {
			t.Errorf("the line after it: %+v", got)
		}
	}
}

// TestBatches holds for arrays on /rpc, and for arrays where there are none.
func TestBatches(t *testing.T) {
	t.Parallel()
	server := serve(t, "--demo")
	ping := func(id string) string { return `{"jsonrpc":"2.0","id":"` + id + `","method":"ping","params":{}}` }
	batch := func(n int) string {
		entries := make([]string, n)
		for i := range entries {
			entries[i] = ping(fmt.Sprint(i))
		}
		return "[" + strings.Join(entries, ",") + "]"
	}
	const note = `{"jsonrpc":"2.0","method":"notifications/x"}`
	for _, row := range []struct {
		name, path, body string
		status           int
		// want is the canonical code of a single error, "" for an array.
		want string
		// entries are the codes of the replies in their order, "" for success.
		entries []string
	}{
		{name: "100 entries", path: "/rpc", body: batch(100), status: 200, entries: make([]string, 100)},
		{name: "101 entries", path: "/rpc", body: batch(101), status: 413, want: "PAYLOAD_TOO_LARGE"},
		{name: "none", path: "/rpc", body: "[]", status: 400, want: badShape},
		{name: "only notifications", path: "/rpc", body: "[" + note + "," + note + "]", status: 202},
		{name: "one of each", path: "/rpc", body: "[" + ping("a") + "," + note + ",7," + ping("b") + ",[]]", status: 200,
			entries: []string{"", badShape, "", badShape}},
		{name: "equal ids", path: "/rpc", body: "[" + ping("a") + "," + ping("a") + "," + ping(`\u0061`) + "]", status: 200,
			entries: []string{"", "DUPLICATE_REQUEST_ID", "DUPLICATE_REQUEST_ID"}},
		{name: "broken", path: "/rpc", body: "[" + ping("a") + ",", status: 400, want: parseError},
		{name: "array on /mcp", path: "/mcp", body: "[" + ping("a") + "]", status: 400, want: badShape},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got := send(t, request(t, http.MethodPost, server.URL(row.path), strings.NewReader(row.body)))
			if got.status != row.status {
				t.Errorf("status %d, want %d: %.300s", got.status, row.status, got.body)
			}
			switch {
			case row.want != "":
				if code := errorCode(reply(t, got.body)); code != row.want {
					t.Errorf("%s, want %s", code, row.want)
				}
			case row.entries == nil:
				if len(got.body) != 0 {
					t.Errorf("a body: %s", got.body)
				}
			default:
				checkEntries(t, got.body, row.entries)
			}
		})
	}
}

func checkEntries(t *testing.T, body []byte, want []string) {
	t.Helper()
	replies := replies(t, body)
	if len(replies) != len(want) {
		t.Fatalf("%d replies, want %d: %.300s", len(replies), len(want), body)
	}
	for i, r := range replies {
		if code := errorCode(r); code != want[i] {
			t.Errorf("reply %d: %q, want %q", i, code, want[i])
		}
	}
}

// TestDepth nests JSON up to the limit and one deeper, where it is an argument.
func TestDepth(t *testing.T) {
	t.Parallel()
	server := serve(t, "--demo")
	for depth, want := range map[int]string{64: "", 65: parseError} {
		// The message, params, and _meta are three levels.
		body := `{"jsonrpc":"2.0","id":"d","method":"ping","params":{"_meta":{"x":` +
			strings.Repeat("[", depth-3) + strings.Repeat("]", depth-3) + `}}}`
		got := send(t, request(t, http.MethodPost, server.URL("/rpc"), strings.NewReader(body)))
		if code := errorCode(reply(t, got.body)); code != want {
			t.Errorf("depth %d: %q, want %q: %s", depth, code, want, got.body)
		}
	}
}

// TestMediaTypesAndMethods holds for what is no JSON request at all.
func TestMediaTypesAndMethods(t *testing.T) {
	t.Parallel()
	server := serve(t, "--demo")
	for _, path := range []string{"/rpc", "/mcp"} {
		for _, row := range []struct {
			method, contentType, encoding string
			status                        int
			want                          string
		}{
			{http.MethodPost, "text/plain", "", 415, "UNSUPPORTED_MEDIA_TYPE"},
			{http.MethodPost, "", "", 415, "UNSUPPORTED_MEDIA_TYPE"},
			{http.MethodPost, "application/x-www-form-urlencoded", "", 415, "UNSUPPORTED_MEDIA_TYPE"},
			{http.MethodPost, "application/json; charset=latin1", "", 415, "UNSUPPORTED_MEDIA_TYPE"},
			{http.MethodPost, "application/json", "br", 415, "UNSUPPORTED_MEDIA_TYPE"},
			{http.MethodPost, "application/json", "gzip", 400, parseError},
			{http.MethodGet, "application/json", "", 405, "METHOD_NOT_ALLOWED"},
			{http.MethodPut, "application/json", "", 405, "METHOD_NOT_ALLOWED"},
			{http.MethodDelete, "application/json", "", 405, "METHOD_NOT_ALLOWED"},
		} {
			req := request(t, row.method, server.URL(path), strings.NewReader(bigPing(0)))
			// Sessions of the legacy eras have GET and DELETE; this revision has none.
			req.Header.Set("MCP-Protocol-Version", "2026-07-28")
			req.Header.Set("Content-Type", row.contentType)
			if row.contentType == "" {
				req.Header.Del("Content-Type")
			}
			if row.encoding != "" {
				req.Header.Set("Content-Encoding", row.encoding)
			}
			got := send(t, req)
			if code := errorCode(reply(t, got.body)); got.status != row.status || code != row.want {
				t.Errorf("%s %s as %q %s: %d %s, want %d %s", row.method, path, row.contentType, row.encoding, got.status, code, row.status, row.want)
			}
			if row.status == 405 && got.header.Get("Allow") == "" {
				t.Errorf("%s %s: 405 without Allow", row.method, path)
			}
		}
	}
}

// TestSessionMethodsWantASession sends what belongs to a legacy session without
// one.
func TestSessionMethodsWantASession(t *testing.T) {
	t.Parallel()
	server := serve(t, "--demo")
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		req := request(t, method, server.URL("/mcp"), nil)
		req.Header.Set("Accept", "text/event-stream")
		got := send(t, req)
		if code := errorCode(reply(t, got.body)); got.status != http.StatusBadRequest || code != "SESSION_NOT_FOUND" {
			t.Errorf("%s: %d %s, want 400 SESSION_NOT_FOUND", method, got.status, code)
		}
	}
}

// TestDeadline lets a tool take longer than it may: the caller gets TIMEOUT, the
// backend's call ends.
func TestDeadline(t *testing.T) {
	t.Parallel()
	lab := peer.GRPC(t)
	args := []string{"--backend", lab.URL, "--timeout", "400ms"}
	server := serve(t, args...)
	var running sync.WaitGroup
	edges := caller.Edges()
	const sleeps = time.Minute
	for _, edge := range edges {
		agent := edge.Dial(t, target(server, args...))
		running.Go(func() {
			defer agent.Close()
			start := time.Now()
			got := caller.One(t.Context(), agent, sleepCall("slow", sleeps))
			if got.Fault == nil || got.Fault.Code != "TIMEOUT" {
				t.Errorf("%s: %v; %v, want TIMEOUT", edge.Name, got.Err, got.Fault)
				return
			}
			if got.Fault.RPC != "" && got.Fault.RPC != "deadline_exceeded" {
				t.Errorf("%s: the RPC's code is %s", edge.Name, got.Fault.RPC)
			}
			if took := time.Since(start); took > sleeps {
				t.Errorf("%s: told after %s, when the call at the backend would have ended", edge.Name, took)
			}
		})
	}
	running.Wait()
	// On a busy machine, a deadline may pass before the backend is reached.
	testkit.Until(t, "every call at the backend ends", func() bool {
		return lab.Calls() > 0 && lab.Cancelled() == lab.Calls()
	})
}
