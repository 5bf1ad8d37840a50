// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// official returns the folder of the official schemas, which is beside the
// project in a folder "shared", or skips the test where there is none.
func official(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for {
		at := filepath.Join(dir, "shared", "mcp-schema")
		if info, err := os.Stat(at); err == nil && info.IsDir() {
			return at
		}
		above := filepath.Dir(dir)
		if above == dir {
			t.Skip("the official schemas (shared/mcp-schema beside the project) are not here; nothing was checked against them")
		}
		dir = above
	}
}

// validators compiles definitions of the official schemas, each once.
type validators struct {
	mu       sync.Mutex
	compiled map[string]*jsonschema.Schema
}

// check validates a document against a definition of a revision's schema.
func (v *validators) check(t *testing.T, rev Revision, definition string, doc []byte) {
	t.Helper()
	dir := official(t)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		t.Fatalf("%v: %s", err, doc)
	}
	if err := v.schema(t, dir, rev, definition).Validate(value); err != nil {
		t.Errorf("MCP %s, %s: %v\n%s", rev, definition, err, doc)
	}
}

func (v *validators) schema(t *testing.T, dir string, rev Revision, definition string) *jsonschema.Schema {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	location := "mem:///" + rev.String() + ".json"
	pointer := location + "#/$defs/" + definition
	if rev >= rev20250618 {
		pointer = location + "#/definitions/" + definition
	}
	if s, ok := v.compiled[pointer]; ok {
		return s
	}
	raw, err := os.ReadFile(filepath.Join(dir, rev.String(), "schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(jsonschema.SchemeURLLoader{})
	c.AssertFormat()
	if err := c.AddResource(location, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(pointer)
	if err != nil {
		t.Fatal(err)
	}
	if v.compiled == nil {
		v.compiled = make(map[string]*jsonschema.Schema)
	}
	v.compiled[pointer] = s
	return s
}

// TestOfficialRefuses shows that the validation of the goldens can fail.
func TestOfficialRefuses(t *testing.T) {
	t.Parallel()
	dir := official(t)
	var v validators
	for _, rev := range []Revision{Rev20260728, Rev20251125, rev20250618, Rev20250326} {
		s := v.schema(t, dir, rev, "Resource")
		for _, doc := range []string{`{"name":"a"}`, `{"name":"a","uri":"not a uri"}`, `{"name":7,"uri":"a:b"}`} {
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(doc)))
			if err != nil {
				t.Fatal(err)
			}
			if s.Validate(value) == nil {
				t.Errorf("MCP %s accepts %s as a resource", rev, doc)
			}
		}
	}
}

// samples yields the official samples of a type, by file name.
func samples(t *testing.T, definition string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(official(t), Rev20260728.String(), "examples", definition, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples of %s: %v", definition, err)
	}
	out := make(map[string][]byte, len(files))
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(file)] = raw
	}
	return out
}

// sameJSON reports whether two documents mean the same; numbers are compared as
// they are written.
func sameJSON(t testing.TB, a, b []byte) bool {
	t.Helper()
	x, y := decoded(t, a), decoded(t, b)
	one, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	two, err := json.Marshal(y)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(one, two)
}

func decoded(t testing.TB, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return v
}

// memberAt returns a value inside an object, by the names on the way to it.
func memberAt(raw []byte, names ...string) []byte {
	for _, name := range names {
		raw, _ = jsontext.Lookup(raw, name)
	}
	return raw
}

func typeName(v any) string { return fmt.Sprintf("%T", v) }
