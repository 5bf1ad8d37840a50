// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrigger-mcp/outrigger/internal/trail"
)

func newAuditCommand(env environment) *cobra.Command {
	var filter trail.Filter
	var since, until string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "audit [FILE...]",
		Short: "Read an audit trail",
		Long: `Audit reads trails that ` + "`sidecar serve --audit FILE`" + ` has written, and prints the
chosen lines, oldest first, one row for each invocation and each change. FILE also
includes its rotated files, FILE.1 and so on. Without FILE, or with "-", audit
reads standard input.

Invocations that have begun and not ended, as after a kill, are at the end of the
table with the code UNFINISHED. --json prints every chosen line unchanged, the
lines of the phase begin included.

Patterns: * matches any characters. Times: 2026-08-01T12:00:00Z, 2026-08-01, or a
duration before now (24h).

Exit codes: 0 success, 2 invalid usage, 3 unreadable file. Lines that cannot be
read are reported on standard error.`,
		Example: `  sidecar audit audit.jsonl --caller alice --since 24h
  sidecar audit audit.jsonl --decision denied --json`,
	}
	flags := cmd.Flags()
	flags.StringVar(&filter.Caller, "caller", "", "name, subject, OAuth client or address of the caller; a pattern")
	flags.StringVar(&filter.Tool, "tool", "", "tool, resource, prompt or task; a pattern")
	flags.StringVar(&since, "since", "", "earliest time")
	flags.StringVar(&until, "until", "", "latest time")
	flags.StringVar(&filter.Code, "code", "", "canonical code, such as PERMISSION_DENIED, or OK")
	flags.StringVar(&filter.Edge, "edge", "", "edge: mcp, rpc, stdio, connect, grpc, grpcweb, typed or other")
	flags.StringVar(&filter.Decision, "decision", "", "allowed, denied, asked or consented")
	flags.BoolVar(&asJSON, "json", false, "print the lines as they are")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		var err error
		if filter.Since, err = parseMoment("--since", since); err != nil {
			return err
		}
		if filter.Until, err = parseMoment("--until", until); err != nil {
			return err
		}
		return env.readTrails(args, &filter, asJSON)
	}
	return cmd
}

// parseMoment reads a time, a day in UTC, or a duration before now.
func parseMoment(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range [...]string{time.RFC3339Nano, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	ago, err := time.ParseDuration(text)
	if err != nil || ago < 0 {
		return time.Time{}, usageError(fmt.Sprintf("%s %q: want a time such as 2026-08-01T12:00:00Z, a day such as 2026-08-01, or a duration such as 24h", flag, text))
	}
	return time.Now().Add(-ago), nil
}

// readTrails prints what the filter chooses of all trails.
func (env environment) readTrails(paths []string, filter *trail.Filter, asJSON bool) error {
	out := newAuditPrinter(env.stdout, asJSON)
	if len(paths) == 0 {
		paths = []string{"-"}
	}
	for _, path := range paths {
		files := []string{path}
		if path != "-" {
			// A folder that cannot be read has no rotated files that can.
			if all, err := trail.Files(path); err == nil && len(all) > 0 {
				files = all
			}
		}
		for _, file := range files {
			if err := env.readTrail(file, filter, out); err != nil {
				return &exitError{code: exitRefused, text: fmt.Sprintf("%s: %v", file, err)}
			}
		}
	}
	if err := out.printOpen(); err != nil {
		return &exitError{code: exitRefused, text: err.Error()}
	}
	return nil
}

func (env environment) readTrail(path string, filter *trail.Filter, out *auditPrinter) error {
	in := env.stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return bareError(err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	faults := 0
	err := trail.ReadAudit(in, func(l *trail.AuditLine) error { return out.printLine(l, filter) }, func(f trail.Fault) {
		if faults++; faults <= maxShownFaults || f.IsPartial {
			fmt.Fprintf(env.stderr, "warning: %s: %v\n", path, f)
		}
	})
	if faults > maxShownFaults {
		fmt.Fprintf(env.stderr, "warning: %s: %d lines could not be read\n", path, faults)
	}
	return err
}

// maxShownFaults bounds the lines of a file that are reported one by one.
const maxShownFaults = 10
