// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/wire"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/longrunning"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// operation makes a tool of one that starts operations, where its method says so.
func (b *builder) operation(t *Tool) error {
	md := t.Method.Descriptor
	info, err := operationInfo(md, b.linked)
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
func operationInfo(md protoreflect.MethodDescriptor, linked *linker) (map[protowire.Number]string, error) {
	options, ok := md.Options().(*descriptorpb.MethodOptions)
	if !ok || options == nil || !definesInfo(linked) {
		return nil, nil
	}
	raw, err := proto.Marshal(options)
	if err != nil {
		return nil, fmt.Errorf("read options: %w", err)
	}
	var info map[protowire.Number]string
	err = wire.EachBytes(raw, longrunning.InfoField, func(body []byte) error {
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

func definesInfo(linked *linker) bool {
	d, err := linked.registry.FindDescriptorByName(longrunning.InfoOption)
	if err != nil {
		return false
	}
	field, ok := d.(protoreflect.FieldDescriptor)
	return ok && field.IsExtension() && field.Number() == longrunning.InfoField && field.ContainingMessage().FullName() == "google.protobuf.MethodOptions"
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

// operationsMethod is an RPC of google.longrunning.Operations, which stands in the file of the message Operation.
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
	return schema.DeferAs(func(part schema.Part) *schema.Schema {
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

// operated stands for the direction of an operation's schema in digests.
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
