// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/report"
	"github.com/outrigger-mcp/outrigger/internal/server"
)

func newServerJSONCommand(env environment) *cobra.Command {
	var o report.ServerJSONOptions
	cmd := &cobra.Command{
		Use:   "server-json",
		Short: "Print server.json, to publish the server in an MCP registry",
		Long: `Server-json loads the catalog and prints one server.json in the format of 2025-12-11:
name, description, version and the endpoints (--url) for streamable HTTP. Its metadata
has the number of tools and a digest of all of them, so that a client can tell whether
a server offers what was published (docs/catalog-lock.md).

--oci names a container image that runs ` + "`sidecar stdio`" + ` for these tools. The official
registry wants it public, with the label ` + report.ServerNameLabel + `=NAME.

--name is a namespace that you own in reverse-DNS form, a slash, and a name. The
description is by default the first sentence of the comment of the service, cut to 100
characters. Warnings about what the official registry refuses go to standard error.

Exit codes: 0 printed, 2 invalid usage or configuration, 3 the catalog could not be
loaded.`,
		Example: `  sidecar server-json --name com.example/fleet --demo
  sidecar server-json --name com.example/shop --backend http://127.0.0.1:50051 --version 1.4.2 --url https://tools.example.com/mcp > server.json`,
		Args: noArguments,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Name, "name", "", "name in the registry, 3 to 200 characters. Example: com.example/shop")
	flags.StringVar(&o.Description, "description", "", "what the server does, at most 100 characters; unset: the first sentence of the service's comment")
	flags.StringVar(&o.Version, "version", "", "version of the server, at most 255 characters; unset: that of the sidecar")
	flags.StringArrayVar(&o.URLs, "url", nil, "public URL of the endpoint /mcp, repeatable; unset: no remotes. Example: https://tools.example.com/mcp")
	flags.StringVar(&o.Image, "oci", "", "image that serves the tools over stdio, with its digest; unset: no packages. Example: ghcr.io/example/shop@sha256:9f3c…")
	config.RegisterFlags(flags, config.Once)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.Version = cmp.Or(o.Version, currentBuild().Version)
		early := o // what needs no catalog is refused before one is loaded
		early.Description = cmp.Or(o.Description, "not known yet")
		if _, faults := report.NewServerJSON(early); len(faults) > 0 {
			return serverJSONFaults(faults)
		}
		return env.withWholeCatalog(cmd, func(_ *server.App, cat *catalog.Catalog) error { return env.printServerJSON(o, cat) })
	}
	return cmd
}

// serverJSONFaults are faults of flags, in one error.
func serverJSONFaults(faults []report.ServerJSONFault) error {
	lines := make([]string, len(faults))
	for i, f := range faults {
		lines[i] = "--" + f.Field + ": " + f.Text
	}
	return usageError(strings.Join(lines, "\n"))
}

func (env environment) printServerJSON(o report.ServerJSONOptions, cat *catalog.Catalog) error {
	entries, err := cat.LockEntries()
	if err != nil {
		return err
	}
	o.Catalog = report.PublishedCatalog{Digest: lock.New(entries).Digest(), Tools: len(entries)}
	o.Description = cmp.Or(o.Description, report.ShortDescription(aboutServer(cat)))
	doc, faults := report.NewServerJSON(o)
	if len(faults) > 0 {
		return serverJSONFaults(faults)
	}
	for _, w := range doc.Warnings() {
		fmt.Fprintln(env.stderr, "warning:", w)
	}
	return printJSON(env.stdout, doc)
}

// aboutServer describes a catalog in a sentence: that of the service with the most tools
// that has a comment, else the names of what there is.
func aboutServer(cat *catalog.Catalog) string {
	var best string
	var names []string
	most := 0
	for _, s := range cat.Services() {
		names = append(names, s.Name)
		if text := s.Summary(); text != "" && len(s.Tools) > most {
			best, most = text, len(s.Tools)
		}
	}
	switch {
	case best != "":
		return best
	case len(names) > 0:
		return fmt.Sprintf("The %d tools of %s.", len(cat.Tools()), strings.Join(names, ", "))
	}
	return fmt.Sprintf("The %d tools of %s.", len(cat.Tools()), cmp.Or(cat.Description().GetName(), "a service"))
}
