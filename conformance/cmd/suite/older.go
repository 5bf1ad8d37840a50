// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
)

// summaryLine is what the last release of the suite says of a scenario, and of
// all of them.
var (
	summaryLine = regexp.MustCompile(`(?m)^[✓✗] (\S+): (\d+) passed, (\d+) failed`)
	summaryEnd  = regexp.MustCompile(`(?m)^Total: (\d+) passed, (\d+) failed`)
)

// measureOlder runs the suite's last release, whose own summary is all that it
// leaves, prints it, and returns how many checks failed.
func (s settings) measureOlder(ctx context.Context) (int, error) {
	older := s
	older.suite = filepath.Join(s.older, "node_modules", "@modelcontextprotocol", "conformance")
	version, err := older.suiteVersion()
	if err != nil {
		return 0, err
	}
	output, code, err := older.script(ctx, "server", "--url", s.url)
	if err != nil {
		return 0, err
	}
	end := summaryEnd.FindSubmatch(output)
	scenarios := summaryLine.FindAllSubmatch(output, -1)
	if end == nil || len(scenarios) == 0 {
		return 0, fmt.Errorf("suite %s left no summary; it last said:\n%s", version, tailOf(output))
	}
	failed, err := strconv.Atoi(string(end[2]))
	if err != nil {
		return 0, err
	}
	good := 0
	fmt.Fprintf(s.stdout, "\nLegacy, suite %s\n\n", version)
	for _, line := range scenarios {
		if string(line[3]) == "0" {
			good++
			continue
		}
		fmt.Fprintf(s.stdout, "  NOT OK %s: %s failed\n", line[1], line[3])
	}
	fmt.Fprintf(s.stdout, "  %d of %d scenarios, %s checks passed, %d failed\n", good, len(scenarios), end[1], failed)
	if code != 0 && failed == 0 {
		return 0, errors.New("the older suite failed though no check did")
	}
	return failed, nil
}
