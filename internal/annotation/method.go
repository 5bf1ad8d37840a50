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
	// Deprecated is set where one of them says so.
	Deprecated bool
}

// Field numbers that the operations of both OpenAPI annotations have.
const (
	operationSummary     = 2
	operationDescription = 3
)

// The fields of them that say that the operation is deprecated.
const (
	openAPIDeprecated = 11
	gnosticDeprecated = 10
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
			out.Deprecated = out.Deprecated || says(it.bytes, openAPIDeprecated)
		case gnosticNumber:
			ok := eachPart(it.bytes, func(part item) bool {
				gnostic.take(part)
				return part.number != gnosticResponses || ofGnostic.takeGnostic(part.bytes, &from)
			})
			bad.unless(ok, "gnostic.openapi.v3.operation")
			out.Deprecated = out.Deprecated || says(it.bytes, gnosticDeprecated)
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

// says reports whether a flag of a message is set; the last of several counts.
func says(body []byte, flag protowire.Number) (is bool) {
	each(body, func(it item) {
		if it.number == flag {
			is = it.isSet()
		}
	})
	return is
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
