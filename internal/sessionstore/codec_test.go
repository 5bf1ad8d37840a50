// SPDX-License-Identifier: Apache-2.0

package sessionstore

import (
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/testing/protocmp"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

var update = flag.Bool("update", false, "write the golden files anew")

// stored returns the bytes of a golden file, and the same with a field of a later release.
// Never update the golden files: they are what the first release stored.
func stored(t *testing.T, name string, now []byte) [][]byte {
	t.Helper()
	golden := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(golden, []byte(hex.EncodeToString(now)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return [][]byte{bytes, protowire.AppendString(protowire.AppendTag(append([]byte(nil), bytes...), 4000, protowire.BytesType), "news")}
}

// TestRecordsStayReadable reads what the first release stored, and what a later one may.
func TestRecordsStayReadable(t *testing.T) {
	t.Parallel()
	want := session.Record{
		Key: "k", Revision: 7, Principal: "alice", Opened: time.Unix(1_800_000_000, 0).UTC(), Level: outriggerv1.LogLevel_LOG_LEVEL_ERROR,
		Context:  &outriggerv1.RequestContext{ProtocolVersion: "2025-11-25", ClientInfo: &outriggerv1.Implementation{Name: "c", Version: "1"}},
		Watched:  []session.Watched{{URI: "x:a"}, {URI: "x:b", IsWatch: true}},
		Declared: session.Lists{Prompts: true, Resources: true}, WrittenBy: "aa", Teller: "bb", Catalog: "cc",
	}
	now, err := encode(&want)
	if err != nil {
		t.Fatal(err)
	}
	for _, bytes := range stored(t, "record_v1.hex", now) {
		got, err := decode("k", bytes, 7)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
	}
	event := session.StoredEvent{
		Sequence: 9, Replica: "aa", Number: 3, Message: []byte(`{"jsonrpc":"2.0"}`), Last: true,
		Begun: session.Begun{RequestID: []byte(`"r"`), Tool: "shop.look", Idempotent: true, Span: []byte{1, 2}, IsMain: true},
	}
	if now, err = encodeEvent(&event, event.Message, false); err != nil {
		t.Fatal(err)
	}
	for _, bytes := range stored(t, "event_v1.hex", now) {
		got, more, err := decodeEvent(bytes, 9)
		if diff := cmp.Diff(event, got); diff != "" || more || err != nil {
			t.Errorf("%s, more: %v, %v", diff, more, err)
		}
	}
	for name, m := range map[string]session.Message{
		"answer":   {Key: "k", Answer: &session.Answer{ID: "ask-aa-1-1", Result: []byte("{}"), IsError: true, Failed: "no"}},
		"cancel":   {Key: "k", Cancel: &session.Cancel{RequestID: []byte("7"), Reason: "enough"}},
		"moved":    {Key: "k", Moved: &session.Moved{Stream: "0011", To: "bb"}},
		"moved_at": {Key: "k", Moved: &session.Moved{Stream: "0011", To: "bb", At: time.Unix(1_800_000_000, 5).UTC()}},
		"mayend":   {Key: "k", MayEnd: true},
		"other":    {Key: "k"},
	} {
		if now, err = encodeMessage(&m); err != nil {
			t.Fatal(err)
		}
		for _, bytes := range stored(t, "message_"+name+"_v1.hex", now) {
			got, err := decodeMessage(bytes)
			if diff := cmp.Diff(m, got); diff != "" || err != nil {
				t.Errorf("%s: %s, %v", name, diff, err)
			}
		}
	}
}

// TestParts puts parts together, and drops those that were never completed.
func TestParts(t *testing.T) {
	t.Parallel()
	var p parts
	for i, step := range []struct {
		number  uint64
		message string
		more    bool
		whole   string
	}{
		{1, "one", false, "one"},
		{2, "tw", true, ""},
		{2, "o", false, "two"},
		{3, "thr", true, ""}, // its replica stopped here
		{4, "unknown", false, "unknown"},
		{5, "fi", true, ""},
		{5, "v", true, ""},
		{5, "e", false, "five"},
		{6, "", false, ""},
	} {
		e := session.StoredEvent{Number: step.number, Message: []byte(step.message)}
		isWhole := p.add(&e, step.more)
		if isWhole == step.more || isWhole && string(e.Message) != step.whole {
			t.Errorf("step %d: %v, %q", i, isWhole, e.Message)
		}
	}
}

// FuzzDecode: whatever NATS has, reading it ends with a value or an error.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"record_v1.hex", "event_v1.hex", "message_answer_v1.hex"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		bytes, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes)
	}
	f.Fuzz(func(_ *testing.T, bytes []byte) {
		_, _ = decode("k", bytes, 1)
		_, _, _ = decodeEvent(bytes, 1)
		_, _ = decodeMessage(bytes)
	})
}
