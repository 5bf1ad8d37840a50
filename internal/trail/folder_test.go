// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFolderOfARun(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "runs")
	at := time.Date(2026, 11, 21, 3, 4, 5, 678_000_000, time.FixedZone("elsewhere", 3600))
	r := recordBegin(t, RecordOptions{Dir: dir, Now: func() time.Time { return at }})
	put(r, 0, 1)
	got := finished(t, r)
	base := filepath.Join(dir, "mcp_server", "envelope_validation")
	if parent, name := filepath.Split(r.Folder()); filepath.Clean(parent) != base || !strings.HasPrefix(name, "20261121T020405.678Z-") || !runName.MatchString(name) {
		t.Error(r.Folder())
	}
	if e := read(t, got[0]); e.Timestamp != "2026-11-21T02:04:05.678000Z" || *e.DurationMs != 0 {
		t.Error(got)
	}
	for path, want := range map[string]fs.FileMode{
		dir: 0o700 | fs.ModeDir, base: 0o700 | fs.ModeDir, r.Folder(): 0o700 | fs.ModeDir, filepath.Join(r.Folder(), "events.jsonl"): 0o600,
	} {
		if about, err := os.Stat(path); err != nil || about.Mode() != want {
			t.Errorf("%s: %v, %v", path, about.Mode(), err)
		}
	}
}

func TestLatestIsTheNewest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 3 {
		r := recordBegin(t, RecordOptions{Dir: dir})
		leads, err := os.Readlink(filepath.Join(r.folder.base, latestName))
		if err != nil || leads != filepath.Base(r.Folder()) {
			t.Errorf("%s, %v", leads, err)
		}
		entries, err := os.ReadDir(r.folder.base)
		if err != nil || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), latestName+".") }) {
			t.Errorf("%v, %v", entries, err)
		}
	}
}

// While runs come and go, .latest is never missing and never leads nowhere.
func TestLatestIsSwappedAtomically(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := recordBegin(t, RecordOptions{Dir: dir, MaxFiles: 1000})
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if _, err := os.Stat(filepath.Join(first.folder.base, latestName, "events.jsonl")); err != nil {
				done <- err
				return
			}
		}
	}()
	for range 100 {
		r, err := OpenRecord(RecordOptions{Dir: dir, MaxFiles: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// What is in the place of .latest does not keep lines from being written.
func TestLatestCannotBeSet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "mcp_server", "envelope_validation", latestName, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := recordBegin(t, RecordOptions{Dir: dir})
	put(r, 0, 1)
	if got := finished(t, r); len(got) != 1 {
		t.Error(got)
	}
	if s := r.Stats(); s.Errors != 1 {
		t.Errorf("%+v", s)
	}
}

func TestFolderThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	occupied := filepath.Join(dir, "file")
	if err := os.WriteFile(occupied, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{occupied, filepath.Join(occupied, "below"), "", "a\x00b"} {
		r, err := OpenRecord(RecordOptions{Dir: path})
		if err == nil || r != nil {
			t.Errorf("%q can be written", path)
			continue
		}
		if !strings.HasPrefix(err.Error(), "run records: ") {
			t.Error(err)
		}
	}
	d := &device{opening: fs.ErrPermission}
	if _, err := OpenRecord(RecordOptions{Dir: dir, open: d.open}); err == nil {
		t.Error("a file that cannot be opened is no error")
	}
}

// A full file goes on in the next one, lines stay whole and in order.
func TestRecordRotation(t *testing.T) {
	t.Parallel()
	const limit = 2000
	r := recordBegin(t, RecordOptions{MaxFileBytes: limit, MaxFiles: 100})
	put(r, 0, 100)
	got := finished(t, r)
	if ids := strings.Join(recordIds(t, got), " "); ids != upTo(100) {
		t.Error(ids)
	}
	files, err := r.folder.files()
	if err != nil || len(files) < 10 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		if about, err := os.Stat(f.path); err != nil || about.Size() > limit || about.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", f.path, about, err)
		}
	}
	if s := r.Stats(); int(s.Rotations) != len(files)-1 || s.Errors != 0 {
		t.Errorf("%+v, %d files", s, len(files))
	}
}

// A line that is larger than a file may be has its own file.
func TestLineLargerThanAFile(t *testing.T) {
	t.Parallel()
	r := recordBegin(t, RecordOptions{MaxFileBytes: 500, MaxFiles: 100, Payloads: true})
	for i := range 3 {
		r.Begin(numbered(i)).End(Outcome{OK: true, Result: []byte(`"` + strings.Repeat("x", 600) + `"`)})
	}
	if got := finished(t, r); len(got) != 3 || r.Stats().Rotations != 2 {
		t.Errorf("%d lines, %+v", len(got), r.Stats())
	}
}

