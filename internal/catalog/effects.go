// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

const (
	validateOnly = "validate_only" // AIP-163
	requestID    = "request_id"    // AIP-155
)

// Preview is a call without an effect that says what a call would do. One of its fields is set.
type Preview struct {
	// Field is the field of the request, of type bool, that makes a call a preview.
	Field protoreflect.FieldDescriptor
	// Tool is of the method that previews, with the same request message and the names of the tool that it previews. It is not in
	// the catalog.
	Tool *Tool
}

// Is reports whether the wire bytes of a request make its call a preview.
func (p *Preview) Is(request []byte) bool {
	if p == nil || p.Field == nil {
		return false
	}
	set := false
	for len(request) > 0 {
		num, typ, n := protowire.ConsumeTag(request)
		if n < 0 {
			return false
		}
		size := protowire.ConsumeFieldValue(num, typ, request[n:])
		if size < 0 {
			return false
		}
		if num == p.Field.Number() && typ == protowire.VarintType {
			v, _ := protowire.ConsumeVarint(request[n:])
			set = v != 0 // the last one counts
		}
		request = request[n+size:]
	}
	return set
}

// Request appends to dst the wire bytes of the request that previews another one.
func (p *Preview) Request(dst, request []byte) []byte {
	if p.Field == nil {
		return append(dst, request...)
	}
	dst = appendWithout(dst, request, p.Field.Number())
	return protowire.AppendVarint(protowire.AppendTag(dst, p.Field.Number(), protowire.VarintType), 1)
}

// WithRequestID appends to dst the wire bytes of a request with another value of the tool's RequestID.
func (t *Tool) WithRequestID(dst, request []byte, id string) []byte {
	dst = appendWithout(dst, request, t.RequestID.Number())
	return protowire.AppendString(protowire.AppendTag(dst, t.RequestID.Number(), protowire.BytesType), id)
}

// RequestIDOf is the value of the tool's RequestID in the wire bytes of a request; empty where it is not set.
func (t *Tool) RequestIDOf(request []byte) string {
	value := ""
	for len(request) > 0 {
		num, typ, n := protowire.ConsumeTag(request)
		if n < 0 {
			return value
		}
		size := protowire.ConsumeFieldValue(num, typ, request[n:])
		if size < 0 {
			return value
		}
		if num == t.RequestID.Number() && typ == protowire.BytesType {
			text, _ := protowire.ConsumeBytes(request[n:])
			value = string(text)
		}
		request = request[n+size:]
	}
	return value
}

// appendWithout appends the bytes of a message without one of its fields. What cannot be read stays as it is.
func appendWithout(dst, message []byte, field protowire.Number) []byte {
	for len(message) > 0 {
		num, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return append(dst, message...)
		}
		size := protowire.ConsumeFieldValue(num, typ, message[n:])
		if size < 0 {
			return append(dst, message...)
		}
		if num != field {
			dst = append(dst, message[:n+size]...)
		}
		message = message[n+size:]
	}
	return dst
}

// IsRepeatable reports whether a call may be made again with the same request: the tool is idempotent, or the backend knows the
// request by its id.
func (t *Tool) IsRepeatable() bool { return t.IsIdempotent() || t != nil && t.RequestID != nil }

// requestIDOf finds the field with the id of a request: the one that is declared, or the one that AIP-155 describes; nil for none.
func requestIDOf(md protoreflect.MethodDescriptor, declared string) (protoreflect.FieldDescriptor, error) {
	field := md.Input().Fields().ByName(protoreflect.Name(cmp.Or(declared, requestID)))
	isString := field != nil && field.Kind() == protoreflect.StringKind && !field.IsList()
	switch {
	case declared == "":
		if !isString || md.IsStreamingClient() {
			return nil, nil //nolint:nilnil // it has none
		}
		if said, _ := schema.AnnotationsOfField(field); said.Format != uuidFormat {
			return nil, nil //nolint:nilnil // it has none
		}
		return field, nil
	case md.IsStreamingClient():
		return nil, errors.New("the RPC takes a stream of requests; remove it")
	case field == nil:
		return nil, fmt.Errorf("%s has no field %s; name one of its fields of type string", md.Input().FullName(), declared)
	case !isString:
		return nil, fmt.Errorf("%s is no single string; name a field of type string", field.FullName())
	}
	return field, nil
}

