// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"encoding/json"
	"strconv"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/mcpjson"
)

// listTTL is how long a client may keep a listing, in milliseconds: the
// contract's default for discovery results (300 s).
const listTTL = 300_000

// listCache keeps the rendered tools of the newest snapshot per dialect. A
// snapshot is immutable, so its listing is too.
type listCache struct {
	canonical, modern, legacy atomic.Pointer[listing]
}

func newListCache() any { return &listCache{} }

// listsOf is where the rendered lists of a catalog are kept.
func (h *Handler) listsOf(cat *catalog.Catalog) *listCache {
	lists, _ := h.Rendered(cat, newListCache).(*listCache)
	return lists
}

func writeCanonicalList(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	return call.list(listed(&h.listsOf(call.resp.Catalog).canonical, call.resp.Catalog, appendCanonicalTool), []byte(`]}`))
}

// writeModernList renders a page of tools.
func writeModernList(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	tail := appendNextCursor([]byte{']'}, call.resp.NextCursor)
	tail = strconv.AppendInt(append(tail, `,"ttlMs":`...), listTTL, 10)
	tail = appendCacheScope(tail, call.resp.CacheScope())
	return call.list(listed(&h.listsOf(call.resp.Catalog).modern, call.resp.Catalog, appendMCPTool), append(tail, h.modernTail...))
}

func writeLegacyList(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	return call.list(listed(&h.listsOf(call.resp.Catalog).legacy, call.resp.Catalog, appendLegacyTool), append(appendNextCursor([]byte{']'}, call.resp.NextCursor), '}'))
}

// appendMCPTool appends a tool as the modern era shows it. What MCP has no
// member for (canonical name, version, fingerprint, metadata) is in _meta, beside
// what a native backend put there itself.
func appendMCPTool(dst []byte, t *catalog.Tool) []byte {
	return appendToolOf(dst, t, len(t.Output.Advertised) > 0, appendAsItIs)
}

// appendLegacyTool appends a tool as the legacy eras show it: structured content
// is always an object there, so that an output schema which promises something
// else is left out.
func appendLegacyTool(dst []byte, t *catalog.Tool) []byte {
	return appendToolOf(dst, t, len(t.Output.Advertised) > 0 && rootIsObject(t.Output.Advertised), mcpjson.AppendLegacySchema)
}

func appendAsItIs(dst, schema []byte) []byte { return append(dst, schema...) }

func appendToolOf(dst []byte, t *catalog.Tool, withOutput bool, appendSchema func(dst, schema []byte) []byte) []byte {
	dst = append(dst, `{"name":`...)
	dst = jsonrpc.AppendString(dst, t.MCPName)
	dst = appendToolText(dst, t)
	dst = append(dst, `,"inputSchema":`...)
	dst = appendSchema(dst, t.Input.Advertised)
	if withOutput && !t.Method.ClientStreaming {
		dst = append(dst, `,"outputSchema":`...)
		dst = appendSchema(dst, t.Output.Advertised)
	}
	dst = appendAnnotations(dst, t)
	dst = appendIcons(dst, t)
	dst = append(dst, `,"_meta":{`...)
	for name, value := range jsonrpc.Members(t.Meta) {
		if name != toolMetaKey {
			dst = append(jsonrpc.AppendString(dst, name), ':')
			dst = append(append(dst, value...), ',')
		}
	}
	dst = append(dst, `"`+toolMetaKey+`":{"name":`...)
	dst = jsonrpc.AppendString(dst, t.Name)
	dst = appendFacts(dst, t)
	return append(dst, `}}}`...)
}

// toolMetaKey is the _meta member of a tool for what MCP has no member for.
const toolMetaKey = "dev.outrigger/tool"

// rootIsObject reports whether a schema says that its root is an object.
func rootIsObject(schema json.RawMessage) bool {
	kind, _ := jsonrpc.Lookup(schema, "type")
	return string(kind) == `"object"`
}

// appendIcons appends a tool's pictures, where it has some.
func appendIcons(dst []byte, t *catalog.Tool) []byte {
	if len(t.Icons) == 0 {
		return dst
	}
	icons, err := mcpjson.AppendIcons(nil, t.Icons)
	if err != nil || len(icons) <= len(`{}`) {
		return dst // a list must not fail over a picture
	}
	return append(append(dst, ','), icons[1:len(icons)-1]...)
}

