// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/client"
)

// serverFlags say how to reach a running sidecar.
type serverFlags struct {
	url, tokenFile, caFile, revision string
	allowPlaintext                   bool
	// ask answers questions of tools; nil: the server is to know that the user cannot be asked.
	ask client.Asker
	// own are the flags that a command has besides those of the configuration.
	own []string
}

// The environment of commands that call a running sidecar.
const (
	serverVariable      = "OUTRIGGER_SERVER"
	serverTokenVariable = "OUTRIGGER_SERVER_TOKEN_FILE"
	serverCAVariable    = "OUTRIGGER_SERVER_CA"
)

// Times that a command waits for a running sidecar, if --timeout does not say.
const (
	serverTimeout = 5 * time.Minute
	taskTimeout   = time.Hour
)

// register adds the flags. It comes before those of the configuration: with a server, the command takes none of them but --timeout.
func (f *serverFlags) register(cmd *cobra.Command, env environment) {
	flags := cmd.Flags()
	flags.StringVar(&f.url, "server", env.value(serverVariable, ""), "running sidecar to ask: http://host:port (ToolService), http://host:port/mcp, http://host:port/rpc, grpc://host:port, unix:///path, unix:///path:/mcp; also "+serverVariable)
	flags.StringVar(&f.tokenFile, "token-file", env.value(serverTokenVariable, ""), "file with the token for the running sidecar; also "+serverTokenVariable)
	flags.StringVar(&f.caFile, "ca", env.value(serverCAVariable, ""), "PEM file of CAs trusted to sign the running sidecar's certificate; unset: the system's CAs; also "+serverCAVariable)
	flags.StringVar(&f.revision, "mcp-version", "", "revision of MCP to speak with a /mcp URL: "+strings.Join(client.Revisions(), ", ")+"; unset: the newest that the server has")
	flags.BoolVar(&f.allowPlaintext, "insecure-token", false, "send the token without TLS beyond this machine, if a mesh encrypts the connection")
}

// remoteFlags are those that mean nothing without a running sidecar. The rest of them may come from the environment.
func remoteFlags() []string { return []string{"token-file", "ca", "mcp-version", "insecure-token"} }

// note remembers the flags that are not those of the configuration.
func (f *serverFlags) note(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { f.own = append(f.own, flag.Name) })
}

// isRemote reports whether a running sidecar is asked. A flag of the configuration takes precedence over the environment.
func (f *serverFlags) isRemote(cmd *cobra.Command) (bool, error) {
	switch {
	case f.url == "" && cmd.Flags().Changed("server"):
		return false, usageError("--server: is empty; name a running sidecar, such as http://127.0.0.1:8080, or leave it out")
	case f.url == "":
		return false, nil
	}
	foreign := ""
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if !slices.Contains(f.own, flag.Name) && !slices.Contains([]string{"timeout", "help", helpAllFlag}, flag.Name) {
			foreign = flag.Name
		}
	})
	switch {
	case foreign == "":
		return true, nil
	case cmd.Flags().Changed("server"):
		return false, usageError(fmt.Sprintf("--%s configures a sidecar in this process, and --server asks one that runs; leave out one of them", foreign))
	}
	return false, nil
}

// onlyRemote refuses flags that only a running sidecar understands.
func onlyRemote(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return usageError("--" + name + " needs a running sidecar: name it by --server URL or " + serverVariable)
		}
	}
	return nil
}

// withServer runs fn with a client of the running sidecar, for at most --timeout.
func (f *serverFlags) withServer(cmd *cobra.Command, env environment, usual time.Duration, fn func(context.Context, client.Client) error) error {
	limit, err := timeoutOf(cmd, usual)
	if err != nil {
		return err
	}
	if f.withholds(cmd, env) {
		fmt.Fprintf(env.stderr, "note: the token of %s is for the server of %s, and is not sent to this one; name it by --token-file\n", serverTokenVariable, serverVariable)
	}
	c, err := f.open()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(cmd.Context()) }()
	ctx, cancel := context.WithTimeout(cmd.Context(), limit)
	defer cancel()
	return env.told(fn(ctx, c))
}

