// SPDX-License-Identifier: Apache-2.0

package mcphttp_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

func TestInitializeOpensASession(t *testing.T) {
	t.Parallel()
	rig, url := office(t, officeOptions{})
	for asked, want := range map[string]string{
		rev11: rev11, rev06: rev06, rev03: rev03, "2024-11-05": rev11, "1999-01-01": rev11, "2026-07-28": rev11, "latest": rev11,
	} {
		for _, headers := range [][]string{nil, {"MCP-Protocol-Version: " + asked}, {"MCP-Protocol-Version: 1.0", "Accept: text/event-stream"}} {
			got := post(t, url, opening(asked, allAbilities), headers...)
			id := got.header.Get("Mcp-Session-Id")
			if got.status != 200 || !strings.Contains(got.body, `"protocolVersion":"`+want+`"`) {
				t.Errorf("%s: %d %s", asked, got.status, got.body)
			}
			if len(id) < 32 || strings.ContainsFunc(id, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
				t.Errorf("%s: the session's id is %q", asked, id)
			}
			if strings.Contains(got.body, "resultType") || strings.Contains(got.body, "extensions") {
				t.Errorf("%s: the answer has members of another era: %s", asked, got.body)
			}
		}
	}
	if got := rig.Bridge.Sessions().Stats(); got.Sessions != 21 {
		t.Errorf("%+v", got)
	}
}

