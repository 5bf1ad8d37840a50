// SPDX-License-Identifier: Apache-2.0

package dialect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

var update = flag.Bool("update", false, "rewrite the golden conversations")

// TestConversations replays testdata/*.txtar. The opening comment of a file says
// what it guards, and its name begins with its dialect. Where there is a file
// "rig", it says what is behind the bridge (see open); else it is the demo
// service.
//
// In a file whose name goes on with a revision, such as legacy_20250618_, the
// messages are of that revision (see TestConversationsConform).
//
// Each NN.send holds optional "Name: value" header lines, an empty line and one
// message. In both, ${MM:result.member} is what exchange MM was answered with.
// NN.meanwhile is what happens while the message is answered (see meanwhile).
// NN.changed is what changes while no message is answered (see changed).
// NN.wrong says why a message breaks the schema, where that is on purpose and
// not answered with an error (see TestConversationsConform).
// NN.want holds the HTTP status and everything that was sent back, in its order
// and indented: notifications, the reply, and what follows it on stdio.
func TestConversations(t *testing.T) {
	t.Parallel()
	shared := &rigs{t: t, by: map[string]*mcptest.Rig{}}
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			replay(t, shared, file)
		})
	}
}

func conversationConfig() *configv1.Config {
	return &configv1.Config{Server: &configv1.Server{Name: "outrigger", Version: "0.0.0-test", Instructions: "Ask for the map first."}}
}

// conversation is one file while it is replayed.
type conversation struct {
	t       *testing.T
	rig     *mcptest.Rig
	dialect dialect.Dialect
	profile jsonrpc.Profile
	// isStdio leaves out headers.
	isStdio bool
	// keeps has initialize open a session, which the messages behind it belong to.
	keeps   bool
	session *session.Session
	// replies are the replies so far by the numbers of their exchanges.
	replies map[string][]byte
}

func replay(t *testing.T, shared *rigs, file string) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	changes := false
	for _, f := range archive.Files {
		files[f.Name] = f.Data
		changes = changes || strings.HasSuffix(f.Name, ".meanwhile") || strings.HasSuffix(f.Name, ".changed")
	}
	c := &conversation{t: t, replies: map[string][]byte{}}
	c.dialect, c.profile = dialectOf(t, filepath.Base(file))
	c.open(shared, files["rig"], !changes)
	out := &txtar.Archive{Comment: archive.Comment}
	for _, f := range archive.Files {
		name, isSend := strings.CutSuffix(f.Name, ".send")
		if name, ok := strings.CutSuffix(f.Name, ".changed"); ok {
			out.Files = append(out.Files, f, txtar.File{Name: name + ".want", Data: c.changed(f.Data)})
		}
		if !isSend {
			if f.Name == "rig" || strings.HasSuffix(f.Name, ".wrong") {
				out.Files = append(out.Files, f)
			}
			continue
		}
		out.Files = append(out.Files, f)
		script, ok := files[name+".meanwhile"]
		if ok {
			out.Files = append(out.Files, txtar.File{Name: name + ".meanwhile", Data: script})
		}
		out.Files = append(out.Files, txtar.File{Name: name + ".want", Data: c.exchange(name, f.Data, script)})
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(out), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, f := range out.Files {
		if diff := cmp.Diff(string(files[f.Name]), string(f.Data)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", f.Name, diff)
		}
	}
}

func dialectOf(t *testing.T, name string) (dialect.Dialect, jsonrpc.Profile) {
	t.Helper()
	switch {
	case strings.HasPrefix(name, "canonical"):
		return dialect.Canonical, jsonrpc.ProfileCanonical
	case strings.HasPrefix(name, "modern"):
		return dialect.Modern, jsonrpc.ProfileMCP
	case strings.HasPrefix(name, "legacy"):
		return dialect.Legacy, jsonrpc.ProfileMCP
	}
	t.Fatalf("%s: want a name that begins with canonical, modern or legacy", name)
	return 0, 0
}

