// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Statuses of a check that are no findings.
const (
	statusSuccess = "SUCCESS"
	statusSkipped = "SKIPPED"
	statusInfo    = "INFO"
)

// Statuses that are. Any word that is not listed here is a finding as well.
const (
	statusFailure = "FAILURE"
	statusWarning = "WARNING"
)

// check is one entry of a scenario's checks.json.
type check struct {
	ID           string `json:"id"`
	Description  string `json:"description"`
	Status       string `json:"status"`
	ErrorMessage string `json:"errorMessage"`
}

// scenario is what the suite was to run, and what it left.
type scenario struct {
	name string
	// unscored scenarios do not count for the suite. They do here.
	unscored bool
	// complete ones may skip nothing.
	complete bool
	// unexpected ones ran unexpectedly.
	unexpected bool
	ran        bool
	checks     []check
}

// count is how many checks have a status.
func (s scenario) count(status string) int {
	n := 0
	for _, c := range s.checks {
		if c.Status == status {
			n++
		}
	}
	return n
}

// findings is everything about the scenario that must not be.
func (s scenario) findings() []string {
	switch {
	case !s.ran:
		return []string{s.name + ": no result"}
	case len(s.checks) == 0:
		return []string{s.name + ": a result without checks"}
	}
	var out []string
	for _, c := range s.checks {
		switch {
		case c.Status == statusSuccess, c.Status == statusInfo, c.Status == statusSkipped && !s.complete:
		default:
			out = append(out, s.describe(c))
		}
	}
	return out
}

// described describes the checks that have a status.
func (s scenario) described(status string) []string {
	var out []string
	for _, c := range s.checks {
		if c.Status == status {
			out = append(out, s.describe(c))
		}
	}
	return out
}

func (s scenario) describe(c check) string {
	text := c.ErrorMessage
	if text == "" {
		text = c.Description
	}
	return fmt.Sprintf("%s: %s %s: %s", s.name, c.Status, c.ID, text)
}

// resultDir matches the name of the folder of one scenario.
var resultDir = regexp.MustCompile(`^server-(.+)-\d{4}-\d{2}-\d{2}T[0-9-]+Z$`)

// readResults adds what the suite left under dir to what was expected of it.
func readResults(dir string, expected []scenario) ([]scenario, error) {
	out := slices.Clone(expected)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		m := resultDir.FindStringSubmatch(entry.Name())
		if m == nil {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, entry.Name(), "checks.json"))
		if os.IsNotExist(err) {
			continue // the scenario did not come to an end
		}
		var checks []check
		if err == nil {
			err = json.Unmarshal(raw, &checks)
		}
		if err != nil {
			return nil, fmt.Errorf("results of %s: %w", m[1], err)
		}
		at := slices.IndexFunc(out, func(s scenario) bool { return s.name == m[1] })
		if at < 0 {
			at = len(out)
			out = append(out, scenario{name: m[1], unexpected: true})
		}
		out[at].ran = true
		out[at].checks = append(out[at].checks, checks...)
	}
	return out, nil
}

// parseRequired reads `conformance list --requirements`: scored scenarios of
// servers under their heading, others marked as a server's.
func parseRequired(listing string) []scenario {
	var out []scenario
	scored := false
	for line := range strings.Lines(listing) {
		line = strings.TrimSpace(line)
		item, isItem := strings.CutPrefix(line, "- ")
		if !isItem {
			if strings.HasSuffix(line, ":") && !strings.HasSuffix(line, "):") || strings.Contains(line, "scenarios (") {
				scored = strings.HasPrefix(line, "Server scenarios")
			}
			continue
		}
		if name, ok := strings.CutSuffix(item, " [server]"); ok {
			out = append(out, scenario{name: name, unscored: true})
		} else if scored {
			out = append(out, scenario{name: item})
		}
	}
	return out
}

// parseListed reads `conformance list --server`, where revisions stand in
// brackets behind a name.
func parseListed(listing string) []scenario {
	var out []scenario
	for line := range strings.Lines(listing) {
		if item, ok := strings.CutPrefix(strings.TrimSpace(line), "- "); ok {
			name, _, _ := strings.Cut(item, " [")
			out = append(out, scenario{name: name})
		}
	}
	return out
}