// TestAnInitializeThatFailsOpensNothing: else rejected clients could evict
// the sessions of others.
func TestAnInitializeThatFailsOpensNothing(t *testing.T) {
	t.Parallel()
	large := `{"experimental":{"x":{"y":"` + strings.Repeat("z", session.DefaultMaxClient) + `"}}}`
	for _, tc := range []struct {
		name, body string
		headers    []string
		status     int
		code       int
	}{
		{"no version", request("initialize", `"capabilities":{}`), nil, 200, -32602},
		{"capabilities that are no object", opening(rev11, `7`), nil, 200, -32602},
		{"capabilities that are too large", opening(rev11, large), nil, 200, -32602},
		{"no request", strings.Replace(opening(rev11, `{}`), `"id":0,`, "", 1), nil, 202, 0},
		{"no id", strings.Replace(opening(rev11, `{}`), `"id":0`, `"id":null`, 1), nil, 400, -32600},
		{"a session that is not there", opening(rev11, `{}`), []string{"Mcp-Session-Id: gone"}, 404, -32600},
		{"modern", strings.Replace(opening(rev11, `{}`), `"capabilities"`, meta+`,"capabilities"`, 1), modern("initialize"), 404, -32601},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rig, url := office(t, officeOptions{})
			got := post(t, url, tc.body, tc.headers...)
			if got.status != tc.status || got.errorCode() != tc.code || got.header.Get("Mcp-Session-Id") != "" {
				t.Errorf("got %d %v %s", got.status, got.header, got.body)
			}
			if got := rig.Bridge.Sessions().Stats(); got.Opened != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
	t.Run("too often", func(t *testing.T) {
		t.Parallel()
		rig, url := office(t, officeOptions{configure: func(c *configv1.Config) {
			c.Limits.CallerRate, c.Limits.MaxSessions = &configv1.Rate{PerSecond: 0.001, Burst: proto.Int32(1)}, proto.Int32(1)
		}})
		first := post(t, url, opening(rev11, `{}`))
		if again := post(t, url, opening(rev11, `{}`)); again.Error == nil || again.header.Get("Mcp-Session-Id") != "" {
			t.Errorf("got %d %v %s", again.status, again.header, again.body)
		}
		if got := rig.Bridge.Sessions().Stats(); first.status != 200 || got.Opened != 1 || got.Evicted != 0 {
			t.Errorf("%d, %+v", first.status, got)
		}
	})
}

func TestASessionIsInitializedOnce(t *testing.T) {
	t.Parallel()
	rig, url := office(t, officeOptions{})
	c := openWith(t, url, rev03, `{}`)
	for _, body := range []string{opening(rev11, allAbilities), "[" + opening(rev11, allAbilities) + "]"} {
		got := c.post(body)
		if !strings.Contains(got.body, "has been initialized") || got.header.Get("Mcp-Session-Id") != "" {
			t.Errorf("got %d %v %s", got.status, got.header, got.body)
		}
	}
	if got := rig.Bridge.Sessions().Stats(); got.Opened != 1 {
		t.Errorf("%+v", got)
	}
}

// from is an HTTP client at another address of the loopback.
func from(t *testing.T, address string) *http.Client {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, to)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestASessionOfSomebodyElse is as unknown as one that never was, whatever is
// asked of it.
func TestASessionOfSomebodyElse(t *testing.T) {
	t.Parallel()
	_, url := office(t, officeOptions{})
	own := openWith(t, url, rev11, `{}`)
	thief := &legacy{t: t, url: url, version: rev11, id: own.id, http: from(t, "127.0.0.2")}
	never := &legacy{t: t, url: url, version: rev11, id: strings.Repeat("x", 32), http: thief.http}
	for _, tc := range []struct{ method, body string }{
		{http.MethodPost, request("ping", "")},
		{http.MethodPost, request("tools/list", "")},
		{http.MethodPost, opening(rev11, `{}`)},
		{http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`},
		{http.MethodPost, `{"jsonrpc":"2.0","id":"ask-1","result":{}}`},
		{http.MethodPost, `[` + request("ping", "") + `]`},
		{http.MethodGet, ""},
		{http.MethodDelete, ""},
	} {
		got, want := thief.read(thief.do(tc.method, tc.body)), never.read(never.do(tc.method, tc.body))
		if got.status != 404 || got.errorCode() != -32600 || got.body != want.body || want.status != 404 {
			t.Errorf("%s %s: %d %s, and %d %s", tc.method, tc.body, got.status, got.body, want.status, want.body)
		}
	}
	if got := own.post(request("ping", "")); got.status != 200 || string(got.Result) != `{}` {
		t.Errorf("its owner: %d %s", got.status, got.body)
	}
}

func TestDELETEEndsASession(t *testing.T) {
	t.Parallel()
	waits := newSteps("wait")
	rig, url := office(t, officeOptions{more: []mcptest.NativeTool{waits.tool()}})
	c, other := openWith(t, url, rev11, allAbilities), openWith(t, url, rev11, allAbilities)
	get := c.stream(http.MethodGet, "")
	get.greeting()
	// One call has said something, one has said nothing yet, one asks.
	begun := c.begin(http.MethodPost, toolCall("1", "wait", wantsProgress))
	<-waits.entered
	waits.step <- mcptest.Progress(1, "")
	talking := begun.stream()
	talking.greeting()
	talking.method("notifications/progress")
	asking := c.stream(http.MethodPost, toolCall("2", "sign"))
	asking.greeting()
	asking.method("elicitation/create")
	silent := c.begin(http.MethodPost, toolCall("3", "wait"))
	<-waits.entered
	going := other.begin(http.MethodPost, toolCall("1", "wait", wantsProgress))
	<-waits.entered

	if got := c.read(c.do(http.MethodDelete, "")); got.status != 204 || got.body != "" {
		t.Errorf("DELETE: %d %s", got.status, got.body)
	}
	for range 2 {
		if err := <-waits.ended; err == nil {
			t.Error("a call went on")
		}
	}
	get.ended()
	talking.ended()
	asking.ended()
	if got := silent.answer(); got.Result != nil {
		t.Errorf("a call of a session that ended: %s", got.body)
	}
	for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodPost} {
		if got := c.read(c.do(method, request("ping", ""))); got.status != 404 {
			t.Errorf("%s after the end: %d %s", method, got.status, got.body)
		}
	}
	// The same ids in another session are other requests.
	waits.step <- mcptest.Progress(1, "")
	kept := going.stream()
	kept.greeting()
	kept.method("notifications/progress")
	close(waits.step)
	kept.result("It is done.")
	kept.ended()
	idle(t, rig.Bridge)
	if got := rig.Bridge.Sessions().Stats(); got.Sessions != 1 {
		t.Errorf("%+v", got)
	}
}

// TestVersionHeadersInASession: a revision that is not served is 400 whatever is
// sent (MCP 2025-11-25, Streamable HTTP, protocol version header). One that is
// served, but not the session's, is let by: what was agreed counts.
func TestVersionHeadersInASession(t *testing.T) {
	t.Parallel()
	_, url := office(t, officeOptions{})
	c := openWith(t, url, rev06, allAbilities)
	for _, version := range []string{"1.0", "2024-11-05", "x", "2025-11-26"} {
		for _, tc := range []struct{ method, body string }{
			{http.MethodPost, request("ping", "")},
			{http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`},
			{http.MethodPost, `{"jsonrpc":"2.0","id":"ask-1","result":{}}`},
			{http.MethodPost, "[" + request("ping", "") + "]"},
			{http.MethodGet, ""},
			{http.MethodDelete, ""},
		} {
			got := c.read(c.do(tc.method, tc.body, "MCP-Protocol-Version: "+version))
			if got.status != 400 || got.errorCode() != -32600 || !strings.Contains(got.body, `"requested":"`+version+`"`) {
				t.Errorf("%s %s as %s: %d %s", tc.method, tc.body, version, got.status, got.body)
			}
		}
	}
	for _, header := range []string{rev11, rev06, rev03, ""} {
		// 2025-06-18 brought links to resources.
		got := c.post(toolCall("1", "show_everything"), "MCP-Protocol-Version: "+header)
		if got.status != 200 || !strings.Contains(got.body, `"resource_link"`) {
			t.Errorf("%q: %d %s", header, got.status, got.body)
		}
		if got := c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "MCP-Protocol-Version: "+header); got.status != 202 || got.body != "" {
			t.Errorf("%q: a notification: %d %s", header, got.status, got.body)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if got := c.read(c.do(method, "", "MCP-Protocol-Version: 2026-07-28")); got.status != 405 {
			t.Errorf("modern %s: %d %s", method, got.status, got.body)
		}
	}
	if got := c.post(request("ping", ""), "MCP-Protocol-Version: 2026-07-28"); got.status != 400 || got.errorCode() != -32602 {
		t.Errorf("modern, and no _meta: %d %s", got.status, got.body)
	}
	if got := c.post(request("tools/list", meta), modern("tools/list")...); got.status != 200 || !strings.Contains(got.body, "resultType") {
		t.Errorf("a modern request with a session's id is modern: %d %.200s", got.status, got.body)
	}
}

