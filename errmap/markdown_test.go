// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

const markdownHead = `# Canonical errors

<!-- Rendered from the table in errmap/table.go by: go test ./errmap -update -->

Every failure has exactly one canonical code. Each edge translates the code into its own protocol.

- **JSON-RPC** (the canonical dialect, on ` + "`/rpc`" + ` and stdio): a JSON-RPC error with the code and message of the row. On HTTP, the
  status is the one in column HTTP. Rows marked * always have exactly this message.
- **MCP**: the HTTP status and code of a protocol error, or "isError". "isError" is a result with ` + "`isError: true`" + ` and HTTP 200. Its text
  says what to do, and its ` + "`_meta[\"dev.outrigger/error\"]`" + ` is the data object below. For requests other than ` + "`tools/call`" + `, an isError
  row is the protocol error in brackets. "-": cannot occur there. The message of a protocol error names up to five violations.
- **Connect, gRPC, gRPC-Web**: the code in column Connect. The details are ` + "`google.rpc.ErrorInfo`" + ` (reason: the canonical code,
  domain: ` + "`outrigger.dev`" + `) and ` + "`outrigger.v1.ErrorDetail`" + `, and where they apply ` + "`google.rpc.BadRequest`" + `, ` + "`google.rpc.RetryInfo`" + ` and
  ` + "`outrigger.v1.MissingCapabilities`" + `.
- **Logs, metrics, traces, run records**: the code itself.

The last column says whether the caller is to blame. Such an error does not make a span, or a measurement of ` + "`mcp.server.operation.duration`" + `,
a failure of the sidecar, unless the reply is a result with ` + "`isError: true`" + `, which OpenTelemetry's conventions always count as one.

The data object has its members in this order. Members marked ? are present only if known:

` + "```" + `
{"code", "errorType", "retryable", "retryAfterMs"?, "requestId", "tool"?, "violations"?: [{"path", "keyword", "message"}], "backendCode"?, "backendStatus"?, "itemsSent"?, "details"?}
` + "```" + `

Where a call of a [program](programs.md) failed, ` + "`tool`" + ` is the tool that was called, the paths of violations lead into its arguments, and messages begin with the line, the column and the tool. The
fixed messages of canonical JSON-RPC stay as they are; their violations have the place, and so has ` + "`partial`" + `.

` + "`itemsSent`" + ` is present if the call sends a stream of requests. It is the number of items that were sent before the failure, so the backend may
have them.

## Paths of violations

` + "`path`" + ` is a JSON Pointer (RFC 6901). It is empty for the whole document. For an unknown member, the path names that member. The
code determines the document that the path points into:

| code | document | example |
|---|---|---|
| INVALID_TOOL_INPUT | the arguments object: ` + "`params.arguments`" + ` in JSON-RPC, ` + "`ToolCall.arguments`" + ` of ToolService, the request message of the typed pass-through. In a batch, it is the arguments object of the entry | ` + "`/filter/limit`" + ` |
| INVALID_TOOL_OUTPUT | the tool's response message; for a streaming RPC, the invalid message | ` + "`/orders/0/id`" + ` |
| TOOL_EXECUTION_FAILED | the request that the backend received; the path is the backend's own ` + "`google.rpc.BadRequest.field`" + ` | ` + "`order.lines[0].quantity`" + ` |
| every other code, over JSON-RPC | the JSON-RPC message | ` + "`/params/name`" + ` |
| every other code, over Connect, gRPC and gRPC-Web | the request message of ToolService, with the field names of its JSON form | ` + "`/tool_name`" + ` |

Over Connect, gRPC and gRPC-Web, ` + "`google.rpc.BadRequest`" + ` writes these paths as its documentation wants them, with JSON names:
` + "`parcels[1].weightKg`" + `, ` + "`labels[\"a key\"]`" + `. Its reasons are the keywords in upper case (` + "`STRING_MAX_LEN`" + `). ` + "`buf.validate.Violations`" + ` is beside it where
protovalidate's rules refused the message, and the message names the first five fields. ErrorDetail keeps JSON Pointers.

In the typed pass-through, the backend's own status leaves as it came: code, message, details and trailers, with nothing added. Trailers do not need
` + "`metadata.outbound`" + `; hop-by-hop ones, those of the protocols and the sidecar, and names of secrets are left out. Only the sidecar's own
refusals have ErrorInfo and ErrorDetail there. With ` + "`redact_backend_status: true`" + ` it is redacted and explained as on every other edge.

## The table

| code | HTTP | JSON-RPC | MCP modern | MCP legacy | Connect | error type | message | retryable | blames the caller |
|---|---|---|---|---|---|---|---|---|---|
`

