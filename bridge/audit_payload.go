// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/internal/audit"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/mcpjson"
	"github.com/outrigger-mcp/outrigger/internal/redact"
)

// input is what came as the arguments of a request, kept for the audit trail: the request
// forgets its own once the backend is called.
type input struct {
	bytes    []byte
	encoding Encoding
	size     int
	// tool, once it is known, says what is secret.
	tool *catalog.Tool
	// isAdded: the line has the arguments.
	isAdded bool
}

// newInput keeps arguments that are not too large to be recorded.
func newInput(req *Request, size, most int) input {
	in := input{encoding: req.Arguments.Encoding, size: size}
	switch {
	case size > most:
	case req.Message != nil:
		in.bytes = messageJSON(req.Message)
		in.size = len(in.bytes)
	default:
		in.bytes = slices.Clone(req.Arguments.Bytes)
	}
	return in
}

// messageJSON is the JSON of a message of the contract, nil where it has none.
func messageJSON(m proto.Message) []byte {
	out, err := protojson.Marshal(m)
	if err != nil {
		return nil
	}
	return out
}

// addArguments adds the arguments to the line, as JSON.
func (b *Bridge) addArguments(inv *invocation) {
	in := &inv.input
	if in.isAdded || in.size == 0 {
		return
	}
	in.isAdded = true
	inv.event.Arguments = b.argumentsOf(in, in.tool)
}

// argumentsOf is what came as arguments of a tool, as JSON. The tool may be nil.
func (b *Bridge) argumentsOf(in *input, tool *catalog.Tool) audit.Payload {
	text := in.bytes
	if in.encoding == EncodingProtobuf && in.bytes != nil {
		text = tool.ArgumentsJSON(in.bytes)
	}
	out := audit.Payload{JSON: text, Size: in.size, Secret: b.secretInput(tool)}
	if text != nil {
		out.Size = len(text)
	}
	return out
}

// secretInput and secretOutput are what is secret in the messages of a tool. Those of a
// native tool have no type.
func (b *Bridge) secretInput(t *catalog.Tool) *redact.Message {
	if t == nil || t.Native {
		return nil
	}
	in := b.secrets.Of(t.Method.Descriptor.Input())
	if !t.TakesStream() {
		return in
	}
	header := ""
	if fd := t.Stream.Header(); fd != nil {
		header = string(fd.Name())
	}
	return redact.Arguments(in, header)
}

func (b *Bridge) secretOutput(t *catalog.Tool) *redact.Message {
	if t == nil || t.Native {
		return nil
	}
	out := b.secrets.Of(t.Method.Descriptor.Output())
	if t.Streams() {
		return redact.Items(out)
	}
	return out
}

// outputOf is the result of a response as JSON. Nothing is made of one that is too large.
func (b *Bridge) outputOf(resp *Response, size, most int) audit.Payload {
	out := audit.Payload{Size: size}
	if size > most || resp.Err != nil {
		return out
	}
	switch {
	case resp.Outcome != nil:
		out.JSON = outcomeJSON(resp)
	case resp.Message != nil:
		out.JSON = messageJSON(resp.Message)
	case resp.Result.Encoding == EncodingProtobuf:
		out.JSON = resp.Tool.ResultJSON(resp.Result.Bytes)
	default:
		out.JSON = resp.Result.Bytes
	}
	out.Size, out.Secret = len(out.JSON), b.secretOutput(resp.Tool)
	return out
}

// outcomeJSON is the data of a result, or all of an outcome that is none or has no data.
func outcomeJSON(resp *Response) []byte {
	if result := resp.Outcome.GetResult(); result != nil {
		if data, err := mcpjson.FreeForm(result.GetDataJson(), result.GetData()); err == nil && len(data) > 0 {
			return data
		}
	}
	return messageJSON(resp.Outcome)
}
