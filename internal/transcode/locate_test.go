// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// TestWhereAnAnswerIsBroken: the error of an answer that cannot be read or written names
// the field and its first bytes.
func TestWhereAnAnswerIsBroken(t *testing.T) {
	t.Parallel()
	bytesField := func(n protowire.Number, content string) string {
		return string(protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), content))
	}
	for _, tt := range []struct{ name, message, wire, want string }{
		{"no tag", "google.protobuf.StringValue", "\xff\xff", `at "": no field begins here`},
		{"a value that is cut", "google.protobuf.StringValue", "\x0a\x05ab", `at "/value": the value of field 1 cannot be read (unexpected EOF), bytes 05 61 62`},
		{"UTF-8", "google.protobuf.StringValue", bytesField(1, "ab\xff\xfe"), `at "/value": invalid UTF-8 at byte 2, bytes ff fe`},
		{"a long value", "google.protobuf.StringValue", bytesField(1, strings.Repeat("\xff", 40)), `ff ... (40)`},
		{"a list", "google.protobuf.FieldMask", bytesField(1, "a") + bytesField(1, "\xc3"), `at "/paths/1": invalid UTF-8 at byte 0, bytes c3`},
		{"a map", "google.protobuf.Struct", bytesField(1, bytesField(1, "a/b")+bytesField(2, bytesField(3, "\xff"))), `at "/a~1b": invalid UTF-8 at byte 0, bytes ff`},
		{"a nested file", "google.protobuf.FileDescriptorSet", bytesField(1, bytesField(4, bytesField(1, "\xff")+"\x12\x09")), `bytes `},
	} {
		_, err := compiled(t, protoreflect.FullName(tt.message)).ToJSON(nil, []byte(tt.wire))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.want)
		}
	}
}
