// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rooms are what docs/ARCHITECTURE.md says about the code.
type rooms struct {
	mayImport map[string][]string // by directory; "all" is any room
	open      []string            // all may import them
	tests     []string            // kits that only tests use
}

// TestRoomsAreOnThePage compares the table of rooms in docs/ARCHITECTURE.md with the code: each room has a row, and imports no
// room that the row does not name.
func TestRoomsAreOnThePage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	page, files := readRooms(string(text)), goFiles(t)
	for room := range page.mayImport {
		if !slices.ContainsFunc(files, func(f goFile) bool { return within(f.pkg, []string{room}) }) {
			t.Errorf("the page has a room that does not exist: %s", room)
		}
	}
	for _, file := range files {
		if file.isTest || file.module != "." || within(file.pkg, slices.Concat(page.tests, page.open, []string{"internal/layout", "internal/readme", "proto"})) {
			continue
		}
		room := page.roomOf(file.pkg)
		if room == "" {
			t.Errorf("no row of the page has %s", file.pkg)
			continue
		}
		for _, spec := range file.ast.Imports {
			own, isOwn := strings.CutPrefix(importPath(spec)+"/", module)
			if own = strings.TrimSuffix(own, "/"); isOwn && !page.allows(room, own) {
				t.Errorf("%s imports %s: the page says that %s may import %v", file.path, own, room, page.mayImport[room])
			}
		}
	}
}

// readRooms reads the chapter about rooms.
func readRooms(document string) rooms {
	_, chapter, _ := strings.Cut(document, "\n## Rooms\n")
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	quoted, out := regexp.MustCompile("`([a-z0-9/-]+)`"), rooms{mayImport: map[string][]string{}}
	for paragraph := range strings.SplitSeq(chapter, "\n\n") {
		switch {
		case strings.HasPrefix(paragraph, "|"):
			for row := range strings.Lines(paragraph) {
				cells := strings.Split(strings.Trim(row, "|\n"), "|")
				names := quoted.FindAllStringSubmatch(cells[0], -1)
				if strings.Contains(cells[0], "the root") {
					names = append(names, []string{"", "."})
				}
				for _, name := range names {
					out.mayImport[directory(name[1])] = directories(strings.FieldsFunc(cells[2], func(r rune) bool { return r == ' ' || r == ',' }))
				}
			}
		case strings.HasPrefix(paragraph, "Kits for tests: "):
			kits, _, _ := strings.Cut(paragraph, "`conformance`")
			for _, name := range quoted.FindAllStringSubmatch(kits, -1) {
				out.tests = append(out.tests, directory(name[1]))
			}
		default:
			_, open, _ := strings.Cut(paragraph, "\nAll may import ")
			for _, name := range quoted.FindAllStringSubmatch(open, -1) {
				out.open = append(out.open, directory(name[1]))
			}
		}
	}
	return out
}

// directory is where a room is that the page names.
func directory(name string) string {
	switch name {
	case ".", "all", "bridge", "correlate", "errmap", "gen", "proto/options", "cmd/sidecar":
		return name
	}
	return "internal/" + name
}

func directories(names []string) (out []string) {
	for _, name := range names {
		out = append(out, directory(name))
	}
	return out
}

// roomOf is the room that has a package: the nearest above it.
func (r rooms) roomOf(pkg string) string {
	for dir := pkg; dir != "."; dir = filepath.ToSlash(filepath.Dir(dir)) {
		if _, ok := r.mayImport[dir]; ok {
			return dir
		}
	}
	if pkg == "." {
		return "."
	}
	return ""
}

func (r rooms) allows(room, own string) bool {
	to := r.roomOf(own)
	return within(own, r.open) || to == room || to != "" && (slices.Contains(r.mayImport[room], to) || slices.Contains(r.mayImport[room], "all"))
}

// TestReadRooms: a room below another has its own row, and is not part of the other.
func TestReadRooms(t *testing.T) {
	t.Parallel()
	page := readRooms("# A\n\n## Rooms\n\nWords.\nAll may import `gen` and `a/leaf`, which\nimport nothing.\n\n| room | what it does | may import |\n|---|---|---|\n" +
		"| `cmd/sidecar`, the root | x | all |\n| `a` | x | bridge |\n| `a/b` | x | |\n| `bridge` | x | |\n\nKits for tests: `kit`. `conformance` is more.\n\n## B\n")
	for _, row := range []struct {
		room, own string
		want      bool
	}{
		{".", "internal/a", true},
		{"internal/a", "bridge", true},
		{"internal/a", "internal/a/c", true},
		{"internal/a", "internal/a/b", false},
		{"internal/a/b", "internal/a", false},
		{"internal/a/b", "internal/a/leaf", true},
		{"bridge", "gen/outrigger/v1", true},
		{"cmd/sidecar", "internal/kit", false},
		{"bridge", "internal/a", false},
	} {
		if got := page.allows(row.room, row.own); got != row.want {
			t.Errorf("%s imports %s: %v, want %v", row.room, row.own, got, row.want)
		}
	}
	if !slices.Equal(page.tests, []string{"internal/kit"}) {
		t.Errorf("kits: %v", page.tests)
	}
}
