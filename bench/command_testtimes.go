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

	"github.com/outrigger-mcp/outrigger/bench/internal/testtimes"
)

// commandTestTimes prints the slowest packages and tests of runs of "go test -json", and fails where one took twice what is on record.
func commandTestTimes(_ context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench testtimes", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var record onRecord
	record.flags(flags)
	if err := flags.Parse(args); err != nil {
		return errUsage
	}
	if flags.NArg() == 0 {
		return refusal(errors.New("bench testtimes needs files with the output of go test -json"), stderr)
	}
	var now, recorded testtimes.Times
	for _, name := range flags.Args() {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		err = errors.Join(now.Read(file), file.Close())
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := record.read(&recorded); err != nil {
		return err
	}
	if _, err := io.WriteString(stdout, now.Table(recorded)); err != nil {
		return err
	}
	if isDone, err := record.write(now.Record()); isDone || err != nil {
		return err
	}
	if machine := now.Machine(recorded); machine > testtimes.Busy {
		_, err := fmt.Fprintf(stdout, "the machine takes %.1f times the record in the middle: too busy to say what became slower\n", machine)
		return err
	}
	if doubled := now.Doubled(recorded); len(doubled) > 0 {
		return fmt.Errorf("these take twice the time on record (%.1f times the record is what this machine takes in the middle); make them faster, or record the new time with its reason (bench testtimes -update):\n  %s",
			now.Machine(recorded), strings.Join(doubled, "\n  "))
	}
	return nil
}
