// SPDX-License-Identifier: Apache-2.0

package oddtest

import (
	"fmt"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// near has the service, and far a type that no file of the service imports.
const (
	near = `name: "odd/v1/odd.proto" package: "odd.v1" syntax: "proto3" dependency: "google/protobuf/any.proto"
message_type { name: "Box"
  field { name: "kind" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "kind" }
  field { name: "content" number: 2 type: TYPE_MESSAGE label: LABEL_OPTIONAL type_name: ".google.protobuf.Any" json_name: "content" }
  field { name: "more" number: 3 type: TYPE_MESSAGE label: LABEL_REPEATED type_name: ".google.protobuf.Any" json_name: "more" } }
message_type { name: "Failure"
  field { name: "status" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL json_name: "status" }
  field { name: "kinds" number: 2 type: TYPE_STRING label: LABEL_REPEATED json_name: "kinds" } }
message_type { name: "Reserved"
  field { name: "reason" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "reason" }
  field { name: "run_id" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "runId" }
  field { name: "secret" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "secret" options { debug_redact: true } } }
service { name: "Odd"
  method { name: "Open" input_type: ".odd.v1.Box" output_type: ".odd.v1.Box" }
  method { name: "Peek" input_type: ".odd.v1.Box" output_type: ".odd.v1.Box" options { idempotency_level: NO_SIDE_EFFECTS } }
  method { name: "Fail" input_type: ".odd.v1.Failure" output_type: ".odd.v1.Box" } }`

	far = `name: "odd/far/v1/far.proto" package: "odd.far.v1" syntax: "proto3" dependency: "google/protobuf/any.proto"
message_type { name: "Treasure"
  field { name: "name" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "name" }
  field { name: "weight" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL json_name: "weight" }
  field { name: "inside" number: 3 type: TYPE_MESSAGE label: LABEL_OPTIONAL type_name: ".google.protobuf.Any" json_name: "inside" } }
message_type { name: "Coin" field { name: "face" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "face" } }`
)

// Files are the descriptors of the server, those of far included.
func Files() *protoregistry.Files {
	files := new(protoregistry.Files)
	anyFile, err := protoregistry.GlobalFiles.FindFileByPath("google/protobuf/any.proto")
	if err != nil {
		panic(err) //nolint:forbidigo // a fixture; it is linked in, through dynamicpb's own dependencies
	}
	must(files.RegisterFile(anyFile))
	for _, text := range []string{near, far} {
		file := new(descriptorpb.FileDescriptorProto)
		must(prototext.Unmarshal([]byte(text), file))
		fd, err := protodesc.NewFile(file, files)
		must(err)
		must(files.RegisterFile(fd))
	}
	return files
}

func must(err error) {
	if err != nil {
		//nolint:forbidigo // A fixture whose constants are wrong has no other way to say so.
		panic(fmt.Sprintf("oddtest: its own descriptors are wrong: %v", err))
	}
}

// made fills a message from text.
func made(files *protoregistry.Files, name protoreflect.FullName, text string) *dynamicpb.Message {
	d, err := files.FindDescriptorByName(name)
	must(err)
	m := dynamicpb.NewMessage(d.(protoreflect.MessageDescriptor))
	must(prototext.UnmarshalOptions{Resolver: dynamicpb.NewTypes(files)}.Unmarshal([]byte(text), m))
	return m
}
