// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Method is what the annotations of a method say. The zero value says nothing.
type Method struct {
	// Summary is a line of OpenAPI, and Description its text.
	Summary, Description string
	// Signatures are those of google.api.method_signature: names of fields, the most important signature first. An empty
	// one is a call without arguments.
	Signatures [][]string
	// Responses are OpenAPI's examples of successful responses, usually JSON: those of protoc-gen-openapiv2 first, that of the
	// lowest status first.
	Responses []string
}

// Field numbers that the operations of both OpenAPI annotations have.
const (
	operationSummary     = 2
	operationDescription = 3
)

// OfMethod reads the annotations of a method. Problems are for the operator. Where both OpenAPI annotations are there, that
// of protoc-gen-openapiv2 counts.
func OfMethod(md protoreflect.MethodDescriptor) (Method, []string) {
	var out, gnostic Method
	var bad problems
	var ofOpenAPI, ofGnostic responses
	from := keywords{of: md.Output()}
	eachOption(md, func(it item) {
		if it.typ != protowire.BytesType {
			return
		}
		switch it.number {
		case openAPINumber:
			ok := eachPart(it.bytes, func(part item) bool {
				out.take(part)
				return part.number != openAPIResponses || ofOpenAPI.takeOpenAPI(part.bytes)
			})
			bad.unless(ok, "grpc.gateway.protoc_gen_openapiv2.options.openapiv2_operation")
		case gnosticNumber:
			ok := eachPart(it.bytes, func(part item) bool {
				gnostic.take(part)
				return part.number != gnosticResponses || ofGnostic.takeGnostic(part.bytes, &from)
			})
			bad.unless(ok, "gnostic.openapi.v3.operation")
		case signatureNumber:
			out.Signatures = append(out.Signatures, signature(it.text()))
		}
	})
	bad.foreign(from.unknown, "gnostic.openapi.v3.operation")
	out.Responses = slices.Concat(ofOpenAPI.texts(), ofGnostic.texts())
	if out.Summary == "" && out.Description == "" {
		out.Summary, out.Description = gnostic.Summary, gnostic.Description
	}
	return out, bad
}

// take takes a field that holds bytes.
func (m *Method) take(it item) {
	switch it.number {
	case operationSummary:
		m.Summary = it.text()
	case operationDescription:
		m.Description = it.text()
	}
}

func signature(text string) []string {
	out := []string{}
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// ServiceDescription is the description of a service in protoc-gen-openapiv2's openapiv2_tag; empty for none.
func ServiceDescription(sd protoreflect.ServiceDescriptor) string {
	out := ""
	eachOption(sd, func(it item) {
		if it.number != openAPINumber || it.typ != protowire.BytesType {
			return
		}
		each(it.bytes, func(tag item) {
			if tag.number == 2 && tag.typ == protowire.BytesType {
				out = tag.text()
			}
		})
	})
	return out
}
