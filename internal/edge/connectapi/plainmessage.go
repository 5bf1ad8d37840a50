// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"encoding/base64"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Most calls name a tool and have arguments, and most outcomes are a status and data. These
// are read and written here without reflection; everything else is left to the codecs. What
// is read here keeps the rules of the contract, which a test compares with the validator.

// maxToolName is how long the name of a tool may be, by the rules of ToolCall.
const maxToolName = 256

// isToolName holds for names that the rules of ToolCall admit.
func isToolName(name []byte) bool {
	for i := range len(name) {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-') {
			return false
		}
	}
	return len(name) >= 1 && len(name) <= maxToolName
}

// shortCall is a ToolCall of a name and arguments. The arguments keep the memory of the
// request.
func shortCall(name string, arguments []byte) *outriggerv1.ToolCall {
	call := &outriggerv1.ToolCall{ToolName: name}
	if arguments != nil {
		call.ArgumentsForm = &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: arguments}
	}
	return call
}

// readShortProto reads a ToolCall that is short; nil for any other.
func readShortProto(body []byte) *outriggerv1.ToolCall {
	const nameField, argumentsField = 1, 3
	var name, arguments []byte
	for len(body) > 0 {
		field, kind, n := protowire.ConsumeTag(body)
		if n < 0 || kind != protowire.BytesType {
			return nil
		}
		value, m := protowire.ConsumeBytes(body[n:])
		if m <= 0 || len(value) == 0 {
			return nil
		}
		switch {
		case field == nameField && name == nil:
			name = value
		case field == argumentsField && arguments == nil:
			arguments = value
		default: // twice, or another one
			return nil
		}
		body = body[n+m:]
	}
	if !isToolName(name) {
		return nil
	}
	return shortCall(string(name), arguments)
}

// readShortJSON is readShortProto for JSON.
func readShortJSON(body []byte, limits jsonrpc.Limits) *outriggerv1.ToolCall {
	limits.MaxDepth += maxAround // as readContract has it
	if jsonrpc.Check(body, limits) != nil || !jsontext.IsObject(jsontext.Trim(body)) {
		return nil
	}
	var name string
	var arguments []byte
	for member, value := range jsontext.Fields(jsontext.Trim(body)) {
		switch {
		case string(member) == "tool_name" && value[0] == '"' && isToolName(value[1:len(value)-1]):
			name = string(value[1 : len(value)-1])
		case string(member) == "arguments" && value[0] == '{':
			arguments = value
		default:
			return nil
		}
	}
	if name == "" {
		return nil
	}
	return shortCall(name, arguments)
}

// Fields of ToolOutcome and ToolResult.
const (
	fieldResult   = 1
	fieldStatus   = 1
	fieldDataJSON = 3
)

// appendOutcome appends what a call has as its outcome, as Protobuf.
func appendOutcome(dst []byte, resp *bridge.Response) ([]byte, error) {
	if resp.Outcome != nil || resp.Truncated || resp.Explanation != "" {
		return proto.MarshalOptions{}.MarshalAppend(dst, resp.ToolOutcome())
	}
	const status, data = bridge.StatusSuccess, fieldDataJSON
	raw := resp.Result.Bytes
	size := protowire.SizeTag(fieldStatus) + protowire.SizeBytes(len(status)) + protowire.SizeTag(data) + protowire.SizeBytes(len(raw))
	dst = protowire.AppendVarint(protowire.AppendTag(dst, fieldResult, protowire.BytesType), uint64(size))
	dst = protowire.AppendString(protowire.AppendTag(dst, fieldStatus, protowire.BytesType), status)
	return protowire.AppendBytes(protowire.AppendTag(dst, data, protowire.BytesType), raw), nil
}

// appendOutcomeJSON is appendOutcome for JSON.
func appendOutcomeJSON(dst []byte, resp *bridge.Response) ([]byte, error) {
	if resp.Outcome != nil || resp.Truncated || resp.Explanation != "" {
		return jsonMessages{}.MarshalAppend(dst, resp.ToolOutcome())
	}
	dst = append(dst, `{"result":{"status":"`+bridge.StatusSuccess+`","data_json":"`...)
	return append(base64.StdEncoding.AppendEncode(dst, resp.Result.Bytes), `"}}`...), nil
}
