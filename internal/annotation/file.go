// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"cmp"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Field numbers of grpc.gateway.protoc_gen_openapiv2.options.Swagger and gnostic.openapi.v3.Document, which are the same, and
// of the Info that both have.
const (
	documentInfo    = 2
	infoTitle       = 1
	infoDescription = 2 // of protoc-gen-openapiv2 and gnostic alike
)

// FileDescription is what the OpenAPI annotations of a file say of its API: the description, else the title, of
// protoc-gen-openapiv2's openapiv2_swagger, else of gnostic's document. It is empty for none. What cannot be read says nothing.
func FileDescription(fd protoreflect.FileDescriptor) string {
	var openAPI, gnostic string
	eachOption(fd, func(it item) {
		if it.typ != protowire.BytesType {
			return
		}
		switch it.number {
		case openAPINumber:
			openAPI = cmp.Or(infoOf(it.bytes), openAPI)
		case gnosticNumber:
			gnostic = cmp.Or(infoOf(it.bytes), gnostic)
		}
	})
	return cmp.Or(openAPI, gnostic)
}

func infoOf(document []byte) string {
	title, description := "", ""
	each(document, func(part item) {
		if part.number != documentInfo || part.typ != protowire.BytesType {
			return
		}
		each(part.bytes, func(it item) {
			switch {
			case it.typ != protowire.BytesType:
			case it.number == infoTitle:
				title = it.text()
			case it.number == infoDescription:
				description = it.text()
			}
		})
	})
	return cmp.Or(description, title)
}