func TestTwoSessionIDsInOneRequest(t *testing.T) {
	t.Parallel()
	_, url := office(t, officeOptions{})
	a, b := openWith(t, url, rev11, `{}`), openWith(t, url, rev11, `{}`)
	if got := post(t, url, request("ping", ""), "Mcp-Session-Id: "+a.id, "Mcp-Session-Id: "+b.id); got.status != 400 || got.errorCode() != -32600 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := post(t, url, request("ping", ""), "Mcp-Session-Id: "+a.id, "Mcp-Session-Id: "+a.id); got.status != 200 {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// TestWithoutASession serves what needs none, and says what does.
func TestWithoutASession(t *testing.T) {
	t.Parallel()
	_, url := office(t, officeOptions{})
	for _, tc := range []struct {
		body, header string
		status, code int
	}{
		{request("ping", ""), "", 200, 0},
		{request("tools/list", ""), "", 200, 0},
		{request("tools/call", `"name":"tidy"`), "", 200, 0},
		{request("resources/list", ""), rev06, 200, 0},
		{request("resources/templates/list", ""), rev03, 200, 0},
		{request("resources/read", `"uri":"desk://notes/1"`), "", 200, 0},
		{request("prompts/list", ""), "", 200, 0},
		{request("prompts/get", `"name":"greet","arguments":{"name":"A"}`), "", 200, 0},
		{request("completion/complete", `"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"tone","value":"w"}`), "", 200, 0},
		{request("logging/setLevel", `"level":"debug"`), "", 400, -32600},
		{request("resources/subscribe", `"uri":"desk://notes/1"`), rev11, 400, -32600},
		{request("resources/unsubscribe", `"uri":"desk://notes/1"`), rev11, 400, -32600},
		{`{"jsonrpc":"2.0","id":"ask-1","result":{}}`, "", 400, -32600},
		{`{"jsonrpc":"2.0","id":"ask-1","error":{"code":1,"message":"x"}}`, "", 400, -32600},
		{`[` + request("ping", "") + `]`, rev03, 400, -32600},
		{`[` + request("ping", "") + `]`, "", 400, -32600},
		{request("server/discover", ""), "", 200, -32601},
		{request("tasks/get", `"taskId":"t"`), "", 200, -32601},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "", 202, 0},
	} {
		var headers []string
		if tc.header != "" {
			headers = append(headers, "MCP-Protocol-Version: "+tc.header)
		}
		got := post(t, url, tc.body, headers...)
		if got.status != tc.status || got.errorCode() != tc.code {
			t.Errorf("%s: %d %s", tc.body, got.status, got.body)
		}
		if tc.status == 400 && !strings.Contains(tc.body, "ask-1") && !strings.HasPrefix(tc.body, "[") && !strings.Contains(got.body, "send initialize first") {
			t.Errorf("%s: the error does not say what to do: %s", tc.body, got.body)
		}
	}
	// What would need the client's answer cannot be had: it fails at once, and says
	// what is missing.
	for _, call := range []string{"sign", "interview", "pay"} {
		got := post(t, url, toolCall("1", call))
		if got.status != 200 || !strings.Contains(got.body, `"isError":true`) || !strings.Contains(got.body, "MISSING_CLIENT_CAPABILITY") {
			t.Errorf("%s: %d %s", call, got.status, got.body)
		}
	}
}

// TestAReplicaWithAnotherKey sends its client back to the start, once, as releases did whose ids were random.
func TestAReplicaWithAnotherKey(t *testing.T) {
	t.Parallel()
	_, one := office(t, officeOptions{})
	_, other := office(t, officeOptions{})
	c := openWith(t, one, rev11, `{}`)
	for _, id := range []string{c.id, strings.Repeat("aB3_", 8)} {
		before := &legacy{t: t, url: other, version: rev11, id: id, http: c.http}
		if got := before.post(request("ping", "")); got.status != 404 || got.errorCode() != -32600 {
			t.Errorf("got %d %s", got.status, got.body)
		}
		if got := openWith(t, other, rev11, `{}`).post(request("ping", "")); got.status != 200 {
			t.Errorf("opened anew: %d %s", got.status, got.body)
		}
	}
}

// TestAnyReplicaServesASession: with the key of the replica that opened it, another one knows its caller, its revision and what its
// client can do. It has no events of the other, and says so.
func TestAnyReplicaServesASession(t *testing.T) {
	t.Parallel()
	shared := officeOptions{session: func(o *session.Options) { o.Sealer = mcptest.FixedSealer(t) }}
	_, one := office(t, shared)
	_, other := office(t, shared)
	c := openWith(t, one, rev06, allAbilities)
	resumed := openWith(t, one, rev11, `{}`)
	first := resumed.stream(http.MethodGet, "")
	first.greeting()
	first.close()
	c.url, resumed.url = other, other
	if got := c.post(toolCall("1", "show_everything")); got.status != 200 || !strings.Contains(got.body, `"resource_link"`) {
		t.Errorf("the revision of the session: %d %s", got.status, got.body)
	}
	asking := c.stream(http.MethodPost, toolCall("2", "sign"))
	asking.method("elicitation/create")
	if got := c.read(c.do(http.MethodPost, `["2025-03-26 alone has batches"]`)); got.status != 400 {
		t.Errorf("a batch: %d %s", got.status, got.body)
	}
	thief := &legacy{t: t, url: other, version: rev06, id: c.id, http: from(t, "127.0.0.2")}
	if got := thief.post(request("ping", "")); got.status != 404 {
		t.Errorf("another caller: %d %s", got.status, got.body)
	}
	resp := resumed.do(http.MethodGet, "", "Last-Event-ID: 1-1")
	defer func() { _ = resp.Body.Close() }()
	text := make([]byte, 512)
	n, err := io.ReadAtLeast(resp.Body, text, 150)
	if got := string(text[:n]); err != nil || resp.StatusCode != 200 || !strings.HasPrefix(got, ": gap: ") {
		t.Errorf("%d %q, %v", resp.StatusCode, got, err)
	}
	if got := c.read(c.do(http.MethodDelete, "")); got.status != 204 {
		t.Errorf("DELETE: %d %s", got.status, got.body)
	}
	if got := c.post(request("ping", "")); got.status != 404 {
		t.Errorf("after its end: %d %s", got.status, got.body)
	}
}
