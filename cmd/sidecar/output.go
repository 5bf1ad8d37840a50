// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/outrigger-mcp/outrigger/internal/client"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// The forms of results.
const (
	formatJSON  = "json"
	formatLines = "lines"
	formatTable = "table"
	formatRaw   = "raw"
)

// narrow is how many columns any terminal has.
const narrow = 80

// resultFlags say how a result is printed.
type resultFlags struct{ format string }

func (f *resultFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "output", formatJSON, "form of the result: json, lines (each item of a stream or list on a line, as it comes), table, or raw (as the sidecar sent it)")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats(), cobra.ShellCompDirectiveNoFileComp)) // it fails for no flag alone
}

func formats() []string { return []string{formatJSON, formatLines, formatTable, formatRaw} }

func (f *resultFlags) check() error {
	if !slices.Contains(formats(), f.format) {
		return usageError(fmt.Sprintf("--output: must be one of %s, is %q", strings.Join(formats(), ", "), f.format))
	}
	return nil
}

// outcome prints the result of a call. items is how many of a stream were printed as they came.
func (f *resultFlags) outcome(env environment, out *client.Outcome, items int) error {
	switch {
	case len(out.Data) > 0 && items > 0:
		rest, isCut, ok := client.Items(out.Data)
		if !ok {
			return nil
		}
		return f.lines(env, rest[min(items, len(rest)):], isCut)
	case len(out.Data) > 0 && f.format == formatLines:
		if list, isCut, ok := client.Items(out.Data); ok {
			return f.lines(env, list, isCut)
		}
		return f.data(env.stdout, out.Data)
	case len(out.Data) > 0:
		return f.data(env.stdout, out.Data)
	case f.format == formatRaw && len(out.Texts) > 0:
		_, err := fmt.Fprintln(env.stdout, strings.Join(out.Texts, "\n"))
		return err
	}
	return f.data(env.stdout, json.RawMessage(`{"content":`+cmp.Or(string(out.Content), "[]")+`}`))
}

func (f *resultFlags) lines(env environment, items []json.RawMessage, isCut bool) error {
	for _, item := range items {
		if err := f.line(env.stdout, item); err != nil {
			return err
		}
	}
	if isCut {
		fmt.Fprintln(env.stderr, "The stream had more items than the sidecar passes on.")
	}
	return nil
}

// line prints one item.
func (*resultFlags) line(out io.Writer, item json.RawMessage) error {
	_, err := out.Write(append(jsontext.Visible(jsontext.Compact(nil, item), 0), '\n'))
	return err
}

// data prints a result.
func (f *resultFlags) data(out io.Writer, data json.RawMessage) error {
	switch f.format {
	case formatRaw:
		if text, ok := jsontext.Text(data); ok {
			_, err := fmt.Fprintln(out, text)
			return err
		}
		_, err := out.Write(append(bytes.Clone(data), '\n'))
		return err
	case formatLines:
		list, _, ok := client.Items(data)
		if !ok {
			list = []json.RawMessage{data}
			if rows := rowsOf(data); rows != nil {
				list = rows
			}
		}
		for _, item := range list {
			if err := f.line(out, item); err != nil {
				return err
			}
		}
		return nil
	case formatTable:
		return printTable(out, data)
	}
	return printJSON(out, data)
}

// document prints what is no result, such as a task.
func (f *resultFlags) document(out io.Writer, data json.RawMessage) error {
	if f.format == formatLines {
		return f.line(out, data)
	}
	return f.data(out, data)
}

// rowsOf are the elements of a result that is a list, or whose only list this is; nil for any other.
func rowsOf(data json.RawMessage) []json.RawMessage {
	list := data
	if jsontext.IsObject(data) {
		list = nil
		for _, value := range jsontext.Members(data) {
			if value[0] != '[' {
				continue
			}
			if list != nil {
				return nil
			}
			list = value
		}
	}
	if len(list) == 0 || list[0] != '[' {
		return nil
	}
	rows := []json.RawMessage{}
	for row := range jsontext.Elements(list) {
		rows = append(rows, row)
	}
	return rows
}

// The bounds of a table: what is beyond is what JSON is for.
const (
	maxColumns = 12
	maxCell    = 48
)

