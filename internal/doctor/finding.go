// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/server/upstream"
)

// Levels of a finding, as `doctor --json` names them.
const (
	levelOK   = "ok"
	levelWarn = "warn"
	levelFail = "fail"
)

// Finding is one thing that doctor has to say.
type Finding struct {
	Level string `json:"level"`
	Text  string `json:"text"`
	// Fix says what to do, Cause what went wrong below; empty where there is nothing to say.
	Fix   string `json:"fix,omitempty"`
	Cause string `json:"cause,omitempty"`
}

// Print writes a finding for a person.
func (f Finding) Print(out io.Writer) {
	shown := f.Level
	if f.Level == levelFail {
		shown = "FAIL"
	}
	fmt.Fprintf(out, "%-5s %s\n", shown, f.Text)
	if f.Fix != "" {
		fmt.Fprintf(out, "      fix: %s\n", f.Fix)
	}
	if f.Cause != "" {
		fmt.Fprintf(out, "      cause: %s\n", f.Cause)
	}
}

// Findings is what doctor prints with --json.
type Findings struct {
	OK       bool      `json:"ok"`
	Findings []Finding `json:"findings"`
}

func (d *doctor) ok(format string, args ...any) {
	d.add(Finding{Level: levelOK, Text: fmt.Sprintf(format, args...)})
}

func (d *doctor) warn(format string, args ...any) {
	d.add(Finding{Level: levelWarn, Text: fmt.Sprintf(format, args...)})
}

func (d *doctor) fail(fix, format string, args ...any) {
	d.add(Finding{Level: levelFail, Text: fmt.Sprintf(format, args...), Fix: fix})
}

// broken is a failure that was diagnosed from an error.
func (d *doctor) broken(by upstream.Diagnosis, text string, err error) {
	cause := causeText(err)
	if strings.Contains(text, cause) {
		cause = "" // it has been said
	}
	d.add(Finding{Level: levelFail, Text: text, Fix: by.Fix, Cause: cause})
}

// causeText is the text of an error without what the finding says already: that it
// is about the backend, which cannot be reached. It is one line: joined errors are a line
// each.
func causeText(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	for _, prefix := range []string{"backend: ", "unreachable: ", "cannot reach the backend: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return text
}

func (d *doctor) add(f Finding) {
	d.found.OK = d.found.OK && f.Level != levelFail
	d.found.Findings = append(d.found.Findings, f)
	d.show(f)
}
