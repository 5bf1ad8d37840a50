// SPDX-License-Identifier: Apache-2.0

package stdio_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/notify"
)

// desk begins a conversation with a sidecar in front of a backend that has
// something of everything.
func desk(ctx context.Context, t *testing.T, o stdio.Options) (*peer, *mcptest.Rig) {
	t.Helper()
	rig := mcptest.Start(t, mcptest.Options{Native: mcptest.Desk(), NoDemo: true})
	t.Cleanup(rig.Bridge.Sessions().Close)
	return talk(ctx, t, rig.Bridge, o), rig
}

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// opening is an initialize of a client that can be asked everything.
func opening(id, version string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"initialize","params":{"protocolVersion":"` + version +
		`","capabilities":{"elicitation":{},"sampling":{},"roots":{}},"clientInfo":{"name":"x","version":"1"}}}`
}

// begin opens a legacy conversation.
func (p *peer) begin(version string) {
	p.t.Helper()
	p.send(opening(`"i"`, version))
	if got := p.reply(); got.Result == nil || got.Result.ProtocolVersion != version {
		p.t.Fatalf("got %s", got.raw)
	}
	p.send(initialized)
}

// message is one line as a message.
func (p *peer) message() *jsonrpc.Message {
	p.t.Helper()
	line := p.line()
	m := jsonrpc.Parse([]byte(line), jsonrpc.ProfileMCP, jsonrpc.Limits{})
	if m.Fault != nil {
		p.t.Fatalf("%s: %s", m.Fault.Reason, line)
	}
	return &m
}

// method wants the next message to be a request or a notification.
func (p *peer) method(want string) *jsonrpc.Message {
	p.t.Helper()
	m := p.message()
	if m.Method != want {
		p.t.Fatalf("got %q %s%s, want %s", m.Method, m.Params, m.Result, want)
	}
	return m
}

// result wants the next message to be a result with an id and a text.
func (p *peer) result(id, text string) {
	p.t.Helper()
	if got := p.line(); !strings.Contains(got, `"id":`+id+`,"result"`) || !strings.Contains(got, text) {
		p.t.Fatalf("got %s, want a result of %s with %q", got, id, text)
	}
}

func toolCall(id, name, more string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `"` + more + `}}`
}

// respond answers a question.
func (p *peer) respond(q *jsonrpc.Message, rest string) {
	p.send(`{"jsonrpc":"2.0","id":` + string(q.ID.Raw()) + `,` + rest + `}`)
}

const (
	accepts       = `"result":{"action":"accept","content":{"name":"Ann"}}`
	wantsProgress = `,"_meta":{"progressToken":"p"}`
)

// metaWith is the _meta of a modern request that can be asked, with more.
func metaWith(more string) string {
	return strings.Replace(meta, `"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}`+more, 1)
}

func tell(t *testing.T, rig *mcptest.Rig, changes ...notify.Change) {
	t.Helper()
	for _, c := range changes {
		if err := rig.Bridge.Offers().Feed().Publish(c); err != nil {
			t.Fatal(err)
		}
	}
}

// TestQuestionsOverStdio are lines between the call and its result; the loop
// goes on reading meanwhile.
func TestQuestionsOverStdio(t *testing.T) {
	t.Parallel()
	p, _ := desk(t.Context(), t, stdio.Options{})
	p.begin("2025-11-25")
	p.send(toolCall("7", "sign", ""))
	q := p.method("elicitation/create")
	p.send(ping(`8`))
	p.result("8", "{}")
	p.send(`{"jsonrpc":"2.0","id":"ask-1","result":{}}`, `{"jsonrpc":"2.0","id":7,"result":{}}`)
	p.respond(q, accepts) // the next reply is to this one: an answer that nothing waits for has none
	p.result("7", "Signed by Ann.")
	p.respond(q, accepts)
	p.send(toolCall("9", "sign", ""))
	p.respond(p.method("elicitation/create"), `"error":{"code":-1,"message":"The user is away."}`)
	p.result("9", "The user is away.")
	// A call that is cancelled withdraws its question, and is not answered.
	p.send(toolCall("10", "sign", ""))
	q = p.method("elicitation/create")
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":10}}`)
	if m := p.method("notifications/cancelled"); !strings.Contains(string(m.Params), `"requestId":`+string(q.ID.Raw())) {
		t.Errorf("got %s", m.Params)
	}
	p.respond(q, accepts) // it crossed the cancellation
	p.send(ping(`"last"`))
	p.result(`"last"`, "{}")
	if rest := p.end(); len(rest) > 0 {
		t.Errorf("more was written: %q", rest)
	}
}

// TestChangesAreToldOnceTheClientIsReady: nothing that belongs to no request
// comes before notifications/initialized.
func TestChangesAreToldOnceTheClientIsReady(t *testing.T) {
	t.Parallel()
	p, rig := desk(t.Context(), t, stdio.Options{})
	p.send(opening("1", "2025-06-18"))
	p.reply()
	tell(t, rig, notify.Change{Kind: notify.ToolsListChanged}, notify.Change{Kind: notify.PromptsListChanged})
	for range 3 { // time enough for a change to come before its time
		p.send(ping(`"p"`))
		p.result(`"p"`, "{}")
	}
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized","params":{`+meta+`}}`, // this one is modern
		`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	p.send(ping(`"q"`))
	p.result(`"q"`, "{}")
	p.send(initialized)
	p.method("notifications/tools/list_changed")
	p.method("notifications/prompts/list_changed")
	p.send(initialized) // once more means nothing
	p.send(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"desk://seal"}}`)
	p.result("2", "{}")
	tell(t, rig, notify.Change{Kind: notify.ResourceUpdated, URI: "desk://notes/1"}, notify.Change{Kind: notify.ResourceUpdated, URI: "desk://seal/motto"})
	if m := p.method("notifications/resources/updated"); string(m.Params) != `{"uri":"desk://seal/motto"}` {
		t.Errorf("got %s", m.Params)
	}
	p.send(`{"jsonrpc":"2.0","id":3,"method":"resources/unsubscribe","params":{"uri":"desk://seal"}}`)
	p.result("3", "{}")
	tell(t, rig, notify.Change{Kind: notify.ResourceUpdated, URI: "desk://seal"}, notify.Change{Kind: notify.ToolsListChanged})
	p.method("notifications/tools/list_changed")
	if rest := p.end(); len(rest) > 0 {
		t.Errorf("more was written: %q", rest)
	}
}

