// SPDX-License-Identifier: Apache-2.0

package rpchttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/rpchttp"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// edge is the handler in front of the real demo service.
func edge(t *testing.T, o rpchttp.Options) (*mcptest.Rig, string) {
	t.Helper()
	rig := mcptest.Start(t, mcptest.Options{})
	return rig, mcptest.Serve(t, rpchttp.New(rig.Bridge, o))
}

type answer struct {
	status int
	header http.Header
	body   string
}

func post(t *testing.T, url, body string) answer {
	t.Helper()
	return do(t, http.MethodPost, url, body, "application/json")
}

func do(t *testing.T, method, url, body, contentType string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := mcptest.Client(t, 1).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(got)}
}

// message is one reply, in the members that tests look at.
type message struct {
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code int `json:"code"`
		Data struct {
			Code errmap.Code `json:"code"`
		} `json:"data"`
	} `json:"error"`
}

func (m message) code() errmap.Code {
	if m.Error == nil {
		return ""
	}
	return m.Error.Data.Code
}

func decode[T any](t *testing.T, raw string) T {
	t.Helper()
	var out T
	if err := json.Unmarshal([]byte(raw), &out); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return out
}

func call(id, tool, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
}

func TestOneMessage(t *testing.T) {
	t.Parallel()
	_, url := edge(t, rpchttp.Options{Limits: jsonrpc.Limits{MaxBytes: 64 << 10}})
	for _, tc := range []struct {
		name, body string
		status     int
		code       errmap.Code
		id         string
	}{
		{"a call", call(`"a"`, "lab.echo", `{"nonce":"n"}`), 200, "", `"a"`},
		{"an id with escapes is echoed as it came", call(`"\u0061\/"`, "lab.echo", `{}`), 200, "", `"\u0061\/"`},
		{"ping", `{"jsonrpc":"2.0","id":"p","method":"ping","params":{}}`, 200, "", `"p"`},
		{"what the tool answers as a failure", call(`"f"`, "lab.fail", `{"code":"FAIL_CODE_NOT_FOUND"}`), 200, "", `"f"`},
		{"an unknown tool", call(`"u"`, "lab.ecko", `{}`), 404, errmap.ToolNotFound, `"u"`},
		{"bad input", call(`"i"`, "lab.echo", `{"signed":5.5}`), 422, errmap.InvalidToolInput, `"i"`},
		{"bad params", `{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{}}`, 400, errmap.InvalidParams, `"b"`},
		{"an unknown method", `{"jsonrpc":"2.0","id":"m","method":"tools/run","params":{}}`, 404, errmap.MethodNotFound, `"m"`},
		{"a destructive tool", call(`"d"`, "fleet.cancel_order", `{"orderId":"1"}`), 403, errmap.DestructiveBlocked, `"d"`},
		{"an integer id", call(`7`, "lab.echo", `{}`), 400, errmap.InvalidEnvelope, `7`},
		{"not JSON", `{`, 400, errmap.ParseError, `null`},
		{"nothing", ``, 400, errmap.ParseError, `null`},
		{"a string", `"x"`, 400, errmap.InvalidEnvelope, `null`},
		{"an invalid message without an id", `{"jsonrpc":"2.0"}`, 400, errmap.InvalidEnvelope, `null`},
		{"a response", `{"jsonrpc":"2.0","id":"r","result":{}}`, 400, errmap.InvalidEnvelope, `null`},
		{"too large", `{"jsonrpc":"2.0","id":"l","method":"ping","params":{"x":"` + strings.Repeat("x", 64<<10) + `"}}`, 413, errmap.PayloadTooLarge, `null`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := post(t, url, tc.body)
			m := decode[message](t, got.body)
			if got.status != tc.status || m.code() != tc.code || string(m.ID) != tc.id {
				t.Errorf("got %d %s, want %d %q with id %s", got.status, got.body, tc.status, tc.code, tc.id)
			}
			if m.Error != nil && m.Error.Code == 0 {
				t.Errorf("the code 0 has left: %s", got.body)
			}
			if got.header.Get("Content-Type") != "application/json" {
				t.Errorf("content type %q", got.header.Get("Content-Type"))
			}
		})
	}
}

func TestNotificationsGet202AndNoBody(t *testing.T) {
	t.Parallel()
	_, url := edge(t, rpchttp.Options{})
	for _, body := range []string{
		`{"jsonrpc":"2.0","method":"notifications/anything","params":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"fleet.cancel_order"}}`,
		`[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b","params":{}}]`,
	} {
		if got := post(t, url, body); got.status != http.StatusAccepted || got.body != "" {
			t.Errorf("%s: got %d %q", body, got.status, got.body)
		}
	}
}

