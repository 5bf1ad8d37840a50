// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"strings"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// cause is when a call of a tool is answered with a canonical code.
type cause struct {
	code errmap.Code
	when string
	// only is nil where every tool can be answered with it.
	only func(*catalog.Tool) bool
}

// causes are the codes that concern a call of one tool, in the order of the table. Those that concern the message, the
// connection or another method are not among them.
func causes(o Options) []cause {
	return []cause{
		{errmap.InvalidToolInput, "The arguments violate the input schema or its rules; `violations` lists where.", nil},
		{errmap.ToolNotFound, "The name is not (or no longer) a tool's, or no version satisfies the call.", nil},
		{errmap.InternalError, "The sidecar failed; its log has the cause.", nil},
		{errmap.MissingClientCapability, "The tool runs only as a task, and the client did not declare support for tasks.", func(t *catalog.Tool) bool {
			return t.TaskSupport == "required"
		}},
		{errmap.Unauthenticated, "The sidecar requires credentials, and the caller has no valid ones.", nil},
		{errmap.PermissionDenied, "The caller is authenticated, but may not call this tool.", nil},
		{errmap.DestructiveBlocked, "The gate blocks the tool, and the caller is not trusted.", o.holds},
		{errmap.RateLimited, "The caller or the tool exceeds its rate limit; `retryAfterMs` is the time to wait.", nil},
		{errmap.ResourceExhausted, "The result exceeds its limit.", nil},
		{errmap.PayloadTooLarge, "The request exceeds its limit.", nil},
		{errmap.Timeout, "The call timed out. It may or may not have taken effect.", nil},
		{errmap.Cancelled, "The caller cancelled the call. The MCP dialects send nothing.", nil},
		{errmap.Unavailable, "The tool service is unreachable, or the sidecar sheds load or drains. The tool did not run.", nil},
		{errmap.TransportError, "The connection broke during the call. It may or may not have taken effect.", nil},
		{errmap.InvalidToolOutput, "The tool service's response violates its own schema.", nil},
		{errmap.SerializationError, "A message could not be encoded or decoded.", nil},
		{errmap.ToolExecutionFailed, "The tool service returned an error; `backendCode` is its code.", nil},
	}
}

// status is one of the statuses that a tool service answers with.
type status struct{ code, when string }

// statuses are the codes of gRPC and Connect that a service answers with; the texts follow the gRPC status code guide.
func statuses() []status {
	return []status{
		{"invalid_argument", "The arguments are invalid, regardless of the state of the system."},
		{"failed_precondition", "The system is not in the required state for the call."},
		{"out_of_range", "The call is outside the currently valid range."},
		{"not_found", "Something that the call refers to does not exist."},
		{"already_exists", "Something that the call should create already exists."},
		{"aborted", "The call conflicted with another one."},
		{"permission_denied", "The service does not permit this to the sidecar."},
		{"unauthenticated", "The service does not accept the sidecar's credentials."},
		{"resource_exhausted", "A quota of the service is used up."},
		{"unavailable", "The service cannot answer now."},
		{"deadline_exceeded", "The service timed out."},
		{"canceled", "The service cancelled the call."},
		{"unimplemented", "The service does not have the method."},
		{"internal", "The service failed."},
		{"data_loss", "The service lost data."},
		{"unknown", "The service failed without details."},
	}
}

// statusesOf are the statuses that a tool declares; all where it declares none.
func statusesOf(t *catalog.Tool) []status {
	if len(t.Errors) == 0 {
		return statuses()
	}
	out := make([]status, 0, len(t.Errors))
	for _, e := range t.Errors {
		code := strings.ToLower(e.Status)
		if code == "cancelled" {
			code = "canceled" // Connect and gRPC spell it differently; backendCode is Connect's.
		}
		out = append(out, status{code, e.When})
	}
	return out
}

func errorsOf(t *catalog.Tool, o Options) Errors {
	out := Errors{Canonical: []Failure{}, Own: []Failure{}}
	again := isRepeatable(t)
	for _, c := range causes(o) {
		row, err := errmap.Lookup(c.code)
		if err != nil || c.only != nil && !c.only(t) {
			continue // Each code is in the table: a test walks them.
		}
		out.Canonical = append(out.Canonical, Failure{
			Code: string(c.code), ErrorType: row.ErrorType, HTTP: row.HTTP, JSONRPC: row.JSONRPC,
			Retryable: errmap.New(c.code).CanRetry(again), When: c.when,
		})
	}
	row, _ := errmap.Lookup(errmap.ToolExecutionFailed) // In the table, see above.
	for _, s := range statusesOf(t) {
		e := errmap.New(errmap.ToolExecutionFailed)
		e.BackendCode = s.code
		out.Own = append(out.Own, Failure{
			Code: s.code, ErrorType: e.Type(), HTTP: e.HTTPStatus(), JSONRPC: row.JSONRPC, Retryable: e.CanRetry(again), When: s.when,
		})
	}
	return out
}

// isRepeatable reports whether a second run changes nothing more, as the pipeline decides it: a tool that only reads is
// repeatable, unless it says otherwise.
func isRepeatable(t *catalog.Tool) bool {
	if hint := t.Annotations.Idempotent; hint != nil {
		return *hint
	}
	return t.Annotations.ReadOnly != nil && *t.Annotations.ReadOnly
}

func idempotencyOf(t *catalog.Tool) Idempotency {
	readsOnly := t.Annotations.ReadOnly != nil && *t.Annotations.ReadOnly
	switch {
	case readsOnly && isRepeatable(t):
		return Idempotency{"no_side_effects", "A call changes nothing, so it can be retried freely."}
	case isRepeatable(t):
		return Idempotency{"idempotent", "A second call with the same arguments changes nothing more, so a call with an unknown outcome can be retried."}
	case t.Annotations.Idempotent != nil:
		return Idempotency{"not_idempotent", "A second call with the same arguments takes effect again. Do not retry a call with an unknown outcome (" + unknownOutcome() + ")."}
	}
	return Idempotency{"unknown", "Idempotency is not declared. Do not retry a call with an unknown outcome (" + unknownOutcome() + ")."}
}

// unknownOutcome names the codes after which a tool may or may not have run.
func unknownOutcome() string {
	return strings.Join([]string{string(errmap.Timeout), string(errmap.TransportError)}, ", ")
}
