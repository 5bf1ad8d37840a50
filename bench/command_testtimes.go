// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/outrigger-mcp/outrigger/bench/internal/testtimes"
)

// commandTestTimes prints the slowest packages and tests of runs of "go test -json", and fails where one
// took twice what is on record, and half as much again as that when it runs once more, alone.
func commandTestTimes(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench testtimes", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var record onRecord
	record.flags(flags)
	parallel := flags.Int("parallel", 8, "how many tests of a package run at once when it is measured again")
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
	var slower []string
	for _, slow := range now.Doubled(recorded) {
		alone, err := again(ctx, *parallel, slow.Name)
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s took %.0f s, and %.1f s alone; %.0f s on record", slow.Name, slow.Is, alone, slow.Was)
		if alone > slow.Alone {
			slower = append(slower, line)
		} else if _, err := fmt.Fprintln(stdout, "held up by others: "+line); err != nil {
			return err
		}
	}
	if len(slower) > 0 {
		return fmt.Errorf("these take twice the time on record, and too much of it when alone (%.1f times the record is what this machine takes in the middle); make them faster, or record the new time with its reason (bench testtimes -update):\n  %s",
			now.Machine(recorded), strings.Join(slower, "\n  "))
	}
	return nil
}

// again runs a package or test, named as in [testtimes.Times], once more with nothing else beside it, and returns its time in seconds.
func again(ctx context.Context, parallel int, name string) (float64, error) {
	pkg, test := name, ""
	if at := strings.LastIndexByte(name, '.'); at > strings.LastIndexByte(name, '/') && at+1 < len(name) {
		pkg, test = name[:at], name[at+1:]
	}
	dir, inModule := "..", pkg
	if rest, isConformance := strings.CutPrefix(pkg, "conformance"); isConformance {
		dir, inModule = "../conformance", strings.TrimPrefix(rest, "/")
	}
	args := []string{"test", "-json", "-vet=off", "-count=1", "-parallel", strconv.Itoa(parallel)}
	if test != "" {
		args = append(args, "-run", "^"+test+"$")
	}
	binary, err := filepath.Abs("../bin/sidecar")
	if err != nil {
		return 0, err
	}
	command := exec.CommandContext(ctx, "go", append(args, "./"+inModule)...) //nolint:gosec // a name of the run's own tests
	command.Dir, command.Env = dir, append(os.Environ(), "OUTRIGGER_TEST_BINARY="+binary)
	var events bytes.Buffer
	command.Stdout, command.Stderr = &events, os.Stderr
	if err := command.Run(); err != nil {
		return 0, fmt.Errorf("%s alone: %w", name, err)
	}
	var times testtimes.Times
	if err := times.Read(&events); err != nil {
		return 0, err
	}
	if test != "" {
		return times.Tests[name], nil
	}
	return times.Packages[name], nil
}