func TestWhatIsNoPostOfJSON(t *testing.T) {
	t.Parallel()
	_, url := edge(t, rpchttp.Options{})
	for _, tc := range []struct {
		method, contentType string
		status              int
		code                errmap.Code
	}{
		{http.MethodGet, "", 405, errmap.MethodNotAllowed},
		{http.MethodDelete, "", 405, errmap.MethodNotAllowed},
		{http.MethodPut, "application/json", 405, errmap.MethodNotAllowed},
		{http.MethodPost, "text/plain", 415, errmap.UnsupportedMediaType},
		{http.MethodPost, "", 415, errmap.UnsupportedMediaType},
	} {
		got := do(t, tc.method, url, `{"jsonrpc":"2.0","id":"1","method":"ping","params":{}}`, tc.contentType)
		m := decode[message](t, got.body)
		if got.status != tc.status || m.code() != tc.code || string(m.ID) != "null" {
			t.Errorf("%s %q: got %d %s", tc.method, tc.contentType, got.status, got.body)
		}
		if (got.header.Get("Allow") == "POST") != (tc.status == 405) {
			t.Errorf("%s %q: Allow is %q", tc.method, tc.contentType, got.header.Get("Allow"))
		}
	}
}

func TestIntegerIDsWhereTheyAreAdmitted(t *testing.T) {
	t.Parallel()
	_, url := edge(t, rpchttp.Options{AnyID: true})
	for _, id := range []string{`7`, `0`, `-1`, `9223372036854775807`, `123456789012345678901234567890`, `"7"`} {
		got := post(t, url, call(id, "lab.echo", `{"unsigned":18446744073709551615}`))
		m := decode[message](t, got.body)
		if got.status != 200 || string(m.ID) != id || !strings.Contains(string(m.Result), `18446744073709551615`) {
			t.Errorf("id %s: got %d %s", id, got.status, got.body)
		}
	}
	if got := post(t, url, call(`7.0`, "lab.echo", `{}`)); got.status != 400 {
		t.Errorf("a fraction: %d %s", got.status, got.body)
	}
}

func TestTwoCallersWithOneIDNeverMeet(t *testing.T) {
	t.Parallel()
	backend := newHeld()
	b := dialect.New(bridge.New(mcptest.Memory(t), backend, correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
	url := mcptest.Serve(t, rpchttp.New(b, rpchttp.Options{}))
	answers := make(chan string, 2)
	for _, nonce := range []string{"one", "two"} {
		go func() {
			m := decode[message](t, post(t, url, call(`"same"`, "lab.echo", `{"nonce":"`+nonce+`"}`)).body)
			if strings.Contains(string(m.Result), `"nonce":"`+nonce+`"`) {
				nonce = "right"
			}
			answers <- nonce
		}()
	}
	<-backend.entered
	<-backend.entered
	close(backend.release)
	if diff := cmp.Diff([]string{"right", "right"}, []string{<-answers, <-answers}); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTheEndOfTheConnectionCancels(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"one":     call(`"1"`, "lab.echo", `{}`),
		"a batch": "[" + call(`"1"`, "lab.echo", `{}`) + "]",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend := newHeld()
			b := dialect.New(bridge.New(mcptest.Memory(t), backend, correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
			url := mcptest.Serve(t, rpchttp.New(b, rpchttp.Options{}))
			ctx, hangUp := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			client := mcptest.Client(t, 1)
			go func() {
				<-backend.entered
				hangUp()
			}()
			if _, err := client.Do(req); err == nil {
				t.Error("an answer came")
			}
			<-backend.left
		})
	}
}

// held is a backend that echoes when it is let go, and says when a call's
// context ends.
type held struct {
	bridge.NoBackend       // for what it does not hold
	entered, left, release chan struct{}
}

func newHeld() *held {
	return &held{entered: make(chan struct{}, 256), left: make(chan struct{}, 256), release: make(chan struct{})}
}

// Call implements bridge.Upstream.
func (h *held) Call(ctx context.Context, _ *catalog.Method, in []byte, _ http.Header) (*bridge.Answer, *errmap.Error) {
	h.entered <- struct{}{}
	select {
	case <-h.release:
		return &bridge.Answer{Body: bytes.Clone(in)}, nil
	case <-ctx.Done():
		h.left <- struct{}{}
		return nil, errmap.Wrap(errmap.Cancelled, ctx.Err())
	}
}

// TestItemsCannotFollowOverHTTP: a request has one body, and no message can follow it.
func TestItemsCannotFollowOverHTTP(t *testing.T) {
	t.Parallel()
	_, url := edge(t, rpchttp.Options{})
	got := post(t, url, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.relay","_meta":{"dev.outrigger/items":true}}}`)
	if got.status != http.StatusBadRequest || !strings.Contains(got.body, "only on stdio and on Exchange") {
		t.Errorf("got %d %s", got.status, got.body)
	}
	whole := post(t, url, `{"jsonrpc":"2.0","id":"2","method":"tools/call","params":{"name":"lab.relay","arguments":{"items":[{"nonce":"a"}]}}}`)
	if whole.status != http.StatusOK || !strings.Contains(whole.body, `{"items":[{"nonce":"a"`) {
		t.Errorf("all items at once: %d %s", whole.status, whole.body)
	}
	wrong := post(t, url, `{"jsonrpc":"2.0","id":"3","method":"tools/call","params":{"name":"lab.relay","arguments":{"items":[{"nonce":"a"},{"nonce":7}]}}}`)
	if wrong.status != http.StatusUnprocessableEntity || !strings.Contains(wrong.body, `"itemsSent":1`) || !strings.Contains(wrong.body, `"path":"/items/1/nonce"`) {
		t.Errorf("a wrong item: %d %s", wrong.status, wrong.body)
	}
}
