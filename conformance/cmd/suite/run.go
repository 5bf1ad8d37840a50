// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// errFindings tells that the table shows what is wrong.
var errFindings = errors.New("there are findings")

// runSuite runs every revision against one pair of servers.
func runSuite(ctx context.Context, s settings) (err error) {
	version, err := s.suiteVersion()
	if err != nil {
		return err
	}
	alive := func() error { return nil }
	if s.url == "" {
		r, err2 := startRig(ctx, s.rig)
		if err2 != nil {
			return err2
		}
		defer func() { err = errors.Join(err, r.end()) }()
		s.url, alive = r.url(), r.alive
		if s.keep {
			defer func() {
				fmt.Fprintf(s.stdout, "\nMCP stays on %s until you stop this.\n", r.url())
				err = errors.Join(err, r.wait(ctx))
			}()
		}
	}
	findings := 0
	for _, revision := range s.revisions {
		scenarios, err := s.measure(ctx, revision)
		if err != nil {
			return fmt.Errorf("%s: %w", revision, errors.Join(err, alive()))
		}
		findings += printTable(s.stdout, fmt.Sprintf("MCP %s, suite %s", revision, version), scenarios)
	}
	if s.older != "" && len(s.scenarios) == 0 {
		missed, err := s.measureOlder(ctx)
		if err != nil {
			return errors.Join(err, alive())
		}
		findings += missed
	}
	if err := alive(); err != nil {
		return err
	}
	if findings > 0 {
		return errFindings
	}
	return nil
}

// suiteVersion reads the installed suite's version, and so finds a suite that
// is not installed.
func (s settings) suiteVersion() (string, error) {
	raw, err := os.ReadFile(filepath.Join(s.suite, "package.json"))
	if err != nil {
		return "", fmt.Errorf("the suite is not installed: %w", err)
	}
	var manifest struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(raw, &manifest); err != nil || manifest.Version == "" {
		return "", fmt.Errorf("%s names no version: %w", s.suite, err)
	}
	return manifest.Version, nil
}

// measure runs the suite at one revision and reads what it left.
func (s settings) measure(ctx context.Context, revision string) ([]scenario, error) {
	dir := filepath.Join(s.out, revision)
	if filepath.Base(dir) != revision {
		return nil, fmt.Errorf("%q is no revision", revision) // it names the folder that is removed
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o750)); err != nil {
		return nil, err
	}
	expected, choice, err := s.expected(ctx, revision)
	if err != nil {
		return nil, err
	}
	if len(expected) == 0 {
		return nil, errors.New("the suite lists no scenario")
	}
	common := []string{"server", "--url", s.url, "-o", dir, "--timeout", strconv.FormatInt(s.perScenario.Milliseconds(), 10)}
	for i, args := range choice {
		log := filepath.Join(dir, fmt.Sprintf("suite-%d.log", i))
		output, code, err := s.script(ctx, append(common, args...)...)
		if err := errors.Join(err, os.WriteFile(log, output, 0o600)); err != nil {
			return nil, err
		}
		if code == 0 {
			continue
		}
		// A failed check shows in its scenario. Without one, the suite itself broke.
		seen, err := readResults(dir, expected)
		if err != nil {
			return nil, err
		}
		if !failedCheck(seen) {
			return nil, fmt.Errorf("the suite ended with code %d though no check failed; the end of %s:\n%s", code, log, tailOf(output))
		}
	}
	return readResults(dir, expected)
}

func failedCheck(scenarios []scenario) bool {
	for _, s := range scenarios {
		if s.count(statusFailure) > 0 {
			return true
		}
	}
	return false
}

// expected returns the scenarios of a revision, and the arguments of each run
// of the suite that it takes: one for the frozen set of a revision, one for all
// scenarios of a revision that has no such set, or one a scenario where they
// were named.
func (s settings) expected(ctx context.Context, revision string) (scenarios []scenario, runs [][]string, err error) {
	if len(s.scenarios) > 0 {
		for _, name := range s.scenarios {
			scenarios = append(scenarios, scenario{name: name})
			runs = append(runs, []string{"--scenario", name, "--spec-version", revision, "--force"})
		}
		return scenarios, runs, nil
	}
	list, parse := []string{"list", "--requirements", revision}, parseRequired
	choose := []string{"--requirements", revision}
	_, err = os.Stat(filepath.Join(s.suite, "requirements", revision+".yaml"))
	switch {
	case errors.Is(err, os.ErrNotExist):
		list, parse = []string{"list", "--server", "--spec-version", revision}, parseListed
		choose = []string{"--suite", "all", "--spec-version", revision}
	case err != nil:
		return nil, nil, err
	}
	output, code, err := s.script(ctx, list...)
	if err == nil && code != 0 {
		err = fmt.Errorf("list the scenarios: exit code %d\n%s", code, tailOf(output))
	}
	scenarios, runs = parse(string(output)), [][]string{choose}
	if s.skills != "" && revision == skillsRevision {
		for _, name := range skillsScenarios() {
			scenarios = append(scenarios, scenario{name: name, unscored: true, complete: true})
			runs = append(runs, []string{"--scenario", name, "--spec-version", revision, "--force"})
		}
	}
	return scenarios, runs, err
}

// skillsRevision is the revision at which the scenarios about skills skip no check.
const skillsRevision = "2026-07-28"

// skillsScenarios are in no set of the suite: they run by name.
func skillsScenarios() []string {
	return []string{"sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory"}
}

// script runs the suite's command line and returns its output and exit code.
func (s settings) script(ctx context.Context, args ...string) ([]byte, int, error) {
	script := filepath.Join(s.suite, "dist", "index.js")
	cmd := exec.CommandContext(ctx, s.node, append([]string{script}, args...)...) //nolint:gosec // the installed suite
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second // Node ends at once, unless a scenario hangs
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	var exit *exec.ExitError
	if ctx.Err() != nil {
		return output.Bytes(), -1, fmt.Errorf("%w: the suite was still running; it last said:\n%s", context.Cause(ctx), tailOf(output.Bytes()))
	}
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return output.Bytes(), exit.ExitCode(), nil
	}
	return output.Bytes(), 0, err
}

func tailOf(text []byte) []byte { return text[max(0, len(text)-tailBytes):] }
