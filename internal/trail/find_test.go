// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// auditOf opens a trail that writes at once.
func auditOf(t *testing.T, o AuditOptions) *Audit {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "audit.jsonl")
	}
	o.Fsync = SyncAlways
	a, err := OpenAudit(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// invoked writes the lines of an invocation, with payloads.
func invoked(t *testing.T, a *Audit) ID {
	t.Helper()
	e := full()
	e.ID = a.NewID()
	e.Arguments, e.Result = Payload{JSON: []byte(`{"card":"4111","arguments":{"result":1}}`)}, Payload{JSON: []byte(`{"of":"4111"}`)}
	if err := a.Begin(t.Context(), &e); err != nil {
		t.Fatal(err)
	}
	a.End(&e)
	return e.ID
}

// TestLinesOfAnInvocation: its begin and its end in order, without arguments and results, and no line of another one, in the current
// file and in the one before.
func TestLinesOfAnInvocation(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]AuditOptions{
		"one file":        {Payloads: true},
		"between rotated": {Payloads: true, MaxFileBytes: 1500},
	} {
		a := auditOf(t, o)
		var ids []ID
		for range 12 {
			ids = append(ids, invoked(t, a))
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			lines, note := a.Lines(id)
			if len(lines) != 2 || note != "" {
				t.Errorf("%s: %q %s", name, lines, note)
				continue
			}
			for i, phase := range []Phase{PhaseBegin, PhaseEnd} {
				line, fault := parse([]byte(lines[i]))
				if fault != "" || line.Phase != phase || line.ID != string(a.encoder.ids.append(nil, id)) ||
					strings.Contains(lines[i], "4111") || strings.Contains(lines[i], `"arguments"`) || !strings.Contains(lines[i], `"bytes_in":`) {
					t.Errorf("%s: line %d: %s %s", name, i, fault, lines[i])
				}
			}
		}
		if lines, note := a.Lines(a.NewID()); len(lines) > 0 || !strings.Contains(note, "no line") {
			t.Errorf("%s: an id without lines: %q %s", name, lines, note)
		}
	}
}

// TestNoLines: a note says why there are none.
func TestNoLines(t *testing.T) {
	t.Parallel()
	gone := auditOf(t, AuditOptions{})
	id := invoked(t, gone)
	if err := gone.Close(); err != nil { // or the line of the end would come later
		t.Fatal(err)
	}
	if err := os.Remove(gone.writer.opts.Path); err != nil {
		t.Fatal(err)
	}
	noFolder := auditOf(t, AuditOptions{})
	if err := noFolder.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Dir(noFolder.writer.opts.Path)); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		of   *Audit
		want string
	}{
		"no trail":        {nil, "--audit"},
		"standard output": {auditOf(t, AuditOptions{Path: stdout, Out: io.Discard}), "standard output"},
		"gone":            {gone, "no line"},
		"no folder":       {noFolder, "cannot be read"},
	} {
		if lines, note := tt.of.Lines(id); len(lines) > 0 || !strings.Contains(note, tt.want) {
			t.Errorf("%s: %q, %s", name, lines, note)
		}
	}
}

