// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/longrunning"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source/shown"
	"github.com/outrigger-mcp/outrigger/internal/source/wire"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// operation makes a tool of one that starts operations, where its method says so.
func (b *builder) operation(t *Tool, options []byte) error {
	md := t.Method.Descriptor
	info, err := operationInfo(options, b.linked)
	if err != nil {
		return err
	}
	if !startsOperation(md) {
		if info != nil {
			b.warn(t.Subject(), fmt.Sprintf("its option (google.longrunning.operation_info) is ignored, because the method does not return %s", longrunning.OperationMessage))
		}
		return nil
	}
	op := &Operation{}
	op.Get, op.Wait, op.Cancel = operationsMethod(md, t.Method.Source, "GetOperation"), operationsMethod(md, t.Method.Source, "WaitOperation"),
		operationsMethod(md, t.Method.Source, "CancelOperation")
	response := b.operationMessage(t, "response_type", info[longrunning.InfoResponseType])
	if op.Response, err = b.bind.operationValue(response); err != nil {
		return err
	}
	if op.Metadata, err = b.bind.operationValue(b.operationMessage(t, "metadata_type", info[longrunning.InfoMetadataType])); err != nil {
		return err
	}
	t.Operation = op
	if response == nil {
		t.Output, t.OutputNotObject = schema.Fixed(&schema.Schema{}), false
	} else {
		t.Output = b.bind.operationSchema(response)
		t.OutputNotObject = t.Output.Wrapped
	}
	t.print = newFingerprint(t.Input, t.Output)
	return nil
}

// startsOperation reports whether a method returns an operation that it has begun. The methods that return one that is known
// already do not.
func startsOperation(md protoreflect.MethodDescriptor) bool {
	if md.IsStreamingClient() || md.IsStreamingServer() || md.Output().FullName() != longrunning.OperationMessage {
		return false
	}
	switch md.Input().FullName() {
	case "google.longrunning.GetOperationRequest", "google.longrunning.WaitOperationRequest":
		return false
	}
	return true
}