// uuidFormat is the word of package schema for google.api.FieldInfo.UUID4.
const uuidFormat = "uuid"

// preview finds out how calls of a tool are previewed: as is declared, or by the field of AIP-163. It reports whether a method does.
func (b *builder) preview(t *Tool, declared *configv1.ToolPreview) (isByMethod bool, err error) {
	md := t.Method.Descriptor
	isUnary := !md.IsStreamingClient() && !md.IsStreamingServer()
	switch {
	case declared == nil:
		field := md.Input().Fields().ByName(validateOnly)
		isReadOnly := t.Annotations.ReadOnly != nil && *t.Annotations.ReadOnly
		if isUnary && !isReadOnly && isFlag(field) {
			t.Preview = &Preview{Field: field}
		}
		return false, nil
	case !isUnary:
		return false, errors.New("the RPC streams, and only calls of unary RPCs can be previewed; remove it")
	case declared.GetMethod() != "":
		t.Preview, err = b.previewBy(t, declared.GetMethod())
		return true, err
	}
	field := md.Input().Fields().ByName(protoreflect.Name(declared.GetField()))
	switch {
	case field == nil:
		return false, fmt.Errorf("field: %s has no field %s; name one of its fields of type bool", md.Input().FullName(), declared.GetField())
	case !isFlag(field):
		return false, fmt.Errorf("field: %s is no single bool; name a field of type bool", field.FullName())
	}
	t.Preview = &Preview{Field: field}
	return false, nil
}

// isFlag holds for a single field of type bool.
func isFlag(fd protoreflect.FieldDescriptor) bool {
	return fd != nil && fd.Kind() == protoreflect.BoolKind && !fd.IsList()
}

// previewBy is the preview by another method of the service.
func (b *builder) previewBy(t *Tool, name string) (*Preview, error) {
	md := t.Method.Descriptor
	service, _ := md.Parent().(protoreflect.ServiceDescriptor)
	var by protoreflect.MethodDescriptor
	if service != nil {
		by = service.Methods().ByName(protoreflect.Name(name))
	}
	switch {
	case by == nil || by == md:
		return nil, fmt.Errorf("method: %s has no other method %s; name the method that previews", md.Parent().FullName(), name)
	case by.IsStreamingClient() || by.IsStreamingServer():
		return nil, fmt.Errorf("method: %s streams; name a unary method", by.FullName())
	case by.Input().FullName() != md.Input().FullName():
		return nil, fmt.Errorf("method: %s takes %s; name a method that takes %s", by.FullName(), by.Input().FullName(), md.Input().FullName())
	}
	options, err := readMethodOptions(by, false)
	if err != nil {
		return nil, err
	}
	yes, no := true, false
	out := &Tool{
		Name: t.Name, MCPName: t.MCPName, Alias: t.Alias, Title: t.Title, Description: t.Description, Version: t.Version,
		Method: &Method{
			Procedure: "/" + methodName(by), Service: t.Method.Service, Source: t.Method.Source, Backend: b.backend,
			Descriptor: by, Idempotency: options.idempotency,
		},
		Annotations: Annotations{ReadOnly: &yes, Destructive: &no, Idempotent: &yes},
		Metadata:    Metadata{Module: t.Metadata.Module, CacheTTL: t.Metadata.CacheTTL},
		Timeout:     t.Timeout, TaskSupport: "forbidden", Hidden: true, RequestID: t.RequestID, ResultBudget: t.ResultBudget, Scopes: t.Scopes,
		Words: t.Words, Classes: t.Classes,
	}
	if err := b.bind.bind(out, nil); err != nil {
		return nil, err
	}
	return &Preview{Tool: out}, nil
}