// TestForeignLines: what others have put into a file is no line, and makes no invalid text of one.
func TestForeignLines(t *testing.T) {
	t.Parallel()
	a := auditOf(t, AuditOptions{})
	id := invoked(t, a)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(a.writer.opts.Path)
	if err != nil {
		t.Fatal(err)
	}
	quoted := `"` + string(a.encoder.ids.append(nil, id)) + `"`
	foreign := `{"note":` + quoted + "}\n[" + quoted + "]\n" + quoted + "\n" + strings.Replace(string(text), `"a.b"`, "\"\xff\"", 1)
	if err := os.WriteFile(a.writer.opts.Path, []byte(foreign), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, note := a.Lines(id)
	if all := strings.Join(lines, "\n"); len(lines) != 2 || !utf8.ValidString(all) || note != "" {
		t.Errorf("%q %s", lines, note)
	}
}

// TestTail: the end of a file, the newest line first, without the piece of a line where it begins and the one that is being written.
func TestTail(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	for name, tt := range map[string]struct {
		text string
		most int64
		want string
	}{
		"all":            {"one\ntwo\n", 100, "two,one"},
		"a piece":        {"one\ntwo\nthree\n", 12, "three,two"},
		"being written":  {"one\ntwo\nthr", 100, "two,one"},
		"only a piece":   {"one", 100, ""},
		"a long line":    {strings.Repeat("x", 50), 10, ""},
		"empty":          {"", 10, ""},
		"an empty line":  {"one\n\ntwo\n", 100, "two,,one"},
		"no line so far": {strings.Repeat("x", 50) + "\n", 10, ""},
	} {
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		var got []string
		read, err := tail(path, tt.most, func(line []byte) bool {
			got = append(got, string(line))
			return true
		})
		if joined := strings.Join(got, ","); err != nil || joined != tt.want || read > tt.most {
			t.Errorf("%s: %q (%d bytes, %v), want %q", name, joined, read, err, tt.want)
		}
	}
	if _, err := tail(filepath.Dir(path), 10, nil); err == nil {
		t.Error("a directory has lines")
	}
}

// TestLineOfTheRecord: the line with the id, the tool and the time of a call, and with its trace where its caller sent one.
func TestLineOfTheRecord(t *testing.T) {
	t.Parallel()
	r := recordBegin(t, RecordOptions{Payloads: true})
	put := func(id, trace, tool string) time.Time {
		e := r.Begin(Arrival{Caller: "ann", RequestID: json.RawMessage(id), TraceID: trace, Method: "tools/call", Params: []byte(`{"card":"4111"}`)})
		now := time.Now()
		e.End(Outcome{Tool: tool, Error: json.RawMessage(inputError), HTTPStatus: 422, Code: -32602, Result: []byte(`{"of":"4111"}`)})
		return now
	}
	other := strings.Replace(someTrace, "4", "5", 1)
	began := put(`"a"`, someTrace, "shop.order")
	put(`"a"`, other, "shop.order")
	put(`8`, "", "shop.order")
	put(`9`, "", "shop.order")
	put(`9`, "", "shop.order")
	put(`null`, "", "shop.list")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		want       Wanted
		line, note string
	}{
		"its trace":         {Wanted{"a", someTrace, "shop.order", "ann", began}, `"traceId":"` + someTrace, ""},
		"the other trace":   {Wanted{"a", other, "shop.order", "ann", began}, `"traceId":"` + other, ""},
		"a number":          {Wanted{"8", "", "shop.order", "ann", began}, `"requestId":8`, ""},
		"a trace of ours":   {Wanted{"8", strings.Repeat("a", 32), "shop.order", "ann", began}, `"requestId":8`, ""},
		"no id":             {Wanted{"", "", "shop.list", "ann", began}, `"tool":"shop.list"`, ""},
		"two with one id":   {Wanted{"9", "", "shop.order", "ann", began}, "", "More than one"},
		"another caller":    {Wanted{"8", "", "shop.order", "bob", began}, "", "no line"},
		"another tool":      {Wanted{"8", "", "shop.list", "ann", began}, "", "no line"},
		"at another time":   {Wanted{"8", "", "shop.order", "ann", began.Add(time.Minute)}, "", "no line"},
		"trace, other time": {Wanted{"a", someTrace, "shop.order", "ann", began.Add(-time.Minute)}, "", "no line"},
	} {
		line, note := r.Line(tt.want)
		if (line == "") != (tt.line == "") || !strings.Contains(line, tt.line) || (note == "") != (tt.note == "") || !strings.Contains(note, tt.note) {
			t.Errorf("%s: %s\n%s", name, line, note)
		}
		for _, secret := range []string{"4111", "params", "at least 1"} {
			if strings.Contains(line, secret) {
				t.Errorf("%s: the line has %q: %s", name, secret, line)
			}
		}
		if line != "" && (!json.Valid([]byte(line)) || !strings.Contains(line, `"code":"INVALID_TOOL_INPUT"`) || !strings.Contains(line, `"schemaVersion"`)) {
			t.Errorf("%s: %s", name, line)
		}
	}
	if _, note := (*Run)(nil).Line(Wanted{}); !strings.Contains(note, "--record-dir") {
		t.Error(note)
	}
}
