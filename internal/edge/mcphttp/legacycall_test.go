// SPDX-License-Identifier: Apache-2.0

package mcphttp_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// TestACallStreamsItsProgressAndThenItsResult, with ids that a client can come
// back with; the event that is nothing but an id is for 2025-11-25 alone.
func TestACallStreamsItsProgressAndThenItsResult(t *testing.T) {
	t.Parallel()
	for _, version := range revisions() {
		for _, proto := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s over HTTP/%d", version, proto), func(t *testing.T) {
				t.Parallel()
				rig, url := office(t, officeOptions{})
				c := openAs(t, mcptest.Client(t, proto), url, version, `{}`)
				get := c.stream(http.MethodGet, "")
				empty(t, c.post(request("logging/setLevel", `"level":"warning"`)))
				for range 2 {
					call := c.stream(http.MethodPost, toolCall("1", "sort", wantsProgress))
					if version == rev11 {
						call.greeting()
					}
					ids := map[string]bool{call.last: true}
					for _, want := range []string{"1", "4", "log", "10"} {
						var m *jsonrpc.Message
						if want == "log" {
							m = call.method("notifications/message")
							if !strings.Contains(string(m.Params), `"letters":9007199254740993`) {
								t.Errorf("got %s", m.Params)
							}
						} else if m = call.method("notifications/progress"); !strings.HasPrefix(string(m.Params), `{"progressToken":"p","progress":`+want+`,`) {
							t.Errorf("got %s, want progress %s", m.Params, want)
						}
						if ids[call.last] || call.last == "" {
							t.Errorf("the event id %q", call.last)
						}
						ids[call.last] = true
					}
					if m := call.result("Sorted."); string(m.ID.Raw()) != "1" {
						t.Errorf("the id %s", m.ID.Raw())
					}
					call.ended()
				}
				// Nothing of that is on the other stream.
				tell(t, rig, lists()[0])
				if version == rev11 {
					get.greeting()
				}
				get.method("notifications/tools/list_changed")
			})
		}
	}
}

// TestWhoWantsNothingButTheReplyGetsJSON, whatever the tool has to say.
func TestWhoWantsNothingButTheReplyGetsJSON(t *testing.T) {
	t.Parallel()
	_, url := office(t, officeOptions{})
	c := openWith(t, url, rev11, allAbilities)
	empty(t, c.post(request("logging/setLevel", `"level":"emergency"`)))
	if got := c.post(toolCall("1", "sort")); got.header.Get("Content-Type") != "application/json" || !strings.Contains(got.body, "Sorted.") {
		t.Errorf("no progress, no logs: %v %s", got.header, got.body)
	}
	empty(t, c.post(request("logging/setLevel", `"level":"debug"`)))
	if got := c.post(toolCall("1", "sort", wantsProgress), "Accept: application/json"); got.header.Get("Content-Type") != "application/json" || !strings.Contains(got.body, "Sorted.") {
		t.Errorf("no stream: %v %s", got.header, got.body)
	}
	if got := c.post(request("tools/list", ""), "Accept: text/event-stream"); got.header.Get("Content-Type") != "text/event-stream" || !strings.Contains(got.body, `"tools"`) {
		t.Errorf("nothing but a stream: %v %.100s", got.header, got.body)
	}
}

func TestLogLevelsAreTheSessions(t *testing.T) {
	t.Parallel()
	_, url := office(t, officeOptions{})
	loud, quiet, silent := openWith(t, url, rev11, `{}`), openWith(t, url, rev06, `{}`), openWith(t, url, rev03, `{}`)
	empty(t, loud.post(request("logging/setLevel", `"level":"debug"`)))
	empty(t, silent.post(request("logging/setLevel", `"level":"critical"`)))
	for _, tc := range []struct {
		client *legacy
		want   []string
	}{{loud, []string{"debug", "warning"}}, {quiet, []string{"warning"}}, {silent, nil}} {
		got := tc.client.post(toolCall("1", "sort"))
		for _, level := range []string{"debug", "warning"} {
			wanted := strings.Contains(fmt.Sprint(tc.want), level)
			if strings.Contains(got.body, `"level":"`+level+`"`) != wanted {
				t.Errorf("%s, %s: %s", tc.client.version, level, got.body)
			}
		}
	}
	for _, params := range []string{`"level":"loud"`, `"level":7`, ``, `"level":""`} {
		if got := loud.post(request("logging/setLevel", params)); got.status != 200 || got.errorCode() != -32602 {
			t.Errorf("%s: %d %s", params, got.status, got.body)
		}
	}
	// A modern request says its own level, and hears nothing without one.
	modernCall := request("tools/call", `"name":"sort",`+meta)
	if got := loud.post(modernCall, modern("tools/call", "Mcp-Name: sort")...); got.status != 200 || strings.Contains(got.body, "notifications/message") {
		t.Errorf("a modern request with a session's id: %s", got.body)
	}
}