// maxTold is more than any exchange sends.
const maxTold = 256

// exchange sends one message and renders what comes back for people to review.
func (c *conversation) exchange(name string, send, script []byte) []byte {
	c.t.Helper()
	header, body := c.read(send)
	msg := jsonrpc.Parse(body, c.profile, jsonrpc.Limits{})
	told := make(chan []byte, maxTold)
	in := &dialect.Inbound{
		Dialect: c.dialect, Origin: c.rig.Bridge.Flights().NewOrigin(), Message: &msg, Header: header, Transport: "test", Route: "test",
	}
	if accept := header.Get("Accept"); accept == "" || strings.Contains(accept, "text/event-stream") {
		in.Send = func(message []byte) error {
			told <- bytes.Clone(message)
			return nil
		}
	}
	c.join(in)
	ended := make(chan dialect.Reply, 1)
	go func() { ended <- c.rig.Bridge.HandleMessage(context.Background(), in) }()
	heard := c.meanwhile(in, script, told)
	reply := <-ended
	close(told) // a notification behind the reply panics
	for message := range told {
		heard = append(heard, message)
	}
	c.replies[name] = reply.Bytes()
	var out bytes.Buffer
	fmt.Fprintf(&out, "%d\n", reply.Status)
	for _, message := range heard {
		c.render(&out, message)
	}
	c.render(&out, reply.Bytes())
	if c.isStdio {
		c.render(&out, reply.Then)
	}
	return out.Bytes()
}

// read parts a file into headers and the message.
func (c *conversation) read(send []byte) (http.Header, []byte) {
	c.t.Helper()
	send = filled(c.t, send, c.replies)
	header := http.Header{}
	body := send
	if head, rest, ok := bytes.Cut(send, []byte("\n\n")); ok {
		body = rest
		for line := range strings.Lines(string(head)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			header.Add(name, value)
		}
	}
	if c.isStdio {
		header = nil
	}
	return header, bytes.TrimSpace(body)
}

// filled puts in what earlier exchanges were answered with, by their numbers.
func filled(t *testing.T, text []byte, replies map[string][]byte) []byte {
	t.Helper()
	for {
		before, rest, ok := bytes.Cut(text, []byte("${"))
		if !ok {
			return text
		}
		reference, after, _ := bytes.Cut(rest, []byte("}"))
		exchange, path, _ := strings.Cut(string(reference), ":")
		value := json.RawMessage(replies[exchange])
		for member := range strings.SplitSeq(path, ".") {
			value, _ = jsontext.Lookup(value, member)
		}
		plain, ok := jsontext.Text(value)
		if !ok {
			t.Fatalf("${%s} is no string in %s", reference, replies[exchange])
		}
		text = slices.Concat(before, []byte(plain), after)
	}
}

// render writes one message, of which edges want that it is on one line.
func (c *conversation) render(out *bytes.Buffer, message []byte) {
	c.t.Helper()
	if message == nil {
		return
	}
	if bytes.ContainsAny(message, "\r\n") {
		c.t.Errorf("the message is not on one line: %q", message)
	}
	if err := json.Indent(out, message, "", "  "); err != nil {
		c.t.Errorf("the message is not JSON: %v\n%s", err, message)
	}
	out.WriteByte('\n')
}

// TestToolJSONIsWhatToolsGetShows: what other edges show of a tool is the same.
func TestToolJSONIsWhatToolsGetShows(t *testing.T) {
	t.Parallel()
	rig := mcptest.Pipe(t, mcptest.Parts{})
	tool, _ := rig.Live.Current().Lookup("lab.echo")
	reply := rig.Send(t.Context(), &mcptest.Message{Text: `{"jsonrpc":"2.0","id":"1","method":"tools/get","params":{"name":"lab_echo"}}`})
	if result, _ := jsontext.Lookup(reply.Bytes(), "result"); string(result) != string(dialect.ToolJSON(tool)) {
		t.Errorf("they differ:\n%s\n%s", result, dialect.ToolJSON(tool))
	}
}
