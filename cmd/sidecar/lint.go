// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/report"
	"github.com/outrigger-mcp/outrigger/internal/server"
)

// lintFlags are the flags of lint beside those of the configuration.
type lintFlags struct {
	options                       report.LintOptions
	asJSON, asSARIF, rules, fixes bool
}

func newLintCommand(env environment) *cobra.Command {
	var f lintFlags
	cmd := &cobra.Command{
		Use:   "lint [LIST]",
		Short: "Report what clients and model providers refuse, cut or misread in the tools",
		Long: `Lint compares the tools with what is known of clients and model providers: names,
numbers of tools, lengths of texts, keywords, depth and sizes of schemas, costs in
tokens; and it reports missing texts, names that are alike, and hints that contradict
names. Each finding has a fix, as lines for the configuration file where these can help:
texts of tools and their arguments, names, hints, schemas. Texts to write begin with TODO.
Nothing is changed. --rules prints all rules with their source and date (docs/lint.md).

LIST is a saved list: output of ` + "`sidecar tools --json`" + ` or a result of tools/list; "-"
reads it from standard input. Without LIST, the tools are those that serve would have.

Exit codes: 0 no errors (warnings and notes do not count), 1 an error: a client refuses
or cuts something, 2 invalid usage or configuration, 3 unreadable list or no catalog.`,
		Example: `  sidecar lint --demo --client cursor,vscode
  sidecar lint --backend http://127.0.0.1:50051 --client vscode --sarif > lint.sarif
  sidecar tools --demo --json | sidecar lint - --client vscode --overlay > overlay.yaml
  sidecar lint --rules`,
		Args: between(0, 1),
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.options.Clients, "client", nil, "clients to check for: "+strings.Join(report.ClientNames(), ", ")+"; unset: all")
	flags.StringVar(&f.options.Server, "server", report.DefaultServer, "name of the server in the client's configuration, a part of tool names for some clients")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON document: {ok, tools, tokens, clients, counts, findings, omitted}")
	flags.BoolVar(&f.asSARIF, "sarif", false, "print SARIF 2.1.0, for code scanning")
	flags.BoolVar(&f.fixes, "overlay", false, "print the fixes alone, as one configuration file")
	flags.BoolVar(&f.rules, "rules", false, "print the rules of all clients, with source and date")
	flags.IntVar(&f.options.MaxFindings, "max-findings", report.DefaultMaxFindings, "maximum number of findings to print; errors come first")
	config.RegisterFlags(flags, config.Once)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(cmd.Flags(), args); err != nil {
			return err
		}
		switch {
		case f.rules:
			return report.WriteRules(env.stdout, f.asJSON)
		case len(args) == 1:
			return env.lintList(args[0], f)
		}
		return env.withCatalog(cmd, func(a *server.App, cat *catalog.Catalog) error { return env.lintCatalog(a, cat, f) })
	}
	return cmd
}

// check refuses flags that exclude each other, before anything is loaded.
func (f lintFlags) check(flags *pflag.FlagSet, args []string) error {
	forms := 0
	for _, is := range []bool{f.asJSON, f.asSARIF, f.fixes} {
		if is {
			forms++
		}
	}
	if forms > 1 || f.rules && (f.asSARIF || f.fixes) {
		return usageError("--json, --sarif and --overlay exclude each other, and --rules goes with --json alone")
	}
	if f.options.MaxFindings < 1 {
		return usageError("--max-findings must be at least 1")
	}
	if f.options.Server == "" {
		return usageError("--server must not be empty")
	}
	if _, err := report.Lint(nil, f.options); err != nil {
		return usageError("--client: " + err.Error())
	}
	if len(args) == 0 {
		return nil
	}
	var loads []string
	flags.Visit(func(flag *pflag.Flag) {
		switch flag.Name {
		case "backend", "descriptors", "demo", "config":
			loads = append(loads, "--"+flag.Name)
		}
	})
	if len(loads) > 0 {
		return usageError("a saved list is complete: leave out " + strings.Join(loads, ", ") + ", or the list")
	}
	return nil
}

// lintList judges a list that was saved.
func (env environment) lintList(path string, f lintFlags) error {
	tools, err := env.savedTools(path)
	if err != nil {
		return &exitError{code: exitRefused, text: path + ": " + err.Error()}
	}
	file := path
	if path == "-" || filepath.IsAbs(path) {
		file = "" // code scanning knows files of the repository alone
	}
	return env.reportLint(tools, file, f)
}

func (env environment) savedTools(path string) ([]*report.LintTool, error) {
	raw, err := env.readWhole(path)
	if err != nil {
		return nil, err
	}
	list, err := report.ReadTools(raw, report.DiffLimits{MaxBytes: maxCatalogFile})
	if err != nil {
		return nil, fmt.Errorf("%w; for a descriptor set use --descriptors", err)
	}
	return report.NewLintTools(list)
}

// lintCatalog judges the tools of a catalog as they are listed.
func (env environment) lintCatalog(a *server.App, cat *catalog.Catalog, f lintFlags) error {
	cfg := a.Config()
	f.options.Strict = cfg.GetSchemaProfile() == "strict"
	tools, err := report.LintTools(cat, cat.ListForm())
	if err != nil {
		return err
	}
	if o := compact.OptionsOf(cfg.GetCatalog()); o.Mode == compact.Always || o.Mode == compact.Auto && cat.ListExceeds(o.AboveBytes) {
		listed, err := cat.Compact()
		if err != nil {
			return err
		}
		if f.options.Behind, err = report.LintTools(cat, catalog.ListForm{}); err != nil { // a description of one shows its schemas whole
			return err
		}
		if tools, err = report.LintTools(listed, listed.ListForm()); err != nil {
			return err
		}
	}
	return env.reportLint(tools, "", f)
}

// reportLint prints what there is to say about the tools, and fails if a client refuses or cuts something.
func (env environment) reportLint(tools []*report.LintTool, file string, f lintFlags) error {
	found, err := report.Lint(tools, f.options)
	if err != nil {
		return err
	}
	switch {
	case f.asJSON:
		err = found.WriteJSON(env.stdout)
	case f.asSARIF:
		err = found.WriteSARIF(env.stdout, report.SARIF{Version: currentBuild().Version, File: file})
	case f.fixes:
		_, err = fmt.Fprint(env.stdout, cmp.Or(found.Overlay(), "{}\n"))
	default:
		err = found.WriteText(env.stdout)
	}
	if err != nil {
		return &exitError{code: exitRefused, text: err.Error()}
	}
	if !found.OK {
		return exitWith(exitToolFailed)
	}
	return nil
}
