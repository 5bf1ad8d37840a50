// SPDX-License-Identifier: Apache-2.0

package mcpschema_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// checklist is the page that says which test holds which rule.
const checklist = "../../conformance/CHECKLIST.md"

// rule is one line of the checklist.
type rule struct{ number, text, tag, covered string }

func readChecklist(t *testing.T) []rule {
	t.Helper()
	page, err := os.ReadFile(checklist)
	if err != nil {
		t.Fatal(err)
	}
	var out []rule
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| #") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 4 {
			t.Errorf("not four columns: %s", line)
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		out = append(out, rule{cells[0], cells[1], cells[2], cells[3]})
	}
	return out
}

// numbers are those of the list of rules, section by section.
func numbers() []string {
	var out []string
	section := func(name string, rows, rules int) {
		for i := range rows {
			out = append(out, name+".t"+strconv.Itoa(i+1))
		}
		for i := range rules {
			out = append(out, name+"."+strconv.Itoa(i+1))
		}
	}
	section("1", 0, 14)
	section("2", 0, 6)
	section("3", 14, 6)
	section("4", 6, 3)
	section("5", 0, 12)
	section("5A", 0, 5)
	section("6", 0, 5)
	section("7", 0, 2)
	section("8", 0, 4)
	section("9", 0, 8)
	section("10", 0, 5)
	section("11", 0, 9)
	section("12", 0, 7)
	section("13", 0, 4)
	section("14", 0, 2)
	section("15", 0, 1)
	section("15.2", 0, 6)
	out = append(out, "15.3")
	section("17.1", 0, 12)
	out = append(out, "17.2", "17.3")
	section("17.4", 15, 0)
	return out
}

// TestChecklistIsWhole wants every rule there, once, in order, and with a tag.
func TestChecklistIsWhole(t *testing.T) {
	t.Parallel()
	tag := regexp.MustCompile(`^[MSCR]( [MSCR])*$`)
	var got []string
	for _, r := range readChecklist(t) {
		got = append(got, r.number)
		if !tag.MatchString(r.tag) || r.text == "" {
			t.Errorf("%s: tag %q, rule %q", r.number, r.tag, r.text)
		}
	}
	if diff := cmp.Diff(numbers(), got); diff != "" {
		t.Errorf("numbers (-want +got) %s", diff)
	}
}

var (
	// link is a test's name, or a conversation and its exchange, and the file.
	link = regexp.MustCompile(`\[([^\]]+)\]\(([^)]+)\)`)
	// covered is a cell: open; or why the rule does not apply; or links; or partly, links, and what is open.
	covered = regexp.MustCompile(`^(open(: [^\[]+)?|does not apply: [^\[]+|(\[[^\]]+\]\([^)]+\)(, )?)+|partly: (\[[^\]]+\]\([^)]+\)(, )?)+; open: [^\[]+)$`)
)

// TestChecklistLinksToTests follows every link of the checklist. A rule is not
// covered because a page says so.
func TestChecklistLinksToTests(t *testing.T) {
	t.Parallel()
	open, partly, whole, foreign := 0, 0, 0, 0
	for _, r := range readChecklist(t) {
		if !covered.MatchString(r.covered) {
			t.Errorf("%s: neither open nor tests: %s", r.number, r.covered)
		}
		switch {
		case strings.HasPrefix(r.covered, "open"):
			open++
		case strings.HasPrefix(r.covered, "partly"):
			partly++
		case strings.HasPrefix(r.covered, "does not apply"):
			foreign++
		default:
			whole++
		}
		for _, found := range link.FindAllStringSubmatch(r.covered, -1) {
			if fault := follow(found[1], found[2]); fault != "" {
				t.Errorf("%s: %s: %s", r.number, found[0], fault)
			}
		}
	}
	t.Logf("%d rules are covered, %d partly, %d are open, %d do not apply", whole, partly, open, foreign)
}

// follow says why a link leads nowhere, or nothing.
func follow(name, path string) string {
	file := filepath.Join(filepath.Dir(checklist), filepath.FromSlash(path))
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	want := "\nfunc " + name + "("
	if conversation, exchange, ok := strings.Cut(name, " "); ok {
		if filepath.Base(file) != conversation+".txtar" {
			return "the file is another conversation"
		}
		want = "\n-- " + exchange + ".want --\n"
	} else if !strings.HasPrefix(name, "Test") || !strings.HasSuffix(file, "_test.go") {
		return "this is no test"
	}
	if !strings.Contains(string(text), want) {
		return "it is not in the file"
	}
	return ""
}

// TestLinksThatLeadNowhere shows that following them can fail.
func TestLinksThatLeadNowhere(t *testing.T) {
	t.Parallel()
	const conversation = "../internal/dialect/testdata/modern_rules.txtar"
	for _, good := range [][2]string{{"TestLinksThatLeadNowhere", "../internal/mcpschema/checklist_test.go"}, {"modern_rules 01", conversation}} {
		if fault := follow(good[0], good[1]); fault != "" {
			t.Errorf("%v: %s", good, fault)
		}
	}
	for _, wrong := range [][2]string{
		{"TestOfNothing", "../internal/mcpschema/checklist_test.go"},
		{"TestLinksThatLeadNowhere", "../internal/mcpschema/nothing_test.go"},
		{"TestLinksThatLeadNow", "../internal/mcpschema/checklist_test.go"},
		{"follow", "../internal/mcpschema/checklist_test.go"},
		{"TestLinksThatLeadNowhere", "../internal/mcpschema/doc.go"},
		{"modern_rules 99", conversation},
		{"modern_call 01", conversation},
	} {
		if follow(wrong[0], wrong[1]) == "" {
			t.Errorf("%v leads somewhere", wrong)
		}
	}
	for _, cell := range []string{"", "done", "TestA", "open [TestA](a_test.go)", "does not apply", "partly: [TestA](a_test.go)", "[TestA](a_test.go) and more"} {
		if covered.MatchString(cell) {
			t.Errorf("%q passes for an answer", cell)
		}
	}
}
