// SPDX-License-Identifier: Apache-2.0

package readme

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mostOfOneCall is the most files that the path of one call may have.
const mostOfOneCall = 25

// TestThePathOfOneCallIsShort counts the files that docs/ARCHITECTURE.md names on the
// path of one call. A newcomer opens each of them, so each has to exist, and they are few.
func TestThePathOfOneCallIsShort(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	files := pathFiles(string(text))
	if len(files) > mostOfOneCall || len(files) < mostOfOneCall/2 {
		t.Errorf("%d files are on the path of one call, want at most %d: %v", len(files), mostOfOneCall, files)
	}
	for _, file := range files {
		if _, err := os.Stat(filepath.Join("..", "..", filepath.FromSlash(file))); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d files: %v", len(files), files)
}

// pathFiles are the files that the tables in the chapter name, without repetition. A
// name without a folder is in the one that its row names, else in bridge.
func pathFiles(document string) []string {
	_, chapter, _ := strings.Cut(document, "\n## The path of one call\n")
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	quoted, found := regexp.MustCompile("`([^`]+)`"), map[string]bool{}
	for row := range strings.Lines(chapter) {
		if !strings.HasPrefix(row, "|") {
			continue
		}
		folder := "bridge"
		for _, m := range quoted.FindAllStringSubmatch(row, -1) {
			switch name := m[1]; {
			case strings.HasSuffix(name, ".go") && strings.Contains(name, "/"):
				found[name] = true
			case strings.HasSuffix(name, ".go"):
				found[folder+"/"+name] = true
			case strings.HasPrefix(name, "internal/"):
				folder = strings.TrimSuffix(name, "/")
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func TestPathFiles(t *testing.T) {
	t.Parallel()
	const document = "# A\n`no.go`\n\n## The path of one call\n\n`neither.go`\n\n| step | files |\n|---|---|\n" +
		"| Read | `internal/a/b.go` (`Front`), `internal/a/b.go` |\n| Find | in `internal/c`: `d.go`, `e.go` |\n| `step` | `f.go` |\n\n## B\n| `g.go` |\n"
	want := []string{"bridge/f.go", "internal/a/b.go", "internal/c/d.go", "internal/c/e.go"}
	if got := pathFiles(document); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
