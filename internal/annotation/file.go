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
	infoVersion     = 6
)

// File is what the OpenAPI annotations of a file say of its API.
type File struct{ Title, Description, Version string }

// OfFile reads protoc-gen-openapiv2's openapiv2_swagger, and gnostic's document where the first says nothing. What cannot be
// read says nothing.
func OfFile(fd protoreflect.FileDescriptor) File {
	var openAPI, gnostic File
	eachOption(fd, func(it item) {
		if it.typ != protowire.BytesType {
			return
		}
		switch it.number {
		case openAPINumber:
			openAPI = infoOf(it.bytes)
		case gnosticNumber:
			gnostic = infoOf(it.bytes)
		}
	})
	return cmp.Or(openAPI, gnostic)
}

// FileDescription is the description, else the title, that the OpenAPI annotations of a file have; empty for none.
func FileDescription(fd protoreflect.FileDescriptor) string {
	said := OfFile(fd)
	return cmp.Or(said.Description, said.Title)
}

func infoOf(document []byte) File {
	var out File
	each(document, func(part item) {
		if part.number != documentInfo || part.typ != protowire.BytesType {
			return
		}
		each(part.bytes, func(it item) {
			switch {
			case it.typ != protowire.BytesType:
			case it.number == infoTitle:
				out.Title = it.text()
			case it.number == infoDescription:
				out.Description = it.text()
			case it.number == infoVersion:
				out.Version = it.text()
			}
		})
	})
	return out
}
