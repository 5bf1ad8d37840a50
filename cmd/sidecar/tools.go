// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/client"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/program/types"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

func newToolsCommand(env environment) *cobra.Command {
	var at serverFlags
	var asJSON, asSpec, asSchema, asSignature bool
	cmd := &cobra.Command{
		Use:     "tools [NAME]",
		Aliases: []string{"describe"},
		Short:   "List the tools of a backend, or show one tool with its schemas",
		Long: `Tools loads the catalog, prints it and exits. With a name (canonical or MCP) it
prints that tool: texts, annotations, and the input and output schemas that
clients see. --json prints everything, canonical schemas included, in the format
that sidecar diff compares. ` + "`sidecar describe NAME`" + ` is the same command. Methods that
are no tools are named on standard error, with the reason.

With --server, or OUTRIGGER_SERVER, it prints the tools of a running sidecar that the
caller may call, and what its edge tells of them.

--spec prints the specification page of one tool or of all tools, as Markdown, or
as JSON with --json: purpose, invocation name, input, output, errors, idempotency,
examples, security, and a list of the facts that are missing.

--schema prints what arguments and results of one tool are checked against, as JSON:
its name, fingerprint, and canonical input and output schema.

--signature prints tools as programs call them (docs/programs.md): arguments, fields of
results, and the types that these need. It takes up to 20 names, and NAME#TYPE for a type.
A running sidecar needs catalog.describe for it (--catalog-mode compact).`,
		Example: `  sidecar tools --demo
  sidecar tools fleet.get_vehicle --demo
  sidecar tools fleet.get_vehicle --demo --spec
  sidecar tools fleet.get_order fleet.find_orders --demo --signature
  sidecar tools --backend http://127.0.0.1:50051 --json > catalog.json`,
		Args: func(cmd *cobra.Command, args []string) error { return namesOf(asSignature)(cmd, args) },
	}
	at.register(cmd, env)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: one array of tools, or one tool")
	cmd.Flags().BoolVar(&asSpec, "spec", false, "print the specification page of the tool, or of all tools")
	cmd.Flags().BoolVar(&asSchema, "schema", false, "print JSON: the canonical input and output schema of the tool, and their fingerprint")
	cmd.Flags().BoolVar(&asSignature, "signature", false, "print the typed signatures of the tools, as programs call them")
	at.note(cmd)
	at.completeWith(cmd, env)
	config.RegisterFlags(cmd.Flags(), config.Once)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		isRemote, err := at.isRemote(cmd)
		switch {
		case err != nil:
			return err
		case asSpec && isRemote:
			return usageError("--spec needs the descriptors of the backend: leave out --server, or use --json")
		case asSchema && len(args) == 0:
			return usageError("--schema needs the name of a tool")
		case asSchema && asSpec:
			return usageError("--schema and --spec exclude each other; choose one")
		case asSignature && (asJSON || asSpec || asSchema):
			return usageError("--signature and --json, --spec or --schema exclude each other; choose one")
		case isRemote:
			return at.withServer(cmd, env, serverTimeout, func(ctx context.Context, c client.Client) error {
				switch {
				case asSignature:
					return env.printServerSignatures(ctx, c, args)
				case len(args) == 0:
					return env.printServerTools(ctx, c, asJSON)
				}
				return env.printServerTool(ctx, c, args[0], asJSON, asSchema)
			})
		}
		if err := onlyRemote(cmd, remoteFlags()...); err != nil {
			return err
		}
		return env.withCatalog(cmd, func(a *server.App, cat *catalog.Catalog) error {
			switch {
			case asSignature:
				return printSignatures(env.stdout, cat, args)
			case len(args) > 0:
				return env.printNamed(a, cat, args[0], asJSON, asSpec, asSchema)
			case asSpec:
				return printPages(env.stdout, notHidden(cat.All()), specOptions(a.Config()), asJSON)
			}
			env.warnAll(cat.LeftOut())
			return printCatalog(env.stdout, cat, asJSON)
		})
	}
	return cmd
}

// namesOf is how many tools are named: several for signatures alone, which share their types.
func namesOf(asSignature bool) cobra.PositionalArgs {
	if asSignature {
		return between(1, maxSignatures)
	}
	return between(0, 1)
}

// printNamed prints one tool.
func (e environment) printNamed(a *server.App, cat *catalog.Catalog, name string, asJSON, asSpec, asSchema bool) error {
	tool, ok := cat.Lookup(name)
	switch {
	case !ok:
		return unknownTool(cat, name)
	case asSchema:
		return printSchemas(e.stdout, cat, tool.Name)
	case asSpec:
		return printPage(e.stdout, tool, specOptions(a.Config()), asJSON)
	}
	return printTool(e.stdout, tool, a.Rules().Set().About(tool), asJSON)
}

// maxSignatures is how many signatures are printed at once, as catalog.describe has it.
const maxSignatures = 20

// printSignatures prints tools, and types of tools, as programs know them.
func printSignatures(out io.Writer, cat *catalog.Catalog, names []string) error {
	wanted := make([]types.Wanted, 0, len(names))
	for _, name := range names {
		name, of, _ := strings.Cut(name, types.TypeOf)
		tool, ok := cat.Lookup(name)
		if !ok {
			return unknownTool(cat, name)
		}
		one := types.Wanted{Tool: tool, Type: of}
		if of != "" && !one.Exists() {
			return fmt.Errorf("%s has no type %q; its signature names its types", name, of)
		}
		if !slices.Contains(wanted, one) {
			wanted = append(wanted, one)
		}
	}
	_, err := io.WriteString(out, types.Signatures(wanted))
	return err
}

