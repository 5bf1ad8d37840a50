// SPDX-License-Identifier: Apache-2.0

// Command suite measures the sidecar by the official MCP conformance suite and
// by clients that others wrote. It starts package fixture's backend and the
// sidecar in front of it (with -front, another in front of that), waits until
// they are ready, and ends whatever it started.
//
//	suite run      runs the suite, prints a table, and fails on any finding
//	suite clients  runs clients that others wrote, prints a table, and fails on any failure
//	suite serve    starts both and leaves them to you until you stop it
//
// Nothing is excused: a check that failed or warned is a finding whether or not
// the suite scores its scenario, and so is a scenario that left no result. Only
// what the suite itself marks as skipped is let by, and not in the scenarios
// about skills, which skip everything where there are none.
//
// Exit codes: 0 where all is well, 1 for findings and for anything that broke,
// 2 for wrong flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Defaults of the flags.
const (
	// defaultRevisions are those that the sidecar serves, all on one endpoint.
	defaultRevisions = "2026-07-28,2025-11-25,2025-06-18,2025-03-26"
	// defaultTimeout bounds everything together. A full run takes some ten
	// seconds, most of them in tasks that really wait.
	defaultTimeout = 10 * time.Minute
	// defaultScenarioTimeout is the suite's own.
	defaultScenarioTimeout = 30 * time.Second
	// serveAddr is where `suite serve` listens, so that it can be written into
	// a client's configuration.
	serveAddr = "127.0.0.1:3100"
)

// settings is what the flags say.
type settings struct {
	rig rigSettings
	// node is Node's binary, suite the folder of the suite's package, older that
	// of the suite before it, empty where it is not to run.
	node, suite, older string
	url                string
	revisions          []string
	scenarios          []string
	// skills is a folder of skills for the sidecar. With it, the scenarios about skills run too.
	skills      string
	out         string
	timeout     time.Duration
	perScenario time.Duration
	keep        bool
	// clients is the folder of the clients' scripts and packages, module that of
	// this module, with the tests of the Go SDK.
	clients, module string
	// only names the scripts to run; empty: all.
	only []string
	// doc is the document that has the table; update: it is to be written.
	doc    string
	update bool

	stdout, stderr io.Writer
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	commands := map[string]func(context.Context, settings) error{
		"run": runSuite, "clients": runClients, "serve": serve,
	}
	if len(args) == 0 || commands[args[0]] == nil {
		fmt.Fprintln(stderr, "usage: suite run|clients|serve [flags] [-- flags of the sidecar]")
		fmt.Fprintln(stderr, "       suite run -h shows the flags")
		return 2
	}
	s, code := parse(args[0], args[1:], stdout, stderr)
	if code >= 0 {
		return code
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if args[0] != "serve" && !s.keep {
		ctx, cancel = context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("not done after %s", s.timeout))
		defer cancel()
	}
	if err := commands[args[0]](ctx, s); err != nil {
		fmt.Fprintf(stderr, "suite: %v\n", err)
		return 1
	}
	return 0
}

// parse reads the flags. A code that is not negative ends the command.
func parse(command string, args []string, stdout, stderr io.Writer) (settings, int) {
	s := settings{stdout: stdout, stderr: stderr}
	var dir, revisions, scenarios, only string
	flags := flag.NewFlagSet("suite "+command, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&dir, "tools", ".tmp/conformance/suite", "`folder` with the node_modules of the suite and of Node")
	flags.StringVar(&s.rig.sidecar, "sidecar", "bin/sidecar", "the sidecar's `binary`")
	flags.StringVar(&s.rig.fixture, "fixture", ".tmp/conformance/bin/fixture", "the backend's `binary`")
	flags.StringVar(&s.rig.listen, "listen", listenDefault(command), "`address` of the sidecar; port 0 is a free one")
	flags.BoolVar(&s.rig.front, "front", false, "put a second sidecar in front of the first, and test that one")
	flags.StringVar(&s.out, "out", ".tmp/conformance/out", "`folder` for results and logs; what an earlier run left for the same revision is removed")
	flags.StringVar(&s.skills, "skills", "", "`folder` of skills for the sidecar; with it, the scenarios about skills run, and a check of theirs that the suite skips is a finding")
	flags.StringVar(&s.url, "url", "", "test the server at this MCP `URL` instead of starting one")
	flags.StringVar(&revisions, "revisions", defaultRevisions, "`list` of MCP revisions, with commas")
	flags.StringVar(&s.older, "older", "", "`folder` with the node_modules of the suite's last release, which knows legacy revisions only; runs after the revisions")
	flags.StringVar(&scenarios, "scenario", "", "run only this `list` of scenarios, with commas")
	flags.DurationVar(&s.timeout, "timeout", defaultTimeout, "bound on `everything` together; none with -keep")
	flags.DurationVar(&s.perScenario, "scenario-timeout", defaultScenarioTimeout, "the suite's own bound on one `scenario`")
	flags.BoolVar(&s.keep, "keep", false, "leave the servers up after the run, until interrupted")
	flags.StringVar(&s.clients, "clients", ".tmp/conformance/clients", "`folder` with the clients' scripts and node_modules")
	flags.StringVar(&s.module, "module", "conformance", "`folder` of the module with the tests of the Go SDK")
	flags.StringVar(&only, "client", "", "run only this `list` of clients, with commas: "+strings.Join(scripts(), ", "))
	flags.StringVar(&s.doc, "doc", "", "`document` whose table of clients must be what was found")
	flags.BoolVar(&s.update, "update", false, "write the table into the document")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return s, 0
	case err != nil:
		return s, 2
	}
	s.rig.sidecarArgs = flags.Args()
	if s.skills != "" {
		s.rig.sidecarArgs = append([]string{"--skills", s.skills}, s.rig.sidecarArgs...)
	}
	s.rig.logs = s.out
	s.revisions, s.scenarios, s.only = fields(revisions), fields(scenarios), fields(only)
	s.node = filepath.Join(dir, "node_modules", ".bin", "node")
	s.suite = filepath.Join(dir, "node_modules", "@modelcontextprotocol", "conformance")
	if len(s.revisions) == 0 {
		fmt.Fprintln(stderr, "suite: -revisions is empty")
		return s, 2
	}
	return s, -1
}

func listenDefault(command string) string {
	if command == "serve" {
		return serveAddr
	}
	return "127.0.0.1:0"
}

func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// serve starts the servers and waits for the end: an interrupt, or either of
// them ending.
func serve(ctx context.Context, s settings) error {
	r, err := startRig(ctx, s.rig)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.stdout, "MCP on %s, backend on %s\n", r.url(), r.backend)
	return errors.Join(r.wait(ctx), r.end())
}
