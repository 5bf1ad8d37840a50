// SPDX-License-Identifier: Apache-2.0

package programs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// page is where the figures are published.
const page = "../../../docs/programs-figures.md"

const head = `# What programs save

Thirty [tasks](../conformance/corpus/programs/tasks_test.go) over five catalogs, by single calls with a full list, by single calls with a compact list, and by one [program](programs.md).
` + "`make programs-figures`" + ` measures them and writes this page. The tasks were written before the first run; half of them, marked * below, give the figure, and nothing is tuned on them. After the
first run, two programs got other spellings of a field, and no more. The demo answers for itself, the public APIs by ` + "`--mock`" + `: lists of one to three entries with all fields, which is short for a list.

A token is four bytes of JSON, the sidecar's estimate for lists. Counted are the list of tools, searches and descriptions, requests, and answers (structured content, once). With a compact list
the agent searches and describes each tool that it calls; for a program it asks for the signatures of all at once. Types that these leave out are not asked for. Each backend is 20 ms away. Single calls are
made one after the other; the time of a model, which each turn adds, is not counted. Times are medians of five runs beside other work on two cores.

`

// share is by how many percent less is than more.
func share(less, more int) float64 { return 100 * (1 - float64(less)/float64(more)) }

// spread tells the median and the least of shares, and how many reach the goal.
func spread(shares []float64, goal float64) string {
	slices.Sort(shares)
	reached := 0
	for _, s := range shares {
		if s >= goal {
			reached++
		}
	}
	return fmt.Sprintf("%.0f %%, %.0f %%; %d of %d", shares[len(shares)/2], shares[0], reached, len(shares))
}

// halves are the cells of a figure: for the half that counts, and for the other.
func halves(rows []measured, goal float64, least int, figure func(measured) float64) string {
	var cells [2][]float64
	for _, m := range rows {
		if m.calls < least {
			continue
		}
		if m.isFigure {
			cells[0] = append(cells[0], figure(m))
		} else {
			cells[1] = append(cells[1], figure(m))
		}
	}
	return spread(cells[0], goal) + " | " + spread(cells[1], goal)
}

// write writes the page.
func write(t *testing.T, worlds map[string]*world, rows []measured) {
	t.Helper()
	var b strings.Builder
	b.WriteString(head)
	b.WriteString("| what a program saves: median, least; how many reach the goal | goal | half for the figure | other half |\n|---|---|---|---|\n")
	for _, line := range []struct {
		what, goal string
		number     float64
		least      int
		figure     func(measured) float64
	}{
		{"tokens that come into the context, tasks of five calls and more, against a full list", "90 %", 90, 5, func(m measured) float64 { return share(m.programs.once(), m.full.once()) }},
		{"the same, against single calls with a compact list", "90 %", 90, 5, func(m measured) float64 { return share(m.programs.once(), m.compact.once()) }},
		{"the same, requests and answers of the calls alone", "90 %", 90, 5, func(m measured) float64 { return share(m.run, m.talk) }},
		{"tokens that are read in all turns together, calls that need no other in one turn, against a full list", "90 %", 90, 5, func(m measured) float64 { return share(m.programs.read(), m.full.read()) }},
		{"the same, against a compact list", "90 %", 90, 5, func(m measured) float64 { return share(m.programs.read(), m.compact.read()) }},
		{"tokens that are read where each single call is a turn, against a full list", "90 %", 90, 5, func(m measured) float64 {
			return share(m.programs.read(), m.full.slowly(m.full.turns[:1]).read())
		}},
		{"the same, against a compact list", "90 %", 90, 5, func(m measured) float64 { return share(m.programs.read(), m.compact.slowly(m.learned).read()) }},
		{"time of the calls, backends 20 ms away", "50 %", 50, 5, func(m measured) float64 { return share(int(m.programs.took), int(m.full.took)) }},
	} {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", line.what, line.goal, halves(rows, line.number, line.least, line.figure))
	}
	for _, line := range checked(t) {
		b.WriteString(line)
	}
	b.WriteString(why(rows))
	b.WriteString("| catalog: tools, tokens of the full list | task | calls | full list | compact list | program | calls alone | program alone | ms | ms, program |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, m := range rows {
		mark := ""
		if m.isFigure {
			mark = " *"
		}
		w := worlds[m.api]
		fmt.Fprintf(&b, "| %s: %d, %d | %s%s | %d | %d | %d | %d | %d | %d | %d | %d |\n", m.api, w.tools, w.full, m.ask, mark, m.calls, m.full.once(), m.compact.once(), m.programs.once(),
			m.talk, m.run, m.full.took/time.Millisecond, m.programs.took/time.Millisecond)
	}
	if err := os.WriteFile(page, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// why says what keeps figures from the goal.
func why(rows []measured) string {
	var parts [4]int // list, searches, signatures, program
	var sum, cheapest, reached, others int
	for _, m := range rows {
		if m.calls < 5 || !m.isFigure {
			continue
		}
		for i, n := range m.programs.turns {
			parts[i] += n
			sum += n
		}
		cheapest = max(cheapest, m.run)
		if share(m.programs.once(), m.full.once()) >= 90 {
			reached++
		} else {
			others++
		}
	}
	percent := func(i int) float64 { return 100 * float64(parts[i]) / float64(sum) }
	return fmt.Sprintf(`
Where the tokens of the way with a program go: compact list %.0f %%, searches %.0f %%, signatures %.0f %%, the program and its result %.0f %%, at most %d tokens. Against a full list, %d tasks reach the
goal. The other %d are in catalogs whose full list is short, and have short answers: the compact list and the searches alone take most of a tenth of it. Against a compact list none
reaches it: single calls need the same list and searches, and a program saves their answers and the difference between schemas and signatures. Pages are asked for one after the other, by a program too.

`, percent(0), percent(1), percent(2), percent(3), cheapest, reached, others)
}

// checked are the lines of the check: its own tests count.
func checked(t *testing.T) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count", "1", "-v", "-run", "TestWrongProgramsAreRefused|TestNoneIsRefusedThatRuns", "./internal/program/check")
	cmd.Dir = filepath.Join("..", "..", "..")
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	wrong := regexp.MustCompile(`(\d+) of (\d+) wrong programs are found before any call.*; (\d+) of them would have come to their ends`).FindSubmatch(text)
	ran := regexp.MustCompile(`(\d+) programs: (\d+) ran to their ends, (\d+) were refused`).FindSubmatch(text)
	if wrong == nil || ran == nil {
		t.Fatalf("the tests of the check print no counts:\n%s", text)
	}
	return []string{
		fmt.Sprintf("| seeded wrong programs whose fault is found before any call; of those, programs in which the fault would not have been reached | all that the types can know | %s of %s; %s | |\n", wrong[1], wrong[2], wrong[3]),
		fmt.Sprintf("| programs that run to their ends, and were refused; of random ones that are right by the types | 0 | %s of %s, of which %s ran to their ends | |\n", ran[3], ran[1], ran[2]),
	}
}