// printServerSignatures prints what catalog.describe of a running sidecar says.
func (e environment) printServerSignatures(ctx context.Context, c client.Client, names []string) error {
	arguments, err := json.Marshal(map[string][]string{catalog.NamesArgument: names})
	if err != nil {
		return err
	}
	got, err := c.Call(ctx, &client.Call{Tool: catalog.DescribeName, Arguments: arguments})
	if err != nil {
		return err
	}
	var described struct {
		Signatures string `json:"signatures"`
	}
	if err := json.Unmarshal(got.Data, &described); err != nil {
		return fmt.Errorf("%s returned no signatures: %w", catalog.DescribeName, err)
	}
	_, err = io.WriteString(e.stdout, harmless(described.Signatures))
	return err
}

// warnAll prints warnings.
func (e environment) warnAll(warnings []source.Warning) {
	for _, w := range warnings {
		fmt.Fprintf(e.stderr, "warning: %s\n", w)
	}
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
	var rows [][]string
	for _, t := range cat.Tools() {
		rows = append(rows, []string{t.Name, t.MCPName, hints(t), plainText(t.Title)})
	}
	return printRows(out, rows)
}

// printRows prints the rows of a catalog: names, hints and title.
func printRows(out io.Writer, rows [][]string) error {
	if isTerminal(out) {
		return printNarrow(out, rows)
	}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, row := range append([][]string{{"TOOL", "MCP NAME", "HINTS", "TITLE"}}, rows...) {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}

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
	facts := [][2]string{{"MCP name", t.MCPName}, {"RPC", t.Method.Procedure}, {"hints", hints(t)}, {"version", t.Version}, {"fingerprint", t.Fingerprint()}}
	if len(about) > 0 {
		facts = append(facts, [2]string{"policy rules", ruleNames(about)})
	}
	output := t.Output.Advertised()
	if !t.HasOutput() {
		output = nil
	}
	return printFacts(out, t.Name, t.Description, facts, t.Input.Advertised(), output)
}

// printFacts prints a tool for a person. output is nil for none.
func printFacts(out io.Writer, name, description string, facts [][2]string, input, output json.RawMessage) error {
	description = harmless(description)
	text := "  " + strings.ReplaceAll(description, "\n", "\n  ") + "\n"
	if isTerminal(out) {
		var b strings.Builder
		for paragraph := range strings.SplitSeq(description, "\n\n") {
			b.WriteString(config.Wrap(paragraph, 2, narrow) + "\n")
		}
		text = strings.TrimSuffix(b.String(), "\n")
	}
	fmt.Fprintf(out, "%s\n\n%s\n", name, text)
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, fact := range facts {
		if fact[1] != "" {
			fmt.Fprintf(table, "%s\t%s\n", fact[0], fact[1])
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprint(out, "\ninput schema\n")
	if err := printJSON(out, input); err != nil {
		return err
	}
	if output == nil {
		fmt.Fprint(out, "\nno output schema\n")
		return nil
	}
	fmt.Fprint(out, "\noutput schema\n")
	return printJSON(out, output)
}

// printServerTools prints the tools of a running sidecar.
func (env environment) printServerTools(ctx context.Context, c client.Client, asJSON bool) error {
	tools, err := c.Tools(ctx)
	if err != nil {
		return err
	}
	all, rows := make([]json.RawMessage, 0, len(tools)), make([][]string, 0, len(tools))
	for _, t := range tools {
		all, rows = append(all, t.JSON()), append(rows, []string{t.Name, t.MCPName, t.Hints, plainText(t.Title)})
	}
	if asJSON {
		return printJSON(env.stdout, all)
	}
	return printRows(env.stdout, rows)
}

// printServerTool prints one tool of a running sidecar.
func (env environment) printServerTool(ctx context.Context, c client.Client, name string, asJSON, asSchema bool) error {
	t, err := c.Tool(ctx, name)
	switch {
	case err != nil:
		return err
	case asSchema && t.CanonicalInput == nil:
		return usageError("--schema: MCP does not tell the canonical schemas; use a --server URL without /mcp, or with /rpc")
	case asSchema:
		return printJSON(env.stdout, map[string]any{
			"name": t.Name, "fingerprint": t.Fingerprint, "inputSchema": t.CanonicalInput, "outputSchema": t.CanonicalOutput,
		})
	case asJSON:
		return printJSON(env.stdout, t.JSON())
	}
	return printFacts(env.stdout, t.Name, t.Description, [][2]string{
		{"MCP name", t.MCPName}, {"hints", t.Hints}, {"version", t.Version}, {"fingerprint", t.Fingerprint}, {"example", string(jsontext.Visible(t.Sample(), 0))},
	}, t.Input, t.Output)
}

// ruleNames lists rules with their effects.
func ruleNames(about []policy.Rule) string {
	var out []string
	for _, r := range about {
		out = append(out, r.Name+" ("+string(r.Effect)+")")
	}
	return strings.Join(out, ", ")
}