// printTable prints a list of objects with a column for each of their members, and any other object with a line for each member.
func printTable(out io.Writer, data json.RawMessage) error {
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	rows := rowsOf(data)
	if rows == nil {
		if !jsontext.IsObject(data) {
			_, err := fmt.Fprintln(out, cellText(data))
			return err
		}
		for name, value := range jsontext.Members(data) {
			fmt.Fprintf(table, "%s\t%s\n", plainText(name), cellText(value))
		}
		return table.Flush()
	}
	var columns []string
	for _, row := range rows {
		for name := range jsontext.Members(row) {
			if !slices.Contains(columns, name) && len(columns) < maxColumns {
				columns = append(columns, name)
			}
		}
	}
	if len(columns) == 0 {
		for _, row := range rows {
			fmt.Fprintln(table, cellText(row))
		}
		return table.Flush()
	}
	heads := make([]string, len(columns))
	for i, name := range columns {
		heads[i] = strings.ToUpper(plainText(name))
	}
	fmt.Fprintln(table, strings.Join(heads, "\t"))
	for _, row := range rows {
		cells := make([]string, len(columns))
		for i, name := range columns {
			if value, ok := jsontext.Lookup(row, name); ok {
				cells[i] = cellText(value)
			}
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// cellText is a value in one line, without what would move the cursor of a terminal.
func cellText(value json.RawMessage) string {
	text, ok := jsontext.Text(value)
	if !ok {
		text = string(jsontext.Compact(nil, value))
	}
	text = plainText(text)
	if utf8.RuneCountInString(text) > maxCell {
		return string([]rune(text)[:maxCell-1]) + "…"
	}
	return text
}

// plainText is a text of a server on one line.
func plainText(s string) string { return harmless(strings.Join(strings.Fields(s), " ")) }

// harmless is a text of a server as a terminal may show it: nothing in it moves the cursor, sets a colour or hides a part.
func harmless(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' {
			return '?'
		}
		return r
	}, s)
	return string(jsontext.Visible([]byte(s), 0))
}

// progressLine is the last line of a terminal while a call runs.
type progressLine struct {
	out  io.Writer
	isOn bool
	// width is that of the text on it.
	width int
}

// show writes a report of progress over the one before.
func (l *progressLine) show(p client.Progress) {
	text := p.Done
	if p.Total != "" {
		text += "/" + p.Total
	}
	if p.Message != "" {
		text += " " + p.Message
	}
	columns := 0
	if f, ok := l.out.(*os.File); ok {
		columns, _ = terminalSize(f)
	}
	text = cut(plainText(text), cmp.Or(columns, narrow)-1) // a line that wraps is not written over
	width := columnsOf(text)
	fmt.Fprintf(l.out, "\r%s%s", text, strings.Repeat(" ", max(l.width-width, 0)))
	l.width = width
}

// clear removes it.
func (l *progressLine) clear() {
	if l.width > 0 {
		fmt.Fprintf(l.out, "\r%s\r", strings.Repeat(" ", l.width))
		l.width = 0
	}
}

// printJSON prints a value indented, with the members in their order, and with escapes for what a reader cannot see.
func printJSON(out io.Writer, v any) error {
	var raw, indented bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false) // it goes to people and to jq, not to a page
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if err := json.Indent(&indented, raw.Bytes(), "", "  "); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	_, err := out.Write(jsontext.Visible(indented.Bytes(), 0))
	return err
}

// cut shortens a text to columns of a terminal, and says so.
func cut(text string, columns int) string {
	used, end := 0, 0 // end leaves a column for the sign
	for i, r := range text {
		if used < columns {
			end = i
		}
		if used += width(r); used > columns {
			return text[:end] + strings.Repeat("…", min(columns, 1))
		}
	}
	return text
}

func columnsOf(text string) int {
	n := 0
	for _, r := range text {
		n += width(r)
	}
	return n
}

// width is how many columns terminals give a character: two for ideographs and the like.
func width(r rune) int {
	if r >= 0x1100 && unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana) || r >= 0xff01 && r <= 0xff60 || r >= 0x1f300 && r <= 0x1faff {
		return 2
	}
	return 1
}
