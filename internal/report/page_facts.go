// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// The sections, as Gap.Section names them.
const (
	sectionPurpose     = "purpose"
	sectionInvocation  = "invocation"
	sectionInput       = "input"
	sectionOutput      = "output"
	sectionErrors      = "errors"
	sectionIdempotency = "idempotency"
	sectionExamples    = "examples"
	sectionSecurity    = "security"
)

// gaps names what is missing on a page. What a section says by default is not missing.
func gaps(t *catalog.Tool, p *Page) []Gap {
	out := []Gap{}
	add := func(section, format string, args ...any) {
		out = append(out, Gap{section, fmt.Sprintf(format, args...)})
	}
	if method := t.Method.Descriptor; !t.Native && method.ParentFile().SourceLocations().Len() == 0 {
		add(sectionPurpose, "the descriptors have no comments; build them with source information (`buf build -o`, `protoc --include_source_info`)")
	}
	if t.Undescribed {
		add(sectionPurpose, "no description is declared; comment the method, or set (outrigger.v1.tool).description")
	}
	for _, s := range [...]struct {
		section string
		side    Side
	}{{sectionInput, p.Input}, {sectionOutput, p.Output}} {
		if s.section == sectionOutput && t.Streams() {
			continue // its members are the sidecar's own
		}
		if names := undescribed(s.side.Fields); len(names) > 0 {
			add(s.section, "no description is declared for %s; comment the fields", strings.Join(names, ", "))
		}
	}
	if !t.HasOutput() && !t.IsDocument() {
		add(sectionOutput, "no output schema is declared, so the result is not guaranteed")
	}
	if len(t.Errors) == 0 {
		add(sectionErrors, "the statuses that the tool returns are not declared; add them with (outrigger.v1.tool).errors")
	}
	if p.Idempotency.Level == "unknown" {
		add(sectionIdempotency, "whether a call can be retried is not declared; set idempotency_level, or (outrigger.v1.tool).idempotent")
	}
	if len(p.Examples) == 0 {
		add(sectionExamples, "no examples are declared; add them with (outrigger.v1.tool).examples")
	}
	for _, e := range p.Examples {
		if len(e.Data) == 0 && e.Status == "" {
			add(sectionExamples, "the example %q has no result; add its data_json, or its failure status", e.Name)
		}
	}
	readsOnly := t.Annotations.ReadOnly != nil && *t.Annotations.ReadOnly
	switch {
	case t.Verb != "":
		add(sectionSecurity, "whether it is destructive is not declared, so its name decides (%s); set (outrigger.v1.tool).destructive", t.Verb)
	case !t.Metadata.Destructive && t.Annotations.Destructive == nil && !readsOnly:
		add(sectionSecurity, "whether it is destructive is not declared, so clients assume that it is; set (outrigger.v1.tool).destructive")
	}
	if t.Annotations.OpenWorld == nil {
		add(sectionSecurity, "whether it interacts with systems outside the service is not declared, so clients assume that it does; set (outrigger.v1.tool).open_world")
	}
	return out
}

func undescribed(fields []Field) []string {
	var names []string
	for _, f := range fields {
		if f.Description == "" {
			names = append(names, f.Name)
		}
	}
	return names
}

// holds reports whether the gate holds the tool back.
func (o PageOptions) holds(t *catalog.Tool) bool {
	if o.Held == nil {
		return t.Metadata.Destructive
	}
	return o.Held(t)
}

func securityOf(t *catalog.Tool, o PageOptions) Security {
	s := Security{Destructive: t.Metadata.Destructive, Trust: "none", TrustNow: o.Trust, Limits: limitsOf(t, o)}
	if o.holds(t) {
		s.Trust = "trusted"
	}
	// MCP's defaults: a tool that says nothing may write, destroy, do so again, and reach outside.
	for _, h := range [...]struct {
		name      string
		said      *bool
		byDefault bool
	}{
		{"readOnlyHint", t.Annotations.ReadOnly, false},
		{"destructiveHint", t.Annotations.Destructive, true},
		{"idempotentHint", t.Annotations.Idempotent, false},
		{"openWorldHint", t.Annotations.OpenWorld, true},
	} {
		hint := Hint{Name: h.name, Value: h.byDefault, Declared: h.said != nil}
		if h.said != nil {
			hint.Value = *h.said
		}
		s.Hints = append(s.Hints, hint)
	}
	s.Sensitive = nonNil(sensitiveFields(t.Method.Descriptor))
	return s
}

func limitsOf(t *catalog.Tool, o PageOptions) []Limit {
	limits := []Limit{}
	switch {
	case t.Timeout > 0:
		limits = append(limits, Limit{"timeout", t.Timeout.String()})
	case o.Timeout > 0:
		limits = append(limits, Limit{"timeout", o.Timeout.String()})
	}
	for _, l := range [...]struct {
		name  string
		value int
		unit  string
	}{
		{"request", o.MaxMessageBytes, " bytes"},
		{"nesting of a request", o.MaxDepth, " levels"},
		{"result", o.MaxResultBytes, " bytes"},
	} {
		if l.value > 0 {
			limits = append(limits, Limit{l.name, strconv.Itoa(l.value) + l.unit})
		}
	}
	for _, r := range [...]struct {
		name string
		rate float64
	}{{"calls of one caller", o.CallerRate}, {"calls of this tool", o.ToolRate}} {
		if r.rate > 0 {
			limits = append(limits, Limit{r.name, strconv.FormatFloat(r.rate, 'g', -1, 64) + " a second"})
		}
	}
	return limits
}

// maxMessages bounds the walk through a method's messages. The largest API known, with all that it refers to, has some
// thousand.
const maxMessages = 5_000

// sensitiveFields are the full names of the fields, of the request and the response and whatever they hold, that are
// marked debug_redact. Sorted.
func sensitiveFields(md protoreflect.MethodDescriptor) []string {
	var out []string
	queue := []protoreflect.MessageDescriptor{md.Input(), md.Output()}
	seen := map[protoreflect.FullName]bool{}
	for len(queue) > 0 && len(seen) < maxMessages {
		m := queue[0]
		queue = queue[1:]
		if seen[m.FullName()] {
			continue
		}
		seen[m.FullName()] = true
		for i := range m.Fields().Len() {
			fd := m.Fields().Get(i)
			if options, ok := fd.Options().(*descriptorpb.FieldOptions); ok && options.GetDebugRedact() {
				out = append(out, string(fd.FullName()))
			}
			if inner := fd.Message(); inner != nil {
				queue = append(queue, inner)
			}
		}
	}
	slices.Sort(out)
	return out
}

// cause is when a call of a tool is answered with a canonical code.
type cause struct {
	code errmap.Code
	when string
	// only is nil where every tool can be answered with it.
	only func(*catalog.Tool) bool
}

// causes are the codes that concern a call of one tool, in the order of the table. Those that concern the message, the
// connection or another method are not among them.
func causes(o PageOptions) []cause {
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
		{errmap.ApprovalRequired, "A policy rule has others approve the call first; the same call runs once they have.", nil},
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

func errorsOf(t *catalog.Tool, o PageOptions) Errors {
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
