// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteText writes the report for people: a block for each finding, and a line with the counts.
func (r *LintReport) WriteText(out io.Writer) error {
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
	fmt.Fprintf(&b, "%s, about %d tokens: %v\n", counted(r.Tools, "tool"), r.Tokens, r.Counts)
	_, err := out.Write(b.Bytes())
	return err
}

// WriteJSON writes the report as one document.
func (r *LintReport) WriteJSON(out io.Writer) error { return writeIndented(out, r) }

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
	for _, r := range lintRules() {
		about[r.ID] = r.About
	}
	var out []ruleRow
	for _, f := range lintFacts() {
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

// SARIF describes where findings are, for [LintReport.WriteSARIF].
type SARIF struct {
	// Version is the version of the program.
	Version string
	// File is the file that the findings are about, as a relative path; empty if there is none.
	File string
}

// The parts of SARIF 2.1.0 that a report has; an object is one whose members are sorted.
type (
	object   map[string]any
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver sarifDriver `json:"driver"`
		} `json:"tool"`
		Language string        `json:"language"`
		Results  []sarifResult `json:"results"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version,omitempty"`
		InformationURI string      `json:"informationUri"`
		Language       string      `json:"language"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID                   string `json:"id"`
		ShortDescription     object `json:"shortDescription"`
		HelpURI              string `json:"helpUri"`
		DefaultConfiguration object `json:"defaultConfiguration"`
		Properties           struct {
			Client string `json:"client,omitempty"`
			Effect string `json:"effect"`
			Date   string `json:"date"`
		} `json:"properties"`
	}
	sarifResult struct {
		RuleID              string          `json:"ruleId"`
		RuleIndex           int             `json:"ruleIndex"`
		Level               Level           `json:"level"`
		Message             object          `json:"message"`
		Locations           []sarifLocation `json:"locations"`
		PartialFingerprints object          `json:"partialFingerprints"`
		Properties          sarifProperties `json:"properties"`
	}
	sarifLocation struct {
		Physical object   `json:"physicalLocation,omitempty"`
		Logical  []object `json:"logicalLocations"`
	}
	sarifProperties struct {
		Client  string `json:"client,omitempty"`
		Fix     string `json:"fix"`
		Overlay string `json:"overlay,omitempty"`
	}
)

const (
	sarifSchema  = "https://json.schemastore.org/sarif-2.1.0.json"
	sarifVersion = "2.1.0"
	language     = "en-US"
	about        = "https://github.com/outrigger-mcp/outrigger/blob/main/docs/lint.md"
)

// WriteSARIF writes the report in SARIF 2.1.0. A rule of the document is a rule for one client: "client/rule".
func (r *LintReport) WriteSARIF(out io.Writer, o SARIF) error {
	run := sarifRun{Language: language, Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "sidecar lint", Version: o.Version, InformationURI: about, Language: language}
	for _, row := range ruleRows() {
		rule := sarifRule{ID: row.Rule, ShortDescription: object{"text": row.About}, HelpURI: row.Source, DefaultConfiguration: object{"level": row.Level}}
		rule.Properties.Effect, rule.Properties.Date = row.Effect, row.Date
		if slices.Contains(ClientNames(), row.Client) {
			rule.ID, rule.Properties.Client = row.Client+"/"+row.Rule, row.Client
		}
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, rule)
	}
	for _, f := range r.Findings {
		run.Results = append(run.Results, resultOf(f, run.Tool.Driver.Rules, o))
	}
	return writeIndented(out, sarifLog{sarifSchema, sarifVersion, []sarifRun{run}})
}

func resultOf(f Finding, rules []sarifRule, o SARIF) sarifResult {
	id := f.Rule
	if f.Client != "" {
		id = f.Client + "/" + f.Rule
	}
	subject := f.Tool
	if subject == "" {
		subject = "tools"
	}
	location := sarifLocation{Logical: []object{{"fullyQualifiedName": subject + f.Path, "kind": "member"}}}
	if o.File != "" {
		file := &url.URL{Path: filepath.ToSlash(o.File)}
		location.Physical = object{"artifactLocation": object{"uri": file.String()}, "region": object{"startLine": 1}}
	}
	text := f.Message
	if f.Tool != "" {
		text = f.Tool + ": " + text
	}
	// Tool, rule and place are the same finding, whatever its numbers are.
	seal := sha256.Sum256([]byte(strings.Join([]string{id, f.Tool, f.Path}, "\n")))
	return sarifResult{
		RuleID: id, RuleIndex: slices.IndexFunc(rules, func(r sarifRule) bool { return r.ID == id }), Level: f.Level,
		Message: object{"text": text}, Locations: []sarifLocation{location},
		PartialFingerprints: object{"finding/v1": hex.EncodeToString(seal[:16])},
		Properties:          sarifProperties{Client: f.Client, Fix: f.Fix.Text, Overlay: f.Fix.Overlay},
	}
}
