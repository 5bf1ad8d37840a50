// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
)

// The canonical codes of calls that failed on the way.
const (
	Unavailable    = "UNAVAILABLE"
	TransportError = "TRANSPORT_ERROR"
	Timeout        = "TIMEOUT"
)

// Rule names what a finding breaks.
type Rule string

// The rules.
const (
	// Unanswered: a caller that stayed has no answer.
	Unanswered Rule = "unanswered"
	// AnsweredTwice: a call has more than one answer.
	AnsweredTwice Rule = "answered twice"
	// Crossed: an answer is that of somebody else.
	Crossed Rule = "crossed"
	// Altered: an answer is not what the backend sent.
	Altered Rule = "altered"
	// Invented: an answer is a success, and the backend ran nothing.
	Invented Rule = "invented"
	// Repeated: the backend ran something more often than it may.
	Repeated Rule = "repeated"
	// Untrue: a call is said not to have reached the backend, which ran it.
	Untrue Rule = "untrue"
	// WrongCode: a call failed in a way in which this fault lets no call fail.
	WrongCode Rule = "wrong code"
	// WrongRetryable: a caller is asked to repeat what does harm, or not to repeat
	// what does none.
	WrongRetryable Rule = "wrong retryable"
	// Late: an answer came when the call's time was long over.
	Late Rule = "late"
	// Unasked: an answer or an execution without a call.
	Unasked Rule = "unasked"
)

// Finding is one place where the books do not agree.
type Finding struct {
	Rule   Rule
	Nonce  string
	Detail string
}

// String is what a failed test prints.
func (f Finding) String() string { return fmt.Sprintf("%s: %s: %s", f.Rule, f.Nonce, f.Detail) }

// Disturbance is the time in which calls may fail, and how.
type Disturbance struct {
	// From is when the fault began, To when calls of every edge succeeded again and
	// none was left that had been sent while it lasted: such a call still fails, and may
	// be the one that opens the breaker. Two zero values are no disturbance.
	From, To time.Time
	// Codes are the canonical codes with which calls may fail in between.
	Codes []string
}

// hits reports whether a call and the disturbance have a moment in common.
func (d Disturbance) hits(e Entry) bool {
	return !d.From.IsZero() && !e.Done.Before(d.From) && !e.Sent.After(d.To)
}

// Bounds are what the sidecar was told.
type Bounds struct {
	// Attempts is how often an idempotent call, or one with a key, may be sent.
	Attempts int
	// Longest is how long any call may last, waiting and slow machines included.
	Longest time.Duration
}

// Audit compares what the callers wrote down with what the backend did. strays
// are answers that came without anybody who waited for them. No findings means
// that every call is accounted for.
func Audit(entries []Entry, executions []Execution, strays []string, d Disturbance, b Bounds) []Finding {
	runs := map[string]int{}
	for _, x := range executions {
		runs[x.Nonce]++
	}
	known := make(map[string]bool, len(entries))
	for _, e := range entries {
		known[e.Nonce] = true
	}
	var found []Finding
	for _, e := range entries {
		found = append(found, auditOne(e, runs[e.Nonce], known, d, b)...)
	}
	for _, x := range executions {
		if !known[x.Nonce] {
			found = append(found, Finding{Unasked, x.Nonce, "the backend ran " + x.Method + ", which was not called"})
		}
	}
	for _, line := range strays {
		found = append(found, Finding{Unasked, "", "an unexpected answer: " + line})
	}
	return found
}

func auditOne(e Entry, runs int, known map[string]bool, d Disturbance, b Bounds) []Finding {
	var found []Finding
	say := func(r Rule, format string, args ...any) {
		found = append(found, Finding{r, e.Nonce, e.Edge + " " + e.Method + ": " + fmt.Sprintf(format, args...)})
	}
	most := 1
	if e.Idempotent || e.Keyed {
		most = b.Attempts
	}
	if runs > most {
		say(Repeated, "%d executions, %d allowed", runs, most)
	}
	if took := e.Took(); took > b.Longest {
		say(Late, "%s beyond what was asked, %s allowed", took, b.Longest)
	}
	given := e.answered()
	if len(given) > 1 {
		say(AnsweredTwice, "%d answers", len(given))
	}
	if len(given) == 0 && !e.Left() {
		say(Unanswered, "%v", e.Answers)
	}
	for _, a := range given {
		if a.Fault == nil {
			auditSuccess(e, a, runs, known, say)
		} else if !e.Left() {
			auditFault(e, a.Fault, runs, d, say)
		}
	}
	return found
}

type sayer func(r Rule, format string, args ...any)

func auditSuccess(e Entry, a caller.Answer, runs int, known map[string]bool, say sayer) {
	var data struct {
		Nonce   string `json:"nonce"`
		Payload string `json:"payload"`
	}
	err := json.Unmarshal(a.Data, &data)
	switch {
	case err != nil:
		say(Altered, "no JSON object: %.200s", a.Data)
	case data.Nonce != e.Nonce && known[data.Nonce]:
		say(Crossed, "the answer to %s", data.Nonce)
	case data.Nonce != e.Nonce:
		say(Altered, "the nonce is %q", data.Nonce)
	case data.Payload != e.Payload:
		say(Altered, "%d characters of payload, want %d", len(data.Payload), len(e.Payload))
	}
	if a.ID != "" && a.ID != `"`+e.Nonce+`"` {
		say(Crossed, "the answer's id is %s", a.ID)
	}
	if runs == 0 {
		say(Invented, "a success without an execution")
	}
}

func auditFault(e Entry, f *caller.Fault, runs int, d Disturbance, say sayer) {
	if !d.hits(e) {
		say(WrongCode, "a failure outside of the fault's time, sent %v from its beginning, %v beyond the %v asked, %d executions: %v",
			e.Sent.Sub(d.From), e.Took(), e.Asked, runs, f)
		return
	}
	if !slices.Contains(d.Codes, f.Code) {
		say(WrongCode, "%v; allowed are %v", f, d.Codes)
	}
	if f.Code == Unavailable && runs > 0 {
		say(Untrue, "%s, but the backend ran it %d times", f.Code, runs)
	}
	if f.Data == nil || e.Keyed {
		return // RPC edges have details in its place; a key is not known to the tool
	}
	var data struct {
		Retryable bool `json:"retryable"`
	}
	if err := json.Unmarshal(f.Data, &data); err != nil {
		say(Altered, "the error's data: %v", err)
		return
	}
	if want := f.Code == Unavailable || e.Idempotent; data.Retryable != want {
		say(WrongRetryable, "%s is retryable: %t, want %t", f.Code, data.Retryable, want)
	}
}
