// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/longrunning"
)

// continuation is a tool to be made for a service with operations.
type continuation struct {
	kind Continuation
	// method is its name beside the RPCs of the service, name that of the tool, other the name where that is taken.
	method, name, other string
	title, description  string
	input, output       string
	isReadOnly          bool
}

const (
	handleSchema = `{"type":"object","properties":{"handle":{"type":"string","minLength":1,"maxLength":4096,` +
		`"description":"The handle of the operation, as the call returned it."}},"required":["handle"],"additionalProperties":false}`
	gotSchema = `{"type":"object","properties":{"done":{"type":"boolean","description":"False: it is still running; call this tool again."},` +
		`"handle":{"type":"string"},"status_message":{"type":"string"},"progress_percent":{"type":"number"},` +
		`"metadata":{"type":"object"},"response":{"type":"object","description":"What the tool that began the operation returns."}},"required":["done"]}`
	cancelledSchema = `{"type":"object","properties":{"cancel_requested":{"type":"boolean"},"handle":{"type":"string"}},"required":["cancel_requested"]}`
)

func continuations() []continuation {
	return []continuation{{
		kind: GetOperation, method: "GetOperation", name: "get_operation", other: "get_running_operation", title: "Get operation",
		description: "Goes on with an operation that was still running when its call returned. " +
			"Waits for it within the time of one call, and returns its result, or that it is still running.",
		input: handleSchema, output: gotSchema, isReadOnly: true,
	}, {
		kind: CancelOperation, method: "CancelOperation", name: "cancel_operation", other: "cancel_running_operation", title: "Cancel operation",
		description: "Asks the service to cancel an operation that is still running. The operation may end in another way all the same; " +
			"get it to see how it ended.",
		input: handleSchema, output: cancelledSchema,
	}}
}

// continueOperations makes the tools by which callers go on with operations, two for each service that has any. Services whose
// tools' names begin alike share them, because the handle says what it is of.
func (b *builder) continueOperations() {
	type group struct {
		service, prefix, alias, source string
		tools                          []*Tool
	}
	groups, order := map[string]*group{}, []string{}
	taken := map[string]bool{}
	for _, t := range b.tools {
		for _, name := range t.names() {
			taken[name] = true
		}
		if t.Operation == nil || t.Hidden {
			continue
		}
		names := b.derivedNames(t.Method.Descriptor)
		prefix := beforeDot(names.name)
		if groups[prefix] == nil {
			groups[prefix] = &group{service: t.Method.Service, prefix: prefix, alias: beforeDot(names.alias), source: t.Method.Source}
			order = append(order, prefix)
		}
		groups[prefix].tools = append(groups[prefix].tools, t)
	}
	slices.Sort(order)
	for _, prefix := range order {
		g := groups[prefix]
		for _, c := range continuations() {
			t := b.continuation(c, g.service, g.prefix, g.alias, g.source, taken)
			if t == nil {
				continue
			}
			for _, of := range g.tools {
				if c.kind == GetOperation {
					of.Operation.GetTool = t
				} else {
					of.Operation.CancelTool = t
				}
			}
		}
	}
}

func beforeDot(name string) string { return name[:max(0, strings.LastIndexByte(name, '.'))] }

// continuation makes one of these tools; nil where a glob or the overlay leaves it out, or where there is no name for it.
func (b *builder) continuation(c continuation, service, prefix, alias, source string, taken map[string]bool) *Tool {
	id := service + "/" + c.method
	name := prefix + "." + c.name
	if taken[name] || taken[MCPName(name)] {
		name, alias = prefix+"."+c.other, ""
	}
	declared := &outriggerv1.Tool{
		Name: MCPName(name), Title: c.title, Description: c.description,
		InputSchemaForm:  &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: []byte(c.input)},
		OutputSchemaForm: &outriggerv1.Tool_OutputSchemaJson{OutputSchemaJson: []byte(c.output)},
		Annotations:      &outriggerv1.ToolAnnotations{ReadOnlyHint: proto.Bool(c.isReadOnly), DestructiveHint: proto.Bool(false), IdempotentHint: proto.Bool(true)},
	}
	t := &Tool{Name: name, MCPName: MCPName(name), Native: true, NativeName: c.name, Continues: c.kind, Method: nativeMethod(source), id: id}
	if alias != "" && !taken[alias+"."+c.name] {
		t.Alias = alias + "." + c.name
	}
	options, schemas, _ := b.overlaid(service, id, t.names(), nativeOptions(declared))
	if options.GetName() != "" {
		t.Name, t.MCPName, t.Alias = options.GetName(), MCPName(options.GetName()), ""
	}
	fault := ""
	switch {
	case b.selection.omits(service, id, append(t.names(), name)...):
		b.unselected++
		return nil
	case schemas.InputSchema != nil || schemas.OutputSchema != nil || schemas.Resource != nil || schemas.Properties != nil:
		b.problems = append(b.problems, Problem{id, "overlay: the sidecar runs it, so its schemas cannot be others, and it is no source of resources"})
		return nil
	case !IsCanonicalName(t.Name) || len(t.Name) > b.limits.MaxNameBytes:
		fault = fmt.Sprintf("its canonical name would be %q; the limit is %d bytes", t.Name, b.limits.MaxNameBytes)
	case taken[t.Name] || taken[t.MCPName]:
		fault = fmt.Sprintf("another tool has the name %s; set another one in the overlay (match: %s)", t.Name, id)
	}
	if fault == "" {
		if err := b.rules.check(options); err != nil {
			b.problems = append(b.problems, Problem{id, "overlay: " + oneLine(err)})
			return nil
		}
		if err := t.declareNative(declared, b.types); err != nil {
			fault = shown.Clip(err.Error())
		}
	}
	if fault != "" {
		b.warn(id, "tool omitted: "+fault)
		return nil
	}
	t.Hidden = options.GetHidden()
	b.describeNative(t, declared, options, service)
	t.TaskUnsaid, t.TaskSupport = false, "forbidden"
	b.tools = append(b.tools, t)
	if t.Hidden {
		return nil
	}
	return t
}

// omits reports whether an exclude glob takes a method away, whatever is included.
func (s *Selection) omits(service, method string, names ...string) bool {
	return s != nil && slices.ContainsFunc(s.exclude, func(g glob) bool { return g.matches(service, method, names...) })
}

// isOperations reports whether the service follows operations, and makes no tools of its own.
func (o offer) isOperations() bool {
	return o.isTyped && o.service.FullName() == longrunning.OperationsService
}

// operationsService keeps the RPCs of google.longrunning.Operations for typed callers: their generated clients follow operations
// by them. Others do by tasks and handles, which are bound to the caller.
func (b *builder) operationsService(of offer) {
	aside := *b // what it appends is of no interest
	aside.before = nil
	methods := of.service.Methods()
	for i := range methods.Len() {
		if t, err := aside.tool(methods.Get(i), of.source); err == nil && t != nil {
			t.isPlain = false
			b.operations = append(b.operations, t)
		}
	}
}

// settleOperation settles what calls of a tool do that starts operations: they may become tasks, unless its options say
// otherwise. The setting for other RPCs is not for these.
func (t *Tool) settleOperation() {
	if t.TaskUnsaid {
		t.TaskSupport, t.TaskUnsaid = "optional", false
	}
}

// HasOperations reports whether a tool that callers see starts operations.
func (c *Catalog) HasOperations() bool {
	return slices.ContainsFunc(c.own.visible, func(t *Tool) bool { return t.Operation != nil })
}
