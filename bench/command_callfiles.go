// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
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
	record := flags.String("record", "", "the `file` that has the figures on record")
	update := flags.Bool("update", false, "record these figures")
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
	if *record != "" && !*update {
		data, err := os.ReadFile(*record)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, &recorded); err != nil {
			return fmt.Errorf("%s: %w", *record, err)
		}
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
	if *update {
		data, err := json.MarshalIndent(now, "", "\t")
		if err != nil {
			return err
		}
		return os.WriteFile(*record, append(data, '\n'), 0o600)
	}
	if len(more) > 0 {
		return fmt.Errorf("one more call runs more than what is on record; make its way shorter:\n  %s", strings.Join(more, "\n  "))
	}
	return nil
}
