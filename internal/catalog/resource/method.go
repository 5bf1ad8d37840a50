// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"cmp"
	"errors"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/schema"
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
	name := cmp.Or(shown.OneSpaced(o.GetName()), t.Name)
	title := cmp.Or(shown.OneSpaced(o.GetTitle()), t.Title)
	text := cmp.Or(shown.Clean(o.GetDescription()), t.Description)
	if len(m.variables) == 0 {
		m.resource = &outriggerv1.Resource{
			Uri: m.template.text, Name: name, Title: title, Description: text, MimeType: m.usualType(),
			Icons: t.Icons, Annotations: o.GetAnnotations(),
		}
		return
	}
	m.family = &outriggerv1.ResourceTemplate{
		UriTemplate: m.template.text, Name: name, Title: title, Description: text, MimeType: m.usualType(),
		Icons: t.Icons, Annotations: o.GetAnnotations(),
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
