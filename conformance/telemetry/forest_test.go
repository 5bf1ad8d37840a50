// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/outrigger-mcp/outrigger/conformance/telemetry/collector"
	"github.com/outrigger-mcp/outrigger/conformance/telemetry/service"
)

// forest writes spans as people read them: each under its parent, in the order in which they began.
type forest struct {
	spans []collector.Span
	byID  map[string]collector.Span
	// names of traces that callers began
	traces map[string]string
}

// isIncidental holds for steps of the sidecar that have spans only where they took long, which is not the same in each run.
// People take long to answer, and tasks are tasks.
func isIncidental(s collector.Span) bool {
	return s.Service == serviceName && s.Kind == "Internal" && s.Name != "outrigger.ask_user" && s.Name != "outrigger.task"
}

func newForest(spans []collector.Span) *forest {
	f := &forest{byID: map[string]collector.Span{}, traces: map[string]string{}}
	for _, s := range spans {
		f.byID[s.ID] = s
		if !isIncidental(s) {
			f.spans = append(f.spans, s)
		}
	}
	slices.SortStableFunc(f.spans, func(a, b collector.Span) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.ID, b.ID))
	})
	return f
}

// of writes the traces with the ids of an origin.
func (f *forest) of(o origin) string {
	var b strings.Builder
	for _, s := range f.spans {
		if _, ok := f.byID[s.Parent]; !ok && (s.TraceID == o.message || s.TraceID == o.connection) {
			f.write(&b, s, 0)
		}
	}
	if b.Len() == 0 {
		return "no span\n"
	}
	return b.String()
}

// rest writes the traces that no one knows.
func (f *forest) rest() string {
	var b strings.Builder
	for _, s := range f.spans {
		if _, known := f.traces[s.TraceID]; !known && s.Parent == "" {
			f.write(&b, s, 0)
		}
	}
	return b.String()
}

func (f *forest) write(b *strings.Builder, s collector.Span, depth int) {
	indent := strings.Repeat("    ", depth)
	fmt.Fprintf(b, "%s%s %s", indent, s.Kind, s.Name)
	if s.Service != serviceName {
		fmt.Fprintf(b, " (%s)", s.Service)
	}
	if depth == 0 {
		b.WriteString(", " + f.parent(s))
	}
	if s.Status != "Unset" && s.Service == serviceName {
		fmt.Fprintf(b, ", status %s %q", s.Status, normal(s.Message))
	}
	b.WriteString("\n")
	if s.Service != service.Name { // what another library tells is its own matter
		for _, name := range slices.Sorted(maps.Keys(s.Attributes)) {
			fmt.Fprintf(b, "%s  %s = %s\n", indent, name, attribute(name, s.Attributes[name]))
		}
		for _, l := range s.Links {
			fmt.Fprintf(b, "%s  link to %s\n", indent, f.target(l))
		}
	}
	for _, child := range f.spans {
		if child.Parent == s.ID {
			f.write(b, child, depth+1)
		}
	}
}

// parent describes where a span that is alone belongs.
func (f *forest) parent(s collector.Span) string {
	switch s.Parent {
	case "":
		return "root"
	case callerSpan:
		return "child of the message's context"
	case connectionSpan:
		return "child of the headers' context"
	}
	return "child of a span that never came"
}

func (f *forest) target(l collector.Link) string {
	request := f.traces[l.TraceID]
	switch {
	case l.ID == callerSpan:
		return "the message's context of " + request
	case l.ID == connectionSpan:
		return "the headers' context of " + request
	}
	if s, ok := f.byID[l.ID]; ok && s.TraceID == l.TraceID {
		return fmt.Sprintf("%s of %s", s.Name, cmp.Or(request, "a root"))
	}
	return "a span that never came"
}

// attribute hides what differs from run to run.
func attribute(name, value string) string {
	switch name {
	case "client.port", "server.port", "network.peer.port":
		return "(port)"
	case "mcp.session.id", "outrigger.queue.wait_us", "process.pid":
		return "(" + name[strings.LastIndexByte(name, '.')+1:] + ")"
	case "exception.message": // which of several signs of one fault is seen first is a matter of time
		if said, _, ok := strings.Cut(value, ": backend: "); ok {
			value = said + ": backend: (cause)"
		}
	case "server.address":
		if strings.HasPrefix(value, "/") {
			return "(path of a socket)"
		}
	}
	return fmt.Sprintf("%q", normal(value))
}
