// SPDX-License-Identifier: Apache-2.0

// Package resource makes resources from RPCs. A method whose option or overlay entry asks for it reads one resource, reads
// a family with a URI template, or lists resources.
//
// [New] compiles an option into a [Method], and [NewSet] combines the methods of a catalog. [Set.Match] finds the method
// that reads a URI. [Method.Request] builds its request from the URI. [Method.Contents] extracts the contents from its
// response, and [Method.Items] the resources of a list. The call itself, and the policy in front of it, are handled by
// other packages. This package knows no tools: package catalog describes the RPC in an [RPC].
//
// [NewWatch] makes the [Method] of a watch: a server stream whose newest message is the resource, with query parameters for
// the request.
//
// An invalid template, and fields that cannot be part of a URI or of contents, are errors at startup, not on the first
// call. All types are immutable and safe for concurrent use.
package resource

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source/shown"
	"github.com/outrigger-mcp/outrigger/internal/source/wire"
	optionsv1 "github.com/outrigger-mcp/outrigger/proto/options"
)

const (
	// mimeJSON, mimeText and mimeBytes are the media types of contents about which nothing is said, by what they are:
	// RFC 8259, RFC 2046 section 4.1 and RFC 2046 section 4.5.1.
	mimeJSON  = "application/json"
	mimeText  = "text/plain"
	mimeBytes = "application/octet-stream"
)

// RPC describes an RPC that provides resources.
type RPC struct {
	// Procedure is the path of the RPC, "/pkg.Service/Method".
	Procedure  string
	Descriptor protoreflect.MethodDescriptor
	// Name, Title, Description and Icons describe the resource where its option leaves them unset.
	Name, Title, Description string
	Icons                    []*outriggerv1.Icon
	// Destructive RPCs are never read.
	Destructive bool
	// HTTPBody is set if the RPC responds with google.api.HttpBody.
	HTTPBody bool
}

// Method is an RPC that provides resources: one, a family, or a list. It is immutable and safe for concurrent use.
type Method struct {
	rpc      RPC
	options  *configv1.ResourceOptions
	template *template
	resource *outriggerv1.Resource
	family   *outriggerv1.ResourceTemplate

	// variables are those of the template, as fields of the request, or of an item of a list.
	variables []variable
	// arguments are the members of the request that the variables fill in.
	arguments []*argument
	// content and mimeType lead to fields of the response; nil where the whole response is the contents.
	content, mimeType *field
	// items leads to the list of a listing method, label to the name of an item; nil where there is none.
	items, label *field
	// isWatch: the resource is the newest message of a stream.
	isWatch bool
}

// New compiles an option. The error describes what is wrong with it. The caller must check beforehand that the URIs are
// valid and that the options satisfy the contract.
func New(rpc RPC, o *configv1.ResourceOptions) (*Method, error) {
	md := rpc.Descriptor
	if md.IsStreamingClient() || md.IsStreamingServer() {
		return nil, errors.New("only a unary RPC can be read")
	}
	if rpc.Destructive {
		return nil, errors.New("the RPC is marked destructive, and reading must not destroy anything")
	}
	if named := o.GetMimeType(); named != "" && !isMediaType(named) {
		return nil, fmt.Errorf("mime_type: %q is no media type", shown.Clip(named))
	}
	m := &Method{rpc: rpc, options: o}
	var err error
	if m.template, err = parseTemplate(o.GetUriTemplate()); err != nil {
		return nil, fmt.Errorf("uri_template: %w", err)
	}
	if schema.IsWrapped(md.Input(), schema.Input) {
		return nil, fmt.Errorf("the JSON of the request, %s, is no object that fields could be set in", md.Input().FullName())
	}
	if o.GetItemsField() != "" {
		return m, m.asListing()
	}
	return m, m.asReading()
}