func TestUnknownToolsAreErrorsAndArgumentsAreResults(t *testing.T) {
	t.Parallel()
	_, url := office(t, officeOptions{})
	c := openWith(t, url, rev11, `{}`)
	if got := c.post(toolCall("7", "nothing")); got.status != 200 || got.errorCode() != -32602 || string(got.ID) != "7" {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := c.post(toolCall("7", "weigh")); got.status != 200 || !strings.Contains(got.body, `"isError":true`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := c.post(request("resources/read", `"uri":"desk://nothing"`)); got.status != 200 || got.errorCode() != -32002 || !strings.Contains(got.body, `"uri":"desk://nothing"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// TestAResultWaitsForItsClient: a connection that breaks cancels nothing, and
// the client gets what it missed, once.
func TestAResultWaitsForItsClient(t *testing.T) {
	t.Parallel()
	for _, version := range revisions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			works := newSteps("work")
			rig, url := office(t, officeOptions{more: []mcptest.NativeTool{works.tool()}})
			c := openWith(t, url, version, `{}`)
			begun := c.begin(http.MethodPost, toolCall("5", "work", wantsProgress))
			<-works.entered
			works.step <- mcptest.Progress(1, "")
			call := begun.stream()
			if version == rev11 {
				call.greeting()
			}
			call.method("notifications/progress")
			seen := call.last
			call.close() // the connection breaks
			works.step <- mcptest.Progress(2, "")
			again := c.stream(http.MethodGet, "", "Last-Event-ID: "+seen)
			progress := func(e *sse, want int) {
				t.Helper()
				if m := e.method("notifications/progress"); !strings.Contains(string(m.Params), `"progress":`+strconv.Itoa(want)) {
					t.Errorf("got %s, want %d", m.Params, want)
				}
			}
			progress(again, 2)
			again.close()
			works.step <- mcptest.Progress(3, "")
			close(works.step)
			if err := <-works.ended; err != nil {
				t.Errorf("the call was cancelled: %v", err)
			}
			last := c.stream(http.MethodGet, "", "Last-Event-ID: "+again.last)
			progress(last, 3)
			if m := last.result("It is done."); string(m.ID.Raw()) != "5" {
				t.Errorf("the id %s", m.ID.Raw())
			}
			last.ended()
			c.stream(http.MethodGet, "", "Last-Event-ID: "+last.last).ended()
			// No other client gets it, in the session or out of it.
			other := openWith(t, url, version, `{}`)
			if got := other.read(other.do(http.MethodGet, "", "Last-Event-ID: "+seen)); got.status != 400 {
				t.Errorf("another session resumes it: %d", got.status)
			}
			get := c.stream(http.MethodGet, "")
			tell(t, rig, lists()[0])
			if version == rev11 {
				get.greeting()
			}
			get.method("notifications/tools/list_changed")
			idle(t, rig.Bridge)
		})
	}
}

// TestWhatWasMadeForAnotherViewIsNotReplayed: once rules about results change, what is kept of a call for a client that comes back is lost,
// and what belongs to no request is not.
func TestWhatWasMadeForAnotherViewIsNotReplayed(t *testing.T) {
	t.Parallel()
	works := newSteps("work")
	rig, url := office(t, officeOptions{more: []mcptest.NativeTool{works.tool()}, configure: func(c *configv1.Config) {
		c.Access.Policy = &configv1.Policy{Rules: []*configv1.PolicyRule{{Name: "never", On: "result", Effect: "deny", When: "false", Tools: []string{"desk.work"}}}}
	}})
	c := openWith(t, url, rev11, `{}`)
	get := c.stream(http.MethodGet, "")
	get.greeting()
	greeted := get.last
	get.close()
	begun := c.begin(http.MethodPost, toolCall("5", "work", wantsProgress))
	<-works.entered
	works.step <- mcptest.Progress(1, "")
	call := begun.stream()
	call.greeting()
	call.method("notifications/progress")
	seen := call.last
	call.close()
	close(works.step)
	if err := <-works.ended; err != nil {
		t.Fatal(err)
	}
	again := c.stream(http.MethodGet, "", "Last-Event-ID: "+seen)
	again.result("It is done.")
	again.close()
	rules := rig.App().Rules()
	rules.Replace(rules.Set(), rig.Live.Current())
	for range 2 { // it is gone for good
		if got := c.read(c.do(http.MethodGet, "", "Last-Event-ID: "+seen)); got.status != 400 || !strings.Contains(got.body, "without Last-Event-ID") {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	tell(t, rig, lists()[0])
	c.stream(http.MethodGet, "", "Last-Event-ID: "+greeted).method("notifications/tools/list_changed")
}

// TestAQuietCallLetsItsClientGo: since 2025-11-25 a connection may be closed
// while nothing happens; older clients would take it for the end.
func TestAQuietCallLetsItsClientGo(t *testing.T) {
	t.Parallel()
	for _, version := range revisions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			rests := newSteps("rest")
			_, url := office(t, officeOptions{more: []mcptest.NativeTool{rests.tool()}})
			c := openWith(t, url, version, allAbilities)
			begun := c.begin(http.MethodPost, toolCall("5", "rest"))
			<-rests.entered
			rests.step <- quiet()
			if version != rev11 {
				close(rests.step)
				if got := begun.answer(); got.header.Get("Content-Type") != "application/json" || !strings.Contains(got.body, "It is done.") {
					t.Errorf("got %v %s", got.header, got.body)
				}
				return
			}
			call := begun.stream()
			call.greeting()
			if got := call.next(); got.retry == "" || got.id != "" || got.hasData {
				t.Errorf("got %+v, want when to come back", got)
			}
			call.ended()
			again := c.stream(http.MethodGet, "", "Last-Event-ID: "+call.last)
			rests.step <- quiet() // and once more, while it waits
			if got := again.next(); got.retry == "" {
				t.Errorf("got %+v, want when to come back", got)
			}
			again.ended()
			close(rests.step)
			if err := <-rests.ended; err != nil {
				t.Error(err)
			}
			last := c.stream(http.MethodGet, "", "Last-Event-ID: "+call.last)
			last.result("It is done.")
			last.ended()
		})
	}
}

// TestACancelledLegacyCallIsNotAnswered, and its stream ends.
func TestACancelledLegacyCallIsNotAnswered(t *testing.T) {
	t.Parallel()
	waits := newSteps("wait")
	rig, url := office(t, officeOptions{more: []mcptest.NativeTool{waits.tool()}})
	c, other := openWith(t, url, rev11, `{}`), openWith(t, url, rev11, `{}`)
	cancel := func(id string) string {
		return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
	}
	silent := c.begin(http.MethodPost, toolCall("7", "wait"))
	<-waits.entered
	begun := c.begin(http.MethodPost, toolCall(`"7"`, "wait", wantsProgress))
	<-waits.entered
	waits.step <- mcptest.Progress(1, "") // either takes it, and one may have no token
	kept := other.begin(http.MethodPost, toolCall("7", "wait"))
	<-waits.entered
	for _, id := range []string{"8", `"x"`, "null", "{}", "7", "7", `"7"`} {
		if got := c.post(cancel(id)); got.status != 202 || got.body != "" {
			t.Errorf("%s: %d %s", id, got.status, got.body)
		}
	}
	for range 2 {
		if err := <-waits.ended; err == nil {
			t.Error("a call went on")
		}
	}
	if got := silent.answer(); got.body != "" || got.status == 200 {
		t.Errorf("a cancelled call is answered: %d %s", got.status, got.body)
	}
	if resp := <-begun.resp; resp != nil {
		if got := c.read(resp); strings.Contains(got.body, `"id":"7"`) {
			t.Errorf("a cancelled call is answered: %s", got.body)
		}
	}
	close(waits.step)
	if got := kept.answer(); !strings.Contains(got.body, "It is done.") {
		t.Errorf("the same id in another session: %d %s", got.status, got.body)
	}
	// Nothing but a call can be cancelled: not the first thing that was said.
	if got := c.post(cancel("0")); got.status != 202 {
		t.Error(got.status)
	}
	empty(t, c.post(request("ping", "")))
	idle(t, rig.Bridge)
}

// TestAnIDTwiceInOneSession is refused, and the first one goes on.
func TestAnIDTwiceInOneSession(t *testing.T) {
	t.Parallel()
	waits := newSteps("wait")
	_, url := office(t, officeOptions{more: []mcptest.NativeTool{waits.tool()}})
	c := openWith(t, url, rev11, `{}`)
	first := c.begin(http.MethodPost, toolCall("7", "wait"))
	<-waits.entered
	if got := c.post(toolCall("7", "tidy")); got.status != 400 || got.errorCode() != -32600 || string(got.ID) != "7" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := c.post(toolCall(`"7"`, "tidy")); got.status != 200 {
		t.Errorf("another id: %d %s", got.status, got.body)
	}
	close(waits.step)
	if got := first.answer(); !strings.Contains(got.body, "It is done.") {
		t.Errorf("the first: %d %s", got.status, got.body)
	}
}

// TestMoreStreamsThanASessionKeeps forgets the oldest, so that they cannot be resumed for ever.
func TestMoreStreamsThanASessionKeeps(t *testing.T) {
	t.Parallel()
	_, url := office(t, officeOptions{session: func(o *session.Options) { o.MaxStreams = 2 }})
	c := openWith(t, url, rev11, `{}`)
	var ids []string
	for range 4 {
		call := c.stream(http.MethodPost, toolCall("1", "sort", wantsProgress))
		call.greeting()
		ids = append(ids, call.last)
		for range 4 {
			call.next()
		}
		call.result("Sorted.")
		call.ended()
	}
	for i, id := range ids {
		resp := c.do(http.MethodGet, "", "Last-Event-ID: "+id)
		_ = resp.Body.Close()
		if (resp.StatusCode == 200) != (i >= 2) {
			t.Errorf("stream %d: %d", i, resp.StatusCode)
		}
	}
}

// TestModernMembersMeanNothingInALegacyCall: they are anybody's names there.
func TestModernMembersMeanNothingInALegacyCall(t *testing.T) {
	t.Parallel()
	rig, url := office(t, officeOptions{})
	c := openWith(t, url, rev11, `{}`)
	body := request("tools/call", `"name":"tidy","requestState":7,"inputResponses":[],"_meta":{"io.modelcontextprotocol/logLevel":"loud","com.example/x":1}`)
	if got := c.post(body); got.status != 200 || got.Error != nil {
		t.Errorf("got %d %s", got.status, got.body)
	}
	seen := rig.Native.Seen()
	call, ok := seen[len(seen)-1].(*outriggerv1.ToolCall)
	if !ok || string(call.GetMetaJson()) != `{"com.example/x":1}` || call.GetRequestState() != nil || call.GetInputResponses() != nil {
		t.Errorf("the backend was sent %v", call)
	}
}

// TestSchemasThatLegacyClientsTake: they refuse the whole list for one property
// that is no object, and modern ones see every schema as it is.
func TestSchemasThatLegacyClientsTake(t *testing.T) {
	t.Parallel()
	const loose = `{"type":"object","properties":{"any":true,"none":false,"in":{"properties":{"deep":true}}}}`
	_, url := office(t, officeOptions{more: []mcptest.NativeTool{
		{Declared: mcptest.JSONTool("loose", "Takes anything.", loose, loose), Outcome: mcptest.Success(`{}`)},
	}})
	body := request("tools/list", "")
	for _, version := range revisions() {
		c := openWith(t, url, version, `{}`)
		got := c.post(body)
		const shown = `{"type":"object","properties":{"any":{},"none":{"not":{}},"in":{"properties":{"deep":true}}}}`
		if !strings.Contains(got.body, `"inputSchema":`+shown+`,"outputSchema":`+shown) {
			t.Errorf("%s: %s", version, got.body)
		}
		if err := mcpschema.Load(t, version).CheckReply([]byte(body), []byte(got.body)); err != nil {
			t.Error(err)
		}
	}
	if got := post(t, url, request("tools/list", meta), modern("tools/list")...); !strings.Contains(got.body, `"inputSchema":`+loose+`,"outputSchema":`+loose) {
		t.Errorf("modern: %s", got.body)
	}
}
