// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Span is a span as it arrived. Ids are in hexadecimal; a root has the parent "".
type Span struct {
	// Service is service.name of the resource.
	Service string
	// Resource has the other attributes of the resource.
	Resource map[string]string
	// Scope is the instrumentation.
	Scope string

	Name, Kind                 string
	TraceID, ID, Parent, State string
	Attributes                 map[string]string
	Links                      []Link
	Status, Message            string
	Start, End                 time.Time
}

// Link is what a span is linked to.
type Link struct{ TraceID, ID string }

// spansOf copies everything: the library may use its memory again.
func spansOf(td ptrace.Traces) (out []Span) {
	for _, rs := range td.ResourceSpans().All() {
		resource := texts(rs.Resource().Attributes())
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				span := spanOf(s)
				span.Service, span.Resource, span.Scope = resource["service.name"], resource, ss.Scope().Name()
				out = append(out, span)
			}
		}
	}
	return out
}

func spanOf(s ptrace.Span) Span {
	out := Span{
		Name: s.Name(), Kind: s.Kind().String(), TraceID: s.TraceID().String(), ID: s.SpanID().String(),
		Parent: s.ParentSpanID().String(), State: s.TraceState().AsRaw(), Attributes: texts(s.Attributes()),
		Status: s.Status().Code().String(), Message: s.Status().Message(),
		Start: s.StartTimestamp().AsTime(), End: s.EndTimestamp().AsTime(),
	}
	for _, l := range s.Links().All() {
		out.Links = append(out.Links, Link{l.TraceID().String(), l.SpanID().String()})
	}
	return out
}

// texts writes attributes as JSON does, so that the number 1 and the text "1" differ.
func texts(attributes pcommon.Map) map[string]string {
	out := map[string]string{}
	for name, value := range attributes.All() {
		out[name] = value.AsString()
		if value.Type() != pcommon.ValueTypeStr {
			out[name] += " (" + value.Type().String() + ")"
		}
	}
	return out
}
