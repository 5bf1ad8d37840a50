// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/e2e"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
)

const (
	// reference is the build that every other one is compared with. It does not move, so that a small loss a landing adds up in
	// sight.
	reference = "a80e594f5c2aa9f2af42b6da54a6568bd85b3165"
	// ratioNoise is by how much a ratio may be above the one on record: medians of two builds in one run differ by a few per cent.
	ratioNoise = 0.10
	// attempts is how often ratios above the record are measured at most.
	attempts = 3
)

// commandRatios measures the CPU time of a call beside that of a fixed old build, and fails where the ratio is above the one on
// record.
func commandRatios(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o common
	var record onRecord
	opts := e2e.Options{
		Subjects: []string{"sidecar", "other"}, Sizes: e2e.SizeNames(), Callers: 8, Warmup: 100 * time.Millisecond, Window: 600 * time.Millisecond,
		Longest: 2 * time.Second, AtLeast: 50,
	}
	flags := o.flags("bench ratios", stderr)
	record.flags(flags)
	flags.IntVar(&opts.Rounds, "rounds", 7, "number of rounds")
	if err := flags.Parse(args); err != nil {
		return errUsage
	}
	recorded := map[string]float64{}
	if err := record.read(&recorded); err != nil {
		return err
	}
	const builds = 3 * time.Minute
	planned := builds + attempts*time.Duration(len(opts.Sizes)*opts.Rounds*len(opts.Subjects))*(opts.Longest+opts.Warmup)
	return o.within(ctx, planned, stderr, func(ctx context.Context, s *site) (err error) {
		opts.Binary, opts.Dir = s.binary, s.dir
		var above []string
		if opts.Other, err = referenceBinary(ctx, s.root, s.say); err != nil {
			return fmt.Errorf("build %.8s: %w", reference, err)
		}
		now := map[string]float64{}
		// A busy machine makes ratios larger, never smaller for long, so that what is above the record is measured again.
		for attempt := range attempts {
			var measured *report.EndToEnd
			if measured, err = e2e.Measure(ctx, opts, s.say); err != nil {
				return err
			}
			if above, err = compared(measured, recorded, now, stdout); err != nil || len(above) == 0 {
				break
			}
			if attempt < attempts-1 {
				s.say("more than on record; measuring again")
			}
		}
		if err != nil {
			return err
		}
		if isDone, err := record.write(now); isDone || err != nil {
			return err
		}
		if len(above) > 0 {
			return fmt.Errorf("calls became dearer; find out why, or record the ratio with its reason (make bench-ratios RECORD=-update):\n  %s", strings.Join(above, "\n  "))
		}
		return nil
	})
}

// compared keeps the smallest ratio of each size in now, prints it, and returns the lines of those that are above the ones on record.
func compared(measured *report.EndToEnd, recorded, now map[string]float64, stdout io.Writer) (above []string, err error) {
	for _, size := range measured.Sizes {
		ratio := ratioOf(size.Figures["sidecar"], size.Figures["other"])
		if before, ok := now[size.Name]; ok {
			ratio = min(ratio, before)
		}
		now[size.Name] = ratio
		line := fmt.Sprintf("%s calls take %.2f of the CPU time of %.8s", size.Name, ratio, reference)
		was, isOnRecord := recorded[size.Name]
		if isOnRecord {
			line += fmt.Sprintf(" (on record: %.2f)", was)
		}
		if isOnRecord && ratio > was*(1+ratioNoise) {
			above = append(above, line)
		}
		if _, err = fmt.Fprintln(stdout, line); err != nil {
			return nil, err
		}
	}
	return above, nil
}

// ratioOf is the ratio of the least CPU times of two subjects: what else a machine does only adds to them.
func ratioOf(of, to []report.Figure) float64 {
	least := func(rounds []report.Figure) float64 {
		return slices.MinFunc(rounds, func(a, b report.Figure) int { return cmp.Compare(a.MiddleCPU, b.MiddleCPU) }).MiddleCPU
	}
	return least(of) / least(to)
}

// referenceBinary builds the sidecar of the reference once, and keeps it in the user's cache.
func referenceBinary(ctx context.Context, root string, say func(string, ...any)) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "outrigger-bench", reference)
	binary := filepath.Join(dir, "sidecar")
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	say("building the sidecar of %.8s", reference)
	tree, err := os.MkdirTemp("", "outrigger-reference-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tree) }()
	archive := filepath.Join(tree, "tree.tar")
	for _, command := range [][]string{
		{"git", "-C", root, "archive", "--output", archive, reference},
		{"tar", "-C", tree, "-xf", archive},
		{"mkdir", "-p", dir},
	} {
		if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil { //nolint:gosec // constants, and folders of the benchmark's own
			return "", errors.Join(err, errors.New(string(out)))
		}
	}
	return sidecar.Build(ctx, tree, dir)
}
