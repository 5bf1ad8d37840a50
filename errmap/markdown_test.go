// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

const markdownHead = `# Canonical errors

<!-- Rendered from the table in errmap/table.go by: go test ./errmap -update -->

Every failure gets exactly one canonical code. Each edge shows that code in its own vocabulary.

- **JSON-RPC** (the canonical dialect, on ` + "`/rpc`" + ` and stdio): a JSON-RPC error with the code and message of the row, and on
  HTTP the status of column HTTP. Rows marked * always show exactly this message.
- **MCP**: status / code of a protocol error, or "isError": a result with ` + "`isError: true`" + ` and HTTP 200, whose text says what to do,
  and whose ` + "`_meta[\"dev.outrigger/error\"]`" + ` is the data object below. An isError row that does not concern a ` + "`tools/call`" + ` is the
  protocol error in brackets. "-": cannot arise there.
- **Connect, gRPC, gRPC-Web**: the code of column Connect, with the details ` + "`google.rpc.ErrorInfo`" + ` (reason: the canonical code,
  domain: ` + "`outrigger.dev`" + `), ` + "`outrigger.v1.ErrorDetail`" + `, and ` + "`google.rpc.BadRequest`" + `, ` + "`google.rpc.RetryInfo`" + `,
  ` + "`outrigger.v1.MissingCapabilities`" + ` where they apply.
- **Logs, metrics, traces, run records**: the code itself.

The data object, with its members in this order; those with ? only where they are known:

` + "```" + `
{"code", "errorType", "retryable", "retryAfterMs"?, "requestId", "tool"?, "violations"?: [{"path", "keyword", "message"}], "backendCode"?, "backendStatus"?, "details"?}
` + "```" + `

## What a violation's path is rooted at

` + "`path`" + ` is a JSON Pointer (RFC 6901), empty for the whole document. A path about an unknown member names that member. The code
says which document it points into:

| code | document | example |
|---|---|---|
| INVALID_TOOL_INPUT | the arguments object: ` + "`params.arguments`" + ` in JSON-RPC, ` + "`ToolCall.arguments`" + ` of ToolService, the request message of the typed pass-through. In a batch it is that of the one entry | ` + "`/filter/limit`" + ` |
| INVALID_TOOL_OUTPUT | the message that the tool answered with; of a streaming RPC, the one message at fault | ` + "`/orders/0/id`" + ` |
| TOOL_EXECUTION_FAILED | the backend's own request: the path is what the backend wrote (` + "`google.rpc.BadRequest.field`" + `) | ` + "`order.lines[0].quantity`" + ` |
| every other code, over JSON-RPC | the JSON-RPC message | ` + "`/params/name`" + ` |
| every other code, over Connect, gRPC and gRPC-Web | the request message of ToolService, with the field names of its JSON form | ` + "`/tool_name`" + ` |

## The table

| code | HTTP | JSON-RPC | MCP modern | MCP legacy | Connect | error type | message | retryable |
|---|---|---|---|---|---|---|---|---|
`

const markdownBackend = `
## TOOL_EXECUTION_FAILED, by the backend's code

What the backend itself answered. ` + "`backendCode`" + ` names its code and ` + "`details`" + ` holds its details as JSON. A status
above 16 is unknown, and ` + "`backendStatus`" + ` keeps its number. Its message passes redaction. An error type that a native backend declares wins over this column; a not_found whose ` + "`google.rpc.ResourceInfo`" + `
says that the resource is a file is a FileNotFoundError. A code that is not listed is unknown. A ` + "`google.rpc.RetryInfo`" + ` makes
the error retryable.

| backend code | HTTP | error type | retryable |
|---|---|---|---|
`

// renderMarkdown renders docs/errors.md.
func renderMarkdown(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(markdownHead)
	for _, code := range Codes() {
		r, err := Lookup(code)
		if err != nil {
			t.Fatal(err)
		}
		name, status, connectCode := string(r.Code), strconv.Itoa(r.HTTP), r.Connect.String()
		errorType, message := r.ErrorType, r.Message
		switch {
		case r.Fixed:
			name += "*"
		case r.ByBackend:
			status, connectCode, errorType = "see below", "the backend's own", "see below"
			message = "the backend's message, redacted; else " + message
		}
		if r.Code == InvalidToolInput {
			errorType += " for structure, " + TypeValidation + " for rules"
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %s | %s | %s | %s | %s |\n", name, status, r.JSONRPC,
			markdownShown(r, r.Modern), markdownShown(r, r.Legacy), connectCode, errorType, message, r.Retryable)
	}
	b.WriteString(markdownBackend)
	for _, r := range backendRows {
		fmt.Fprintf(&b, "| %s | %d | %s | %s |\n", r.code, r.http, r.errorType, r.retry)
	}
	return b.String()
}

func markdownShown(r Row, s Shown) string {
	pair := fmt.Sprintf("%d / %d", s.HTTP, s.Code)
	switch {
	case s.Absent:
		return "-"
	case s.Form == Silent:
		return "nothing is sent"
	case s.Form == ToolResult && r.Code == PermissionDenied:
		return "isError; for a missing scope " + pair + " with `WWW-Authenticate` (" + pair + ")"
	case s.Form == ToolResult && (r.Code == RateLimited || r.Code == Unavailable):
		return "isError (" + pair + " with `Retry-After`)"
	case s.Form == ToolResult:
		return "isError (" + pair + ")"
	case r.Code == Unauthenticated:
		return pair + " with `WWW-Authenticate`"
	case r.Code == InvalidParams && s.AltHTTP != 0:
		return fmt.Sprintf("%s (%d for a missing `_meta` member)", pair, s.AltHTTP)
	case r.Code == SessionNotFound && s.AltHTTP != 0:
		return fmt.Sprintf("%s (%d where no session id was sent)", pair, s.AltHTTP)
	case r.Code == ToolNotFound:
		return pair + " \"Unknown tool: NAME\""
	case r.Code == ResourceNotFound:
		return pair + " with `data.uri`"
	default:
		return pair
	}
}
