// SPDX-License-Identifier: Apache-2.0

package path_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bench/internal/path"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func byName(t *testing.T, name string) *path.Path {
	t.Helper()
	for _, p := range path.All() {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no path %s", name)
	return nil
}

// reply is what an honest sidecar answers to a request of the canonical dialect, with a hole for the result.
func reply(body []byte) []byte {
	id := between(body, `"id":"`, `"`)
	args := between(body, `"arguments":`, `}`) + "}"
	text := strings.ReplaceAll(args, `"`, `\"`)
	return []byte(`{"jsonrpc":"2.0","id":"` + id + `","result":{"content":[{"type":"text","text":"` + text + `"}],"structuredContent":` + args + `,"isError":false}}`)
}

func between(doc []byte, before, after string) string {
	_, rest, _ := strings.Cut(string(doc), before)
	found, _, _ := strings.Cut(rest, after)
	return found
}

// A check that lets another caller's answer pass would make every figure worthless.
func TestWrongRepliesAreFoundOut(t *testing.T) {
	t.Parallel()
	swap := func(old, replacement string) func([]byte) []byte {
		return func(reply []byte) []byte { return bytes.ReplaceAll(reply, []byte(old), []byte(replacement)) }
	}
	for _, test := range []struct {
		name   string
		status int
		change func([]byte) []byte
		first  bool // found in the first answer, which is decoded whole, and not in later ones
		ok     bool
	}{
		{name: "honest", ok: true},
		{name: "spaces", change: swap(`":`, `": `), ok: true},
		{name: "numbers as numbers", change: swap(`"18446744073709551615"`, `18446744073709551615`), ok: true},
		{name: "another id", change: swap(`"id":"`, `"id":"9`)},
		{name: "another nonce", change: swap(`"nonce":"caller-1`, `"nonce":"caller-2`)},
		{name: "nonce in the text only", change: func(b []byte) []byte {
			head, tail, _ := bytes.Cut(b, []byte(`"structuredContent":{"nonce":"`))
			return append(append(slices.Clip(head), `"structuredContent":{"nonce":"x`...), tail...)
		}},
		{name: "an error", change: func([]byte) []byte { return []byte(`{"jsonrpc":"2.0","id":"1","error":{"code":-32603,"message":"x"}}`) }},
		{name: "not JSON", change: func([]byte) []byte { return []byte("hello") }},
		{name: "another status", status: http.StatusInternalServerError},
		{name: "digits lost", change: swap("18446744073709551615", "18446744073709551616"), first: true},
		{name: "payload lost", change: swap(`"payload":"cGF5bG9hZA=="`, `"payload":""`), first: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			honest := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				answer := reply(body)
				if honest--; honest < 0 {
					if test.change != nil {
						answer = test.change(answer)
					}
					if test.status != 0 {
						w.WriteHeader(test.status)
					}
				}
				_, _ = w.Write(answer)
			}))
			defer server.Close()
			for _, honestFirst := range []int{0, 2} {
				if test.first && honestFirst > 0 {
					continue
				}
				honest = honestFirst
				session, err := byName(t, "rpc").Open(t.Context(), path.Addrs{Sidecar: server.Listener.Addr().String()}, 1, path.Echo([]byte("payload")))
				if err != nil {
					t.Fatal(err)
				}
				for call := range honestFirst + 1 {
					err = session.Callers[0].Call(t.Context())
					if call < honestFirst && err != nil {
						t.Fatalf("honest answer: %v", err)
					}
				}
				var wrong *path.WrongAnswerError
				if errors.As(err, &wrong) == test.ok {
					t.Errorf("after %d honest answers: %v", honestFirst, err)
				}
				session.Close()
			}
		})
	}
}

// A client that is done ends its sessions, before its connections.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	var open, opened atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodDelete:
			if r.Header.Get("Mcp-Session-Id") != "" {
				open.Add(-1)
			}
		case r.Header.Get("Mcp-Session-Id") != "":
			w.WriteHeader(http.StatusAccepted)
		default:
			open.Add(1)
			w.Header().Set("Mcp-Session-Id", strconv.FormatInt(opened.Add(1), 10))
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":"hello","result":{"protocolVersion":"2025-11-25"}}`)
		}
	}))
	defer server.Close()
	session, err := byName(t, "mcp-legacy").Open(t.Context(), path.Addrs{Sidecar: server.Listener.Addr().String()}, 3, path.Echo(nil))
	if err != nil {
		t.Fatal(err)
	}
	if open.Load() != 3 {
		t.Errorf("%d sessions", open.Load())
	}
	session.Close()
	if open.Load() != 0 {
		t.Errorf("%d sessions are left", open.Load())
	}
}

func TestWrongMessagesAreFoundOut(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*demov1.EchoResponse)
		ok     bool
	}{
		{"honest", func(*demov1.EchoResponse) {}, true},
		{"nonce", func(m *demov1.EchoResponse) { m.Nonce += "x" }, false},
		{"signed", func(m *demov1.EchoResponse) { m.Signed-- }, false},
		{"unsigned", func(m *demov1.EchoResponse) { m.Unsigned-- }, false},
		{"payload", func(m *demov1.EchoResponse) { m.Payload = nil }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				m := new(demov1.EchoResponse) // the request's fields have the same numbers
				if err := proto.Unmarshal(body, m); err != nil {
					t.Error(err)
				}
				test.change(m)
				wire, err := proto.Marshal(m)
				if err != nil {
					t.Error(err)
				}
				_, _ = w.Write(wire)
			}))
			defer server.Close()
			session, err := byName(t, "proxy").Open(t.Context(), path.Addrs{Proxy: server.Listener.Addr().String()}, 1, path.Echo([]byte("payload")))
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			err = session.Callers[0].Call(t.Context())
			var wrong *path.WrongAnswerError
			if errors.As(err, &wrong) == test.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAFailureStatusIsNoAnswer(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"success", "failure", ""} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				call := new(outriggerv1.ToolCall)
				if err := proto.Unmarshal(body, call); err != nil {
					t.Error(err)
				}
				wire, err := proto.Marshal(&outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
					Status: status, DataForm: &outriggerv1.ToolResult_DataJson{DataJson: call.GetArgumentsJson()},
				}}})
				if err != nil {
					t.Error(err)
				}
				_, _ = w.Write(wire)
			}))
			defer server.Close()
			session, err := byName(t, "calltool-connect").Open(t.Context(), path.Addrs{Sidecar: server.Listener.Addr().String()}, 1, path.Echo([]byte("payload")))
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			for range 2 {
				if err := session.Callers[0].Call(t.Context()); (err == nil) != (status == "success") {
					t.Errorf("got %v", err)
				}
			}
		})
	}
}
