// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"regexp"
	"strings"
)

// traceGone stands where a stack trace was.
const traceGone = "[stack trace removed]"

// tracePattern is one way in which a stack trace starts. hint is a part of every match, so that most texts need no search.
type tracePattern struct {
	hint string
	re   *regexp.Regexp
}

// tracePatterns are those of Go, Java, .NET, Python, Node, Rust, Ruby and C++. They want a file and a line, so that a
// sentence with "at" in it stays. Compiled once, not assigned to.
var tracePatterns = [...]tracePattern{
	{"goroutine ", traceRegexp(`goroutine [0-9]+ \[[^\]\n]*\]:`)},
	{".go:", traceRegexp(`[^\s:]+\.go:[0-9]+ \+0x[0-9a-f]+`)},
	{"Traceback (", traceRegexp(`Traceback \(most recent call last\)`)},
	{"File \"", traceRegexp(`File "[^"\n]+", line [0-9]+`)},
	{"at ", traceRegexp(`at [\w.$<>/]+\((?:[\w$\-]+\.\w+:[0-9]+|Native Method|Unknown Source)\)`)},
	{"at ", traceRegexp(`at [^()\n]+ \((?:[^()\n]*[/\\][^()\n]*|node:[^()\n]*):[0-9]+:[0-9]+\)`)},
	{"at ", traceRegexp(`at (?:async )?(?:file://)?/[^\s:()]+:[0-9]+:[0-9]+`)},
	{":line ", traceRegexp(`at [^()\n]+\([^()\n]*\) in [^\n]+:line [0-9]+`)},
	{".rb:", traceRegexp(`(?:from )?[^\s:]+\.rb:[0-9]+:in `)},
	{"0x", traceRegexp(`#[0-9]+ +0x[0-9a-f]{6,} `)},
	{":", traceRegexp(`(?i)(?:stack ?trace(?: follows)?|stack backtrace|call stack|backtrace):`)},
}

// traceRegexp compiles a pattern that starts a line or follows a space.
func traceRegexp(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[\n \t])(?:` + pattern + `)`)
}

// traceStart returns where the first stack trace of a text starts, -1 where it has none.
func traceStart(s string) int {
	start := -1
	for _, p := range tracePatterns {
		if !strings.Contains(s, p.hint) {
			continue
		}
		if at := p.re.FindStringIndex(s); at != nil && (start < 0 || at[0] < start) {
			start = at[0]
		}
	}
	return start
}
