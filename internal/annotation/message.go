// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Message is what the annotations of a message say. The zero value says nothing.
type Message struct {
	// Title, Description and Examples are OpenAPI's.
	Title, Description string
	Examples           []string
	// Required are the names of fields that OpenAPI lists as required, in JSON or in the .proto file.
	Required []string
	// Resource is what google.api.resource declares; nil for a message that is none.
	Resource *Resource
}

// Resource is a kind of resource (AIP-123).
type Resource struct {
	// Type is such as "pubsub.googleapis.com/Topic", and Patterns are the forms of its names.
	Type     string
	Patterns []string
	// NameField is the field that holds the name of the resource: "name" unless declared.
	NameField string
}

// OfMessage reads the annotations of a message. Problems are for the operator.
func OfMessage(md protoreflect.MessageDescriptor) (Message, []string) {
	var out Message
	var bad problems
	openAPI, gnostic := keywords{}, keywords{of: md}
	eachOption(md, func(it item) {
		if it.typ != protowire.BytesType {
			return
		}
		switch it.number {
		case openAPINumber:
			bad.unless(openAPI.readOpenAPISchema(it.bytes), "grpc.gateway.protoc_gen_openapiv2.options.openapiv2_schema")
		case gnosticNumber:
			bad.unless(gnostic.readGnostic(it.bytes), "gnostic.openapi.v3.schema")
		case resourceNumber:
			resource, ok := readResource(it.bytes)
			out.Resource = resource
			bad.unless(ok, "google.api.resource")
		}
	})
	bad.foreign(gnostic.unknown, "gnostic.openapi.v3.schema")
	out.Title = cmp.Or(openAPI.title, gnostic.title)
	out.Description = cmp.Or(openAPI.description, gnostic.description)
	out.Examples = slices.Concat(openAPI.examples, gnostic.examples)
	out.Required = slices.Concat(openAPI.required, gnostic.required)
	return out, bad
}

// readResource reads a google.api.ResourceDescriptor; nil where it has no type.
func readResource(body []byte) (*Resource, bool) {
	out := &Resource{NameField: "name"}
	ok := each(body, func(it item) {
		if it.typ != protowire.BytesType {
			return
		}
		switch it.number {
		case 1:
			out.Type = it.text()
		case 2:
			out.Patterns = append(out.Patterns, it.text())
		case 3:
			out.NameField = cmp.Or(it.text(), out.NameField)
		}
	})
	if out.Type == "" {
		return nil, ok
	}
	return out, ok
}

// Patterns returns the patterns of the resources that a file and its direct imports declare, by type. What cannot be read
// is not in it.
func Patterns(file protoreflect.FileDescriptor) map[string][]string {
	out := map[string][]string{}
	add := func(r *Resource) {
		if r != nil && out[r.Type] == nil {
			out[r.Type] = r.Patterns
		}
	}
	declared(file, add)
	for i := range file.Imports().Len() {
		declared(file.Imports().Get(i).FileDescriptor, add)
	}
	return out
}

// declared calls add with the resources that one file declares.
func declared(file protoreflect.FileDescriptor, add func(*Resource)) {
	read := func(it item) {
		if it.number == resourceNumber && it.typ == protowire.BytesType {
			r, _ := readResource(it.bytes)
			add(r)
		}
	}
	eachOption(file, read)
	var within func(messages protoreflect.MessageDescriptors)
	within = func(messages protoreflect.MessageDescriptors) {
		for i := range messages.Len() {
			eachOption(messages.Get(i), read)
			within(messages.Get(i).Messages())
		}
	}
	within(file.Messages())
}
