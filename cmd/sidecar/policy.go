// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/server"
)

func newPolicyCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy COMMAND",
		Short: "Check and test policy rules",
		Long: `Policy checks and tests the rules of --policy, or of access.policy in the
configuration file, without serving: against the tools of --descriptors, or of the
backend.`,
		Example: `  sidecar policy check --policy policy.yaml --descriptors api.binpb
  sidecar policy test cases.yaml --policy policy.yaml --descriptors api.binpb`,
		Args: refuseUnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError("which command? `" + cmd.CommandPath() + " --help` lists them")
		},
	}
	for _, inner := range []*cobra.Command{newPolicyCheckCommand(env), newPolicyTestCommand(env)} {
		inner.Args = asUsageError(inner.Args)
		addHelpAll(inner)
		cmd.AddCommand(inner)
	}
	return cmd
}

func newPolicyCheckCommand(env environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check that the rules fit the tools",
		Long: `Check compiles each rule for each tool that it is about and lists the tools of each
rule. A rule that is about no tool is a warning. Classes come with their fields and who
sees them.

Exit codes: 0 all rules fit, 1 a rule does not fit a tool of the backend, 2 invalid
rules, or rules that do not fit --descriptors, 3 the tools cannot be loaded.`,
		Example: `  sidecar policy check --policy policy.yaml --descriptors api.binpb
  sidecar policy check --policy policy.yaml --backend http://127.0.0.1:50051`,
		Args: noArguments,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, `print JSON: {"ok", "rules": [{"name", "effect", "tools", "faults"}], "classes": [{"name", "otherwise", "callers", "groups", "scopes", "fields"}], "faults"}`)
	config.RegisterFlags(cmd.Flags(), config.Once)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return env.withRules(cmd, func(set *policy.Set, cat *catalog.Catalog) error { return env.checkRules(set, cat, asJSON) })
	}
	return cmd
}

// withRules loads the rules and the catalog, and runs fn with them.
func (env environment) withRules(cmd *cobra.Command, fn func(*policy.Set, *catalog.Catalog) error) error {
	return env.withApp(cmd, func(ctx context.Context, a *server.App) error {
		set := a.Rules().Set()
		if set.Len() == 0 && len(set.Classes()) == 0 {
			return usageError("there are no rules: set --policy FILE, or access.policy in the configuration file")
		}
		cat, err := a.Load(ctx)
		if err != nil {
			return &exitError{code: exitRefused, text: fmt.Sprintf("%v\nrun `sidecar doctor` with the same flags for details", err)}
		}
		return fn(set, cat)
	})
}

// ruleReport is a rule with the tools that it is about.
type ruleReport struct {
	Name   string   `json:"name"`
	Effect string   `json:"effect"`
	Tools  []string `json:"tools"`
	Faults []string `json:"faults,omitempty"`
	// Never says why a rule about results can never match; empty where it can.
	Never string `json:"never,omitempty"`
}

// classReport is a class with its fields.
type classReport struct {
	Name      string   `json:"name"`
	Otherwise string   `json:"otherwise"`
	Callers   []string `json:"callers,omitempty"`
	Groups    []string `json:"groups,omitempty"`
	Scopes    []string `json:"scopes,omitempty"`
	Fields    []string `json:"fields"`
}

// checkRules prints each rule, and fails where one does not fit.
func (env environment) checkRules(set *policy.Set, cat *catalog.Catalog, asJSON bool) error {
	faults := set.Fit(cat)
	reports := make([]ruleReport, 0, set.Len())
	for i, r := range set.Rules() {
		report := ruleReport{Name: r.Name, Effect: string(r.Effect), Tools: set.ToolsOf(i, cat)}
		for _, f := range faults {
			if f.Index == i {
				report.Faults = append(report.Faults, f.String())
			}
		}
		if r.OnResult && len(report.Faults) == 0 {
			report.Never = set.NeverMatches(i, cat)
		}
		reports = append(reports, report)
	}
	classes := classReports(set, cat)
	var others []string
	for _, f := range faults {
		if f.Index < 0 {
			others = append(others, f.Path+": "+f.String())
		}
	}
	if asJSON {
		err := printJSON(env.stdout, struct {
			OK      bool          `json:"ok"`
			Rules   []ruleReport  `json:"rules"`
			Classes []classReport `json:"classes,omitempty"`
			Faults  []string      `json:"faults,omitempty"`
		}{len(faults) == 0, reports, classes, others})
		if err != nil {
			return err
		}
	} else {
		for _, r := range reports {
			r.print(env)
		}
		for _, c := range classes {
			c.print(env)
		}
		for _, text := range others {
			fmt.Fprintf(env.stdout, "FAIL  %s\n", text)
		}
	}
	if len(faults) > 0 {
		return exitWith(exitToolFailed)
	}
	return nil
}

// maxToolsShown bounds the names of tools in a line.
const maxToolsShown = 8

func (r *ruleReport) print(env environment) {
	shown := fewOf(r.Tools)
	switch {
	case r.Never != "":
		fmt.Fprintf(env.stdout, "warn  %s (%s): %s\n", r.Name, r.Effect, r.Never)
	case len(r.Tools) == 0:
		fmt.Fprintf(env.stdout, "warn  %s (%s): matches no tool; `sidecar tools` lists the names\n", r.Name, r.Effect)
	case len(r.Faults) == 0:
		fmt.Fprintf(env.stdout, "ok    %s (%s): %s\n", r.Name, r.Effect, strings.Join(shown, ", "))
	}
	for _, f := range r.Faults {
		fmt.Fprintf(env.stdout, "FAIL  %s (%s): %s\n", r.Name, r.Effect, f)
	}
}

// fewOf cuts a list of names for a line.
func fewOf(names []string) []string {
	if len(names) <= maxToolsShown {
		return names
	}
	return append(names[:maxToolsShown:maxToolsShown], fmt.Sprintf("and %d more", len(names)-maxToolsShown))
}

// classReports lists the classes with their fields.
func classReports(set *policy.Set, cat *catalog.Catalog) []classReport {
	var out []classReport
	for _, c := range set.Classes() {
		out = append(out, classReport{
			Name: c.Name, Otherwise: cmp.Or(c.Otherwise, "hide"), Callers: c.Callers, Groups: c.Groups, Scopes: c.Scopes, Fields: set.FieldsOf(c.Name, cat),
		})
	}
	return out
}

func (c *classReport) print(env environment) {
	var who []string
	for _, of := range [...]struct {
		what  string
		names []string
	}{{"callers", c.Callers}, {"groups", c.Groups}, {"scopes", c.Scopes}} {
		if len(of.names) > 0 {
			who = append(who, of.what+" "+strings.Join(fewOf(of.names), ", "))
		}
	}
	if who == nil {
		who = []string{"no caller"}
	}
	fmt.Fprintf(env.stdout, "class %s (else %s): %s; seen by %s\n", c.Name, c.Otherwise, strings.Join(fewOf(c.Fields), ", "), strings.Join(who, "; "))
}