// TestErasAreInterleaved has what a legacy session knows mean nothing to a
// modern request on the same pipe, and the other way round.
func TestErasAreInterleaved(t *testing.T) {
	t.Parallel()
	p, rig := desk(t.Context(), t, stdio.Options{})
	modern := func(id, name, more string) string {
		return toolCall(id, name, `,`+metaWith(more))
	}
	p.send(modern("1", "sign", "")) // before initialize
	p.result("1", `"input_required"`)
	p.begin("2025-11-25")
	p.send(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}`)
	p.result("2", "{}")
	p.send(`{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"desk://seal"}}`)
	p.result("3", "{}")

	p.send(modern("4", "sort", "")) // no level: no logs; no token: no progress
	p.result("4", `"resultType":"complete"`)
	p.send(modern("5", "sort", `,"io.modelcontextprotocol/logLevel":"warning"`))
	if m := p.method("notifications/message"); !strings.Contains(string(m.Params), `"warning"`) {
		t.Errorf("got %s", m.Params)
	}
	p.result("5", `"resultType":"complete"`)
	p.send(toolCall("6", "sort", "")) // the session's level still holds
	for _, level := range []string{"debug", "warning"} {
		if m := p.method("notifications/message"); !strings.Contains(string(m.Params), `"`+level+`"`) {
			t.Errorf("got %s, want %s", m.Params, level)
		}
	}
	p.result("6", "Sorted.")

	// A modern request that asks gets its questions back, a legacy one is asked; a
	// modern one without capabilities has none of the session's.
	p.send(modern("7", "sign", ""))
	p.result("7", `"input_required"`)
	p.send(toolCall("8", "sign", ""))
	q := p.method("elicitation/create")
	p.send(toolCall("9", "sign", `,`+meta))
	if got := p.line(); !strings.Contains(got, `"id":9`) || !strings.Contains(got, `-32021`) {
		t.Errorf("got %s", got)
	}
	p.respond(q, accepts)
	p.result("8", "Signed by Ann.")

	// Each era hears of changes in its own way: tagged on a stream, or not.
	p.send(`{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + meta + `}}`)
	p.method("notifications/subscriptions/acknowledged")
	tell(t, rig, notify.Change{Kind: notify.ToolsListChanged}, notify.Change{Kind: notify.ResourceUpdated, URI: "desk://seal"})
	got := []string{p.line(), p.line(), p.line()}
	slices.Sort(got)
	want := []string{
		`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"desk://seal"}}`,
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	for _, method := range []string{"ping", "logging/setLevel", "initialize"} { // modern has none of these
		p.send(`{"jsonrpc":"2.0","id":"x","method":"` + method + `","params":{"level":"debug",` + meta + `}}`)
		if got := p.reply(); got.code() != errmap.MethodNotFound {
			t.Errorf("%s: %s", method, got.raw)
		}
	}
	p.send(`{"jsonrpc":"2.0","id":"y","method":"server/discover"}`) // and this the other way round
	if got := p.reply(); got.code() != errmap.MethodNotFound {
		t.Errorf("got %s", got.raw)
	}
	rest := p.end() // the stream of changes ends with the conversation
	if len(rest) != 2 || !strings.Contains(rest[0], `"id":"l","result"`) || !strings.Contains(rest[1], "notifications/cancelled") {
		t.Errorf("at the end: %q", rest)
	}
}

