// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	// maxDetails and maxDetailBytes bound the details that are kept of a backend's error: a handful is usual, and they
	// travel in trailers, where much more than this is refused by proxies. What is over the bound is left out whole.
	maxDetails     = 16
	maxDetailBytes = 32 << 10
	// maxDetailsJSON bounds their rendering: a packed number or an unknown type grows as text.
	maxDetailsJSON = 64 << 10
	// maxDetailDepth bounds the walk through a detail's messages. The details of google.rpc have three levels.
	maxDetailDepth = 32
)

// DetailTypes resolves the types of error details that are not linked into the program; see [Error.ReadDetails].
type DetailTypes interface {
	protoregistry.MessageTypeResolver
	protoregistry.ExtensionTypeResolver
	// AppendJSON appends the JSON of a detail to dst.
	AppendJSON(dst []byte, d *anypb.Any) ([]byte, error)
}

// ReadDetails decodes and redacts the backend's details with these types. Without it, details whose types are not
// linked in are shown as bytes.
func (e *Error) ReadDetails(types DetailTypes) {
	e.types = types
	e.Details = keepDetails(e.Details, types)
}

// unpacked is the message of a detail.
func unpacked(d *anypb.Any, types DetailTypes) (proto.Message, error) {
	m, err := d.UnmarshalNew()
	if err == nil || types == nil || isKnownType(d) {
		return m, err
	}
	return anypb.UnmarshalNew(d, proto.UnmarshalOptions{AllowPartial: true, Resolver: types})
}

// keepDetails returns the details that may leave: within the bounds, without DebugInfo, which holds stack traces, and with
// every string of a known message redacted. A detail in which nothing was redacted keeps its bytes.
func keepDetails(details []*anypb.Any, types DetailTypes) []*anypb.Any {
	var kept []*anypb.Any
	size := 0
	for _, d := range details {
		if d == nil || d.MessageIs((*errdetails.DebugInfo)(nil)) {
			continue
		}
		size += len(d.GetTypeUrl()) + len(d.GetValue())
		if len(kept) == maxDetails || size > maxDetailBytes {
			break
		}
		if d = redactDetail(d, types); d != nil {
			kept = append(kept, d)
		}
	}
	return kept
}

// redactDetail redacts the strings of a detail whose type is known. The bytes of others cannot be read, so they stay.
// It returns nil for a type that is linked in where the bytes are not a message of it.
func redactDetail(d *anypb.Any, types DetailTypes) *anypb.Any {
	if len(d.GetTypeUrl()) > maxNameBytes || cleanLine(d.GetTypeUrl()) != d.GetTypeUrl() {
		return nil
	}
	m, err := unpacked(d, types)
	if err != nil {
		if isKnownType(d) {
			return nil
		}
		return d
	}
	r := redactor{types: types}
	changed := r.message(m.ProtoReflect(), maxDetailDepth)
	if detail, ok := m.(*outriggerv1.ErrorDetail); ok {
		changed = redactErrorDetail(detail) || changed
	}
	if !changed {
		return d
	}
	value, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(m)
	if err != nil {
		return nil
	}
	return &anypb.Any{TypeUrl: d.GetTypeUrl(), Value: value}
}

// redactor redacts the strings of messages.
type redactor struct{ types DetailTypes }

// message redacts the strings of a message in place and reports whether it changed any. Below depth everything is
// dropped. What an Any in it holds is redacted where its type is known.
func (r redactor) message(m protoreflect.Message, depth int) bool {
	if m.Descriptor().FullName() == anyName {
		return r.any(m, depth)
	}
	changed := false
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if r.field(m, fd, v, depth) {
			changed = true
		}
		return true
	})
	return changed
}

func (r redactor) field(m protoreflect.Message, fd protoreflect.FieldDescriptor, v protoreflect.Value, depth int) bool {
	switch {
	case isMarkedSecret(fd):
		m.Clear(fd)
		return true
	case fd.IsMap():
		return r.mapping(v.Map(), fd.MapValue(), depth)
	case fd.IsList():
		return r.list(v.List(), fd, depth)
	case fd.Kind() == protoreflect.StringKind:
		clean, changed := redactPair(string(fd.Name()), v.String())
		if changed {
			m.Set(fd, protoreflect.ValueOfString(clean))
		}
		return changed
	case fd.Message() == nil:
		return false
	case depth <= 0:
		m.Clear(fd)
		return true
	default:
		return r.message(m.Mutable(fd).Message(), depth-1)
	}
}

func (r redactor) list(list protoreflect.List, fd protoreflect.FieldDescriptor, depth int) bool {
	changed := false
	for i := range list.Len() {
		switch {
		case fd.Kind() == protoreflect.StringKind:
			if clean, differs := redactString(list.Get(i).String()); differs {
				list.Set(i, protoreflect.ValueOfString(clean))
				changed = true
			}
		case fd.Message() == nil:
			return changed
		case depth <= 0:
			list.Truncate(0)
			return true
		default:
			changed = r.message(list.Get(i).Message(), depth-1) || changed
		}
	}
	return changed
}