// A file that cannot be set aside is written on.
func TestRotationThatFails(t *testing.T) {
	t.Parallel()
	r := recordBegin(t, RecordOptions{MaxFileBytes: 1000})
	// A folder with something in it cannot be replaced.
	if err := os.MkdirAll(filepath.Join(r.Folder(), "events.1.jsonl", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	put(r, 0, 50)
	if got := strings.Join(recordIds(t, finished(t, r)), " "); got != upTo(50) {
		t.Error(got)
	}
	if s := r.Stats(); s.Rotations != 0 || s.Errors == 0 || s.Errors > 20 || s.Failing {
		t.Errorf("%+v", s)
	}
}

func TestPruning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base := filepath.Join(dir, "mcp_server", "envelope_validation")
	foreign := []string{
		"20200101T000000.000Z-00000001/notes.txt", "20200101T000000.000Z-00000001/events.x.jsonl", "20200101T000000.000Z-00000001/events.0.jsonl",
		"elsewhere/events.jsonl", "20200101T000000.000Z/events.jsonl", "events.jsonl",
	}
	ours := []string{
		"20200101T000000.000Z-00000001/events.2.jsonl", "20200101T000000.000Z-00000001/events.10.jsonl", "20200101T000000.000Z-00000001/events.jsonl",
		"20200101T000000.000Z-00000002/events.jsonl",
		"20200102T000000.000Z-00000000/events.9.jsonl", "20200102T000000.000Z-00000000/events.10.jsonl", "20200102T000000.000Z-00000000/events.jsonl",
	}
	for _, name := range slices.Concat(foreign, ours) {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	present := func() (left []string) {
		for _, name := range ours {
			if _, err := os.Stat(filepath.Join(base, name)); err == nil {
				left = append(left, name)
			}
		}
		return left
	}
	for _, most := range []int{8, 6, 4, 3, 1} {
		r := recordBegin(t, RecordOptions{Dir: dir, MaxFiles: most})
		if diff := cmp.Diff(ours[len(ours)-(most-1):], present(), cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
			t.Errorf("at most %d: %s", most, diff)
		}
		if err := r.Close(); err != nil || r.Stats().Errors != 0 {
			t.Error(err, r.Stats())
		}
		if err := os.RemoveAll(r.Folder()); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range foreign {
		if _, err := os.Stat(filepath.Join(base, name)); err != nil {
			t.Errorf("what is not ours is gone: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(base, "20200102T000000.000Z-00000000")); err == nil {
		t.Error("an empty folder is left")
	}
}

// Rotation keeps the bound too, and never takes the file that is written.
func TestPruningOnRotation(t *testing.T) {
	t.Parallel()
	for _, deterministic := range []bool{false, true} {
		r := recordBegin(t, RecordOptions{MaxFileBytes: 1000, MaxFiles: 3, Deterministic: deterministic})
		put(r, 0, 100)
		got := recordIds(t, finished(t, r))
		files, err := r.folder.files()
		if err != nil || len(files) != 3 || files[2].path != r.folder.current() {
			t.Errorf("%v, %v", files, err)
		}
		if got[len(got)-1] != "99" || len(got) > 12 {
			t.Error(got)
		}
	}
}

// Two deterministic runs of the same input leave the same bytes, in the same
// files, whatever order calls end in; the second takes the place of the first.
func TestDeterministicRunsAreEqual(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	record := func(dir string, order func([]*Entry)) map[string]string {
		r := recordBegin(t, RecordOptions{Dir: dir, Deterministic: true, Payloads: true, MaxFileBytes: 1500, MaxFiles: 50})
		entries := make([]*Entry, 0, 40)
		for i := range 40 {
			entries = append(entries, r.Begin(numbered(i)))
		}
		order(entries)
		finished(t, r)
		out := map[string]string{}
		if err := filepath.WalkDir(r.folder.base, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			raw, err := os.ReadFile(path)
			name, _ := filepath.Rel(r.folder.base, path)
			out[name] = string(raw)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	end := func(e *Entry) { e.End(Outcome{OK: true, Result: []byte(`{"a":1}`)}) }
	forward := record(dir, func(list []*Entry) {
		for _, e := range list {
			end(e)
		}
	})
	backward := func(list []*Entry) {
		for _, e := range slices.Backward(list) {
			end(e)
		}
	}
	for name, second := range map[string]map[string]string{"elsewhere": record(t.TempDir(), backward), "in the same place": record(dir, backward)} {
		if diff := cmp.Diff(forward, second); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if len(forward) < 5 || !strings.Contains(forward["20000101T000000.000Z-00000000/events.jsonl"], `"traceId":"00000000000000000000000000000028"`) {
		t.Error(forward)
	}
}
