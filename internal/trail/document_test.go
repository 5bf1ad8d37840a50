// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

func payload(text string) Payload { return Payload{JSON: []byte(text)} }

// documentLines closes a run and returns the lines of its documents, of all files.
func documentLines(t *testing.T, r *Run) []string {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return lines(t, r.documents)
}

// Documents stand in arrival order. Input and output of a call that succeeded are objects,
// and what a run does not know at its end is null.
func TestDocuments(t *testing.T) {
	t.Parallel()
	r := recordBegin(t, RecordOptions{Deterministic: true, Payloads: true, MaxPayloadBytes: 40})
	d := r.Documents()
	calls := []*Document{}
	for _, id := range []string{"1", `"b"`, `1.50`, "", "{}", "6", "7"} {
		calls = append(calls, d.Begin([]byte(id)))
	}
	calls[3].End(&Call{Tool: "t", Input: payload(`"x"`), IsFailed: true, Output: payload(`{"a":1}`), Error: []byte(`{"error_type":"x","token":"t"}`)})
	calls[2].End(&Call{Tool: "t", Input: payload(`"2026"`), Output: payload(` [{"password":"p"}]`)})
	calls[1].End(&Call{Tool: "t", Input: payload(`{"password":"p","a":[1]}`), Output: payload(`{}`)})
	calls[0].End(&Call{Tool: "t"})
	calls[0].End(&Call{Tool: "again"})
	calls[0].Drop()
	calls[4].End(&Call{Tool: "t", Input: Payload{Size: 41}, Output: payload(`"` + strings.Repeat("x", 40) + `"`)})
	calls[5].Drop()
	calls[5].End(&Call{Tool: "dropped"})
	got := documentLines(t, r)
	calls[6].End(&Call{Tool: "late"})
	const head = `{"timestamp":"2000-01-01T00:00:00.000000Z","requestId":`
	want := []string{
		`1,"tool":"t","input":{},"output":null}`,
		`"b","tool":"t","input":{"password":"[redacted]","a":[1]},"output":{}}`,
		`1.50,"tool":"t","input":{"value":"2026"},"output":{"value":[{"password":"[redacted]"}]}}`,
		`null,"tool":"t","input":"x","output":null,"error":{"error_type":"x","token":"[redacted]"},"durationMs":0.000}`,
		`null,"tool":"t","input":{"dev.outrigger/omitted":{"bytes":41,"reason":"too large"}},"output":{"dev.outrigger/omitted":{"bytes":42,"reason":"too large"}}}`,
		`7,"tool":null,"input":null,"output":null,"error":null,"durationMs":null}`,
	}
	for i, line := range want {
		if !strings.HasSuffix(line, `"error":null,"durationMs":null}`) && !strings.Contains(line, `"error":{`) {
			line = strings.TrimSuffix(line, "}") + `,"error":null,"durationMs":0.000}`
		}
		want[i] = head + line
	}
	for i, line := range got {
		got[i] = strings.TrimSpace(line)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The document of a call that has become a task is that of the task alone: the request, which ends beside it, touches nothing of it.
func TestTheDocumentOfATask(t *testing.T) {
	t.Parallel()
	r := recordBegin(t, RecordOptions{Deterministic: true, Payloads: true, MaxPayloadBytes: 40})
	tool := &catalog.Tool{Name: "t", Native: true}
	d := r.Documents().BeginCall(&Payloads{}, []byte("1"), &Input{Bytes: []byte(`{"a":1}`), Size: 7})
	d.IsTask()
	var task sync.WaitGroup
	task.Go(func() {
		own := d.Again()
		own.Found(tool)
		own.End(payload(`{"b":2}`), false, nil, nil)
	})
	d.Found(tool)
	d.End(payload(`{}`), false, nil, nil)
	task.Wait()
	if got := documentLines(t, r); len(got) != 1 || !strings.Contains(got[0], `"tool":"t","input":{"a":1},"output":{"b":2}`) {
		t.Errorf("got %q", got)
	}
}

// A run without payloads has no documents, and no file of them.
func TestNoDocuments(t *testing.T) {
	t.Parallel()
	r := recordBegin(t, RecordOptions{})
	for _, run := range []*Run{r, nil} {
		d := run.Documents()
		doc := d.Begin([]byte("1"))
		doc.End(&Call{})
		doc.Drop()
		if d != nil || doc != nil || d.MaxPayloadBytes() != 0 {
			t.Errorf("%v %v", d, doc)
		}
	}
	if files, err := filepath.Glob(filepath.Join(r.Folder(), callsStem+"*")); err != nil || len(files) > 0 {
		t.Error(files, err)
	}
}

// Files of documents are rotated like those of events, and bounded by number like those,
// apart from them and also by a later run that writes none.
func TestDocumentsAreRotatedAndBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := recordBegin(t, RecordOptions{Dir: dir, Payloads: true, MaxFileBytes: 2000, MaxFiles: 3})
	put(r, 0, 10)
	for range 100 {
		r.Documents().Begin([]byte("1")).End(&Call{Tool: "t", Input: payload(`{"a":"` + strings.Repeat("x", 100) + `"}`)})
	}
	got := documentLines(t, r)
	if files, err := r.documents.folder.files(); err != nil || len(files) != 3 {
		t.Errorf("%v %v", files, err)
	} else {
		for _, f := range files {
			if about, err := os.Stat(f.path); err != nil || about.Size() > 2000 || about.Mode() != fileMode {
				t.Errorf("%s: %v %v", f.path, about, err)
			}
		}
	}
	for _, line := range got {
		if !json.Valid([]byte(line)) {
			t.Errorf("%q is not whole", line)
		}
	}
	if events, err := r.folder.files(); err != nil || len(events) == 0 {
		t.Errorf("the events are gone: %v %v", events, err)
	}
	if s := r.documents.Stats(); s.Written != 100 || s.Rotations == 0 || s.Errors != 0 {
		t.Errorf("%+v", s)
	}
	later := recordBegin(t, RecordOptions{Dir: dir, MaxFiles: 1})
	if files, err := r.documents.folder.files(); err != nil || len(files) != 0 {
		t.Errorf("a later run leaves %v, %v", files, err)
	}
	_ = later.Close()
}

// The queue of documents is bounded; what does not fit is counted with the events.
func TestDocumentsThatDoNotFit(t *testing.T) {
	t.Parallel()
	r := recordBegin(t, RecordOptions{Payloads: true, MaxPending: 1, MaxPendingBytes: 1, MaxOpen: 2})
	first := r.Documents().Begin([]byte("1"))
	second := r.Documents().Begin([]byte("2"))
	if third := r.Documents().Begin([]byte("3")); third != nil {
		t.Error("more are open than MaxOpen")
	}
	second.End(&Call{Tool: "t"})
	first.Drop()
	if s := r.Stats(); s.Dropped != 1 {
		t.Errorf("%+v", s)
	}
	if got := documentLines(t, r); len(got) != 1 || !strings.Contains(got[0], `"requestId":2`) {
		t.Errorf("%v", got)
	}
}

// A deterministic run removes the documents of an earlier one.
func TestDeterministicDocumentsBeginAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		r := recordBegin(t, RecordOptions{Dir: dir, Deterministic: true, Payloads: true})
		r.Documents().Begin([]byte("1")).End(&Call{Tool: "t"})
		if got := documentLines(t, r); len(got) != 1 {
			t.Errorf("%v", got)
		}
	}
	r := recordBegin(t, RecordOptions{Dir: dir, Deterministic: true})
	if files, err := filepath.Glob(filepath.Join(r.Folder(), callsStem+"*")); err != nil || len(files) > 0 {
		t.Error(files, err)
	}
}
