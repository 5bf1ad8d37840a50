// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

var update = flag.Bool("update", false, "write the golden files")

// goldens are the messages and types of which every schema is kept, so that a change is read before it is made.
func goldens(t *testing.T) []protoreflect.MessageDescriptor {
	files := shapes(t)
	out := messagesIn(files, "shapes.v1")
	for _, name := range []protoreflect.FullName{
		"google.protobuf.Timestamp", "google.protobuf.Int64Value", "google.protobuf.Value", "google.protobuf.Struct",
		"google.protobuf.ListValue", "google.protobuf.Any", "google.protobuf.Empty",
	} {
		out = append(out, shape(t, files, name))
	}
	return out
}

func TestDeriveGolden(t *testing.T) {
	t.Parallel()
	for _, md := range goldens(t) {
		t.Run(string(md.FullName()), func(t *testing.T) {
			t.Parallel()
			got := &bytes.Buffer{}
			for _, dir := range []schema.Direction{schema.Input, schema.Output} {
				s, err := schema.Derive(md, dir, schema.Options{})
				if err != nil {
					t.Fatal(err)
				}
				again, err := schema.Derive(md, dir, schema.Options{})
				if err != nil || !bytes.Equal(s.Canonical, again.Canonical) || !bytes.Equal(s.Advertised, again.Advertised) {
					t.Fatalf("a second derivation differs (%v)", err)
				}
				name := []string{"input", "output"}[dir]
				writeIndented(t, got, name+" advertised", s.Advertised)
				writeIndented(t, got, name+" canonical", s.Canonical)
				for _, w := range s.Warnings {
					got.WriteString("warning: " + w + "\n")
				}
			}
			s, err := schema.Derive(md, schema.Input, schema.Options{Profile: schema.ProfileStrict})
			if err != nil {
				t.Fatal(err)
			}
			writeIndented(t, got, "input advertised in the strict profile", s.Advertised)
			for _, w := range s.Warnings {
				if strings.Contains(w, "advertised") {
					got.WriteString("warning: " + w + "\n")
				}
			}
			if s, err = schema.Derive(md, schema.Output, schema.Options{Profile: schema.ProfileStrict}); err != nil {
				t.Fatal(err)
			}
			writeIndented(t, got, "output advertised in the strict profile", s.Advertised)
			path := filepath.Join("testdata", "golden", string(md.FullName())+".txt")
			if *update {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("schemas changed (-want +got):\n%s", diff)
			}
		})
	}
}

func writeIndented(t *testing.T, out *bytes.Buffer, title string, raw json.RawMessage) {
	t.Helper()
	out.WriteString("-- " + title + " --\n")
	if err := json.Indent(out, raw, "", " "); err != nil {
		t.Fatalf("%s is not JSON: %v\n%s", title, err, raw)
	}
	out.WriteByte('\n')
	if _, err := schema.Compile(raw); err != nil {
		t.Errorf("%s does not compile: %v", title, err)
	}
}
