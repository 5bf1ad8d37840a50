// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/compat"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// DefaultMaxFindings is more than anybody reads at once, and a megabyte or so of JSON.
const DefaultMaxFindings = 2_000

// DefaultServer is the name of the server in a client's configuration, if nobody says another.
const DefaultServer = "outrigger"

// Options say what to check. The zero value checks for every client.
type Options struct {
	// Clients are names of clients; empty for all.
	Clients []string
	// Server is the name of the server in the client's configuration, which some clients put in front of names. Empty means
	// DefaultServer.
	Server string
	// Strict is set if the list was made with --schema-profile strict, so that nobody is told to set it.
	Strict bool
	// Behind are tools that the list does not have, because three tools stand for them (--catalog-mode). They are judged
	// by what holds for every client.
	Behind []*Tool
	// MaxFindings is the largest number of findings in a report. 0 means DefaultMaxFindings.
	MaxFindings int
}

// UnknownClientError is the error of Run for a client that has no facts.
type UnknownClientError struct{ Name string }

// Error names the client and those that are known.
func (e *UnknownClientError) Error() string {
	return fmt.Sprintf("unknown client %q; the clients are %s", e.Name, strings.Join(ClientNames(), ", "))
}

// chosen are the clients of the options.
func (o Options) chosen() ([]Client, error) {
	all := Clients()
	if len(o.Clients) == 0 {
		return all, nil
	}
	var out []Client
	for _, name := range o.Clients {
		at := slices.IndexFunc(all, func(c Client) bool { return c.Name == name })
		if at < 0 {
			return nil, &UnknownClientError{name}
		}
		if !slices.Contains(out, all[at]) {
			out = append(out, all[at])
		}
	}
	return out, nil
}

// Run judges a list of tools. The only error is *UnknownClientError.
func Run(tools []*Tool, o Options) (*Report, error) {
	clients, err := o.chosen()
	if err != nil {
		return nil, err
	}
	if o.Server == "" {
		o.Server = DefaultServer
	}
	defaults.Fill(&o.MaxFindings, DefaultMaxFindings)
	r := &Report{Tools: len(tools), Findings: []Finding{}, Clients: []string{}}
	for _, c := range clients {
		r.Clients = append(r.Clients, c.Name)
	}
	for _, t := range tools {
		r.Tokens += t.Tokens
	}
	given := namesOf(tools, o.Behind)
	run(r, append([]Client{{}}, clients...), tools, given, o, func(Fact) bool { return true })
	if len(o.Behind) > 0 {
		run(r, []Client{{}}, o.Behind, given, o, func(f Fact) bool { return f.Rule != "list-tokens" && f.Rule != "tool-tokens" })
	}
	r.settle(o.MaxFindings)
	return r, nil
}

// run applies the facts of the clients, of which one without a name stands for all.
func run(r *Report, clients []Client, tools []*Tool, given names, o Options, applies func(Fact) bool) {
	rules := map[string]Rule{}
	for _, rule := range Rules() {
		rules[rule.ID] = rule
	}
	for _, f := range Facts() {
		at := slices.IndexFunc(clients, func(c Client) bool { return c.Name == f.Client })
		if at < 0 || !applies(f) {
			continue
		}
		c := &check{fact: f, client: clients[at], options: o, tools: tools, names: given, report: r}
		rule := rules[f.Rule]
		if rule.list != nil {
			rule.list(c)
			continue
		}
		for _, t := range tools {
			rule.tool(c, t)
		}
	}
}

// CheckSchemas judges the schemas of one tool alone, for some clients. It returns the findings of level Error. output may
// be nil.
func CheckSchemas(input, output json.RawMessage, clients ...string) ([]Finding, error) {
	o := Options{Clients: clients}
	chosen, err := o.chosen()
	if err != nil {
		return nil, err
	}
	t, err := NewTool(compat.Tool{Name: "schema.check", InputSchema: input, OutputSchema: output}, "schema.Check/Check")
	if err != nil {
		return nil, err
	}
	r := &Report{}
	run(r, chosen, []*Tool{t}, namesOf(), o, func(f Fact) bool { return f.isOfSchemas() && f.Level == Error })
	return r.Findings, nil
}

// check is the application of one fact. It belongs to one call of Run.
type check struct {
	fact    Fact
	client  Client
	options Options
	tools   []*Tool
	names   names
	report  *Report
}

// add adds a finding. t is nil for the list as a whole.
func (c *check) add(t *Tool, path string, fix Fix, format string, args ...any) {
	f := Finding{Level: c.fact.Level, Rule: c.fact.Rule, Client: c.fact.Client, Path: path, Fix: fix}
	if t != nil {
		f.Tool = t.Name
	}
	f.Message = fmt.Sprintf(format, args...) + ": " + c.fact.Effect
	c.report.Findings = append(c.report.Findings, f)
	c.report.changes = append(c.report.changes, fix.change)
}

// limit is the limit of the fact, as messages name it.
func (c *check) limit(of string) string {
	if c.client.Title == "" {
		return fmt.Sprintf("the limit is %d %s", c.fact.Limit, of)
	}
	return fmt.Sprintf("the limit of %s is %d %s", c.client.Title, c.fact.Limit, of)
}
