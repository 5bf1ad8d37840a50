// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/machine"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
)

// common are the flags that every command but the first has.
type common struct {
	binary       string // "" builds one
	write, check bool
	page         string // the document of its figures, from the root; "" is bench/README.md
}

func (c *common) document() string { return cmp.Or(c.page, "bench/README.md") }

func (c *common) flags(name string, stderr io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&c.binary, "sidecar", "", "measure this `binary` instead of building one")
	flags.BoolVar(&c.write, "write", false, "write the figures into "+c.document())
	flags.BoolVar(&c.check, "check", false, "exit with 1 if a goal is missed")
	return flags
}

// site is where a command works.
type site struct {
	root, dir, binary string
	began             time.Time
	machine           string // described before the work, for the load average
	say               func(string, ...any)
}

// within finds the repository, builds the sidecar where none is given, and does the work; everything ends within twice
// what was planned and five minutes for a cold build.
func (c *common) within(ctx context.Context, planned time.Duration, stderr io.Writer, work func(context.Context, *site) error) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := 2*planned + 5*time.Minute
	watchdog := time.AfterFunc(limit, func() { cancel(fmt.Errorf("the run did not finish within %v", limit)) })
	defer watchdog.Stop()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = errors.Join(context.Cause(ctx), err)
		}
	}()
	here, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	s := &site{began: time.Now(), machine: machine.Describe(), say: func(format string, args ...any) {
		_, _ = fmt.Fprintf(stderr, format+"\n", args...)
	}}
	if s.root, err = sidecar.Root(here); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "outrigger-bench-"); err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(s.dir) }()
	if c.binary != "" {
		s.binary, err = absolute("-sidecar", c.binary)
	} else {
		s.say("building the sidecar")
		s.binary, err = sidecar.Build(ctx, s.root, s.dir)
	}
	if err != nil {
		return err
	}
	return work(ctx, s)
}

// absolute makes a path that holds in every working directory.
func absolute(flag, path string) (string, error) {
	out, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	return out, nil
}

func (s *site) head(ctx context.Context, target string, args []string) report.Head {
	command := "make " + target
	if len(args) > 0 {
		command += " BENCHFLAGS='" + strings.Join(args, " ") + "'"
	}
	return report.Head{
		Date: s.began, Machine: s.machine, Command: command, Commit: machine.Commit(ctx, s.root),
		BuiltWith: machine.GoVersion(s.binary), Took: time.Since(s.began),
	}
}

// publish prints the figures, puts them into the document where asked to, and says what was missed.
func (c *common) publish(s *site, target, figures string, missed []string, stdout io.Writer) error {
	if _, err := io.WriteString(stdout, figures); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if c.write {
		if err := report.SectionOf(target).Write(filepath.Join(s.root, c.document()), figures); err != nil {
			return err
		}
	}
	if c.check && len(missed) > 0 {
		return fmt.Errorf("%w: %s", ErrMissed, strings.Join(missed, "; "))
	}
	return nil
}

// refusal tells what is wrong with a command line.
func refusal(err error, stderr io.Writer) error {
	if err == nil {
		return nil
	}
	_, _ = fmt.Fprintln(stderr, "bench:", err)
	return errors.Join(errUsage, err)
}