// operationInfo reads the option operation_info of a method: its fields by their numbers, nil where it is not set. Its number is
// taken for that option only where the descriptors define it so.
func operationInfo(options []byte, linked *linker) (map[protowire.Number]string, error) {
	if !definesOption(linked.registry, longrunning.InfoOption, longrunning.InfoField) {
		return nil, nil
	}
	var info map[protowire.Number]string
	err := wire.EachBytes(options, longrunning.InfoField, func(body []byte) error {
		if info == nil {
			info = map[protowire.Number]string{}
		}
		return wire.EachField(body, func(number protowire.Number, value []byte) error {
			info[number] = string(value)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read option (%s): %w", longrunning.InfoOption, err)
	}
	return info, nil
}

// operationMessage is the message that an option of a method names; nil where it names none, or none that is known. A name is
// looked for in the method's package, then in those around it, then as a full name.
func (b *builder) operationMessage(t *Tool, option, name string) protoreflect.MessageDescriptor {
	if name == "" {
		return nil
	}
	scope := t.Method.Descriptor.ParentFile().Package()
	if full, isFull := strings.CutPrefix(name, "."); isFull {
		name, scope = full, ""
	}
	for {
		full := protoreflect.FullName(name)
		if scope != "" {
			full = scope + "." + full
		}
		if full.IsValid() {
			if mt, err := b.types.FindMessageByName(full); err == nil {
				return mt.Descriptor()
			}
		}
		if scope == "" {
			break
		}
		scope = scope.Parent()
	}
	b.warn(t.Subject(), fmt.Sprintf("the %s %q of its operation is not in the descriptors, so the value has no schema and is shown with its type", option, name))
	return nil
}

// operationsMethod is an RPC of google.longrunning.Operations, which is in the file of the message Operation.
func operationsMethod(md protoreflect.MethodDescriptor, source string, name protoreflect.Name) *Method {
	m := &Method{Procedure: "/" + longrunning.OperationsService + "/" + string(name), Service: longrunning.OperationsService, Source: source}
	if service := md.Output().ParentFile().Services().ByName("Operations"); service != nil {
		m.Descriptor = service.Methods().ByName(name)
	}
	return m
}

func (b *binder) operationValue(md protoreflect.MessageDescriptor) (*OperationValue, error) {
	if md == nil {
		return nil, nil //nolint:nilnil // as there is no such value
	}
	out, err := b.message(md)
	if err != nil {
		return nil, fmt.Errorf("transcoder of %s: %w", md.FullName(), err)
	}
	return &OperationValue{Name: md.FullName(), Out: out}, nil
}

// operationSchema is the schema of what a call returns that starts an operation: the response, or OperationProperty while there
// is none. So no field is required.
func (b *binder) operationSchema(md protoreflect.MessageDescriptor) *schema.Lazy {
	response := b.schema(md, schema.Output)
	digest := b.digests.of(md, operated, byte(b.profile))
	return schema.DeferAs(func(part schema.Part, sight *schema.Sight) *schema.Schema {
		response := response.Seen(sight, "", nil)
		out := &schema.Schema{Wrapped: response.Wrapped}
		if part&schema.PartAdvertised != 0 {
			out.Advertised = pendingSchema(response.Advertised())
		}
		if part&schema.PartCanonical != 0 {
			out.Canonical, out.Warnings = response.Canonical(), response.Warnings()
			if !response.Wrapped {
				out.Canonical = pendingSchema(out.Canonical)
			}
		}
		return out
	}, response.Wrapped, sha256.Sum256(append(digest[:], pendingProperty...)), b.room)
}

// operated represents the direction of an operation's schema in digests.
const operated = 3

// pendingProperty describes an operation that has not ended.
const pendingProperty = `{"type":"object","description":"Present instead of all else while the operation is still running. Go on with it by its handle.",` +
	`"properties":{"done":{"type":"boolean"},"handle":{"type":"string"},"status_message":{"type":"string"},"progress_percent":{"type":"number"},"metadata":{"type":"object"}}}`

// pendingSchema adds OperationProperty to the schema of an object, and requires nothing any more.
func pendingSchema(object []byte) []byte {
	var out []byte
	isOpen := true
	for keyword, value := range jsontext.Members(object) {
		switch keyword {
		case "required":
			continue
		case "properties":
			isOpen = false
			value = withMember(value, OperationProperty, []byte(pendingProperty))
		}
		out = appendMember(out, keyword, value)
	}
	if isOpen {
		out = appendMember(out, "properties", withMember([]byte(jsontext.EmptyObject), OperationProperty, []byte(pendingProperty)))
	}
	return append(append([]byte{'{'}, out...), '}')
}

// withMember is a compact object with one more member.
func withMember(object []byte, name string, value []byte) []byte {
	out := bytes.TrimSuffix(bytes.Clone(object), []byte{'}'})
	if len(out) > len("{") {
		out = append(out, ',')
	}
	return append(append(append(jsontext.AppendString(out, name), ':'), value...), '}')
}

// Operation is what a tool has whose RPC starts a long-running operation (AIP-151). It is immutable.
type Operation struct {
	// Response and Metadata are the messages that the operation ends with and that report its progress. Nil if the method
	// does not declare the type, or if the descriptors lack it: then values are written as an Any, with their type.
	Response, Metadata *OperationValue
	// Get, Wait and Cancel are the RPCs of google.longrunning.Operations by which the operation is followed.
	Get, Wait, Cancel *Method
	// GetTool and CancelTool are the tools by which callers go on with it; nil where there are none.
	GetTool, CancelTool *Tool
}

// OperationValue is a message that an operation has in an Any.
type OperationValue struct {
	Name protoreflect.FullName
	Out  *transcode.Message
}

// OperationProperty is the member of a result that represents an operation that has not ended. No field has this name in
// JSON, unless somebody chose it.
const OperationProperty = "outrigger_operation"

// Continuation is what a tool of the sidecar's own does with an operation.
type Continuation uint8

const (
	// NoContinuation is that of all other tools.
	NoContinuation Continuation = iota
	// GetOperation waits for an operation, and returns what it ends with.
	GetOperation
	// CancelOperation asks the backend to end an operation.
	CancelOperation
)

// HandleArgument is the one argument of these tools.
const HandleArgument = "handle"

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
		b.unselect(id)
		return nil
	case schemas.isForRPC():
		b.problems = append(b.problems, Problem{id, "overlay: the sidecar runs it, so its schemas cannot be others, and it is no source of resources"})
		return nil
	case !IsCanonicalName(t.Name) || len(t.Name) > b.limits.MaxNameBytes:
		fault = fmt.Sprintf("its canonical name would be %q; the limit is %d bytes", t.Name, b.limits.MaxNameBytes)
	case taken[t.Name] || taken[t.MCPName]:
		fault = fmt.Sprintf("another tool has the name %s; set another one in the overlay (match: %s)", t.Name, id)
	}
	if fault == "" {
		if err := b.rules.checkOptions(options); err != nil {
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
