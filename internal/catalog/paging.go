// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// Paging is how a method lists in pages (AIP-158). It is immutable. Nil is that of all other methods.
type Paging struct {
	// Token is the name of the field of the request, in JSON, that says which page is wanted; Next that of the response with
	// the token of the page after it.
	Token, Next string
	// Size is the name of the field of the request, in JSON, that says how many items a page may have; empty if there is none.
	Size string
	// All: a call fetches all pages.
	All bool

	token, next, items, size protowire.Number
}

// pagingOf recognises a method that lists in pages by the fields page_token and next_page_token, and one repeated field of the
// response.
func pagingOf(t *Tool, declared *configv1.ToolOptions) *Paging {
	md := t.Method.Descriptor
	if t.Native || md.IsStreamingClient() || md.IsStreamingServer() {
		return nil
	}
	token, next := textField(md.Input(), "page_token"), textField(md.Output(), "next_page_token")
	items := firstList(md.Output())
	if token == nil || next == nil || items == nil {
		return nil
	}
	p := &Paging{Token: token.JSONName(), Next: next.JSONName(), All: declared.GetAllPages(), token: token.Number(), next: next.Number(), items: items.Number()}
	if size := sizeField(md.Input()); size != nil {
		p.Size, p.size = size.JSONName(), size.Number()
	}
	return p
}

// sizeField is the field page_size of a request; nil where there is none that a number can be put into.
func sizeField(md protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	fd := md.Fields().ByName("page_size")
	if fd == nil || fd.IsList() {
		return nil
	}
	switch fd.Kind() { //nolint:exhaustive // those whose wire form is a plain varint
	case protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return fd
	}
	return nil
}

// textField is a singular string field of a message; nil where there is none of the name.
func textField(md protoreflect.MessageDescriptor, name protoreflect.Name) protoreflect.FieldDescriptor {
	fd := md.Fields().ByName(name)
	if fd == nil || fd.Kind() != protoreflect.StringKind || fd.IsList() {
		return nil
	}
	return fd
}

// firstList is the repeated field of the lowest number, which AIP-158 has the resources in.
func firstList(md protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	var first protoreflect.FieldDescriptor
	for i := range md.Fields().Len() {
		if fd := md.Fields().Get(i); fd.IsList() && (first == nil || fd.Number() < first.Number()) {
			first = fd
		}
	}
	return first
}

// describe adds to a description how to go on, unless it says so itself.
func (p *Paging) describe(text string) string {
	switch {
	case p == nil, strings.Contains(text, p.Token), strings.Contains(text, "page_token"):
		return text
	case p.All:
		return text + fmt.Sprintf("\n\nReturns all pages at once, as far as one result holds them. If %[2]s is not empty there are more: call again with %[1]s set to it.", p.Token, p.Next)
	}
	return text + fmt.Sprintf("\n\nReturns one page. If %[2]s is not empty there are more: call again with the same arguments and %[1]s set to it.", p.Token, p.Next)
}

// FetchesAll reports whether a call fetches all pages.
func (p *Paging) FetchesAll() bool { return p != nil && p.All }

// Page is what there is to know of the wire bytes of a response.
type Page struct {
	// Next is the token of the page after it, empty for the last one. Items counts what is on it.
	Next  string
	Items int
}

// Read looks at the fields of a response.
func (p *Paging) Read(wire []byte) Page {
	var page Page
	p.each(wire, func(number protowire.Number, kind protowire.Type, _, value []byte) {
		switch {
		case number == p.items:
			page.Items++ // packed numbers count as one
		case number == p.next && kind == protowire.BytesType:
			text, _ := protowire.ConsumeBytes(value)
			page.Next = string(text)
		}
	})
	return page
}

// Append appends a response to those before it: by the rules of Protobuf, the bytes of two messages one after the other are both
// merged, so that lists grow and other fields are those of the last. The token is left out.
func (p *Paging) Append(dst, wire []byte) []byte {
	p.each(wire, func(number protowire.Number, _ protowire.Type, field, _ []byte) {
		if number != p.next {
			dst = append(dst, field...)
		}
	})
	return dst
}

// AppendNext appends the token of the page that is not there.
func (p *Paging) AppendNext(dst []byte, token string) []byte {
	return protowire.AppendString(protowire.AppendTag(dst, p.next, protowire.BytesType), token)
}

// Request returns the request for another page: the token that comes last counts.
func (p *Paging) Request(request []byte, token string) []byte {
	out := protowire.AppendTag(append(make([]byte, 0, len(request)+len(token)+2*protowire.SizeTag(p.token)), request...), p.token, protowire.BytesType)
	return protowire.AppendString(out, token)
}

// HasSize reports whether a request says how many items a page may have.
func (p *Paging) HasSize(request []byte) bool {
	found := false
	p.each(request, func(number protowire.Number, _ protowire.Type, _, _ []byte) { found = found || number == p.size })
	return found
}

// WithSize returns the request for a page of at most n items. The method must have a Size.
func (p *Paging) WithSize(request []byte, n int) []byte {
	out := append(make([]byte, 0, len(request)+protowire.SizeTag(p.size)+protowire.SizeVarint(uint64(n))), request...)
	return protowire.AppendVarint(protowire.AppendTag(out, p.size, protowire.VarintType), uint64(n))
}

// each calls fn with the fields of a message, as far as they can be read. field is all of it, value what follows the tag.
func (p *Paging) each(wire []byte, fn func(number protowire.Number, kind protowire.Type, field, value []byte)) {
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return
		}
		size := protowire.ConsumeFieldValue(number, kind, wire[n:])
		if size < 0 {
			return
		}
		fn(number, kind, wire[:n+size], wire[n:n+size])
		wire = wire[n+size:]
	}
}
