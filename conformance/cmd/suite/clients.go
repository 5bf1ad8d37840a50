// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// clientLanes run side by side, each with its own servers, because the
	// checks change what the fixture offers. Two: a client and what it talks to
	// are seldom busy at the same time, and small machines have two cores.
	clientLanes = 2
	// clientEndTimeout is how long a run may take to end after SIGTERM. Some have
	// processes of their own to end.
	clientEndTimeout = 20 * time.Second
)

// runClients runs every client against the servers and prints a table.
func runClients(ctx context.Context, s settings) error {
	runs := slices.DeleteFunc(clientRuns(), func(r clientRun) bool {
		return len(s.only) > 0 && !slices.Contains(s.only, r.script)
	})
	if len(runs) == 0 {
		return fmt.Errorf("no client is called %s", strings.Join(s.only, " or "))
	}
	s.stdout = &lockedWriter{inner: s.stdout}
	results := make([][]clientCheck, len(runs))
	next := make(chan int, len(runs))
	for i := range runs {
		next <- i
	}
	close(next)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lanes := make([]error, min(clientLanes, len(runs)))
	var running sync.WaitGroup
	for lane := range lanes {
		running.Go(func() {
			lanes[lane] = s.clientLane(ctx, lane, func(r *rig) error {
				for i := range next {
					var err error
					if results[i], err = s.runClient(ctx, r, runs[i]); err != nil {
						return fmt.Errorf("%s: %w", runs[i].name(), err)
					}
				}
				return nil
			})
			if lanes[lane] != nil {
				cancel(lanes[lane])
			}
		})
	}
	running.Wait()
	if err := errors.Join(lanes...); err != nil {
		return err
	}
	table := newClientTable(slices.Concat(results...))
	failed := table.print(s.stdout)
	if len(s.only) == 0 && s.doc != "" && failed == 0 {
		if err := table.keep(s.doc, s.update); err != nil {
			return err
		}
	}
	if failed > 0 {
		return errFindings
	}
	return nil
}

// lockedWriter lets lanes print whole lines.
type lockedWriter struct {
	mu    sync.Mutex
	inner io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inner.Write(p)
}

// clientLane starts servers for work and ends them.
func (s settings) clientLane(ctx context.Context, lane int, work func(*rig) error) (err error) {
	rs := s.rig
	rs.logs = filepath.Join(s.out, fmt.Sprintf("clients-%d", lane+1))
	r, err := startRig(ctx, rs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.end()) }()
	return errors.Join(work(r), r.alive())
}

// runClient runs one client. What it printed that is no report, and everything
// on its standard error, is in a file with its name.
func (s settings) runClient(ctx context.Context, r *rig, run clientRun) ([]clientCheck, error) {
	began := time.Now()
	reports, err := s.startClient(ctx, r, run)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, c := range reports {
		counts[c.Outcome]++
	}
	fmt.Fprintf(s.stdout, "%-24s %2d ok, %d failed, %d unsupported, %d absent (%s)\n", run.name(), counts[outcomeOK],
		counts[outcomeFailed], counts[outcomeUnsupported], counts[outcomeAbsent], time.Since(began).Round(100*time.Millisecond))
	return reports, nil
}

func (s settings) startClient(ctx context.Context, r *rig, run clientRun) ([]clientCheck, error) {
	if err := os.MkdirAll(s.out, 0o750); err != nil {
		return nil, err
	}
	logged, err := os.Create(filepath.Join(s.out, run.name()+".log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = logged.Close() }()
	var printed bytes.Buffer
	cmd := s.clientCommand(ctx, r, run)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = clientEndTimeout
	cmd.Stdout, cmd.Stderr = &printed, logged
	err = cmd.Run()
	var exit *exec.ExitError
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	read := readReports
	if run.script == goScript {
		read = s.readGoTests
	}
	reports, rest, readErr := read(&printed)
	_, _ = io.WriteString(logged, rest)
	if readErr != nil {
		return nil, readErr
	}
	if len(reports) == 0 {
		return nil, fmt.Errorf("it reported nothing: %w; see %s", cause(err), logged.Name())
	}
	reports = complete(reports)
	if err != nil && !slices.ContainsFunc(reports, func(c clientCheck) bool { return c.Outcome == outcomeFailed }) {
		return nil, fmt.Errorf("it ended with %w though no check failed; see %s", err, logged.Name())
	}
	return reports, nil
}

// clientCommand is the command line of a run.
func (s settings) clientCommand(ctx context.Context, r *rig, run clientRun) *exec.Cmd {
	if run.script == goScript {
		cmd := exec.CommandContext(ctx, "go", "test", "-json", "-race", "-count=1", "-run", "^("+strings.Join(goTests(), "|")+")$", ".") //nolint:gosec // names of this program
		cmd.Dir = s.module
		cmd.Env = ownEnvironment()
		return cmd
	}
	args := []string{filepath.Join(s.clients, run.script+".mjs"), "--mode", run.mode}
	if run.stdio {
		args = slices.Concat(args, []string{
			"--", s.rig.sidecar, "stdio", "--backend", r.backend, "--log-level", "error",
		}, s.rig.sidecarArgs)
	} else {
		args = append(args, "--url", r.url())
	}
	cmd := exec.CommandContext(ctx, s.node, args...) //nolint:gosec // this repository's own script
	cmd.Env = ownEnvironment()
	return cmd
}

// readReports reads a line a check; other lines are the rest.
func readReports(printed io.Reader) (reports []clientCheck, rest string, err error) {
	raw, err := io.ReadAll(printed)
	if err != nil {
		return nil, "", err
	}
	var other strings.Builder
	for line := range strings.Lines(string(raw)) {
		var c clientCheck
		if json.Unmarshal([]byte(line), &c) != nil || c.Check == "" {
			other.WriteString(line)
			continue
		}
		reports = append(reports, c)
	}
	return reports, other.String(), nil
}

// complete adds a failure for every check that a client did not report, and for
// everything that it should not have reported.
func complete(reports []clientCheck) []clientCheck {
	type who struct{ client, version, mode, transport string }
	seen := map[who]map[string]int{}
	for i, c := range reports {
		w := who{c.Client, c.Version, c.Mode, c.Transport}
		if seen[w] == nil {
			seen[w] = map[string]int{}
		}
		seen[w][c.Check]++
		switch {
		case !slices.Contains(clientChecks(), c.Check):
			reports[i].Outcome, reports[i].Error = outcomeFailed, "there is no such check"
		case seen[w][c.Check] > 1:
			reports[i].Outcome, reports[i].Error = outcomeFailed, "it was reported twice"
		case !slices.Contains([]string{outcomeOK, outcomeFailed, outcomeUnsupported, outcomeAbsent}, c.Outcome):
			reports[i].Outcome, reports[i].Error = outcomeFailed, "its outcome is "+c.Outcome
		case c.Reason == "" && (c.Outcome == outcomeUnsupported || c.Outcome == outcomeAbsent):
			reports[i].Outcome, reports[i].Error = outcomeFailed, c.Outcome+" without a reason"
		}
	}
	for w, checks := range seen {
		for _, name := range clientChecks() {
			if checks[name] == 0 {
				reports = append(reports, clientCheck{
					Client: w.client, Version: w.version, Mode: w.mode, Transport: w.transport,
					Check: name, Outcome: outcomeFailed, Error: "it was not reported",
				})
			}
		}
	}
	slices.SortStableFunc(reports, func(a, b clientCheck) int {
		return cmp.Or(cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Transport, b.Transport))
	})
	return reports
}
