// SPDX-License-Identifier: Apache-2.0

package callfiles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFigures: what ran once, or now and then, is not counted, nor is generated code.
func TestFigures(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{
		"bridge/call.go": "package bridge\n\nfunc call() {\n\twork()\n}\n\nfunc work() {}\n\nfunc never() {\n\twork()\n}\n",
		"errmap/code.go": "package errmap\n\nfunc code() {\n}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	profile := func(counts string) map[block]uint64 {
		var text strings.Builder
		text.WriteString("mode: atomic\n")
		places := []string{"bridge/call.go:3.13,5.2 1", "bridge/call.go:7.14,7.15 0", "bridge/call.go:9.14,11.2 1", "errmap/code.go:3.13,4.2 2", "gen/x.pb.go:1.1,2.2 9", "internal/demo/echo.go:1.1,2.2 9"}
		for i, count := range strings.Fields(counts) {
			text.WriteString(module + places[i] + " " + count + "\n")
		}
		out, err := read(strings.NewReader(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for name, row := range map[string]struct {
		few, many string
		want      Figures
	}{
		"each call":      {"3 6 0 0 3 3", "5003 10006 0 0 5003 5003", Figures{Files: []string{"bridge/call.go"}, Packages: 1, Functions: 2, Statements: 1}},
		"a start":        {"9 9 9 9 9 9", "9 9 9 9 9 9", Figures{}},
		"now and then":   {"0 0 0 0 0 0", "4499 0 0 0 0 0", Figures{}},
		"two packages":   {"3 0 0 1 0 0", "5003 0 0 9001 0 0", Figures{Files: []string{"bridge/call.go", "errmap/code.go"}, Packages: 2, Functions: 2, Statements: 3}},
		"not in a start": {"0 0 0 0 0 0", "0 0 5000 0 0 0", Figures{Files: []string{"bridge/call.go"}, Packages: 1, Functions: 1, Statements: 1}},
		"nine of ten":    {"3 3 0 0 0 0", "4502 4503 0 0 0 0", Figures{Files: []string{"bridge/call.go"}, Packages: 1, Functions: 1}},
	} {
		got, err := figuresOf(root, profile(row.few), profile(row.many))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

// TestProfilesThatAreNone: what covdata does not write is an error.
func TestProfilesThatAreNone(t *testing.T) {
	t.Parallel()
	if _, err := read(strings.NewReader("mode: atomic\nbridge/call.go:3.13,5.2 many\n")); err == nil {
		t.Error("no error")
	}
}

// TestAbove: more files or statements are named, fewer are not, and neither is a file in another's place.
func TestAbove(t *testing.T) {
	t.Parallel()
	record := Figures{Files: []string{"a", "b"}, Statements: 1000}
	for name, row := range map[string]struct {
		now  Figures
		want []string
	}{
		"the same":        {record, nil},
		"less":            {Figures{Files: []string{"a"}, Statements: 900}, nil},
		"another file":    {Figures{Files: []string{"a", "c"}, Statements: 1000}, nil},
		"a file more":     {Figures{Files: []string{"a", "b", "c"}, Statements: 1000}, []string{"runs 3 files, 2 on record: new are c"}},
		"a busy machine":  {Figures{Files: []string{"a"}, Statements: 1010}, nil},
		"statements more": {Figures{Files: []string{"a"}, Statements: 1011}, []string{"runs 1011 statements, 1000 on record"}},
	} {
		if diff := cmp.Diff(row.want, row.now.Above(record)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}
