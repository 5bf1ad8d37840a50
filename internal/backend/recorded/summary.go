// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"fmt"
	"slices"
	"strings"
)

// reason is why a recorded call cannot answer, or not faithfully.
type reason uint8

const (
	gone reason = iota
	drifted
	driftedInput
	lacksValues
	omitted
	refused
	withoutAnswer
	unreadable
	reasons
)

// String says what is the matter with some calls.
func (r reason) String() string {
	return [reasons]string{
		gone:          "are of tools that the descriptors do not have",
		drifted:       "have results that do not fit the descriptors, and fail",
		driftedInput:  "have arguments that do not fit the descriptors",
		lacksValues:   "lack values that the record left out because they are secret",
		omitted:       "were too large to be recorded",
		refused:       "were refused by the sidecar, which decides again",
		withoutAnswer: "have no recorded answer",
		unreadable:    "cannot be read again",
	}[r]
}

// summary is what there is to say about a recording.
type summary struct {
	kept       int // calls that can answer
	unfinished int
	bad        []string
	counts     [reasons]int
	examples   [reasons][]string
}

// maxExamples bounds the calls that are named for a reason.
const maxExamples = 3

// note notes a call that cannot answer, or not faithfully.
func (s *summary) note(c *call, why reason, text string) {
	if s.counts[why]++; len(s.examples[why]) < maxExamples {
		if text != "" {
			text = ": " + text
		}
		if one := c.tool + text; !slices.Contains(s.examples[why], one) {
			s.examples[why] = append(s.examples[why], one)
		}
	}
}

// Says is what operators should know of where answers come from: one sentence, and a sentence for each thing that is the matter.
func (u *Upstream) Says() (what string, problems []string) {
	x := u.current()
	var parts []string
	if u.opts.Recording != nil {
		parts = append(parts, fmt.Sprintf("%d recorded calls of %d tools in %s (--replay-match %s)", x.kept, len(x.groups), u.opts.Recording.dir, u.opts.Match))
	}
	if u.opts.Invents {
		parts = append(parts, fmt.Sprintf("inventions (--mock-seed %d)", u.opts.Seed))
	}
	for why, n := range x.counts {
		if n > 0 {
			problems = append(problems, fmt.Sprintf("%d recorded calls %v: %s", n, reason(why), strings.Join(x.examples[why], "; ")))
		}
	}
	if n := len(x.bad); n > 0 {
		problems = append(problems, fmt.Sprintf("%d lines are no recorded calls: %s", n, strings.Join(x.bad[:min(n, maxExamples)], "; ")))
	}
	if x.unfinished > 0 {
		problems = append(problems, fmt.Sprintf("%d recorded calls had not ended when their run did", x.unfinished))
	}
	return strings.Join(parts, ", then "), problems
}
