// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fataler is what a test and a property have in common.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// recordBegin opens a run in its own folder.
func recordBegin(t *testing.T, o RecordOptions) *Run {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	r, err := OpenRecord(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// finished closes the run and returns its lines, of all files in their order.
func finished(t fataler, r *Run) []string {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return lines(t, r)
}

func lines(t fataler, r *Run) []string {
	t.Helper()
	files, err := r.folder.files()
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, f := range files {
		raw, err := os.ReadFile(f.path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, raw...)
	}
	if len(all) == 0 {
		return nil
	}
	if all[len(all)-1] != '\n' {
		t.Fatalf("the last line is torn: %q", all)
	}
	return strings.Split(strings.TrimSuffix(string(all), "\n"), "\n")
}

// event is one line, as a reader sees it.
type event struct {
	Timestamp  string          `json:"timestamp"`
	RequestID  json.RawMessage `json:"requestId"`
	TraceID    string          `json:"traceId"`
	Transport  *string         `json:"transport"`
	Route      *string         `json:"route"`
	Method     *string         `json:"method"`
	Status     *string         `json:"status"`
	DurationMs *float64        `json:"durationMs"`
	Error      json.RawMessage `json:"error"`
	Tool       *string         `json:"tool"`
	Caller     *string         `json:"caller"`
	Params     json.RawMessage `json:"params"`
	Result     json.RawMessage `json:"result"`
	Metadata   json.RawMessage `json:"metadata"`
}

func read(t fataler, line string) event {
	t.Helper()
	var e event
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		t.Fatalf("%v in line %q", err, line)
	}
	return e
}

func recordIds(t fataler, lines []string) []string {
	t.Helper()
	out := make([]string, 0, len(lines))
	for _, line := range lines {
		out = append(out, string(read(t, line).RequestID))
	}
	return out
}

// eventSchema compiles the schema of a line, as it is published.
func eventSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "testdata", "schemas", "record", "event.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	c.AssertFormat()
	if err := errors.Join(c.AddResource("mem:///event.schema.json", doc)); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:///event.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func conforms(t fataler, s *jsonschema.Schema, line string) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
	if err != nil {
		t.Fatalf("%v in %q", err, line)
	}
	if err := s.Validate(doc); err != nil {
		t.Errorf("%v\n%s", err, line)
	}
}
