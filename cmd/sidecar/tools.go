// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/server"
)

func newToolsCommand(env environment) *cobra.Command {
	var asJSON, asSpec, asSchema bool
	cmd := &cobra.Command{
		Use:   "tools [NAME]",
		Short: "List the tools of a backend, or show one tool with its schemas",
		Long: `Tools loads the catalog, prints it and exits. With a name (canonical or MCP) it
prints that tool: texts, annotations, and the input and output schemas that
clients see. --json prints everything, canonical schemas included, in the format
that sidecar diff compares.

--spec prints the specification page of one tool or of all tools, as Markdown, or
as JSON with --json: purpose, invocation name, input, output, errors, idempotency,
examples, security, and a list of the facts that are missing.

--schema prints what arguments and results of one tool are checked against, as JSON:
its name, fingerprint, and canonical input and output schema.`,
		Example: `  sidecar tools --demo
  sidecar tools fleet.get_vehicle --demo
  sidecar tools fleet.get_vehicle --demo --spec
  sidecar tools --backend http://127.0.0.1:50051 --json > catalog.json`,
		Args: between(0, 1),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: one array of tools, or one tool")
	cmd.Flags().BoolVar(&asSpec, "spec", false, "print the specification page of the tool, or of all tools")
	cmd.Flags().BoolVar(&asSchema, "schema", false, "print JSON: the canonical input and output schema of the tool, and their fingerprint")
	config.RegisterFlags(cmd.Flags(), config.Once)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case asSchema && len(args) == 0:
			return usageError("--schema needs the name of a tool")
		case asSchema && asSpec:
			return usageError("--schema and --spec exclude each other; choose one")
		}
		return env.withCatalog(cmd, func(a *server.App, cat *catalog.Catalog) error {
			if len(args) == 0 {
				if asSpec {
					return printPages(env.stdout, notHidden(cat.All()), specOptions(a.Config()), asJSON)
				}
				return printCatalog(env.stdout, cat, asJSON)
			}
			tool, ok := cat.Lookup(args[0])
			if !ok {
				return unknownTool(cat, args[0])
			}
			if asSchema {
				return printSchemas(env.stdout, cat, tool.Name)
			}
			if asSpec {
				return printPage(env.stdout, tool, specOptions(a.Config()), asJSON)
			}
			return printTool(env.stdout, tool, a.Rules().Set().About(tool), asJSON)
		})
	}
	return cmd
}

// notHidden are the tools that have a page: those that cannot be called yet have
// one too, which says so.
func notHidden(all []*catalog.Tool) []*catalog.Tool {
	return slices.DeleteFunc(slices.Clone(all), func(t *catalog.Tool) bool { return t.Hidden })
}

func unknownTool(cat *catalog.Catalog, name string) error {
	if near := cat.Nearest(name, 3); len(near) > 0 {
		return fmt.Errorf("there is no tool %q; the nearest names are %s", name, strings.Join(near, ", "))
	}
	return fmt.Errorf("there is no tool %q; `sidecar tools` lists them", name)
}

func printCatalog(out io.Writer, cat *catalog.Catalog, asJSON bool) error {
	if asJSON {
		all := make([]json.RawMessage, 0, len(cat.Tools()))
		for _, t := range cat.Tools() {
			all = append(all, dialect.ToolJSON(t))
		}
		return printJSON(out, all)
	}
	rows := [][]string{{"TOOL", "MCP NAME", "HINTS", "TITLE"}}
	for _, t := range cat.Tools() {
		rows = append(rows, []string{t.Name, t.MCPName, hints(t), t.Title})
	}
	if isTerminal(out) {
		return printNarrow(out, rows[1:])
	}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}

// narrow is how many columns any terminal has.
const narrow = 80

// printNarrow prints the rows of the catalog for a person: the name with its hints, and the rest below it, wrapped at words. In
// a table, most titles would not fit.
func printNarrow(out io.Writer, rows [][]string) error {
	var b strings.Builder
	for _, row := range rows {
		b.WriteString(row[0])
		if row[2] != "-" {
			b.WriteString("  (" + strings.ReplaceAll(row[2], ",", ", ") + ")")
		}
		b.WriteString("\n" + config.Wrap(row[3], 2, narrow))
	}
	fmt.Fprintf(&b, "\n%s", config.Wrap(count(len(rows), "tool")+"; `sidecar tools NAME` shows one with its schemas. MCP clients see `_` for `.` in names.", 0, narrow))
	_, err := io.WriteString(out, b.String())
	return err
}

// hints puts what is known about a tool's behaviour in a few words.
func hints(t *catalog.Tool) string {
	var out []string
	is := func(hint *bool) bool { return hint != nil && *hint }
	switch {
	case is(t.Annotations.ReadOnly):
		out = append(out, "read-only")
	case t.Metadata.Destructive:
		out = append(out, "destructive")
	case is(t.Annotations.Idempotent):
		out = append(out, "idempotent")
	}
	if t.Method.ClientStreaming || t.Method.ServerStreaming {
		out = append(out, "streaming")
	}
	if t.Watch != "" {
		out = append(out, "watch")
	}
	if t.Metadata.DeprecatedIn != "" {
		out = append(out, "deprecated")
	}
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, ",")
}

// printSchemas prints what a tool's arguments and results are checked against.
func printSchemas(out io.Writer, cat *catalog.Catalog, name string) error {
	io, err := cat.LoadToolIO(name)
	if err != nil {
		return err
	}
	return printJSON(out, map[string]any{
		"name": io.Name, "fingerprint": io.Fingerprint, "inputSchema": io.InputSchema, "outputSchema": io.OutputSchema,
	})
}

func printTool(out io.Writer, t *catalog.Tool, about []policy.Rule, asJSON bool) error {
	if asJSON {
		return printJSON(out, dialect.ToolJSON(t))
	}
	text := "  " + strings.ReplaceAll(t.Description, "\n", "\n  ") + "\n"
	if isTerminal(out) {
		var b strings.Builder
		for paragraph := range strings.SplitSeq(t.Description, "\n\n") {
			b.WriteString(config.Wrap(paragraph, 2, narrow) + "\n")
		}
		text = strings.TrimSuffix(b.String(), "\n")
	}
	fmt.Fprintf(out, "%s\n\n%s\n", t.Name, text)
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(table, "MCP name\t%s\nRPC\t%s\nhints\t%s\nversion\t%s\nfingerprint\t%s\n",
		t.MCPName, t.Method.Procedure, hints(t), t.Version, t.Fingerprint())
	if len(about) > 0 {
		fmt.Fprintf(table, "policy rules\t%s\n", ruleNames(about))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprint(out, "\ninput schema\n")
	if err := printJSON(out, t.Input.Advertised()); err != nil {
		return err
	}
	if !t.HasOutput() {
		fmt.Fprint(out, "\nno output schema\n")
		return nil
	}
	fmt.Fprint(out, "\noutput schema\n")
	return printJSON(out, t.Output.Advertised())
}

// ruleNames lists rules with their effects.
func ruleNames(about []policy.Rule) string {
	var out []string
	for _, r := range about {
		out = append(out, r.Name+" ("+string(r.Effect)+")")
	}
	return strings.Join(out, ", ")
}

// printJSON prints a value indented, with the members in their order.
func printJSON(out io.Writer, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, raw, "", "  "); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	indented.WriteByte('\n')
	_, err = out.Write(indented.Bytes())
	return err
}
