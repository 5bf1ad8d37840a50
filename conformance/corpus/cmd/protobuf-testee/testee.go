// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// Numbers of conformance.WireFormat and conformance.TestCategory.
const (
	formatProtobuf = 1
	formatJSON     = 2

	categoryIgnoreUnknown = 3
)

// testee has the messages of the suite, compiled when they are first asked for.
type testee struct {
	set        *sources.Set
	request    protoreflect.MessageDescriptor
	response   protoreflect.MessageDescriptor
	transcoder *transcode.Transcoder
	messages   map[string]*transcode.Message
}

func newTestee(ctx context.Context, protos string) (*testee, error) {
	set, err := sources.Parse(ctx, []sources.Root{{Folder: protos}}, nil,
		"conformance/conformance.proto",
		"google/protobuf/test_messages_proto2.proto", "google/protobuf/test_messages_proto3.proto",
		"google/protobuf/test_messages_proto2_editions.proto", "google/protobuf/test_messages_proto3_editions.proto",
		"google/protobuf/test_messages_edition2023.proto")
	if err != nil {
		return nil, err
	}
	t := &testee{set: set, transcoder: transcode.New(transcode.Options{Resolver: set.Types}), messages: map[string]*transcode.Message{}}
	for name, into := range map[protoreflect.FullName]*protoreflect.MessageDescriptor{
		"conformance.ConformanceRequest": &t.request, "conformance.ConformanceResponse": &t.response,
	} {
		md, err := set.Message(name)
		if err != nil {
			return nil, err
		}
		*into = md
	}
	return t, nil
}

// answer gives one response to one request. An error means that the two do not understand each other.
func (t *testee) answer(raw []byte) ([]byte, error) {
	request := dynamicpb.NewMessage(t.request)
	if err := proto.Unmarshal(raw, request); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	response := dynamicpb.NewMessage(t.response)
	name, value := t.result(request)
	fd := t.response.Fields().ByName(name)
	if fd.Kind() == protoreflect.BytesKind {
		response.Set(fd, protoreflect.ValueOfBytes(value))
	} else {
		response.Set(fd, protoreflect.ValueOfString(string(value)))
	}
	out, err := proto.Marshal(response)
	if err != nil {
		return nil, fmt.Errorf("write response: %w", err)
	}
	return out, nil
}

// result is the name and the value of the response's one field.
func (t *testee) result(request protoreflect.Message) (protoreflect.Name, []byte) {
	get := func(name protoreflect.Name) protoreflect.Value { return request.Get(t.request.Fields().ByName(name)) }
	has := func(name protoreflect.Name) bool { return request.Has(t.request.Fields().ByName(name)) }
	name, format := get("message_type").String(), get("requested_output_format").Enum()
	switch {
	case name == "conformance.FailureSet":
		// The runner asks first which failures the testee itself expects: none.
		return "protobuf_payload", nil
	case format != formatProtobuf && format != formatJSON:
		return "skipped", []byte("the transcoder writes JSON and wire bytes")
	case get("test_category").Enum() == categoryIgnoreUnknown:
		return "skipped", []byte("the transcoder refuses unknown fields; it has no mode that ignores them")
	}
	m, err := t.message(name)
	if err != nil {
		return "runtime_error", []byte(err.Error())
	}
	switch {
	case has("json_payload"):
		wire, err := m.ToWire(nil, []byte(get("json_payload").String()))
		if err != nil {
			return parseError(err)
		}
		if format == formatProtobuf {
			return "protobuf_payload", wire
		}
		return toJSON(m, wire)
	case has("protobuf_payload") && format == formatJSON:
		return toJSON(m, get("protobuf_payload").Bytes())
	default:
		return "skipped", []byte("the transcoder does not turn wire bytes into wire bytes")
	}
}

func (t *testee) message(name string) (*transcode.Message, error) {
	if m, ok := t.messages[name]; ok {
		return m, nil
	}
	md, err := t.set.Message(protoreflect.FullName(name))
	if err != nil {
		return nil, err
	}
	m, err := t.transcoder.Compile(md)
	if err != nil {
		return nil, err
	}
	t.messages[name] = m
	return m, nil
}

// parseError tells a document that was refused from a failure of the transcoder itself.
func parseError(err error) (protoreflect.Name, []byte) {
	var refused *transcode.InputError
	if errors.As(err, &refused) {
		return "parse_error", []byte(err.Error())
	}
	return "runtime_error", []byte(err.Error())
}

// toJSON writes wire bytes as JSON. Where ProtoJSON has no form for a value, the suite wants no JSON at all. The transcoder writes
// the nearest form with a note, because one value should not cost an agent the whole answer. Typed callers of the sidecar, who
// have no place for a note, get an error, and so does the suite.
func toJSON(m *transcode.Message, wire []byte) (protoreflect.Name, []byte) {
	doc, noted, err := m.ToJSONNoting(context.Background(), nil, nil, wire)
	switch {
	case err == nil && len(noted.Odd) > 0:
		return "serialize_error", []byte(noted.Odd[0].What)
	case err == nil:
		return "json_payload", doc
	}
	var broken *transcode.OutputError
	switch {
	case !errors.As(err, &broken):
		return "runtime_error", []byte(err.Error())
	case broken.Step == "decode":
		return "parse_error", []byte(err.Error())
	default:
		return "serialize_error", []byte(err.Error())
	}
}
