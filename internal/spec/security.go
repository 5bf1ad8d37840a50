// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"slices"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// holds reports whether the gate holds the tool back.
func (o Options) holds(t *catalog.Tool) bool {
	if o.Held == nil {
		return t.Metadata.Destructive
	}
	return o.Held(t)
}

func securityOf(t *catalog.Tool, o Options) Security {
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

func limitsOf(t *catalog.Tool, o Options) []Limit {
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