// asReading compiles the option of a method that reads.
func (m *Method) asReading() error {
	o, md := m.options, m.rpc.Descriptor
	if o.GetNameField() != "" {
		return errors.New("name_field: it is the name of an item, and without items_field there is none")
	}
	var err error
	if m.variables, err = variablesOf(md.Input(), m.template.variables); err != nil {
		return err
	}
	if m.arguments, err = requestArguments(m.variables); err != nil {
		return err
	}
	content, mimeType := o.GetContentField(), o.GetMimeTypeField()
	if m.rpc.HTTPBody && content == "" {
		// What it carries is a document with a media type already.
		content, mimeType = "data", cmp.Or(mimeType, "content_type")
	}
	if content != "" {
		if m.content, err = responseText(md.Output(), content, true); err != nil {
			return fmt.Errorf("content_field: %w", err)
		}
	}
	if mimeType != "" {
		if m.mimeType, err = responseText(md.Output(), mimeType, false); err != nil {
			return fmt.Errorf("mime_type_field: %w", err)
		}
	}
	m.describe()
	return nil
}

// asListing compiles the option of a method that lists.
func (m *Method) asListing() error {
	o, md := m.options, m.rpc.Descriptor
	switch {
	case o.GetContentField() != "" || o.GetMimeTypeField() != "":
		return errors.New("items_field: a method that lists has items and no contents; leave content_field and mime_type_field out")
	case len(m.template.variables) == 0:
		return errors.New("uri_template: without a variable all items would have one URI")
	}
	var err error
	if m.items, err = fieldAt(md.Output(), o.GetItemsField()); err == nil {
		err = m.items.isWritten()
	}
	if err != nil {
		return fmt.Errorf("items_field: %w", err)
	}
	list := m.items.last()
	if !list.IsList() || list.Message() == nil {
		return fmt.Errorf("items_field: %s of %s is no list of messages", list.Name(), list.Parent().FullName())
	}
	if m.variables, err = variablesOf(list.Message(), m.template.variables); err != nil {
		return err
	}
	for _, v := range m.variables {
		if err := v.field.isWritten(); err != nil {
			return fmt.Errorf("uri_template: variable {%s}: %w", v.name, err)
		}
	}
	if o.GetNameField() != "" {
		if m.label, err = responseText(list.Message(), o.GetNameField(), false); err != nil {
			return fmt.Errorf("name_field: %w", err)
		}
	}
	return nil
}

// describe makes what clients see of it in a list.
func (m *Method) describe() {
	o, t := m.options, m.rpc
	t.Name = cmp.Or(shown.OneSpaced(o.GetName()), t.Name)
	t.Title = cmp.Or(shown.OneSpaced(o.GetTitle()), t.Title)
	t.Description = cmp.Or(shown.Clean(o.GetDescription()), t.Description)
	if len(m.variables) == 0 {
		m.resource = t.resource(m.template.text, m.usualType())
		m.resource.Annotations = o.GetAnnotations()
		return
	}
	m.family = t.family(m.template.text, m.usualType())
	m.family.Annotations = o.GetAnnotations()
}

// resource and family are entries of lists, as the RPC describes them.
func (r RPC) resource(uri, mimeType string) *outriggerv1.Resource {
	return &outriggerv1.Resource{Uri: uri, Name: r.Name, Title: r.Title, Description: r.Description, MimeType: mimeType, Icons: r.Icons}
}

func (r RPC) family(template, mimeType string) *outriggerv1.ResourceTemplate {
	return &outriggerv1.ResourceTemplate{
		UriTemplate: template, Name: r.Name, Title: r.Title, Description: r.Description, MimeType: mimeType, Icons: r.Icons,
	}
}

// usualType is the media type of the contents as far as it is known beforehand.
func (m *Method) usualType() string {
	if m.mimeType != nil {
		return m.options.GetMimeType()
	}
	return m.defaultType()
}

// defaultType is the media type where the response does not name one.
func (m *Method) defaultType() string {
	switch declared := m.options.GetMimeType(); {
	case declared != "":
		return declared
	case m.content == nil:
		return mimeJSON
	case m.content.last().Kind() == protoreflect.BytesKind:
		return mimeBytes
	}
	return mimeText
}

// Procedure returns the path of the underlying RPC, "/pkg.Service/Method".
func (m *Method) Procedure() string { return m.rpc.Procedure }

// Resource describes the resource of a method among Fixed; nil for all others. Do not modify it.
func (m *Method) Resource() *outriggerv1.Resource { return m.resource }