// appendCanonicalTool appends a tool as the canonical dialect shows it.
func appendCanonicalTool(dst []byte, t *catalog.Tool) []byte {
	return append(appendCanonicalMembers(dst, t), '}')
}

func appendCanonicalMembers(dst []byte, t *catalog.Tool) []byte {
	dst = append(dst, `{"name":`...)
	dst = jsonrpc.AppendString(dst, t.Name)
	dst = appendToolText(dst, t)
	dst = append(dst, `,"inputSchema":`...)
	dst = append(dst, t.Input.Advertised...)
	dst = append(dst, `,"outputSchema":`...)
	dst = append(dst, orNull(t.Output.Advertised)...)
	dst = appendAnnotations(dst, t)
	return appendFacts(dst, t)
}

// orNull is a schema, or null where nothing is promised: in the canonical
// dialect every member is always there.
func orNull(schema json.RawMessage) json.RawMessage {
	if len(schema) == 0 {
		return json.RawMessage("null")
	}
	return schema
}

// writeCanonicalTool renders tools/get: the listing's members and both
// canonical schemas.
func writeCanonicalTool(_ *Handler, call *exchange) ([]byte, *errmap.Error) {
	t := call.resp.Tool
	dst := appendCanonicalMembers(nil, t)
	dst = append(dst, `,"canonicalInputSchema":`...)
	dst = append(dst, t.Input.Canonical...)
	dst = append(dst, `,"canonicalOutputSchema":`...)
	dst = append(dst, orNull(t.Output.Canonical)...)
	return jsonrpc.Compact(nil, append(dst, '}')), nil
}

func appendToolText(dst []byte, t *catalog.Tool) []byte {
	dst = append(dst, `,"title":`...)
	dst = jsonrpc.AppendString(dst, t.Title)
	dst = append(dst, `,"description":`...)
	return jsonrpc.AppendString(dst, t.Description)
}

// appendAnnotations appends MCP's hints. Only what is known is said; a client
// takes the protocol's defaults for the rest.
func appendAnnotations(dst []byte, t *catalog.Tool) []byte {
	dst = append(dst, `,"annotations":{"title":`...)
	dst = jsonrpc.AppendString(dst, t.Title)
	for _, hint := range [...]struct {
		name  string
		value *bool
	}{
		{"readOnlyHint", t.Annotations.ReadOnly},
		{"destructiveHint", t.Annotations.Destructive},
		{"idempotentHint", t.Annotations.Idempotent},
		{"openWorldHint", t.Annotations.OpenWorld},
	} {
		if hint.value == nil {
			continue
		}
		dst = append(dst, `,"`+hint.name+`":`...)
		dst = strconv.AppendBool(dst, *hint.value)
	}
	return append(dst, '}')
}

// appendFacts appends version, fingerprint and metadata. Every metadata member
// is always there.
func appendFacts(dst []byte, t *catalog.Tool) []byte {
	dst = append(dst, `,"version":`...)
	dst = jsonrpc.AppendString(dst, t.Version)
	dst = append(dst, `,"fingerprint":`...)
	dst = jsonrpc.AppendString(dst, t.Fingerprint)
	dst = append(dst, `,"metadata":{"module":`...)
	dst = jsonrpc.AppendString(dst, t.Metadata.Module)
	dst = append(dst, `,"destructive":`...)
	dst = strconv.AppendBool(dst, t.Metadata.Destructive)
	dst = append(dst, `,"deprecated_in":`...)
	if t.Metadata.DeprecatedIn == "" {
		dst = append(dst, "null"...)
	} else {
		dst = jsonrpc.AppendString(dst, t.Metadata.DeprecatedIn)
	}
	dst = append(dst, `,"cache_ttl":`...)
	dst = strconv.AppendInt(dst, int64(t.Metadata.CacheTTL.Seconds()), 10)
	return append(dst, '}')
}

// ToolJSON returns one tool as tools/get of the canonical dialect shows it:
// what `sidecar tools --json` prints.
func ToolJSON(t *catalog.Tool) json.RawMessage {
	body, _ := writeCanonicalTool(nil, &exchange{resp: &bridge.Response{Tool: t}})
	return body
}
