// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Dialect is how a JSON-RPC request is written.
type Dialect uint8

// The dialects. MessageForm is canonical, with {"tool_name", "arguments"}; Oldest
// is the revision 2025-03-26, whose results have no structured content.
const (
	Modern Dialect = iota
	Legacy
	Canonical
	MessageForm
	Oldest
)

// ModernMeta is the _meta that every request of MCP 2026-07-28 must carry.
const ModernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// errorMeta is where MCP results keep the canonical error.
const errorMeta = "dev.outrigger/error"

// Name is a tool's name in the dialect: MCP shows "_" for ".".
func (d Dialect) Name(canonical string) string {
	if d == Modern || d == Legacy || d == Oldest {
		return strings.ReplaceAll(canonical, ".", "_")
	}
	return canonical
}

// Request writes a tools/call as one line.
func (d Dialect) Request(c Call) string {
	args := c.Args
	if args == "" {
		args = "{}"
	}
	switch d {
	case Modern:
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s,%s}}`, c.ID, d.Name(c.Tool), args, ModernMeta)
	case MessageForm:
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"tool_name":%q,"arguments":%s}}`, c.ID, c.Tool, args)
	default:
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, c.ID, d.Name(c.Tool), args)
	}
}

// Reply is one JSON-RPC response.
type Reply struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int64           `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// result is what a successful tools/call holds, in either form.
type result struct {
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	Structured json.RawMessage            `json:"structuredContent"`
	IsError    bool                       `json:"isError"`
	Meta       map[string]json.RawMessage `json:"_meta"`
	ResultType string                     `json:"resultType"`

	Status string          `json:"status"`
	Data   json.RawMessage `json:"data"`
	Error  *struct {
		Type    string          `json:"error_type"`
		Message string          `json:"error_message"`
		Details json.RawMessage `json:"error_details"`
	} `json:"error"`
}

// CodeOf reads the canonical code of an error's data object.
func CodeOf(data json.RawMessage) string {
	var d struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(data, &d)
	return d.Code
}

// Parse turns one response into an answer and checks its shape. status is the
// HTTP status, 0 on stdio.
func (d Dialect) Parse(line []byte, status int) Answer {
	var reply Reply
	if err := json.Unmarshal(line, &reply); err != nil {
		return failed(fmt.Errorf("HTTP %d, no JSON-RPC message: %w: %.200s", status, err, line))
	}
	return d.answer(reply, status)
}

func (d Dialect) answer(reply Reply, status int) Answer {
	out := Answer{ID: string(reply.ID)}
	switch {
	case reply.Version != "2.0":
		return failed(fmt.Errorf("jsonrpc is %q", reply.Version))
	case reply.Error != nil && reply.Result != nil:
		return failed(fmt.Errorf("a response with result and error"))
	case reply.Error != nil:
		out.Fault = &Fault{
			Code: CodeOf(reply.Error.Data), Number: reply.Error.Code, Status: status,
			Message: reply.Error.Message, Data: reply.Error.Data,
		}
		return out
	}
	var r result
	if err := json.Unmarshal(reply.Result, &r); err != nil {
		return failed(fmt.Errorf("result: %w", err))
	}
	if d == MessageForm {
		return messageAnswer(out, r, status)
	}
	if (d == Modern) != (r.ResultType == "complete") {
		return failed(fmt.Errorf("resultType is %q", r.ResultType))
	}
	if len(r.Content) == 0 {
		return failed(fmt.Errorf("a result without content: %s", reply.Result))
	}
	if r.IsError {
		data := r.Meta[errorMeta]
		out.Fault = &Fault{Code: CodeOf(data), Status: status, Message: r.Content[0].Text, Data: data}
		if r.Structured != nil {
			return failed(fmt.Errorf("structuredContent beside an error"))
		}
		return out
	}
	if d == Oldest && r.Structured == nil {
		r.Structured = json.RawMessage(r.Content[0].Text)
	}
	if r.Content[0].Text != string(r.Structured) {
		return failed(fmt.Errorf("the text %q is not the structured content %s", r.Content[0].Text, r.Structured))
	}
	out.Data = r.Structured
	return out
}

func messageAnswer(out Answer, r result, status int) Answer {
	switch {
	case isGood(r.Status) && r.Error == nil:
		out.Data = r.Data
	case r.Status == "failure" && r.Error != nil && (r.Data == nil || string(r.Data) == "null" || isPartial(r.Data)):
		out.Fault = &Fault{Code: CodeOf(r.Error.Details), Status: status, Message: r.Error.Message, Data: r.Error.Details}
	default:
		return failed(fmt.Errorf("status %q, error %v, data %s", r.Status, r.Error, r.Data))
	}
	return out
}

// isPartial holds for what a stream had sent before it failed.
func isPartial(data json.RawMessage) bool {
	var of struct {
		Items     []json.RawMessage `json:"items"`
		Truncated bool              `json:"truncated"`
	}
	return json.Unmarshal(data, &of) == nil && of.Truncated && len(of.Items) > 0
}

// isGood reports whether a status is that of a result. A result that was cut off is one, too, and says so in its data.
func isGood(status string) bool { return status == "success" || status == "partial_success" }
