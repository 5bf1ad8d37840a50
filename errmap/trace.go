// SPDX-License-Identifier: Apache-2.0

package errmap

import "regexp"

// traceGone stands where a stack trace was.
const traceGone = "[stack trace removed]"

// tracePattern is one way in which a stack trace starts. Every match of it has all that it needs, so that most texts need
// no search.
type tracePattern struct {
	needs features
	re    *regexp.Regexp
}

// tracePatterns are those of Go, Java, .NET, Python, Node, Rust, Ruby and C++. They want a file and a line, so that a
// sentence with "at" in it stays. Compiled once, not assigned to.
var tracePatterns = [...]tracePattern{
	{hasGoroutine, traceRegexp(`goroutine [0-9]+ \[[^\]\n]*\]:`)},
	{hasGoLine | hasHex, traceRegexp(`[^\s:]+\.go:[0-9]+ \+0x[0-9a-f]+`)},
	{hasTraceback, traceRegexp(`Traceback \(most recent call last\)`)},
	{hasFile, traceRegexp(`File "[^"\n]+", line [0-9]+`)},
	{hasAtWord | hasParen, traceRegexp(`at [\w.$<>/]+\((?:[\w$\-]+\.\w+:[0-9]+|Native Method|Unknown Source)\)`)},
	{hasAtWord | hasParen | hasPair, traceRegexp(`at [^()\n]+ \((?:[^()\n]*[/\\][^()\n]*|node:[^()\n]*):[0-9]+:[0-9]+\)`)},
	{hasAtWord | hasSlash | hasPair, traceRegexp(`at (?:async )?(?:file://)?/[^\s:()]+:[0-9]+:[0-9]+`)},
	{hasAtWord | hasParen | hasLine, traceRegexp(`at [^()\n]+\([^()\n]*\) in [^\n]+:line [0-9]+`)},
	{hasRuby, traceRegexp(`(?:from )?[^\s:]+\.rb:[0-9]+:in `)},
	{hasHex, traceRegexp(`#[0-9]+ +0x[0-9a-f]{6,} `)},
	{hasStack | hasPair, traceRegexp(`(?i)(?:stack ?trace(?: follows)?|stack backtrace|call stack|backtrace):`)},
}

// traceRegexp compiles a pattern that starts a line or follows a space.
func traceRegexp(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[\n \t])(?:` + pattern + `)`)
}

// traceStart returns where the first stack trace of a text starts, -1 where it has none.
func traceStart(s string, has features) int {
	start := -1
	for _, p := range tracePatterns {
		if !has.all(p.needs) {
			continue
		}
		if at := p.re.FindStringIndex(s); at != nil && (start < 0 || at[0] < start) {
			start = at[0]
		}
	}
	return start
}
