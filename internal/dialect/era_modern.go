// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// methodListen asks for a stream of changes.
const methodListen = "subscriptions/listen"

// newModern returns MCP 2026-07-28: stateless, every request carries its
// protocol revision and capabilities, and on HTTP the headers repeat them.
func newModern(hasVariants bool) *era {
	return &era{
		methods: withMCP(map[string]*method{
			"server/discover": {op: bridge.OpList, read: readAnything, write: writeDiscover},
			"tools/list":      {op: bridge.OpList, read: readPage, write: writeModernList},
			"tools/manifest":  {op: bridge.OpList, read: readManifest, write: writeManifest},
			"tools/describe":  {op: bridge.OpList, read: readDescribe, write: writeDescribed},
			methodToolsCall:   {op: bridge.OpCall, read: readMCPCall, write: writeModernResult},
			methodListen:      {op: bridge.OpListen, read: readListen, write: writeListen},
			"tasks/get":       {op: bridge.OpGetTask, read: readGetTask, write: writeTask},
			"tasks/update":    {op: bridge.OpUpdateTask, read: readUpdateTask, write: writeAcknowledged},
			"tasks/cancel":    {op: bridge.OpCancelTask, read: readCancelTask, write: writeAcknowledged},
		}),
		mirrors:      true,
		admit:        func(in *Inbound) *errmap.Error { return admitModern(in, hasVariants) },
		matchHeaders: matchModernName,
		fail:         failModern,
	}
}

// admitModern checks what every request must carry, in the order that lets a
// client tell the faults apart: the _meta members, the version header, the
// version itself, the method header.
func admitModern(in *Inbound, hasVariants bool) *errmap.Error {
	version, err := requireMeta(in)
	if err != nil {
		return err
	}
	if in.Header != nil {
		if err = matchHeader(in.Header, headerVersion, version); err != nil {
			return err
		}
	}
	if version != VersionModern && (version != versionVariants || !hasVariants) {
		err = errmap.UnsupportedVersion(version, versions(hasVariants))
		if version == versionVariants {
			err.Message = content.NotOn(err.Code, "", "revision "+version, variantsName).Message
		}
		return err
	}
	if in.Header != nil {
		return matchHeader(in.Header, headerMethod, in.Message.Method)
	}
	return nil
}

// requireMeta returns the version in _meta, or names every required member of _meta
// that is missing or has the wrong type, in one error.
func requireMeta(in *Inbound) (version string, err *errmap.Error) {
	meta := in.meta()
	var lacking []errmap.Violation
	lack := func(key, keyword, message string) {
		lacking = append(lacking, errmap.Violation{
			Path: "/params/_meta/" + jsonPointerToken(key), Keyword: keyword, Message: message,
		})
	}
	if raw, ok := jsontext.Lookup(meta, metaVersionKey); !ok {
		lack(metaVersionKey, "required", "params._meta lacks "+metaVersionKey)
	} else if raw[0] != '"' {
		lack(metaVersionKey, "type", metaVersionKey+" is "+jsonKind(raw)+", want a string")
	} else {
		version = versionText(raw)
	}
	if raw, ok := jsontext.Lookup(meta, metaCapabilitiesKey); !ok {
		lack(metaCapabilitiesKey, "required", "params._meta lacks "+metaCapabilitiesKey)
	} else if raw[0] != '{' {
		lack(metaCapabilitiesKey, "type", metaCapabilitiesKey+" is "+jsonKind(raw)+", want an object")
	}
	if lacking == nil {
		return version, nil
	}
	err = errmap.New(errmap.InvalidParams, errmap.MissingMeta(), errmap.WithViolations(lacking...))
	err.Message = "Invalid params: " + err.Violations[0].Message
	return "", err
}

// namedBy is the member of params that Mcp-Name repeats, empty for operations
// that name nothing (MCP 2026-07-28, Streamable HTTP; tasks extension).
func namedBy(op bridge.Op) string {
	switch op {
	case bridge.OpCall, bridge.OpGetPrompt:
		return "name"
	case bridge.OpReadResource:
		return "uri"
	case bridge.OpGetTask, bridge.OpUpdateTask, bridge.OpCancelTask:
		return "taskId"
	}
	return ""
}

// matchModernName checks Mcp-Name against the name in the body. The header may
// be encoded, so it is decoded before the comparison. A name that is no string
// is left to the reader of the params.
func matchModernName(in *Inbound, op bridge.Op) *errmap.Error {
	member := namedBy(op)
	if in.Header == nil || member == "" {
		return nil
	}
	name, err := decodedHeader(in.Header[headerName], headerName)
	if err != nil {
		return err
	}
	raw, _ := in.Message.Param(member)
	if jsontext.IsText(raw, name) || jsontext.IsText(raw, unmerged(name)) {
		return nil
	}
	if want, ok := jsontext.Text(raw); ok {
		return headerMismatch("%s is %s, the body has %s", headerName, errmap.Quote(name), errmap.Quote(want))
	}
	return nil
}

// readAnything accepts any params: MCP asks servers to tolerate unknown
// members.
func readAnything(*exchange) *errmap.Error { return nil }

// writeModernResult renders a tool result.
func writeModernResult(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	if outcome := call.resp.Outcome; outcome != nil {
		return h.writeModernOutcome(outcome)
	}
	tail := h.introduction().modernTail
	if call.resp.Truncated {
		var err *errmap.Error
		if tail, err = h.closeResult(nil, typeComplete, nil, truncatedMeta); err != nil {
			return nil, err
		}
	}
	h.writeCall(call, tail)
	return nil, nil
}

// failModern writes an error: what the revision defines as a protocol error
// stays one; what concerns one tool call becomes a result with isError.
func failModern(h *Handler, call *exchange, err *errmap.Error) Reply {
	id, about := call.in.Message.ID, call.about()
	shown := err.MCP(errmap.Modern, about)
	switch shown.Form {
	case errmap.ToolResult:
		failed := failedCall{err: err, text: shown.Text, data: shown.Data, before: modernType, after: h.introduction().modernMeta}
		return replyFrom(shown, failed.appendTo(id)).recording(err, about, shown.Data)
	case errmap.Silent:
		return Reply{Status: shown.HTTPStatus}
	}
	return replyFrom(shown, jsonrpc.AppendError(nil, id, true, shown.Code, shown.Message, call.draftData(shown.Data)))
}

// modernType is what every complete result of the revision has.
var modernType = []byte(`,"resultType":"complete"`)