func (r redactor) mapping(entries protoreflect.Map, value protoreflect.FieldDescriptor, depth int) bool {
	changed := false
	entries.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		switch {
		case value.Kind() == protoreflect.StringKind:
			clean, differs := redactPair(k.String(), v.String())
			if differs {
				entries.Set(k, protoreflect.ValueOfString(clean))
				changed = true
			}
		case value.Message() == nil:
		case depth <= 0:
			entries.Clear(k)
			changed = true
		case namesSecret(k.String(), v.Message()):
			entries.Set(k, protoreflect.ValueOfMessage(structpb.NewStringValue(redacted).ProtoReflect()))
			changed = true
		default:
			changed = r.message(v.Message(), depth-1) || changed
		}
		return true
	})
	return changed
}

// anyName is the message that holds any other.
const anyName protoreflect.FullName = "google.protobuf.Any"

func (r redactor) any(m protoreflect.Message, depth int) bool {
	fields := m.Descriptor().Fields()
	url, value := fields.ByName("type_url"), fields.ByName("value")
	if url == nil || value == nil || depth <= 0 {
		return false
	}
	held := &anypb.Any{TypeUrl: m.Get(url).String(), Value: m.Get(value).Bytes()}
	inner, err := unpacked(held, r.types)
	if err != nil || !r.message(inner.ProtoReflect(), depth-1) {
		return false
	}
	clean, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(inner)
	if err != nil {
		clean = nil
	}
	m.Set(value, protoreflect.ValueOfBytes(clean))
	return true
}

// redactPair redacts a map's value with its key, as key=value: ErrorInfo.metadata names secrets that way.
func redactPair(key, value string) (string, bool) {
	if redactPairs(key+"="+value) != key+"="+value {
		return redacted, value != redacted
	}
	return redactString(value)
}

// isMarkedSecret reports whether the field's own option says that it is not for logs.
func isMarkedSecret(fd protoreflect.FieldDescriptor) bool {
	options, ok := fd.Options().(*descriptorpb.FieldOptions)
	return ok && options.GetDebugRedact()
}

// namesSecret reports whether an entry of a google.protobuf.Struct is a string under the name of a secret.
func namesSecret(name string, m protoreflect.Message) bool {
	value, ok := m.Interface().(*structpb.Value)
	if !ok {
		return false
	}
	text, ok := value.GetKind().(*structpb.Value_StringValue)
	if !ok || text.StringValue == redacted {
		return false
	}
	_, differs := redactPair(name, text.StringValue)
	return differs
}

func redactString(s string) (string, bool) {
	out := Redact(s)
	return out, out != s
}

// isKnownType reports whether the detail's type is linked in.
func isKnownType(d *anypb.Any) bool {
	_, err := protoregistry.GlobalTypes.FindMessageByURL(d.GetTypeUrl())
	return err == nil
}

// detailsJSON renders details as a JSON array, nil for none. An unknown type, or whose bytes do not fit it, is
// {"@type", "value"} with the bytes in base64.
func detailsJSON(details []*anypb.Any, types DetailTypes) []byte {
	if len(details) == 0 {
		return nil
	}
	dst := []byte{'['}
	for _, d := range details[:min(len(details), maxDetails)] {
		if d == nil || d.MessageIs((*errdetails.DebugInfo)(nil)) {
			continue
		}
		one := detailJSON(d, types)
		if len(dst)+len(one) > maxDetailsJSON {
			break
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(dst, one...)
	}
	if len(dst) == 1 {
		return nil
	}
	return append(dst, ']')
}

func detailJSON(d *anypb.Any, types DetailTypes) []byte {
	if text := errorDetailJSON(d); text != nil {
		return text
	}
	if text, err := protojson.Marshal(d); err == nil {
		// protojson varies its spacing from build to build on purpose; one line without spaces is the same everywhere.
		var compact bytes.Buffer
		if json.Compact(&compact, text) == nil {
			return compact.Bytes()
		}
	}
	if types != nil {
		if text, err := types.AppendJSON(nil, d); err == nil {
			return text
		}
	}
	dst := jsontext.AppendString([]byte(`{"@type":`), clip(d.GetTypeUrl(), maxNameBytes))
	dst = append(dst, `,"value":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, d.GetValue())
	return append(dst, `"}`...)
}

// namesFile reports whether a google.rpc.ResourceInfo says that the resource is a file.
func namesFile(details []*anypb.Any) bool {
	for _, d := range details {
		info := new(errdetails.ResourceInfo)
		if d.MessageIs(info) && d.UnmarshalTo(info) == nil && strings.EqualFold(info.GetResourceType(), "file") {
			return true
		}
	}
	return false
}

// fieldFaults are the faults that a backend's google.rpc.BadRequest names, with the paths as the backend wrote them. They
// are for the text of a tool result: a path of theirs is no JSON Pointer.
func fieldFaults(details []*anypb.Any) []Violation {
	var faults []Violation
	for _, d := range details {
		bad := new(errdetails.BadRequest)
		if !d.MessageIs(bad) || d.UnmarshalTo(bad) != nil {
			continue
		}
		for _, f := range bad.GetFieldViolations() {
			if len(faults) == maxViolations {
				return faults
			}
			faults = append(faults, Violation{Path: f.GetField(), Keyword: f.GetReason(), Message: Redact(f.GetDescription())})
		}
	}
	return faults
}
