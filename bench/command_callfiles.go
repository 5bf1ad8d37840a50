// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/outrigger-mcp/outrigger/bench/internal/callfiles"
	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
)

// commandCallFiles prints what code one more warm call runs, and fails where it is more than what is on record.
func commandCallFiles(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("bench callfiles", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var record onRecord
	record.flags(flags)
	if err := flags.Parse(args); err != nil {
		return errUsage
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	root, err := sidecar.Root(here)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "callfiles")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary, err := callfiles.Build(ctx, root, dir)
	if err != nil {
		return err
	}
	now, recorded := map[string]callfiles.Figures{}, map[string]callfiles.Figures{}
	if err := record.read(&recorded); err != nil {
		return err
	}
	var more []string
	for _, name := range []string{"mcp", "rpc"} {
		f, err := callfiles.Of(ctx, root, binary, dir, name)
		if err != nil {
			return err
		}
		now[name] = f
		was, isOnRecord := recorded[name]
		_, _ = fmt.Fprintf(stdout, "/%s: %d files, %d packages, %d functions, %d statements", name, len(f.Files), f.Packages, f.Functions, f.Statements)
		if !isOnRecord {
			_, _ = fmt.Fprintln(stdout)
			continue
		}
		_, _ = fmt.Fprintf(stdout, " (on record: %d, %d, %d, %d)\n", len(was.Files), was.Packages, was.Functions, was.Statements)
		for _, line := range f.Above(was) {
			more = append(more, "/"+name+" "+line)
		}
	}
	if isDone, err := record.write(now); isDone || err != nil {
		return err
	}
	if len(more) > 0 {
		return fmt.Errorf("one more call runs more than what is on record; make its way shorter:\n  %s", strings.Join(more, "\n  "))
	}
	return nil
}
