// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// printTable writes a line a scenario, the sums, what the suite skipped, and
// every finding.
func printTable(w io.Writer, title string, scenarios []scenario) (findings int) {
	fmt.Fprintf(w, "\n%s\n\n", title)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "passed\tfailed\twarnings\tskipped\tinfo\t\t scenario")
	statuses := []string{statusSuccess, statusFailure, statusWarning, statusSkipped, statusInfo}
	sums := make([]int, len(statuses))
	var all []string
	well := 0
	for _, s := range scenarios {
		verdict := "ok"
		found := s.findings()
		if len(found) > 0 {
			verdict = "NOT OK"
		} else {
			well++
		}
		all = append(all, found...)
		for i, status := range statuses {
			n := s.count(status)
			sums[i] += n
			fmt.Fprintf(table, "%d\t", n)
		}
		fmt.Fprintf(table, "%s\t %s\n", verdict, label(s))
	}
	for _, n := range sums {
		fmt.Fprintf(table, "%d\t", n)
	}
	fmt.Fprintf(table, "\t %d of %d scenarios\n", well, len(scenarios))
	_ = table.Flush()
	var skipped []string
	for _, s := range scenarios {
		skipped = append(skipped, s.described(statusSkipped)...)
	}
	printList(w, "skipped by the suite", skipped)
	printList(w, "findings", all)
	return len(all)
}

func printList(w io.Writer, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%d %s:\n", len(lines), title)
	for _, line := range lines {
		fmt.Fprintf(w, "  %s\n", line)
	}
}

func label(s scenario) string {
	switch {
	case s.unexpected:
		return s.name + " (not in the list)"
	case s.unscored:
		return s.name + " (not scored)"
	}
	return s.name
}