const markdownOperators = `# What an operator does about an error

<!-- Rendered from the table in errmap/table.go by: go test ./errmap -update -->

The [console](console.md) shows this for each call that failed. [errors.md](errors.md) says what the codes mean.

| code | what to do |
|---|---|
`

const markdownExit = `
## Exit codes of commands that call a running sidecar

` + "`sidecar call`, `search`, `tools` and `task` with `--server`" + ` end with 0 for success, 1 if the tool itself failed, 2 for wrong usage, and otherwise with the number of the
canonical code. A code that the command does not know is 3. A number is given once and never changes. Commands that run without a server end with 3 for every
canonical error ([decision 72](decisions/0072-a-shell-that-reaches-a-sidecar.md)).

| code | exit |
|---|---|
`

const markdownBackend = `
## TOOL_EXECUTION_FAILED, by the backend's code

These are errors that the backend itself returned. ` + "`backendCode`" + ` is its code, and ` + "`details`" + ` has its details as JSON. A status above 16
counts as unknown; ` + "`backendStatus`" + ` has its number. A code that is not listed also counts as unknown. The backend's message is redacted.

An error type declared by a native backend overrides the column below. A not_found whose ` + "`google.rpc.ResourceInfo`" + ` says that the
resource is a file is a FileNotFoundError. A ` + "`google.rpc.RetryInfo`" + ` makes the error retryable.

| backend code | HTTP | error type | retryable | blames the caller |
|---|---|---|---|---|
`

// renderOperators renders docs/error-advice.md.
func renderOperators(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(markdownOperators)
	for _, code := range Codes() {
		r, err := Lookup(code)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "| %s | %s |\n", r.Code, strings.Join(r.ForOperators(), " "))
	}
	return b.String()
}

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
		errorType, message, blames := r.ErrorType, r.Message, yesNo(r.BlamesCaller)
		switch {
		case r.Fixed:
			name += "*"
		case r.ByBackend:
			status, connectCode, errorType = "see below", "the backend's own", "see below"
			message, blames = "the backend's message, redacted; else "+message, "by the backend's code"
		}
		if r.Code == InvalidToolInput {
			errorType += " for structure, " + TypeValidation + " for rules"
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %s | %s | %s | %s | %s | %s |\n", name, status, r.JSONRPC,
			markdownShown(r, r.Modern), markdownShown(r, r.Legacy), connectCode, errorType, message, r.Retryable, blames)
	}
	b.WriteString(markdownExit)
	for _, code := range Codes() {
		r, err := Lookup(code)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "| %s | %d |\n", r.Code, cmp.Or(r.Exit, 3))
	}
	b.WriteString(markdownBackend)
	for _, r := range backendRows {
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s |\n", r.code, r.http, r.errorType, r.retry, yesNo(r.blamesCaller))
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
		return fmt.Sprintf("%s (%d if no session id was sent)", pair, s.AltHTTP)
	case r.Code == ToolNotFound:
		return pair + " \"Unknown tool: NAME\""
	case r.Code == ResourceNotFound:
		return pair + " with `data.uri`"
	default:
		return pair
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