// withholds forgets a token of the environment where the flag names another server than the environment does: the two belong together.
func (f *serverFlags) withholds(cmd *cobra.Command, env environment) bool {
	if f.tokenFile == "" || cmd.Flags().Changed("token-file") || f.url == env.value(serverVariable, "") {
		return false
	}
	f.tokenFile = ""
	return true
}

// timeoutOf is the value of --timeout, which the configuration or the command itself defines.
func timeoutOf(cmd *cobra.Command, usual time.Duration) (time.Duration, error) {
	flag := cmd.Flags().Lookup("timeout")
	if flag == nil || !flag.Changed {
		return usual, nil
	}
	limit, err := time.ParseDuration(flag.Value.String())
	if err != nil || limit <= 0 || limit > 24*time.Hour {
		return 0, usageError(fmt.Sprintf(`--timeout: must be a duration above 0 and up to 24h, such as "90s", is %q`, flag.Value.String()))
	}
	return limit, nil
}

// open makes the client.
func (f *serverFlags) open() (client.Client, error) {
	o := client.Options{URL: f.url, CAFile: f.caFile, AllowPlaintext: f.allowPlaintext, Revision: f.revision, Version: currentBuild().Version, Ask: f.ask}
	if f.tokenFile != "" {
		var err error
		if o.Token, err = tokenIn(f.tokenFile); err != nil {
			return nil, usageError("--token-file: " + err.Error())
		}
	}
	c, err := client.Open(o)
	if err != nil {
		return nil, usageError("--server: " + err.Error())
	}
	return c, nil
}

// told prints a canonical error as calls without a server do, and returns its exit code.
func (env environment) told(err error) error {
	var failed *client.Error
	if !errors.As(err, &failed) {
		return err
	}
	fmt.Fprintln(env.stderr, harmless(failed.Text))
	if len(failed.Data) > 0 {
		if err := printJSON(env.stderr, failed.Data); err != nil {
			return err
		}
	}
	if failed.Code == errmap.ToolNotFound {
		fmt.Fprintln(env.stderr, "`sidecar search \"WHAT IT DOES\"` finds tools, `sidecar tools` lists them.")
	}
	return exitWith(exitOf(failed.Code))
}

// exitOf is the exit code for a canonical code of a running sidecar. docs/errors.md lists them.
func exitOf(code errmap.Code) int {
	row, err := errmap.Lookup(code)
	if err != nil {
		return exitRefused
	}
	return cmp.Or(row.Exit, exitRefused)
}

// pasted is the part of a command line that names the same server again; empty where the environment does.
func (f *serverFlags) pasted(cmd *cobra.Command) string {
	var b strings.Builder
	for _, flag := range []struct{ name, value string }{{"server", f.url}, {"token-file", f.tokenFile}, {"ca", f.caFile}, {"mcp-version", f.revision}} {
		if cmd.Flags().Changed(flag.name) {
			b.WriteString(" --" + flag.name + " " + quoted(flag.value))
		}
	}
	if f.allowPlaintext {
		b.WriteString(" --insecure-token")
	}
	return b.String()
}

// quoted is a word as a POSIX shell reads it.
func quoted(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// completeWith offers the names of the tools of the server that the flags or the environment name, and the forms of --output.
func (f *serverFlags) completeWith(cmd *cobra.Command, env environment) {
	const patience = 2 * time.Second
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if f.url == "" || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		f.withholds(cmd, env)
		c, err := f.open()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), patience)
		defer cancel()
		defer func() { _ = c.Close(ctx) }()
		tools, err := c.Tools(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []string
		for _, t := range tools {
			names = append(names, t.Name+"\t"+plainText(t.Title))
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