// Template describes the resources of a method among Templates; nil for all others. Do not modify it.
func (m *Method) Template() *outriggerv1.ResourceTemplate { return m.family }

// URITemplate returns the method's URI template. For a method with one resource, it is a plain URI.
func (m *Method) URITemplate() string {
	if m.isWatch {
		return m.watchTemplate()
	}
	return m.template.text
}

// Sample returns an example of a URI that matches the template.
func (m *Method) Sample() string { return m.template.sample() }

// ReadOption reads a method's resource option from the raw bytes of its options, because descriptors built at run time hold
// extensions as unknown fields. It returns nil if the method has no such option.
func ReadOption(options []byte) (*configv1.ResourceOptions, error) {
	var out *configv1.ResourceOptions
	err := wire.EachBytes(options, optionsv1.E_Resource.TypeDescriptor().Number(), func(body []byte) error {
		if out == nil {
			out = &configv1.ResourceOptions{}
		}
		return proto.UnmarshalOptions{Merge: true, Resolver: (*protoregistry.Types)(nil)}.Unmarshal(body, out)
	})
	if err != nil {
		return nil, fmt.Errorf("read option (outrigger.v1.resource): %w", err)
	}
	return out, nil
}

// variable is a variable of a template and the field that it represents.
type variable struct {
	name  string
	field *field
}

// field is a field below a message, and the way there. Requests and items have the same.
type field struct {
	// names are the members of the JSON that lead there.
	names []string
	way   []protoreflect.FieldDescriptor
}

// last is the field itself.
func (f *field) last() protoreflect.FieldDescriptor { return f.way[len(f.way)-1] }

// in finds the field's value in the JSON of a message. Null counts as absent.
func (f *field) in(message []byte) (json.RawMessage, bool) {
	for _, name := range f.names {
		value, ok := jsontext.Lookup(message, name)
		if !ok || jsontext.IsNull(value) {
			return nil, false
		}
		message = value
	}
	return message, true
}

// fieldAt finds a field by its path: names of fields joined by dots, each within a message that the one before holds.
func fieldAt(md protoreflect.MessageDescriptor, path string) (*field, error) {
	out := &field{}
	for name := range strings.SplitSeq(path, ".") {
		if len(out.way) > 0 {
			before := out.last()
			if before.Message() == nil || before.Cardinality() == protoreflect.Repeated {
				return nil, fmt.Errorf("%s of %s is no single message, so nothing in it has a path", before.Name(), md.FullName())
			}
			md = before.Message()
		}
		if schema.IsWellKnown(md) {
			return nil, fmt.Errorf("the JSON of %s has no fields", md.FullName())
		}
		fd := md.Fields().ByName(protoreflect.Name(name))
		if fd == nil {
			fd = md.Fields().ByJSONName(name)
		}
		if fd == nil {
			return nil, fmt.Errorf("%s has no field %s; it has %s", md.FullName(), shown.Clip(name), fieldNames(md))
		}
		out.way = append(out.way, fd)
		out.names = append(out.names, schema.Names(fd)[0])
	}
	return out, nil
}

// fieldNames lists the fields of a message for an error.
func fieldNames(md protoreflect.MessageDescriptor) string {
	var names []string
	for i := range md.Fields().Len() {
		names = append(names, string(md.Fields().Get(i).Name()))
	}
	if len(names) == 0 {
		return "none"
	}
	return shown.ClipList(names)
}

// responseText finds a field of a response, or of an item of it, that holds one text, or bytes where they will do.
func responseText(md protoreflect.MessageDescriptor, path string, bytesToo bool) (*field, error) {
	f, err := fieldAt(md, path)
	if err != nil {
		return nil, err
	}
	kind := f.last().Kind()
	isFine := kind == protoreflect.StringKind || bytesToo && kind == protoreflect.BytesKind
	if !isFine || f.last().Cardinality() == protoreflect.Repeated {
		wanted := "a single string"
		if bytesToo {
			wanted += " or bytes"
		}
		return nil, fmt.Errorf("%s of %s is not %s", f.last().Name(), f.last().Parent().FullName(), wanted)
	}
	return f, f.isWritten()
}

