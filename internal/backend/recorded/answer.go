// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/longrunning"
)

// lackingError says that a record does not have what was answered.
type lackingError struct{ reason reason }

// Error implements error.
func (e lackingError) Error() string { return "the record " + e.reason.String() }

// output is what a recorded call returned, as messages.
func (x *index) output(m *catalog.Method, tool *catalog.Tool, raw json.RawMessage) ([][]byte, error) {
	switch {
	case tool.Operation != nil:
		return x.operation(tool, raw)
	case tool.IsDocument():
		return x.document(tool, raw)
	case tool.Streams():
		var result struct {
			Items []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(raw, &result); err != nil {
			return nil, fmt.Errorf("items of a stream: %w", err)
		}
		out := make([][]byte, 0, len(result.Items))
		for _, item := range result.Items {
			wire, err := x.fromJSON(m.Descriptor.Output(), item)
			if err != nil {
				return nil, err
			}
			out = append(out, wire)
		}
		return out, nil
	}
	value, err := unwrapped(tool, raw)
	if err != nil {
		return nil, err
	}
	return asOne(x.fromJSON(m.Descriptor.Output(), value))
}

func asOne(wire []byte, err error) ([][]byte, error) {
	if err != nil {
		return nil, err
	}
	return [][]byte{wire}, nil
}

// unwrapped is a result without the object around what is none itself.
func unwrapped(tool *catalog.Tool, raw json.RawMessage) (json.RawMessage, error) {
	if !tool.OutputNotObject {
		return raw, nil
	}
	var wrapped struct {
		Value json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(raw, &wrapped); err != nil || wrapped.Value == nil {
		return nil, errors.New(`no member "value"`)
	}
	return wrapped.Value, nil
}

// operation is an operation that has ended with what was recorded. Callers of tools got what it ended with, typed callers all of it.
func (x *index) operation(tool *catalog.Tool, raw json.RawMessage) ([][]byte, error) {
	var state map[string]json.RawMessage
	if err := json.Unmarshal(raw, &state); err == nil && state[catalog.OperationProperty] != nil {
		return nil, lackingError{withoutAnswer} // it had not ended
	}
	value, err := unwrapped(tool, raw)
	if err != nil {
		return nil, err
	}
	ends := tool.Operation.Response
	if ends == nil || ends.Out == nil {
		held := new(anypb.Any)
		if err := (protojson.UnmarshalOptions{Resolver: x.catalog.Types()}).Unmarshal(value, held); err == nil && held.GetTypeUrl() != "" {
			return [][]byte{done(held)}, nil
		}
		return x.wholeOperation(tool, raw, errors.New("the type of what the operation ended with is not known"))
	}
	wire, err := x.fromJSON(ends.Out.Descriptor(), value)
	if err != nil {
		return x.wholeOperation(tool, raw, err)
	}
	return [][]byte{doneWith(ends.Name, wire)}, nil
}

// wholeOperation is the operation that a typed caller got; why is what is the matter where it is none.
func (x *index) wholeOperation(tool *catalog.Tool, raw json.RawMessage, why error) ([][]byte, error) {
	wire, err := x.fromJSON(tool.Method.Descriptor.Output(), raw)
	if err != nil {
		return nil, why
	}
	op, err := longrunning.Parse(wire)
	switch {
	case err != nil:
		return nil, why
	case !op.Done:
		return nil, lackingError{withoutAnswer}
	}
	return [][]byte{wire}, nil
}

// operationName is that of operations that have ended, of which none is asked for.
const operationName = "operations/recorded"

// done is an operation that has ended, with nothing where held is nil.
func done(held *anypb.Any) []byte {
	op := longrunning.Operation{Name: operationName, Done: true, Response: held}
	wire, err := op.Append(nil)
	if err != nil {
		return nil // an Any of bytes always has them
	}
	return wire
}

func doneWith(name protoreflect.FullName, wire []byte) []byte {
	return done(&anypb.Any{TypeUrl: "type.googleapis.com/" + string(name), Value: wire})
}

// Numbers of the fields of google.api.HttpBody.
const (
	bodyContentType protowire.Number = 1
	bodyData        protowire.Number = 2
)

// plainText is the media type of documents whose record has only the text.
const plainText = "text/plain; charset=utf-8"

// document is a document as the backend sent it, in one part. One that was held for its caller is not in the record.
func (x *index) document(tool *catalog.Tool, raw json.RawMessage) ([][]byte, error) {
	outcome := new(outriggerv1.ToolOutcome)
	if err := protojson.Unmarshal(raw, outcome); err != nil || len(outcome.GetResult().GetContent()) == 0 {
		if tool.Streams() {
			return nil, errors.New("the result is no document")
		}
		return asOne(x.fromJSON(tool.Method.Descriptor.Output(), raw)) // that of a typed caller
	}
	mediaType, data := plainText, []byte(nil)
	switch block := outcome.GetResult().GetContent()[0].GetBlock().(type) {
	case *outriggerv1.ContentBlock_Text:
		data = []byte(block.Text.GetText())
	case *outriggerv1.ContentBlock_Image:
		mediaType, data = block.Image.GetMimeType(), block.Image.GetData()
	case *outriggerv1.ContentBlock_Audio:
		mediaType, data = block.Audio.GetMimeType(), block.Audio.GetData()
	case *outriggerv1.ContentBlock_Resource:
		mediaType, data = block.Resource.GetContents().GetMimeType(), block.Resource.GetContents().GetBlob()
	}
	if outcome.GetResult().GetContent()[len(outcome.GetResult().GetContent())-1].GetResourceLink() != nil {
		return nil, lackingError{omitted}
	}
	var out []byte
	field := tool.BytesField
	if field == 0 {
		out = protowire.AppendString(protowire.AppendTag(out, bodyContentType, protowire.BytesType), mediaType)
		field = bodyData
	}
	return [][]byte{protowire.AppendBytes(protowire.AppendTag(out, field, protowire.BytesType), data)}, nil
}

// fromJSON is that of the package, with the types of the catalog.
func (x *index) fromJSON(md protoreflect.MessageDescriptor, raw json.RawMessage) ([]byte, error) {
	return fromJSON(md, x.catalog.Types(), raw)
}

// fromJSON reads the JSON of a message.
func fromJSON(md protoreflect.MessageDescriptor, types *catalog.Types, raw json.RawMessage) ([]byte, error) {
	m := dynamicpb.NewMessage(md)
	if err := (protojson.UnmarshalOptions{AllowPartial: true, Resolver: types}).Unmarshal(raw, m); err != nil {
		// protojson varies its spaces from build to build on purpose.
		return nil, errors.New(strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "proto:"), "\u00a0"), "\u00a0", " "))
	}
	return proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(m)
}
