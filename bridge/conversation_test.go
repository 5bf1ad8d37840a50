// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

var update = flag.Bool("update", false, "rewrite the golden conversations")

// TestConversations replays testdata/*.txtar against a bridge in front of the
// demo service. The opening comment of a file says what it guards. Each
// NN.send holds optional "Name: value" header lines, an empty line and one
// message; NN.want holds the HTTP status and the reply, indented. The file's
// name begins with its dialect.
func TestConversations(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Bridge: bridge.Options{
		Server: bridge.ServerInfo{Name: "outrigger", Version: "0.0.0-test", Instructions: "Ask for the map first."},
	}})
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			replay(t, rig.Bridge, file)
		})
	}
}

func replay(t *testing.T, b *bridge.Bridge, file string) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dialect, profile := dialectOf(t, filepath.Base(file))
	wants := map[string][]byte{}
	for _, f := range archive.Files {
		wants[f.Name] = f.Data
	}
	out := &txtar.Archive{Comment: archive.Comment}
	for _, f := range archive.Files {
		name, isSend := strings.CutSuffix(f.Name, ".send")
		if !isSend {
			continue
		}
		got := exchange(t, b, dialect, profile, f.Data)
		out.Files = append(out.Files, f, txtar.File{Name: name + ".want", Data: got})
		if *update {
			continue
		}
		if diff := cmp.Diff(string(wants[name+".want"]), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", f.Name, diff)
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(out), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func dialectOf(t *testing.T, name string) (bridge.Dialect, jsonrpc.Profile) {
	t.Helper()
	switch {
	case strings.HasPrefix(name, "canonical"):
		return bridge.DialectCanonical, jsonrpc.ProfileCanonical
	case strings.HasPrefix(name, "modern"):
		return bridge.DialectModern, jsonrpc.ProfileMCP
	case strings.HasPrefix(name, "legacy"):
		return bridge.DialectLegacy, jsonrpc.ProfileMCP
	}
	t.Fatalf("%s: want a name that begins with canonical, modern or legacy", name)
	return 0, 0
}

// exchange sends one message and renders the reply for people to review.
func exchange(t *testing.T, b *bridge.Bridge, dialect bridge.Dialect, profile jsonrpc.Profile, send []byte) []byte {
	t.Helper()
	header := http.Header{}
	body := send
	if head, rest, ok := bytes.Cut(send, []byte("\n\n")); ok {
		body = rest
		for line := range strings.Lines(string(head)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			header.Add(name, value)
		}
	}
	msg := jsonrpc.Parse(bytes.TrimSpace(body), profile, jsonrpc.Limits{})
	reply := b.HandleMessage(context.Background(), &bridge.Inbound{
		Dialect: dialect, Origin: b.Flights().NewOrigin(), Message: &msg, Header: header, Transport: "test", Route: "test",
	})
	var out bytes.Buffer
	fmt.Fprintf(&out, "%d\n", reply.Status)
	if reply.Body != nil {
		if bytes.ContainsAny(reply.Body, "\r\n") {
			t.Errorf("the reply is not on one line: %q", reply.Body)
		}
		if err := json.Indent(&out, reply.Body, "", "  "); err != nil {
			t.Errorf("the reply is not JSON: %v\n%s", err, reply.Body)
		}
		out.WriteByte('\n')
	}
	return out.Bytes()
}
