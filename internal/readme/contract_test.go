// SPDX-License-Identifier: Apache-2.0

package readme

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// claim is one row of docs/contract.md.
type claim struct{ number, text, tests string }

func readContract(t *testing.T) []claim {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root(), "docs", "contract.md"))
	if err != nil {
		t.Fatal(err)
	}
	var out []claim
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| #") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 3 {
			t.Errorf("not three columns: %s", line)
			continue
		}
		out = append(out, claim{cells[0], cells[1], cells[2]})
	}
	return out
}

// TestTheContractIsWhole wants the claims of every section numbered without a
// gap, and each with tests or marked as open.
func TestTheContractIsWhole(t *testing.T) {
	t.Parallel()
	const sections = 17
	cell := regexp.MustCompile(`^(open: .+|\[\w+\]\([^)]+\)( "[^"]+")?(, \[\w+\]\([^)]+\)( "[^"]+")?)*)$`)
	section, row, open := 0, 0, 0
	for _, c := range readContract(t) {
		major, minor, _ := strings.Cut(c.number, ".")
		if minor == "1" {
			section, row = section+1, 0
		}
		row++
		if major != strconv.Itoa(section) || minor != strconv.Itoa(row) {
			t.Errorf("%s follows %d.%d", c.number, section, row-1)
		}
		if c.text == "" || !cell.MatchString(c.tests) {
			t.Errorf("%s: neither tests nor open: %s", c.number, c.tests)
		}
		if strings.HasPrefix(c.tests, "open") {
			open++
		}
	}
	if section != sections {
		t.Errorf("%d sections, want %d", section, sections)
	}
	t.Logf("%d claims are open", open)
}

// TestTheContractLinksToTests follows every link. A claim does not hold because
// a page says so.
func TestTheContractLinksToTests(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\[(\w+)\]\(([^)]+)\)(?: "([^"]+)")?`)
	for _, c := range readContract(t) {
		if strings.HasPrefix(c.tests, "open") {
			continue
		}
		hasTest := false
		for _, found := range link.FindAllStringSubmatch(c.tests, -1) {
			if fault := follow(filepath.Join(root(), "docs", filepath.FromSlash(found[2])), found[1], found[3]); fault != "" {
				t.Errorf("%s: %s: %s", c.number, found[0], fault)
			}
			hasTest = hasTest || strings.HasSuffix(found[2], "_test.go")
		}
		if !hasTest {
			t.Errorf("%s has no test", c.number)
		}
	}
}

// follow says why a link leads nowhere: to no test, or to one without a subtest
// of that name. What is no test is a script or a conversation.
func follow(path, name, subtest string) string {
	if strings.HasSuffix(path, ".txtar") {
		if _, err := os.Stat(path); err != nil || name+".txtar" != filepath.Base(path) || subtest != "" {
			return "there is no such conversation or script"
		}
		return ""
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err.Error()
	}
	if !regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]`).MatchString(name) || !strings.HasSuffix(path, "_test.go") {
		return "this is no test"
	}
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || fn.Name.Name != name {
			continue
		}
		if subtest == "" || says(fn, subtest) {
			return ""
		}
		return "the test has no subtest of this name"
	}
	return "it is not in the file"
}

// says reports whether a function holds a text as a literal.
func says(fn *ast.FuncDecl, text string) bool {
	found := false
	ast.Inspect(fn, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			value, err := strconv.Unquote(literal.Value)
			found = found || err == nil && value == text
		}
		return !found
	})
	return found
}

// TestLinksThatLeadNowhere shows that following them can fail.
func TestLinksThatLeadNowhere(t *testing.T) {
	t.Parallel()
	const here = "contract_test.go"
	script := filepath.Join(root(), "cmd", "sidecar", "testdata", "script", "diff.txtar")
	for _, good := range [][3]string{{here, "TestLinksThatLeadNowhere", ""}, {here, "TestLinksThatLeadNowhere", "nothing of that name"}, {script, "diff", ""}} {
		if fault := follow(good[0], good[1], good[2]); fault != "" {
			t.Errorf("%v: %s", good, fault)
		}
	}
	for _, wrong := range [][3]string{
		{here, "TestOfNothing", ""},
		{"nothing_test.go", "TestLinksThatLeadNowhere", ""},
		{here, "TestLinksThatLeadNow", ""},
		{here, "follow", ""},
		{"doc.go", "TestLinksThatLeadNowhere", ""},
		{here, "TestTheContractIsWhole", "nothing of that name"},
		{script, "diffs", ""},
		{script, "diff", "nothing of that name"},
		{filepath.Join(root(), "nothing.txtar"), "nothing", ""},
	} {
		if follow(wrong[0], wrong[1], wrong[2]) == "" {
			t.Errorf("%v leads somewhere", wrong)
		}
	}
}
