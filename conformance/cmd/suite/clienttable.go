// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// clientColumn is one client in one mode, over every transport.
type clientColumn struct{ client, version, mode string }

// clientTable is clients by checks.
type clientTable struct {
	columns []clientColumn
	reports map[clientColumn]map[string][]clientCheck // by check, one a transport
}

// Words of the table's cells.
const (
	cellOK     = "ok"
	cellNo     = "no"
	cellAbsent = "-"
	cellFailed = "FAILED"
)

func newClientTable(reports []clientCheck) clientTable {
	t := clientTable{reports: map[clientColumn]map[string][]clientCheck{}}
	for _, c := range reports {
		column := clientColumn{c.Client, c.Version, c.Mode}
		if t.reports[column] == nil {
			t.reports[column] = map[string][]clientCheck{}
			t.columns = append(t.columns, column)
		}
		t.reports[column][c.Check] = append(t.reports[column][c.Check], c)
	}
	slices.SortFunc(t.columns, func(a, b clientColumn) int {
		return cmp.Or(strings.Compare(a.client, b.client), modeOrder(a.mode)-modeOrder(b.mode), strings.Compare(a.mode, b.mode))
	})
	return t
}

// modeOrder puts the oldest first, and what is pinned to a revision last.
func modeOrder(mode string) int {
	const others = 2
	if at := slices.Index([]string{"legacy", "auto"}, mode); at >= 0 {
		return at
	}
	return others
}

// cell sums up what the transports have in common.
func (t clientTable) cell(column clientColumn, check string) string {
	by := map[string][]string{}
	for _, c := range t.reports[column][check] {
		by[c.Outcome] = append(by[c.Outcome], c.Transport)
	}
	switch {
	case len(by[outcomeFailed]) > 0:
		return cellFailed
	case len(by[outcomeOK]) > 0 && len(by[outcomeUnsupported]) > 0:
		return strings.Join(by[outcomeOK], ", ")
	case len(by[outcomeOK]) > 0:
		return cellOK
	case len(by[outcomeUnsupported]) > 0:
		return cellNo
	}
	return cellAbsent
}

// print writes the table and what is behind its cells. It returns how many
// checks failed.
func (t clientTable) print(w io.Writer) int {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out)
	for _, field := range []func(clientColumn) string{
		func(c clientColumn) string { return c.client },
		func(c clientColumn) string { return c.version },
		func(c clientColumn) string { return c.mode },
	} {
		for _, column := range t.columns {
			fmt.Fprint(out, "\t", field(column))
		}
		fmt.Fprintln(out)
	}
	for _, check := range clientChecks() {
		fmt.Fprint(out, check)
		for _, column := range t.columns {
			fmt.Fprint(out, "\t", t.cell(column, check))
		}
		fmt.Fprintln(out)
	}
	_ = out.Flush()
	fmt.Fprintln(w, "\nok: over every transport, or those named. no: not supported by the client. -: not in the revision.")
	for _, line := range t.gaps() {
		fmt.Fprintln(w, line)
	}
	return t.failures(w)
}

// gaps says why clients cannot do what they cannot do, a line a client.
func (t clientTable) gaps() []string {
	var lines []string
	for _, column := range t.columns {
		var reasons []string
		for _, check := range clientChecks() {
			for _, c := range t.reports[column][check] {
				if c.Outcome != outcomeUnsupported {
					continue
				}
				reason := check + ": " + c.Reason
				if t.cell(column, check) != cellNo {
					reason = check + " over " + c.Transport + ": " + c.Reason
				}
				if !slices.Contains(reasons, reason) {
					reasons = append(reasons, reason)
				}
			}
		}
		if len(reasons) > 0 {
			lines = append(lines, fmt.Sprintf("%s, %s: %s.", column.client, column.mode, strings.Join(reasons, "; ")))
		}
	}
	return lines
}

func (t clientTable) failures(w io.Writer) int {
	failed := 0
	for _, column := range t.columns {
		for _, check := range clientChecks() {
			for _, c := range t.reports[column][check] {
				if c.Outcome == outcomeFailed {
					failed++
					fmt.Fprintf(w, "FAILED %s %s %s %s, %s: %s\n", c.Client, c.Version, c.Mode, c.Transport, c.Check, c.Error)
				}
			}
		}
	}
	for _, column := range t.columns { // those that are in no row
		for check, reports := range t.reports[column] {
			if !slices.Contains(clientChecks(), check) {
				failed += len(reports)
				fmt.Fprintf(w, "FAILED %s %s %s, %s: there is no such check\n", column.client, column.version, column.mode, check)
			}
		}
	}
	return failed
}

// Marks between which a document has the table.
const (
	docBegin = "<!-- The table is written by `make clients CLIENTSFLAGS=-update`. -->\n"
	docEnd   = "<!-- end of the table -->\n"
)

// markdown is the table for a document.
func (t clientTable) markdown() string {
	var b strings.Builder
	b.WriteString("| |")
	for _, c := range t.columns {
		fmt.Fprintf(&b, " %s %s, %s |", c.client, c.version, c.mode)
	}
	b.WriteString("\n|---" + strings.Repeat("|---", len(t.columns)) + "|\n")
	for _, check := range clientChecks() {
		fmt.Fprintf(&b, "| %s |", check)
		for _, column := range t.columns {
			fmt.Fprintf(&b, " %s |", t.cell(column, check))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for _, line := range t.gaps() {
		b.WriteString("- " + line + "\n")
	}
	return b.String()
}

// keep holds a document to the table, or writes the table into it.
func (t clientTable) keep(file string, update bool) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(raw), docBegin)
	inside, after, ends := strings.Cut(rest, docEnd)
	switch {
	case !begins || !ends:
		return errors.New(file + " has no marks for the table")
	case inside == t.markdown():
		return nil
	case !update:
		return errors.New(file + " has another table: run `make clients CLIENTSFLAGS=-update` and look at what changed")
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(before+docBegin+t.markdown()+docEnd+after), info.Mode().Perm()) //nolint:gosec // the document that the command line names
}
