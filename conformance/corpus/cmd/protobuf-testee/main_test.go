// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// protocol has the shape of the runner's files, as far as the testee reads it, with one test message.
const protocol = `syntax = "proto3";
package conformance;
message ConformanceRequest {
  oneof payload { bytes protobuf_payload = 1; string json_payload = 2; string jspb_payload = 7; string text_payload = 8; }
  WireFormat requested_output_format = 3;
  string message_type = 4;
  TestCategory test_category = 5;
}
enum WireFormat { UNSPECIFIED = 0; }
enum TestCategory { UNSPECIFIED_TEST = 0; }
message ConformanceResponse {
  oneof result {
    string parse_error = 1; string serialize_error = 6; string runtime_error = 2;
    bytes protobuf_payload = 3; string json_payload = 4; string skipped = 5;
  }
}
message M { int32 n = 1; }
`

func testeeOf(t *testing.T) *testee {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "conformance.proto"), []byte(protocol), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := sources.Parse(t.Context(), []sources.Root{{Folder: dir}}, nil, "conformance.proto")
	if err != nil {
		t.Fatal(err)
	}
	out := &testee{set: set, transcoder: transcode.New(transcode.Options{Resolver: set.Types}), messages: map[string]*transcode.Message{}}
	if out.request, err = set.Message("conformance.ConformanceRequest"); err != nil {
		t.Fatal(err)
	}
	if out.response, err = set.Message("conformance.ConformanceResponse"); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	tt := testeeOf(t)
	for name, c := range map[string]struct {
		payload  protoreflect.Name
		value    string
		format   int32
		category int32
		message  string
		want     protoreflect.Name
		holds    string
	}{
		"json to wire":          {"json_payload", `{"n":1}`, formatProtobuf, 2, "conformance.M", "protobuf_payload", "\x08\x01"},
		"json to json":          {"json_payload", `{"n":1}`, formatJSON, 2, "conformance.M", "json_payload", `"n":1`},
		"wire to json":          {"protobuf_payload", "\x08\x02", formatJSON, 1, "conformance.M", "json_payload", `"n":2`},
		"bad json":              {"json_payload", `{"n":"x"}`, formatProtobuf, 2, "conformance.M", "parse_error", "/n"},
		"bad wire":              {"protobuf_payload", "\x08", formatJSON, 1, "conformance.M", "parse_error", ""},
		"wire to wire":          {"protobuf_payload", "\x08\x02", formatProtobuf, 1, "conformance.M", "skipped", ""},
		"text":                  {"text_payload", "n: 1", formatProtobuf, 5, "conformance.M", "skipped", ""},
		"text out":              {"json_payload", `{}`, 4, 2, "conformance.M", "skipped", ""},
		"ignore unknown":        {"json_payload", `{"x":1}`, formatJSON, categoryIgnoreUnknown, "conformance.M", "skipped", ""},
		"no such message":       {"json_payload", `{}`, formatJSON, 2, "conformance.N", "runtime_error", "conformance.N"},
		"what the testee fails": {"protobuf_payload", "", formatProtobuf, 0, "conformance.FailureSet", "protobuf_payload", ""},
	} {
		t.Run(name, func(t *testing.T) {
			request := dynamicpb.NewMessage(tt.request)
			set := func(name protoreflect.Name, v any) {
				request.Set(tt.request.Fields().ByName(name), protoreflect.ValueOf(v))
			}
			if c.payload == "protobuf_payload" {
				set(c.payload, []byte(c.value))
			} else {
				set(c.payload, c.value)
			}
			set("requested_output_format", protoreflect.EnumNumber(c.format))
			set("test_category", protoreflect.EnumNumber(c.category))
			set("message_type", c.message)
			got, value := tt.result(request)
			if got != c.want || !strings.Contains(string(value), c.holds) {
				t.Errorf("%s %q, want %s with %q", got, value, c.want, c.holds)
			}
			raw, err := proto.Marshal(request)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tt.answer(raw); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := tt.answer([]byte{0xff}); err == nil {
		t.Error("a request that is none is answered")
	}
}

func TestReadFrame(t *testing.T) {
	t.Parallel()
	frame := func(size uint32, body string) io.Reader {
		return bytes.NewReader(append(binary.LittleEndian.AppendUint32(nil, size), body...))
	}
	if body, err := readFrame(frame(2, "ab")); err != nil || string(body) != "ab" {
		t.Errorf("%q, %v", body, err)
	}
	if _, err := readFrame(bytes.NewReader(nil)); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	for name, r := range map[string]io.Reader{"cut in the body": frame(3, "ab"), "cut in the length": strings.NewReader("ab"), "too long": frame(maxRequest+1, "")} {
		if _, err := readFrame(r); err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