// isWritten says why a field is never in a response.
func (f *field) isWritten() error {
	return f.without("in a response", func(b schema.Behavior) bool { return b.InputOnly })
}

// isRead says why a field is never taken in a request.
func (f *field) isRead() error {
	return f.without("taken in a request", func(b schema.Behavior) bool { return b.OutputOnly })
}

func (f *field) without(where string, isMissing func(schema.Behavior) bool) error {
	for _, fd := range f.way {
		if isMissing(schema.BehaviorOf(fd)) {
			return fmt.Errorf("%s of %s is never %s", fd.Name(), fd.Parent().FullName(), where)
		}
	}
	return nil
}

// variablesOf finds the fields of the variables.
func variablesOf(md protoreflect.MessageDescriptor, names []string) ([]variable, error) {
	var out []variable
	for _, name := range names {
		f, err := fieldAt(md, name)
		if err == nil {
			err = isVariable(f.last())
		}
		if err != nil {
			return nil, fmt.Errorf("uri_template: variable {%s}: %w", name, err)
		}
		out = append(out, variable{name, f})
	}
	return out, nil
}

// isVariable says why the field cannot be a part of a URI.
func isVariable(fd protoreflect.FieldDescriptor) error {
	switch {
	case fd.Cardinality() == protoreflect.Repeated:
		return fmt.Errorf("%s of %s is repeated, and a variable has one value", fd.Name(), fd.Parent().FullName())
	case fd.Kind() == protoreflect.EnumKind && fd.Enum().FullName() != "google.protobuf.NullValue":
		return nil
	}
	switch fd.Kind() {
	case protoreflect.StringKind, protoreflect.BoolKind,
		protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind, protoreflect.Uint32Kind, protoreflect.Fixed32Kind,
		protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return nil
	}
	return fmt.Errorf("%s of %s is no string, integer, bool or enum", fd.Name(), fd.Parent().FullName())
}

// argument is a member of a request's JSON: a variable's value, or an object with further members.
type argument struct {
	name     string
	field    protoreflect.FieldDescriptor
	variable string
	members  []*argument
}

// requestArguments puts the variables together to the members of a request. Two of one field, or of one oneof, would
// contradict each other.
func requestArguments(variables []variable) ([]*argument, error) {
	root := &argument{}
	for _, v := range variables {
		if err := v.field.isRead(); err != nil {
			return nil, fmt.Errorf("uri_template: variable {%s}: %w", v.name, err)
		}
		at := root
		for i, fd := range v.field.way {
			next, err := at.member(fd, v.field.names[i])
			if err != nil {
				return nil, fmt.Errorf("uri_template: variable {%s}: %w", v.name, err)
			}
			at = next
		}
		if at.variable != "" {
			return nil, fmt.Errorf("uri_template: {%s} and {%s} are one field", at.variable, v.name)
		}
		at.variable = v.name
	}
	return root.members, nil
}

// member finds or adds the member of a field.
func (a *argument) member(fd protoreflect.FieldDescriptor, name string) (*argument, error) {
	for _, m := range a.members {
		if m.field == fd {
			return m, nil
		}
		if one := fd.ContainingOneof(); one != nil && one == m.field.ContainingOneof() {
			return nil, errors.New(string(fd.Name()) + " and " + string(m.field.Name()) + " exclude each other")
		}
	}
	next := &argument{name: name, field: fd}
	a.members = append(a.members, next)
	return next, nil
}

// bounds are those of resources in the contract, read from its rules: the longest URI and template, the longest name and media
// type, and the most resources of one response.
type bounds struct{ uri, name, mime, listed int }

var limits = sync.OnceValue(func() bounds {
	var one outriggerv1.Resource
	return bounds{
		uri: schema.FieldRulesOf(&one, "uri").MaxBytes, name: schema.FieldRulesOf(&one, "name").MaxBytes, mime: schema.FieldRulesOf(&one, "mime_type").MaxBytes,
		listed: schema.FieldRulesOf(new(outriggerv1.ListResourcesResponse), "resources").MaxItems,
	}
})
