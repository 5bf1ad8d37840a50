// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/client"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/server"
)

// The bounds of a search: those of catalog.search.
const (
	usualHits = 3
	mostHits  = 10
	mostQuery = 256
)

func newSearchCommand(env environment) *cobra.Command {
	var at serverFlags
	var asJSON bool
	limit := usualHits
	cmd := &cobra.Command{
		Use:   "search QUERY",
		Short: "Find the tools for a task in words, with the call of each to paste",
		Long: `Search prints the tools that match a query best, each with what it does and a call
to paste. Say what the tool does: a verb and an object. Arguments in capitals are to be
replaced.

With --server, or OUTRIGGER_SERVER, it searches the catalog of a running sidecar, in
each of its catalog modes, for the tools that the caller may call.

Exit codes: 0 found, 1 nothing found, 2 invalid usage or configuration, 3 no catalog, or one
of several backends is away.
With --server a canonical code has its own exit code, as for ` + "`sidecar call`" + `.`,
		Example: `  sidecar search "cancel an order" --demo
  sidecar search "refund an order" --server http://127.0.0.1:8080
  sidecar search "refund an order" --server unix:///run/outrigger.sock:/mcp --limit 1 --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("put the query in quotes: sidecar search %q", strings.Join(args, " "))
			}
			return between(1, 1)(cmd, args)
		},
	}
	at.register(cmd, env)
	cmd.Flags().IntVar(&limit, "limit", limit, "how many tools to print: 1 to 10")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: an array of {name, summary, hints, arguments, call}")
	at.note(cmd)
	config.RegisterFlags(cmd.Flags(), config.Once)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		query := strings.TrimSpace(args[0])
		switch {
		case query == "":
			return usageError("QUERY: say what the tool does, such as \"cancel an order\"")
		case utf8.RuneCountInString(query) > mostQuery:
			return usageError(fmt.Sprintf("QUERY: at most %d characters", mostQuery))
		case limit < 1 || limit > mostHits:
			return usageError(fmt.Sprintf("--limit: must be 1 to %d, is %d", mostHits, limit))
		}
		isRemote, err := at.isRemote(cmd)
		if err != nil {
			return err
		}
		if isRemote {
			return at.withServer(cmd, env, serverTimeout, func(ctx context.Context, c client.Client) error {
				found, err := client.Search(ctx, c, query, limit)
				if err != nil {
					return err
				}
				return env.printFound(found, query, at.pasted(cmd), asJSON)
			})
		}
		if err := onlyRemote(cmd, remoteFlags()...); err != nil {
			return err
		}
		return env.withCatalog(cmd, func(_ *server.App, cat *catalog.Catalog) error {
			return env.printFound(client.Rank(listed(cat), query, limit), query, sourceFlags(cmd), asJSON)
		})
	}
	return cmd
}

// listed are the tools of a catalog as a running sidecar lists them.
func listed(cat *catalog.Catalog) []*client.Tool {
	var out []*client.Tool
	for _, t := range cat.Tools() {
		one := &client.Tool{
			Name: t.Name, MCPName: t.MCPName, Title: t.Title, Description: t.Description, Input: t.Input.Advertised(), Output: t.Output.Advertised(),
			Hints: hints(t),
		}
		for _, e := range t.Examples {
			if e.Status == "" && len(e.Arguments) > 0 {
				one.Examples = append(one.Examples, e.Arguments)
			}
		}
		out = append(out, one)
	}
	return out
}

// sourceFlags repeats the flags that were given, for a call to paste.
func sourceFlags(cmd *cobra.Command) string {
	var b strings.Builder
	for _, name := range []string{"demo", "backend", "config", "descriptors"} {
		switch flag := cmd.Flags().Lookup(name); {
		case flag == nil || !flag.Changed:
		case name == "demo":
			b.WriteString(" --demo")
		default:
			b.WriteString(" --" + name + " " + quoted(flag.Value.String()))
		}
	}
	return b.String()
}

// printFound prints what was found.
func (env environment) printFound(found []*client.Tool, query, flags string, asJSON bool) error {
	type hit struct {
		Name      string          `json:"name"`
		Summary   string          `json:"summary"`
		Hints     string          `json:"hints"`
		Arguments json.RawMessage `json:"arguments"`
		Call      string          `json:"call"`
	}
	hits := make([]hit, 0, len(found))
	for _, t := range found {
		arguments := json.RawMessage(jsontext.Visible(t.Sample(), 0))
		hits = append(hits, hit{t.Name, t.Summary(), t.Hints, arguments, "sidecar call " + quoted(t.Name) + " " + quoted(string(arguments)) + flags})
	}
	if asJSON {
		if err := printJSON(env.stdout, hits); err != nil {
			return err
		}
	}
	if len(hits) == 0 {
		return &exitError{code: exitToolFailed, text: fmt.Sprintf("no tool matches %q; use other words, or `sidecar tools` for the list", query)}
	}
	if asJSON {
		return nil
	}
	var b strings.Builder
	for i, h := range hits {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(h.Name)
		if h.Hints != "-" {
			b.WriteString("  (" + strings.ReplaceAll(h.Hints, ",", ", ") + ")")
		}
		b.WriteString("\n" + config.Wrap(plainText(h.Summary), 2, narrow))
		b.WriteString("  " + h.Call + "\n")
	}
	_, err := fmt.Fprint(env.stdout, b.String())
	return err
}
