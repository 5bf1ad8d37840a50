// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/server"
)

// seedConversations adds everything that the modern conversations send.
func seedConversations(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("../internal/dialect/testdata/modern*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatalf("no conversations: %v", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range archive.Files {
			if strings.HasSuffix(part.Name, ".send") {
				body := part.Data
				if _, after, ok := bytes.Cut(body, []byte("\n\n")); ok {
					body = after // the lines before it are headers
				}
				body = bytes.TrimSpace(body)
				f.Add(body, true)
				f.Add(body, false)
			}
		}
	}
}

// repeatedIn are the headers that a client sends with a message.
func repeatedIn(msg *jsonrpc.Message) http.Header {
	header := http.Header{}
	header.Set("Mcp-Method", msg.Method)
	meta, _ := msg.Param("_meta")
	if version, ok := dialect.MetaVersion(meta); ok {
		header.Set("Mcp-Protocol-Version", version)
	}
	for _, member := range []string{"name", "uri", "taskId"} {
		if raw, ok := jsontext.Lookup(msg.Params, member); ok {
			text, _ := jsontext.Text(raw)
			header.Set("Mcp-Name", encodedHeader(text))
		}
	}
	return header
}

// anything takes whatever a client may send and checks what comes back for it.
type anything struct {
	rig    *mcptest.Rig
	schema *mcpschema.Schema
	logged *observer.ObservedLogs
}

// smallPagesAndAsks has lists of several pages, and questions.
func smallPagesAndAsks(c *configv1.Config) {
	c.Limits.MaxPageEntries, c.Destructive = proto.Int32(5), proto.String("confirm")
}

func newAnything(f *testing.F) *anything {
	f.Helper()
	core, logged := observer.New(zapcore.ErrorLevel)
	return &anything{
		schema: mcpschema.Load(f, mcpschema.Revision20260728), logged: logged,
		// The bridge recovers from panics, and says so in its log.
		rig: mcptest.Start(f, mcptest.Options{Native: mcptest.Desk(), Log: zap.New(core), Configure: smallPagesAndAsks}),
	}
}

// exchange sends a message to the modern era, with the headers that a client
// would send or without any. Whatever it is: a request has one reply, a
// notification none, notifications go before the reply, each message is on one
// line and one that the revision knows, and nothing is left behind.
func (a *anything) exchange(t *testing.T, body []byte, isHTTP bool) {
	t.Helper()
	msg := jsonrpc.Parse(body, jsonrpc.ProfileMCP, jsonrpc.Limits{})
	b := a.rig.Bridge
	if msg.Method == "subscriptions/listen" {
		b = a.rig.With(t, smallPagesAndAsks, server.Adjust{}).Bridge // its streams end here
	}
	in := &dialect.Inbound{
		Dialect: dialect.Modern, Origin: b.Flights().NewOrigin(), Message: &msg, Transport: "test", Route: "test", Caller: "ann",
	}
	if isHTTP {
		in.Header = repeatedIn(&msg)
	}
	var back [][]byte
	replied := false
	in.Send = func(message []byte) error {
		if replied {
			t.Errorf("behind the reply: %s", message)
		}
		back = append(back, bytes.Clone(message))
		if bytes.Contains(message, []byte("notifications/subscriptions/acknowledged")) {
			b.Feed().Close() // or it would never end
		}
		return nil
	}
	reply := b.BeginMessage(context.Background(), in)()
	replied = true
	if entries := a.logged.TakeAll(); len(entries) > 0 {
		t.Fatalf("%s: %v", entries[0].Message, entries[0].ContextMap())
	}
	if n := b.Flights().InFlight(); n != 0 {
		t.Errorf("%d requests are left", n)
	}
	isNotification := msg.Kind == jsonrpc.KindNotification && msg.Fault == nil
	switch {
	case (reply.Bytes() == nil) != isNotification:
		t.Fatalf("a %v is answered with %q", msg.Kind, reply.Bytes())
	case !isNotification:
		a.check(t, body, append(back, reply.Bytes()), reply.Then)
	case reply.Status != http.StatusAccepted || len(back) > 0:
		t.Errorf("a notification: %d %q", reply.Status, back)
	}
}

// check checks what came back, and what follows it.
func (a *anything) check(t *testing.T, body []byte, back [][]byte, then []byte) {
	t.Helper()
	for _, message := range append(slices.Clip(back), then) {
		if bytes.ContainsAny(message, "\r\n") {
			t.Errorf("more than a line: %q", message)
		}
		if message == nil {
			continue
		}
		if err := a.schema.CheckMessage(mcpschema.FromServer, message); err != nil {
			t.Errorf("%s: %v", message, err)
		}
	}
	reply := back[len(back)-1]
	if err := a.schema.CheckReply(body, reply); err != nil {
		t.Errorf("to %s: %s: %v", body, reply, err)
	}
	if err := a.schema.CheckMessage(mcpschema.FromClient, body); err == nil {
		if err := a.schema.CheckStream(body, back...); err != nil {
			t.Errorf("to %s: %q: %v", body, back, err)
		}
	}
}

func FuzzModernMessage(f *testing.F) {
	seedConversations(f)
	for _, seed := range []string{
		``, `{`, `[]`, `null`, `{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`,
	} {
		f.Add([]byte(seed), true)
	}
	a := newAnything(f)
	f.Fuzz(a.exchange)
}

// FuzzModernParams is FuzzModernMessage for envelopes that are good, so that
// what is within them is reached.
func FuzzModernParams(f *testing.F) {
	methods := []string{
		"server/discover", "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get",
		"completion/complete", "subscriptions/listen", "tasks/get", "tasks/update", "tasks/cancel",
	}
	for i, seeds := range [][]string{
		{``}, {`"cursor":"x"`, `"cursor":null`},
		{`"name":"sign","inputResponses":{"name":{"action":"accept"}},"requestState":""`, `"name":"route","arguments":{"stop":1e2}`, `"name":"sort"`, `"name":"do","arguments":{"job":"folding"}`, `"name":"wipe"`, `"name":"lab_echo","arguments":{"nonce":"\u0000"}`},
		{`"cursor":""`}, {``}, {`"uri":"desk://notes/1"`, `"uri":"lagoon://vehicles/101"`, `"uri":"a:"`, `"uri":"desk://safe","inputResponses":{}`},
		{``}, {`"name":"greet","arguments":{"name":"x"}`, `"name":"apologise"`},
		{`"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"tone","value":"w"},"context":{"arguments":{"a":"b"}}`, `"ref":{"type":"ref/resource","uri":"x"}`},
		{`"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"],"taskIds":["v1.x","t_1"]}`},
		{`"taskId":"v1.AAAA"`}, {`"taskId":"t_","inputResponses":{"a":{"roots":[]}}`}, {`"taskId":""`},
	} {
		for _, params := range seeds {
			f.Add(uint8(i), params, `{"elicitation":{},"sampling":{"tools":{}},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, `,"progressToken":"p","io.modelcontextprotocol/logLevel":"debug"`, `1`)
			f.Add(uint8(i), params, `{}`, `,"a/b":1,"progressToken":0`, `"\u00e9"`)
		}
	}
	a := newAnything(f)
	f.Fuzz(func(t *testing.T, which uint8, params, capabilities, more, id string) {
		if params != "" {
			params += ","
		}
		body := `{"jsonrpc":"2.0","id":` + id + `,"method":"` + methods[int(which)%len(methods)] + `","params":{` + params +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + more + `}}}`
		a.exchange(t, []byte(body), which >= 128)
	})
}
