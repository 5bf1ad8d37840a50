// SPDX-License-Identifier: Apache-2.0

// Package spantree reads exported spans and draws the tree of one trace: who called whom, and where the time went.
//
// It reads OTLP's JSON. Trees are not changed after they were made.
package spantree

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Span is a span of a trace.
type Span struct {
	Trace, ID, Parent   string
	Name, Kind, Service string
	Start, End          time.Time
	Failed              bool
	Attributes          map[string]string
	Links               int
	// Depth is the number of spans above it in the tree.
	Depth int
}

// Trace is the spans of one trace, parents before their children, children in the order of their start.
type Trace []Span

// Services are the services of a trace in the order of the tree.
func (t Trace) Services() []string {
	var out []string
	for _, s := range t {
		if !slices.Contains(out, s.Service) {
			out = append(out, s.Service)
		}
	}
	return out
}

// maxDepth bounds the depth of a tree: a circle of parents must not recurse without end.
const maxDepth = 64

// Read reads requests in OTLP's JSON and returns their traces by id.
func Read(requests [][]byte) (map[string]Trace, error) {
	spans := map[string][]Span{}
	for _, request := range requests {
		traces, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(request)
		if err != nil {
			return nil, fmt.Errorf("read spans: %w", err)
		}
		for _, s := range flat(traces) {
			spans[s.Trace] = append(spans[s.Trace], s)
		}
	}
	out := map[string]Trace{}
	for id, all := range spans {
		out[id] = treeOf(all)
	}
	return out, nil
}

func flat(traces ptrace.Traces) []Span {
	var out []Span
	for _, resource := range traces.ResourceSpans().All() {
		service := "unknown"
		if name, ok := resource.Resource().Attributes().Get("service.name"); ok {
			service = name.AsString()
		}
		for _, scope := range resource.ScopeSpans().All() {
			for _, s := range scope.Spans().All() {
				out = append(out, Span{
					Trace: s.TraceID().String(), ID: s.SpanID().String(), Parent: s.ParentSpanID().String(),
					Name: s.Name(), Kind: s.Kind().String(), Service: service,
					Start: s.StartTimestamp().AsTime(), End: s.EndTimestamp().AsTime(),
					Failed: s.Status().Code() == ptrace.StatusCodeError, Attributes: textOf(s.Attributes()), Links: s.Links().Len(),
				})
			}
		}
	}
	return out
}

func textOf(attributes pcommon.Map) map[string]string {
	out := map[string]string{}
	for name, value := range attributes.All() {
		out[name] = value.AsString()
	}
	return out
}

// treeOf puts spans into the order of their tree. Spans whose parent is not there are roots.
func treeOf(spans []Span) Trace {
	here := map[string]bool{}
	for _, s := range spans {
		here[s.ID] = true
	}
	children := map[string][]Span{}
	for _, s := range spans {
		parent := s.Parent
		if !here[parent] {
			parent = ""
		}
		children[parent] = append(children[parent], s)
	}
	var out Trace
	var add func(parent string, depth int)
	add = func(parent string, depth int) {
		below := children[parent]
		slices.SortStableFunc(below, func(a, b Span) int { return cmp.Compare(a.Start.UnixNano(), b.Start.UnixNano()) })
		for _, s := range below {
			s.Depth = depth
			out = append(out, s)
			if depth < maxDepth {
				add(s.ID, depth+1)
			}
		}
	}
	add("", 0)
	return out
}

// Best returns the trace that shows most: the most services, then a root whose name contains prefer, then the most spans
// up to a number that fits a picture, then the first by id, so that a choice does not depend on the order of a map.
func Best(traces map[string]Trace, prefer string) (Trace, bool) {
	const fits = 16
	rank := func(t Trace) []int {
		preferred := 0
		if strings.Contains(t[0].Name, prefer) {
			preferred = 1
		}
		n := len(t)
		if n > fits {
			n = 0
		}
		return []int{len(t.Services()), preferred, n}
	}
	var best Trace
	for _, t := range traces {
		if len(t) == 0 {
			continue
		}
		if best == nil || cmp.Or(slices.Compare(rank(t), rank(best)), cmp.Compare(best[0].Trace, t[0].Trace)) > 0 {
			best = t
		}
	}
	return best, best != nil
}
