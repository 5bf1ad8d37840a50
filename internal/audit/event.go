// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"net/netip"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/redact"
)

// Phase says which of the lines of an invocation a line is.
type Phase string

// The phases. PhaseTask is the end of a call that ran on as a task, after the PhaseEnd in
// which the caller got the task.
const (
	PhaseBegin  Phase = "begin"
	PhaseEnd    Phase = "end"
	PhaseTask   Phase = "task"
	PhaseChange Phase = "change"
)

// Decision is what the policy said about an invocation. The empty one is null in a line:
// the invocation ended before there was a decision, for example because there is no such
// tool.
type Decision string

// The decisions. Asked is set if the user was asked for consent, and Consented if the
// user gave it.
const (
	Allowed   Decision = "allowed"
	Denied    Decision = "denied"
	Asked     Decision = "asked"
	Consented Decision = "consented"
)

// Caller is who asked.
type Caller struct {
	// Name is the name of the caller. Subject and Issuer identify it together with Source,
	// which says how it was identified. ClientID is the OAuth client. All are empty for a
	// caller without authentication.
	Name, Subject, Issuer, ClientID, Source string
	// Address is the address of its connection, "stdio", or the part of the process that
	// asked.
	Address string
}

// Event is one invocation. Begin and End do not keep its bytes.
type Event struct {
	// ID is that of all lines of the invocation, of [Trail.NewID].
	ID     ID
	Caller Caller
	// Edge, Route and Era say how the request came in, and Operation what it asked for.
	Edge, Route, Era, Operation string
	// Tool is the canonical name of the tool; Version, Fingerprint and Destructive belong to
	// it. Target is what else is named: the URI of a resource, the name of a prompt, the id
	// of a task, or the name of a tool that does not exist.
	Tool, Target, Version, Fingerprint string
	Destructive                        bool
	// Trust is the caller's permission to run destructive tools.
	Trust    string
	Decision Decision
	// Rule is the name of the rule that decided.
	Rule string
	// Code is the canonical code of the error, "OK" without one. Outcome is what the caller
	// got: result, error, input_required, task or cancelled.
	Code, Outcome string
	// Cause is why, if the code alone does not say it: what the caller is not told.
	Cause    string
	Duration time.Duration
	// RequestID is the id of the request as JSON, and TraceID that of the trace.
	RequestID []byte
	TraceID   string
	// BytesIn and BytesOut are the sizes of arguments and result; of a stream, of all its messages.
	BytesIn, BytesOut int
	// Arguments and Result are recorded if payloads are, both as JSON.
	Arguments, Result Payload

	// hasBegun: the first of two lines was written.
	hasBegun bool
}

// Payload is JSON and what is secret in it.
type Payload struct {
	JSON []byte
	// Size is the size of the payload where JSON lacks it because it is too large; 0 means
	// the length of JSON.
	Size   int
	Secret *redact.Message
}

// Change is a change by an operator, or of a file.
type Change struct {
	// Kind is what changed: trust, registration, drain, refresh, configuration, callers,
	// certificates, keys or another word in snake case.
	Kind string
	// Who asked for the change. For a change of a file, Name is "file".
	Who Caller
	// Tool is the tool that the change is about, empty if it is about none.
	Tool string
	// Before and After are the states, where there are two.
	Before, After string
	// Code is the canonical code if the change was refused, empty otherwise.
	Code string
	// Detail says more, for people. It must not have secrets.
	Detail string
}

// OfFile is the Who of a change of a file.
func OfFile() Caller { return Caller{Name: "file"} }

// OfOperator is the Who of a change over the admin listener: by the name of the operator,
// or by the address of one that did not authenticate.
func OfOperator(who string) Caller {
	if _, err := netip.ParseAddrPort(who); err == nil {
		return Caller{Name: "operator", Address: who}
	}
	return Caller{Name: who}
}

// OfProcess is the Who of a change by the process itself, such as a drain after a signal.
func OfProcess() Caller { return Caller{Name: "process"} }
