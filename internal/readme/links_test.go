// SPDX-License-Identifier: Apache-2.0

package readme

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestTheReadmeIsShort: a newcomer reads it first, and whole.
func TestTheReadmeIsShort(t *testing.T) {
	t.Parallel()
	const most = 1200
	if words := len(strings.Fields(string(read(t, "README.md")))); words > most {
		t.Errorf("%d words, want at most %d", words, most)
	}
}

// TestTheNewcomersHour: what the README offers to those who want to understand the project is read in an hour, with the README.
func TestTheNewcomersHour(t *testing.T) {
	t.Parallel()
	const most = 13000
	text := read(t, "README.md")
	_, row, _ := strings.Cut(string(text), "\n| understand it, in an hour | ")
	row, _, _ = strings.Cut(row, "\n")
	pages, words := regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(row, -1), len(strings.Fields(string(text)))
	for _, page := range pages {
		words += len(strings.Fields(string(read(t, page[1]))))
	}
	if words > most || len(pages) != 9 {
		t.Errorf("%d words in %d pages, want at most %d in 9", words, len(pages), most)
	}
	t.Logf("%d words", words)
}

// TestLinksLeadSomewhere follows every relative link of every document to a file, and to a
// heading of it. A document that source code, a Makefile or a manifest names exists too.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	pages, links := map[string][]byte{}, 0
	walk(t, func(path string) {
		switch filepath.Ext(path) {
		case ".md":
			pages[path] = read(t, path)
		case ".go", ".proto", ".mjs", ".sh", ".yaml", "":
			for _, name := range regexp.MustCompile(`\b(?:docs|deploy|conformance)/[a-z0-9/_-]+\.md\b`).FindAllString(string(read(t, path)), -1) {
				links++
				if _, err := os.Stat(filepath.Join(root(), name)); err != nil {
					t.Errorf("%s names %s, which does not exist", path, name)
				}
			}
		}
	})
	for path, text := range pages {
		for _, found := range regexp.MustCompile(`\b[dD]ecision 0*(\d{1,2})\b`).FindAllSubmatch(text, -1) {
			if files, _ := filepath.Glob(filepath.Join(root(), "docs", "decisions", fmt.Sprintf("%04s-*.md", found[1]))); len(files) != 1 {
				t.Errorf("%s: %s: there is no such decision", path, found[0])
			}
		}
	}
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for path, text := range pages {
		for _, found := range link.FindAllSubmatch(code.ReplaceAll(text, nil), -1) {
			if target := string(found[1]); !strings.Contains(target, ":") {
				links++
				if fault := leads(t, path, target); fault != "" {
					t.Errorf("%s: %s: %s", path, target, fault)
				}
			}
		}
	}
	if len(pages) < 40 || links < 400 {
		t.Errorf("%d links in %d documents: is the pattern right?", links, len(pages))
	}
}

// TestDocumentsNameCodeThatExists: a path of the repository that a document quotes leads to a file or a folder, from the root or
// from the document.
func TestDocumentsNameCodeThatExists(t *testing.T) {
	t.Parallel()
	quoted, paths := regexp.MustCompile("`((?:bridge|cmd|conformance|correlate|errmap|internal)/[A-Za-z0-9_./-]+)`"), 0
	walk(t, func(page string) {
		if filepath.Ext(page) != ".md" {
			return
		}
		for _, found := range quoted.FindAllStringSubmatch(string(read(t, page)), -1) {
			paths++
			_, fromRoot := os.Stat(filepath.Join(root(), found[1]))
			_, fromPage := os.Stat(filepath.Join(root(), filepath.Dir(page), found[1]))
			if fromRoot != nil && fromPage != nil {
				t.Errorf("%s names %s, which does not exist", page, found[1])
			}
		}
	})
	if paths < 50 {
		t.Errorf("%d paths: is the pattern right?", paths)
	}
	t.Logf("%d paths", paths)
}

// code is what a document quotes: blocks, and words within a line.
var code = regexp.MustCompile("(?ms)^```.*?^```|`[^`\n]*`")

// walk visits the files of the repository, without what is generated or fetched.
func walk(t *testing.T, visit func(path string)) {
	t.Helper()
	skipped := []string{".git", ".tmp", "bin", "dist", "gen", "node_modules", "third_party", "testdata"}
	err := filepath.WalkDir(root(), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(skipped, entry.Name()):
			return filepath.SkipDir
		case entry.Type().IsRegular():
			relative, err := filepath.Rel(root(), path)
			if err != nil {
				return err
			}
			visit(relative)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// leads says why a link of a document leads nowhere: to no file, or to no heading.
func leads(t *testing.T, page, target string) string {
	t.Helper()
	file, anchor, _ := strings.Cut(target, "#")
	to := page
	if file != "" {
		to = filepath.Join(filepath.Dir(page), filepath.FromSlash(file))
	}
	if _, err := os.Stat(filepath.Join(root(), to)); err != nil {
		return "there is no such file"
	}
	if anchor == "" || filepath.Ext(to) != ".md" || slices.Contains(anchors(string(read(t, to))), anchor) {
		return ""
	}
	return "there is no such heading"
}

// anchors are those that GitHub gives to the headings of a document.
func anchors(text string) []string {
	var out []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		title := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading[1], "$1")
		out = append(out, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, title))
	}
	return out
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(), path))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestDocumentsThatLeadNowhere shows that following the links of documents can fail.
func TestDocumentsThatLeadNowhere(t *testing.T) {
	t.Parallel()
	const page = "docs/ARCHITECTURE.md"
	for target, want := range map[string]string{
		"errors.md": "", "../README.md#try-it": "", "#rooms": "", "../bridge/call.go#L1": "",
		"error.md": "there is no such file", "../README.md#try": "there is no such heading", "#room": "there is no such heading",
	} {
		if got := leads(t, page, target); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
}

// TestDecisions wants each to be short, to have the number of its file, and to begin with who needs it.
func TestDecisions(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root(), "docs", "decisions", "*.md"))
	if err != nil || len(files) < 20 {
		t.Fatalf("%d decisions, %v", len(files), err)
	}
	begin := regexp.MustCompile(`^# (\d+)\. .+\n\nNeeded by: .+\.\n`)
	const most = 600 // words
	for _, file := range files {
		name := filepath.Base(file)
		text := string(read(t, filepath.Join("docs", "decisions", name)))
		found := begin.FindStringSubmatch(text)
		if found == nil || !strings.HasPrefix(name, fmt.Sprintf("%04s-", found[1])) {
			t.Errorf("%s does not begin with its number and who needs it", name)
		}
		if words := len(strings.Fields(text)); words > most {
			t.Errorf("%s has %d words, want at most %d", name, words, most)
		}
	}
}
