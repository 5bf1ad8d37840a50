// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteText writes the report for people: a block for each finding, and a line with the counts.
func (r *Report) WriteText(out io.Writer) error {
	var b bytes.Buffer
	for _, f := range r.Findings {
		subject := f.Tool
		if subject == "" {
			subject = "the list"
		}
		rule := f.Rule
		if f.Client != "" {
			rule = f.Client + ", " + rule
		}
		fmt.Fprintf(&b, "%-7s  %s: %s [%s]\n", f.Level, subject, f.Message, rule)
		if f.Path != "" {
			fmt.Fprintf(&b, "         at %s\n", f.Path)
		}
		fmt.Fprintf(&b, "         fix: %s\n", f.Fix.Text)
		for line := range strings.Lines(f.Fix.Overlay) {
			b.WriteString("           " + line)
		}
	}
	if r.Omitted > 0 {
		fmt.Fprintf(&b, "%d more findings are left out\n", r.Omitted)
	}
	fmt.Fprintf(&b, "%s, about %d tokens: %v\n", plural(r.Tools, "tool"), r.Tokens, r.Counts)
	_, err := out.Write(b.Bytes())
	return err
}

// WriteJSON writes the report as one document.
func (r *Report) WriteJSON(out io.Writer) error { return writeIndented(out, r) }

func writeIndented(out io.Writer, v any) error {
	to := json.NewEncoder(out)
	to.SetEscapeHTML(false)
	to.SetIndent("", "  ")
	return to.Encode(v)
}

// ruleRow is one fact in the table of rules.
type ruleRow struct {
	Rule     string   `json:"rule"`
	About    string   `json:"about"`
	Client   string   `json:"client"`
	Level    Level    `json:"level"`
	Limit    int      `json:"limit,omitempty"`
	Where    string   `json:"where,omitempty"`
	Keywords []string `json:"keywords,omitempty"`
	Pattern  string   `json:"pattern,omitempty"`
	Effect   string   `json:"effect"`
	Source   string   `json:"source"`
	Date     string   `json:"date"`
}

func ruleRows() []ruleRow {
	about := map[string]string{}
	for _, r := range Rules() {
		about[r.ID] = r.About
	}
	var out []ruleRow
	for _, f := range Facts() {
		client := f.Client
		if client == "" {
			client = "every client"
		}
		out = append(out, ruleRow{
			Rule: f.Rule, About: about[f.Rule], Client: client, Level: f.Level, Limit: f.Limit, Where: f.Where.String(), Keywords: f.Words,
			Pattern: f.Pattern, Effect: f.Effect, Source: f.Source, Date: f.Date,
		})
	}
	return out
}

// WriteRules writes the table of all facts: rule, client, limit, effect, source and date. As JSON, it is one array.
func WriteRules(out io.Writer, asJSON bool) error {
	rows := ruleRows()
	if asJSON {
		return writeIndented(out, rows)
	}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "CLIENT\tRULE\tLEVEL\tLIMIT\tSCHEMAS\tOTHERWISE\tDATE\tSOURCE")
	for _, r := range rows {
		limit := "-"
		if r.Limit > 0 {
			limit = fmt.Sprint(r.Limit)
		}
		where := r.Where
		if where == "" {
			where = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%v\t%s\t%s\t%s\t%s\t%s\n", r.Client, r.Rule, r.Level, limit, where, r.Effect, r.Date, r.Source)
	}
	return table.Flush()
}