// TestInitializeTwice begins anew: what the first session waited for is given
// up, and nothing of it is left.
func TestInitializeTwice(t *testing.T) {
	t.Parallel()
	p, rig := desk(t.Context(), t, stdio.Options{})
	p.begin("2025-11-25")
	p.send(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"desk://seal"}}`)
	p.result("1", "{}")
	p.send(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}`)
	p.result("2", "{}")
	p.send(toolCall("3", "sign", ""))
	old := p.method("elicitation/create")
	p.send(opening("4", "2025-06-18"))
	got := []string{p.line(), p.line()} // in either order
	slices.Sort(got)
	if !strings.Contains(got[0], `"id":3,"result":{"content"`) || !strings.Contains(got[0], "session ended") || !strings.Contains(got[1], `"protocolVersion":"2025-06-18"`) {
		t.Errorf("got %q", got)
	}
	tell(t, rig, notify.Change{Kind: notify.ResourceUpdated, URI: "desk://seal"}, notify.Change{Kind: notify.ToolsListChanged})
	p.send(toolCall("5", "sort", ""))
	if m := p.method("notifications/message"); !strings.Contains(string(m.Params), `"warning"`) {
		t.Errorf("the level of the first session holds: %s", m.Params)
	}
	p.result("5", "Sorted.")
	p.send(toolCall("6", "sign", ""))
	q := p.method("elicitation/create")
	if string(q.ID.Raw()) == string(old.ID.Raw()) {
		t.Errorf("both questions have the id %s", q.ID.Raw())
	}
	p.respond(old, strings.Replace(accepts, "Ann", "Mallory", 1)) // late, and not for this one: nothing comes of it
	p.respond(q, accepts)
	p.result("6", "Signed by Ann.")
	p.send(initialized)
	p.method("notifications/tools/list_changed")
	if rest := p.end(); len(rest) > 0 {
		t.Errorf("more was written: %q", rest)
	}
	if got := rig.Bridge.Sessions().Stats(); got.Sessions != 0 || got.Opened != 2 {
		t.Errorf("%+v", got)
	}
}

