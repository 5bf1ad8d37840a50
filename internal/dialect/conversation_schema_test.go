// SPDX-License-Identifier: Apache-2.0

package dialect_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
)

// TestConversationsConform checks every message of the golden conversations in
// an MCP era against the official schema of the revision that the file is named
// after, or of the newest one of the era. What is
// on the wire is what the files hold: TestConversations sees to that.
//
// A message that is answered with an error may be wrong on purpose, so only the
// answer is checked then, and where a file says so.
func TestConversationsConform(t *testing.T) {
	t.Parallel()
	for revision, prefixes := range map[string][]string{
		mcpschema.Revision20260728: {"modern_"}, mcpschema.Revision20251125: {"legacy_[a-z]", "legacy_20251125_"},
		mcpschema.Revision20250618: {"legacy_20250618_"}, mcpschema.Revision20250326: {"legacy_20250326_"},
	} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			schema := mcpschema.Load(t, revision)
			var files []string
			for _, prefix := range prefixes {
				found, err := filepath.Glob("testdata/" + prefix + "*.txtar")
				if err != nil || len(found) == 0 {
					t.Fatalf("no conversations: %v", err)
				}
				files = append(files, found...)
			}
			checked := 0
			for _, file := range files {
				checked += conform(t, schema, file)
			}
			if checked < 10 {
				t.Errorf("only %d messages were checked: are the files read as they are meant?", checked)
			}
		})
	}
}

// conform checks one conversation and returns how many of its messages conform.
func conform(t *testing.T, schema *mcpschema.Schema, file string) int {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range archive.Files {
		files[f.Name] = f.Data
	}
	replies := map[string][]byte{}
	checked := 0
	for _, f := range archive.Files {
		if name, ok := strings.CutSuffix(f.Name, ".changed"); ok {
			checked += conformChanges(t, schema, file, files[name+".want"])
		}
		name, isSend := strings.CutSuffix(f.Name, ".send")
		if !isSend {
			continue
		}
		sent := sentBody(filled(t, f.Data, replies))
		messages, then := cutEnd(wantedBodies(t, file, files[name+".want"]))
		if len(messages) > 0 {
			replies[name] = messages[len(messages)-1]
		}
		_, isWrong := files[name+".wrong"]
		check := conformExchange
		if bytes.HasPrefix(files[name+".want"], []byte("499")) && !bytes.Contains(sent, []byte("subscriptions/listen")) {
			check = conformCancelled
		}
		n, err := check(schema, sent, messages, isWrong)
		if then != nil && err == nil {
			err = schema.CheckMessage(mcpschema.FromServer, then)
		}
		if err != nil {
			t.Errorf("%s: %s: %v", file, name, err)
		}
		checked += n
	}
	return checked
}

// cutEnd parts what is sent back from the cancellation by which the sidecar ends
// a subscription on stdio, behind its reply.
func cutEnd(messages [][]byte) (upToReply [][]byte, then []byte) {
	last := len(messages) - 1
	if last < 1 {
		return messages, nil
	}
	end := jsonrpc.Parse(messages[last], jsonrpc.ProfileMCP, jsonrpc.Limits{})
	before := jsonrpc.Parse(messages[last-1], jsonrpc.ProfileMCP, jsonrpc.Limits{})
	if end.Method == "notifications/cancelled" && before.Kind == jsonrpc.KindSuccess {
		return messages[:last], messages[last]
	}
	return messages, nil
}

// conformExchange checks a message and all that comes back for it, and returns
// how many messages those are. A message that is wrong on purpose is not checked.
func conformExchange(schema *mcpschema.Schema, sent []byte, back [][]byte, isWrong bool) (int, error) {
	if len(back) == 0 {
		if isWrong {
			return 0, nil
		}
		return 1, schema.CheckMessage(mcpschema.FromClient, sent)
	}
	last := back[len(back)-1]
	if m := jsonrpc.Parse(last, jsonrpc.ProfileMCP, jsonrpc.Limits{}); !isWrong && m.Kind != jsonrpc.KindError {
		return 1 + len(back), schema.CheckStream(sent, back...)
	}
	for _, message := range back[:len(back)-1] {
		if err := schema.CheckMessage(mcpschema.FromServer, message); err != nil {
			return 0, err
		}
	}
	return len(back), schema.CheckReply(sent, last)
}

// conformCancelled is conformExchange for a request that is not answered.
func conformCancelled(schema *mcpschema.Schema, sent []byte, back [][]byte, _ bool) (int, error) {
	err := schema.CheckMessage(mcpschema.FromClient, sent)
	for _, message := range back {
		err = errors.Join(err, schema.CheckMessage(mcpschema.FromServer, message))
	}
	return 1 + len(back), err
}

// sentBody is a file's message without the header lines before it.
func sentBody(send []byte) []byte {
	if _, body, ok := bytes.Cut(send, []byte("\n\n")); ok {
		send = body
	}
	return bytes.TrimSpace(send)
}

// wantedBodies are the messages behind the line with the status.
func wantedBodies(t *testing.T, file string, want []byte) [][]byte {
	t.Helper()
	_, rest, _ := bytes.Cut(want, []byte("\n"))
	var out [][]byte
	for d := json.NewDecoder(bytes.NewReader(rest)); ; {
		var message json.RawMessage
		err := d.Decode(&message)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%s: %v in %s", file, err, rest)
		}
		out = append(out, message)
	}
}
