// SPDX-License-Identifier: Apache-2.0

// Command bench measures the sidecar from outside: the size of its binary, the time until it is ready, the memory that
// it holds when idle, and what a call through each of its edges costs beside the same call made directly. It builds the
// sidecar, starts every process that it needs on loopback, ends them, and prints Markdown to standard output and its
// progress to standard error. bench/README.md tells how to read the figures. It needs Linux.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/contract"
	"github.com/outrigger-mcp/outrigger/bench/internal/machine"
	"github.com/outrigger-mcp/outrigger/bench/internal/peer"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit status: 0; 1 where something went wrong, was answered wrongly or, with -check, missed a limit; 2
// for a command line that says nothing sensible.
func run(args []string, stdout, stderr io.Writer) int {
	if played, err := peer.Main(args, stdout); played {
		return status(err, stderr)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if len(args) > 0 {
		if command, ok := commands()[args[0]]; ok {
			err := command(ctx, args[1:], stdout, stderr)
			if errors.Is(err, errUsage) {
				return 2
			}
			return status(err, stderr)
		}
	}
	opts, err := parseOptions(args, stderr)
	if err != nil {
		return 2
	}
	// A hard deadline, well beyond the plan and a cold build, so that a run left alone never stays.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := 2*opts.planned() + 5*time.Minute
	watchdog := time.AfterFunc(limit, func() { cancel(fmt.Errorf("the run did not finish within %v", limit)) })
	defer watchdog.Stop()

	err = measure(ctx, opts, args, stdout, stderr)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return status(err, stderr)
}

// commands are what the first argument may name; without one, the sidecar's footprint and edges are measured.
func commands() map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	return map[string]func(context.Context, []string, io.Writer, io.Writer) error{
		"backends":  commandBackends,
		"callfiles": commandCallFiles,
		"e2e":       commandE2E,
		"large":     commandLarge,
		"latency":   commandLatency,
		"load":      commandLoad,
		"ratios":    commandRatios,
		"size":      commandSize,
		"soak":      commandSoak,
		"streams":   commandStreams,
		"telemetry": commandTelemetry,
		"testtimes": commandTestTimes,
		"watched":   commandWatched,
	}
}

func status(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(stderr, "bench:", err)
	return 1
}

// contract measures what the canonical contract has targets for.
func (h *harness) contract(ctx context.Context, r *report.Report) error {
	if !h.opts.contract {
		return nil
	}
	rows, err := contract.Measure(ctx, h.binary, h.dir, h.say)
	if err != nil {
		return fmt.Errorf("contract: %w", err)
	}
	for _, row := range rows {
		r.Contract = append(r.Contract, report.Target{What: row.What, Target: row.Target, Figure: row.Figure, Times: row.Times, Goal: cmp.Or(row.Goal, contract.Goal)})
	}
	return nil
}

// ErrMissed tells that a limit of the footprint was missed; ErrSkipped that a path could not be measured.
var (
	ErrMissed  = errors.New("limits missed")
	ErrSkipped = errors.New("paths not measured")
)

// measure makes the report.
func measure(ctx context.Context, opts *options, args []string, stdout, stderr io.Writer) error {
	here, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	root, err := sidecar.Root(here)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "outrigger-bench-")
	if err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	start := time.Now()
	h := &harness{opts: opts, root: root, dir: dir, progress: stderr}
	r := &report.Report{Date: start, Machine: machine.Describe(), Command: command(args), Commit: machine.Commit(ctx, root)}
	if err := h.build(ctx); err != nil {
		return err
	}
	r.BuiltWith = machine.GoVersion(h.binary)
	if err := h.footprint(ctx, &r.Footprint); err != nil {
		return err
	}
	if err := h.contract(ctx, r); err != nil {
		return err
	}
	if opts.rounds > 0 {
		if r.Load, err = h.load(ctx); err != nil {
			return err
		}
	}
	r.Took = time.Since(start)
	if _, err := io.WriteString(stdout, r.Markdown()); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if opts.write {
		if err := report.SectionOf("bench").Write(filepath.Join(root, "bench", "README.md"), r.Markdown()); err != nil {
			return err
		}
	}
	return verdict(opts, r)
}

func verdict(opts *options, r *report.Report) error {
	var errs []error
	if misses := r.Footprint.Misses(); opts.check && len(misses) > 0 {
		errs = append(errs, fmt.Errorf("%w: %s", ErrMissed, strings.Join(misses, ", ")))
	}
	if r.Load != nil && len(r.Load.Skipped) > 0 {
		errs = append(errs, fmt.Errorf("%w: %d", ErrSkipped, len(r.Load.Skipped)))
	}
	return errors.Join(errs...)
}

// command is how to run the same again.
func command(args []string) string {
	if len(args) == 0 {
		return "make bench"
	}
	return "make bench BENCHFLAGS='" + strings.Join(args, " ") + "'"
}
