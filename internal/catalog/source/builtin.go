// SPDX-License-Identifier: Apache-2.0

package source

import (
	"strings"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	// The built-in copies that stand in for imports which a source leaves out.
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	optionsv1 "github.com/outrigger-mcp/outrigger/proto/options"
	_ "google.golang.org/protobuf/types/known/anypb"
	_ "google.golang.org/protobuf/types/known/apipb"
	_ "google.golang.org/protobuf/types/known/durationpb"
	_ "google.golang.org/protobuf/types/known/emptypb"
	_ "google.golang.org/protobuf/types/known/fieldmaskpb"
	_ "google.golang.org/protobuf/types/known/sourcecontextpb"
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/typepb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"
)

// Builtin returns this process's copy of a file that is the same everywhere: Protobuf's well-known types, our options,
// and the validation rules. It returns nil for any other path.
func Builtin(path string) *descriptorpb.FileDescriptorProto {
	switch {
	case strings.HasPrefix(path, "google/protobuf/"), path == "buf/validate/validate.proto":
	case strings.HasPrefix(path, "outrigger/v1/"):
		_, _ = optionsv1.File_outrigger_v1_options_proto, outriggerv1.File_outrigger_v1_tool_proto
	default:
		return nil
	}
	fd, err := protoregistry.GlobalFiles.FindFileByPath(path)
	if err != nil {
		return nil
	}
	return protodesc.ToFileDescriptorProto(fd)
}
