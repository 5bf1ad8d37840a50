// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// maxUnfinished bounds the invocations that are kept until their end is read: more than
// can be in flight at once.
const maxUnfinished = 100_000

// auditPrinter prints chosen lines as they come.
type auditPrinter struct {
	out    *bufio.Writer
	asJSON bool
	rows   int
	// begun are the chosen invocations that have not ended, by their id, and numbers their
	// order.
	begun  map[string]unfinished
	number int
}

// unfinished is an invocation that has begun.
type unfinished struct {
	number int
	row    string
}

func newAuditPrinter(out io.Writer, asJSON bool) *auditPrinter {
	return &auditPrinter{out: bufio.NewWriter(out), asJSON: asJSON, begun: map[string]unfinished{}}
}

// printLine prints a line that the filter chooses.
func (p *auditPrinter) printLine(l *trail.AuditLine, filter *trail.Filter) error {
	if l.Phase == trail.PhaseEnd {
		delete(p.begun, l.ID)
	}
	if p.asJSON {
		if !filter.Matches(l) {
			return nil
		}
		_, err := p.out.Write(append(jsontext.Visible(l.Raw, 0), '\n'))
		return err
	}
	if l.Phase == trail.PhaseBegin {
		l.Code = "UNFINISHED"
		if filter.Matches(l) && len(p.begun) < maxUnfinished {
			p.number++
			p.begun[l.ID] = unfinished{p.number, auditRow(l)}
		}
		return nil
	}
	if !filter.Matches(l) {
		return nil
	}
	return p.print(auditRow(l))
}

func (p *auditPrinter) print(row string) error {
	if p.rows++; p.rows == 1 {
		row = auditHead() + row
	}
	_, err := p.out.WriteString(row)
	return err
}

// printOpen prints the invocations that have not ended.
func (p *auditPrinter) printOpen() error {
	left := make([]unfinished, 0, len(p.begun))
	for _, one := range p.begun {
		left = append(left, one)
	}
	slices.SortFunc(left, func(a, b unfinished) int { return cmp.Compare(a.number, b.number) })
	for _, one := range left {
		if err := p.print(one.row); err != nil {
			return err
		}
	}
	return p.out.Flush()
}

// auditFormat has fixed widths, so that rows can be printed one by one.
const auditFormat = "%-27s  %-24s  %-8s  %-14s  %-32s  %-9s  %-20s  %10s\n"

func auditHead() string {
	return fmt.Sprintf(auditFormat, "TIME", "CALLER", "EDGE", "OPERATION", "TOOL", "DECISION", "CODE", "MS")
}

// auditRow is a line as people read it.
func auditRow(l *trail.AuditLine) string {
	caller := cmp.Or(l.Caller.Name, l.Caller.Subject, l.Caller.Address)
	if l.Caller.Issuer != "" {
		caller = l.Caller.Subject + " (" + l.Caller.Issuer + ")"
	}
	operation, about := l.Operation, cmp.Or(l.Tool, l.Target)
	switch l.Phase {
	case trail.PhaseChange:
		operation = "! " + operation
		about = strings.TrimSpace(strings.Join([]string{l.Tool, changeText(l)}, " "))
	case trail.PhaseTask:
		operation = "end_of_task"
	case trail.PhaseBegin, trail.PhaseEnd:
	}
	took := "-"
	if l.DurationMS != nil {
		took = strconv.FormatFloat(*l.DurationMS, 'f', 3, 64)
	}
	return fmt.Sprintf(auditFormat, l.Time.UTC().Format("2006-01-02T15:04:05.000000Z"), cell(caller), cell(l.Edge), cell(operation),
		cell(about), cell(string(l.Decision)), cell(l.Code), took)
}

// changeText is what changed.
func changeText(l *trail.AuditLine) string {
	switch {
	case l.Before != "" && l.After != "":
		return l.Before + " -> " + l.After
	case l.Before != "" || l.After != "":
		return strings.TrimSpace(cmp.Or(l.After, l.Before+" ->") + " " + l.Detail)
	}
	return l.Detail
}

// cell is a text that cannot break a row: a trail holds what callers sent. What cannot be
// seen is escaped as in JSON.
func cell(text string) string {
	if text == "" {
		return "-"
	}
	quoted := jsontext.Visible(jsontext.AppendString(nil, text), 0)
	return string(quoted[1 : len(quoted)-1])
}
