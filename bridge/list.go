// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/json"
	"strconv"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/errmap"
)

// listTTL is how long a client may keep a listing, in milliseconds: the
// contract's default for discovery results (300 s).
const listTTL = 300_000

// listCache keeps the rendered listing of the newest snapshot per dialect. A
// snapshot is immutable, so its listing is too.
type listCache struct {
	canonical, modern, legacy atomic.Pointer[rendered]
}

type rendered struct {
	catalog *catalog.Catalog
	body    []byte
}

// cached returns the listing of a snapshot, rendering it on first use. Two
// callers that come at once may both render; either result is right.
func cached(slot *atomic.Pointer[rendered], cat *catalog.Catalog, render func(*catalog.Catalog) []byte) []byte {
	if r := slot.Load(); r != nil && r.catalog == cat {
		return r.body
	}
	r := &rendered{catalog: cat, body: jsonrpc.Compact(nil, render(cat))}
	slot.Store(r)
	return r.body
}

func writeCanonicalList(b *Bridge, call *exchange) ([]byte, *errmap.Error) {
	return cached(&b.lists.canonical, call.resp.Catalog, func(cat *catalog.Catalog) []byte {
		return append(appendTools([]byte(`{"tools":`), cat, appendCanonicalTool), '}')
	}), nil
}

func writeModernList(b *Bridge, call *exchange) ([]byte, *errmap.Error) {
	return cached(&b.lists.modern, call.resp.Catalog, func(cat *catalog.Catalog) []byte {
		dst := appendTools([]byte(`{"tools":`), cat, appendMCPTool)
		dst = append(dst, `,"ttlMs":`...)
		dst = strconv.AppendInt(dst, listTTL, 10)
		// Every caller sees the same tools, so the listing may be shared.
		dst = append(dst, `,"cacheScope":"public"`...)
		return append(dst, b.modernTail...)
	}), nil
}

func writeLegacyList(b *Bridge, call *exchange) ([]byte, *errmap.Error) {
	return cached(&b.lists.legacy, call.resp.Catalog, func(cat *catalog.Catalog) []byte {
		return append(appendTools([]byte(`{"tools":`), cat, appendMCPTool), '}')
	}), nil
}

// appendTools appends the visible tools in the catalog's order, which is by
// canonical name.
func appendTools(dst []byte, cat *catalog.Catalog, one func([]byte, *catalog.Tool) []byte) []byte {
	dst = append(dst, '[')
	first := true
	for _, tool := range cat.Tools() {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = one(dst, tool)
	}
	return append(dst, ']')
}

// appendMCPTool appends a tool as MCP shows it. What MCP has no member for
// (canonical name, version, fingerprint, metadata) is in _meta.
func appendMCPTool(dst []byte, t *catalog.Tool) []byte {
	dst = append(dst, `{"name":`...)
	dst = jsonrpc.AppendString(dst, t.MCPName)
	dst = appendToolText(dst, t)
	dst = append(dst, `,"inputSchema":`...)
	dst = append(dst, t.Input.Advertised...)
	if !isStreaming(t) {
		dst = append(dst, `,"outputSchema":`...)
		dst = append(dst, t.Output.Advertised...)
	}
	dst = appendAnnotations(dst, t)
	dst = append(dst, `,"_meta":{"dev.outrigger/tool":{"name":`...)
	dst = jsonrpc.AppendString(dst, t.Name)
	dst = appendFacts(dst, t)
	return append(dst, `}}}`...)
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
	dst = append(dst, t.Output.Advertised...)
	dst = appendAnnotations(dst, t)
	return appendFacts(dst, t)
}

// writeCanonicalTool renders tools/get: the listing's members and both
// canonical schemas.
func writeCanonicalTool(_ *Bridge, call *exchange) ([]byte, *errmap.Error) {
	t := call.resp.Tool
	dst := appendCanonicalMembers(nil, t)
	dst = append(dst, `,"canonicalInputSchema":`...)
	dst = append(dst, t.Input.Canonical...)
	dst = append(dst, `,"canonicalOutputSchema":`...)
	dst = append(dst, t.Output.Canonical...)
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

// isStreaming reports whether a tool's method sends or takes more than one
// message.
func isStreaming(t *catalog.Tool) bool {
	return t.Method.ClientStreaming || t.Method.ServerStreaming
}

// ToolJSON returns one tool as tools/get of the canonical dialect shows it:
// what `sidecar tools --json` prints.
func ToolJSON(t *catalog.Tool) json.RawMessage {
	body, _ := writeCanonicalTool(nil, &exchange{resp: &Response{Tool: t}})
	return body
}
