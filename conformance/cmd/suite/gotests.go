// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// goModule is the Go SDK's.
const goModule = "github.com/modelcontextprotocol/go-sdk"

// goTests are the tests that try the Go SDK's client. Their subtests are
// transport/check.
func goTests() []string { return []string{"TestLegacyClient", "TestModernClient"} }

// goTestEvent is what `go test -json` prints (go doc test2json).
type goTestEvent struct {
	Action string `json:"Action"`
	Test   string `json:"Test"`
	Output string `json:"Output"`
}

// readGoTests makes reports of the events of a run. A test that was skipped says
// why in the words of the other clients' scripts.
func (s settings) readGoTests(printed io.Reader) (reports []clientCheck, rest string, err error) {
	version, err := moduleVersion(filepath.Join(s.module, "go.mod"))
	if err != nil {
		return nil, "", err
	}
	said := map[string]*strings.Builder{}
	var other strings.Builder
	lines := bufio.NewScanner(printed)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e goTestEvent
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			other.WriteString(lines.Text() + "\n")
			continue
		}
		other.WriteString(e.Output)
		if said[e.Test] == nil {
			said[e.Test] = &strings.Builder{}
		}
		_, _ = said[e.Test].WriteString(e.Output) // it does not fail
		if c, ok := goReport(e, said[e.Test].String()); ok {
			c.Version = version
			reports = append(reports, c)
		}
	}
	return reports, other.String(), lines.Err()
}

// goReport is the report on the check whose test ended, if it is one.
func goReport(e goTestEvent, said string) (clientCheck, bool) {
	parts := strings.Split(e.Test, "/")
	if len(parts) != 3 || !slices.Contains(goTests(), parts[0]) {
		return clientCheck{}, false
	}
	c := clientCheck{
		Client: "Go SDK", Mode: strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(parts[0], "Test"), "Client")),
		Transport: parts[1], Check: strings.ReplaceAll(parts[2], "_", " "),
	}
	switch e.Action {
	case "pass":
		c.Outcome = outcomeOK
	case "fail":
		c.Outcome, c.Error = outcomeFailed, strings.TrimSpace(said)
	case "skip":
		c.Outcome, c.Error = outcomeFailed, "skipped without a reason: "+strings.TrimSpace(said)
		for _, outcome := range []string{outcomeUnsupported, outcomeAbsent} {
			if _, reason, ok := strings.Cut(said, outcome+": "); ok {
				reason, _, _ = strings.Cut(reason, "\n")
				c.Outcome, c.Reason, c.Error = outcome, reason, ""
			}
		}
	default:
		return clientCheck{}, false
	}
	return c, true
}

// moduleVersion reads the Go SDK's version off a go.mod.
func moduleVersion(file string) (string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(raw)) {
		if words := strings.Fields(line); len(words) >= 2 && words[0] == goModule {
			return strings.TrimPrefix(words[1], "v"), nil
		}
	}
	return "", fmt.Errorf("%s does not require %s", file, goModule)
}