// TestInitializeCannotBeCancelled (MCP 2025-11-25, cancellation): a client that
// tries gets its answer.
func TestInitializeCannotBeCancelled(t *testing.T) {
	t.Parallel()
	p, _ := desk(t.Context(), t, stdio.Options{})
	p.send(opening(`1`, "2025-11-25"), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	if got := p.reply(); got.Result == nil || got.Result.ProtocolVersion != "2025-11-25" {
		t.Errorf("got %s", got.raw)
	}
	p.end()
}

// TestAMessageBehindInitializeBelongsToItsSession, without waiting for the answer:
// scripts write their lines at once.
func TestAMessageBehindInitializeBelongsToItsSession(t *testing.T) {
	t.Parallel()
	p, _ := desk(t.Context(), t, stdio.Options{})
	go func() {
		for _, line := range []string{
			opening("1", "2025-11-25"), initialized,
			`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"emergency"}}`, toolCall("3", "tidy", ""),
		} {
			_, _ = fmt.Fprintln(p.in, line)
		}
	}()
	seen := map[string]bool{}
	for range 3 {
		r := p.reply()
		seen[string(r.ID)] = r.Result != nil && r.Error == nil
	}
	if !seen["1"] || !seen["2"] || !seen["3"] {
		t.Errorf("answered: %v", seen)
	}
	p.end()
}

// TestTheEndOfInputEndsQuestions: there is no client to answer them, so that the
// process need not wait for the grace period.
func TestTheEndOfInputEndsQuestions(t *testing.T) {
	t.Parallel()
	p, rig := desk(t.Context(), t, stdio.Options{Grace: time.Hour})
	p.begin("2025-11-25")
	p.send(toolCall("1", "sign", ""))
	p.method("elicitation/create")
	rest := p.end()
	if len(rest) != 1 || !strings.Contains(rest[0], `"id":1,"result"`) || !strings.Contains(rest[0], "session ended") {
		t.Errorf("at the end: %q", rest)
	}
	if n := rig.Bridge.Flights().InFlight(); n != 0 || rig.Bridge.Sessions().Stats().Sessions != 0 {
		t.Errorf("%d calls in flight, %+v", n, rig.Bridge.Sessions().Stats())
	}
}

// TestASignalLetsQuestionsBeAnswered: the client is still there, and the call
// has its grace period.
func TestASignalLetsQuestionsBeAnswered(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	p, rig := desk(ctx, t, stdio.Options{Grace: time.Minute})
	p.begin("2025-11-25")
	p.send(toolCall("1", "sign", ""))
	q := p.method("elicitation/create")
	stop()
	// The feed is closed when the conversation has begun to end.
	for rig.Bridge.Offers().Feed().Publish(notify.Change{Kind: notify.ToolsListChanged}) == nil {
		if m := p.message(); m.Method != "notifications/tools/list_changed" {
			t.Fatalf("got %+v", m)
		}
	}
	p.respond(q, accepts)
	p.result("1", "Signed by Ann.")
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
}

// TestProgressOverStdio goes before its result, in the words of the call's era.
func TestProgressOverStdio(t *testing.T) {
	t.Parallel()
	p, _ := desk(t.Context(), t, stdio.Options{})
	p.begin("2025-03-26")
	p.send(`{"jsonrpc":"2.0","id":0,"method":"logging/setLevel","params":{"level":"emergency"}}`)
	p.result("0", "{}")
	p.send(toolCall("1", "sort", wantsProgress))
	for _, want := range []string{`"progress":1,`, `"progress":4,`, `"progress":10,`} {
		if m := p.method("notifications/progress"); !strings.Contains(string(m.Params), want) {
			t.Errorf("got %s, want %s", m.Params, want)
		}
	}
	p.result("1", "Sorted.")
	p.end()
}

// TestBatchesOverStdio are lines in a session of 2025-03-26, and in no other.
func TestBatchesOverStdio(t *testing.T) {
	t.Parallel()
	p, _ := desk(t.Context(), t, stdio.Options{MaxBatch: 5})
	batch := "[" + ping(`"a"`) + "," + initialized + "," + toolCall("2", "tidy", "") + "]"
	for _, version := range []string{"2025-11-25", "2025-06-18"} {
		p.begin(version)
		p.send(batch)
		if got := p.reply(); got.code() != errmap.InvalidEnvelope {
			t.Errorf("%s: %s", version, got.raw)
		}
	}
	p.begin("2025-03-26")
	p.send(batch)
	if got := p.line(); !strings.HasPrefix(got, `[{"jsonrpc":"2.0","id":"a","result":{}},{"jsonrpc":"2.0","id":2,"result"`) || !strings.HasSuffix(got, "]") {
		t.Errorf("got %s", got)
	}
	p.send("["+initialized+","+initialized+"]", ping(`"b"`)) // nothing to answer
	p.result(`"b"`, "{}")
	p.send("[" + ping("1") + "," + ping("1") + ",7," + opening("3", "2025-11-25") + "," + strings.Replace(ping("4"), `{}`, `{`+meta+`}`, 1) + "]")
	got := p.line()
	for _, want := range []string{`[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":1,"error"`, `DUPLICATE_REQUEST_ID`, `{"jsonrpc":"2.0","error"`, `"id":3,"error":{"code":-32600`, `"id":4,"error":{"code":-32600`} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s in it", got, want)
		}
	}
	for text, want := range map[string]errmap.Code{
		"[]": errmap.InvalidEnvelope, "[" + ping("1"): errmap.ParseError,
		"[" + strings.Repeat(ping("1")+",", 5) + ping("1") + "]": errmap.PayloadTooLarge,
	} {
		p.send(text)
		if got := p.reply(); got.code() != want {
			t.Errorf("%s: %s", text, got.raw)
		}
	}
	// What a call says meanwhile comes line by line.
	p.send("[" + toolCall("5", "sort", wantsProgress) + "]")
	for _, method := range []string{"progress", "progress", "message", "progress"} {
		p.method("notifications/" + method)
	}
	if got := p.line(); !strings.HasPrefix(got, `[{"jsonrpc":"2.0","id":5,"result"`) {
		t.Errorf("got %s", got)
	}
	if rest := p.end(); len(rest) > 0 {
		t.Errorf("more was written: %q", rest)
	}
}
