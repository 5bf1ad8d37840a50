// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/listcost"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// listCache keeps the rendered tools of the newest snapshot per dialect. A
// snapshot is immutable, so its listing is too.
type listCache struct {
	canonical, modern, legacy, variants atomic.Pointer[listing]
}

func newListCache() any { return &listCache{} }

// listsOf is where the rendered lists of a catalog are kept.
func (h *Handler) listsOf(cat *catalog.Catalog) *listCache {
	lists, _ := h.shown.Rendered(cat, newListCache).(*listCache)
	return lists
}

func writeCanonicalList(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	return call.list(listed(&h.listsOf(call.resp.Catalog).canonical, call.resp.Catalog, appendCanonicalEntry), []byte(`]}`))
}

// writeModernList renders a page of tools.
func writeModernList(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	tail := appendNextCursor([]byte{']'}, call.resp.NextCursor)
	tail = strconv.AppendInt(append(tail, `,"ttlMs":`...), listTTL, 10)
	tail = appendCacheScope(tail, call.resp.CacheScope())
	return call.list(h.modernList(call), append(tail, h.introduction().modernTail...))
}

// modernList is the list of tools in the revision of a request.
func (h *Handler) modernList(call *exchange) *listing {
	lists, cat := h.listsOf(call.resp.Catalog), call.resp.Catalog
	if h.opts.Variants {
		if version, _ := MetaVersion(call.in.meta()); version == versionVariants {
			return h.mcpList(&lists.variants, cat, h.withDigest(appendVariantTool))
		}
	}
	return h.mcpList(&lists.modern, cat, h.withDigest(appendMCPTool))
}

func writeLegacyList(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	return call.list(h.legacyList(call), append(appendNextCursor([]byte{']'}, call.resp.NextCursor), '}'))
}

// legacyList is the list of tools of revisions before that of [VersionModern].
func (h *Handler) legacyList(call *exchange) *listing {
	return h.mcpList(&h.listsOf(call.resp.Catalog).legacy, call.resp.Catalog, h.withDigest(appendLegacyTool))
}

// appendMCPTool appends a tool as the modern era shows it. What MCP has no
// member for (canonical name, version, fingerprint, metadata) is in _meta, beside
// what a native backend put there itself.
func appendMCPTool(dst []byte, t *catalog.Tool, form catalog.ListForm) []byte {
	input, output := form.Input(t), form.Output(t)
	return appendToolOf(dst, t, input, output, isPartial(t, form, input, output), appendAsItIs)
}

// appendLegacyTool appends a tool as the legacy eras show it: structured content
// is always an object there, so that an output schema which promises something
// else is left out.
func appendLegacyTool(dst []byte, t *catalog.Tool, form catalog.ListForm) []byte {
	input, output := form.Input(t), form.Output(t)
	if !rootIsObject(output) {
		output = nil
	}
	return appendToolOf(dst, t, input, output, isPartial(t, form, input, output), content.AppendLegacySchema)
}

// withDigest adds the digest to what a list shows of a tool, where calls may name it.
func (h *Handler) withDigest(one entryForm) entryForm {
	if !h.opts.ToolDigests {
		return one
	}
	return func(dst []byte, t *catalog.Tool, form catalog.ListForm) []byte {
		dst = one(dst, t, form)
		digest := t.Digest()
		if digest == "" {
			return dst
		}
		const end = `}}}` // of the tool, its _meta and the member there
		dst = append(dst[:len(dst)-len(end)], `,"digest":"`...)
		return append(append(append(dst, digest...), '"'), end...)
	}
}

func appendAsItIs(dst, schema []byte) []byte { return append(dst, schema...) }

// isPartial reports whether an entry has other schemas than the tool alone, which its digest covers.
func isPartial(t *catalog.Tool, form catalog.ListForm, input, output json.RawMessage) bool {
	if len(output) == 0 && t.HasOutput() {
		return true
	}
	if !form.SharedRefs {
		return false
	}
	return !bytes.Equal(input, t.Input.Advertised()) || !bytes.Equal(output, t.Output.Advertised())
}

// appendToolOf appends a tool. Its title is that of the annotations, which clients of every era show.
func appendToolOf(dst []byte, t *catalog.Tool, input, output json.RawMessage, isPartial bool, appendSchema func(dst, schema []byte) []byte) []byte {
	dst = append(dst, `{"name":`...)
	dst = jsontext.AppendString(dst, t.MCPName)
	dst = append(dst, `,"description":`...)
	dst = jsontext.AppendString(dst, t.Description)
	dst = append(dst, `,"inputSchema":`...)
	dst = appendSchema(dst, input)
	if len(output) > 0 {
		dst = append(dst, `,"outputSchema":`...)
		dst = appendSchema(dst, output)
	}
	dst = appendAnnotations(dst, t)
	dst = appendIcons(dst, t)
	dst = append(dst, `,"_meta":{`...)
	for name, value := range jsontext.Members(t.Meta) {
		if name != toolMetaKey {
			dst = append(jsontext.AppendString(dst, name), ':')
			dst = append(append(dst, value...), ',')
		}
	}
	dst = append(dst, `"`+toolMetaKey+`":{"name":`...)
	dst = jsontext.AppendString(dst, t.Name)
	dst = appendVersion(dst, t)
	dst = appendUnsaid(dst, t)
	if isPartial {
		dst = append(dst, `,"partial":true`...)
	}
	return append(dst, `}}}`...)
}

// appendUnsaid appends the metadata that nothing else says: what is destructive is in the annotations, and how long an entry
// may be kept in most cases what the list says.
func appendUnsaid(dst []byte, t *catalog.Tool) []byte {
	dst = append(dst, `,"metadata":{"module":`...)
	dst = jsontext.AppendString(dst, t.Metadata.Module)
	if hint := t.Annotations.Destructive; t.Metadata.Destructive && (hint == nil || !*hint) {
		dst = append(dst, `,"destructive":true`...)
	}
	if t.Metadata.DeprecatedIn != "" {
		dst = append(dst, `,"deprecated_in":`...)
		dst = jsontext.AppendString(dst, t.Metadata.DeprecatedIn)
	}
	if ttl := t.Metadata.CacheTTL.Milliseconds(); ttl != listTTL {
		dst = append(dst, `,"cache_ttl":`...)
		dst = strconv.AppendInt(dst, int64(t.Metadata.CacheTTL.Seconds()), 10)
	}
	return append(dst, '}')
}

// toolMetaKey is the _meta member of a tool for what MCP has no member for.
const toolMetaKey = "dev.outrigger/tool"

// rootIsObject reports whether a schema says that its root is an object.
func rootIsObject(schema json.RawMessage) bool {
	kind, _ := jsontext.Lookup(schema, "type")
	return string(kind) == `"object"`
}

// appendIcons appends a tool's pictures, where it has some.
func appendIcons(dst []byte, t *catalog.Tool) []byte {
	if len(t.Icons) == 0 {
		return dst
	}
	icons, err := content.AppendIcons(nil, t.Icons)
	if err != nil || len(icons) <= len(`{}`) {
		return dst // a list must not fail over a picture
	}
	return append(append(dst, ','), icons[1:len(icons)-1]...)
}

// appendCanonicalEntry appends a tool as a list of the canonical dialect shows it.
func appendCanonicalEntry(dst []byte, t *catalog.Tool, form catalog.ListForm) []byte {
	return append(appendCanonicalMembers(dst, t, form), '}')
}

// appendCanonicalMembers leaves the object open. An output schema that the list leaves out is null, as one that there is
// not: tools/get tells.
func appendCanonicalMembers(dst []byte, t *catalog.Tool, form catalog.ListForm) []byte {
	dst = append(dst, `{"name":`...)
	dst = jsontext.AppendString(dst, t.Name)
	dst = appendToolText(dst, t)
	dst = append(dst, `,"inputSchema":`...)
	dst = append(dst, form.Input(t)...)
	dst = append(dst, `,"outputSchema":`...)
	dst = append(dst, orNull(form.Output(t))...)
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

// writeCanonicalTool renders tools/get: the listing's members, the digest and
// both canonical schemas. A list does not repeat the digest, which clients compute
// from its entries.
func writeCanonicalTool(_ *Handler, call *exchange) ([]byte, *errmap.Error) {
	t := call.resp.Tool
	dst := appendCanonicalMembers(nil, t, catalog.ListForm{}) // whole
	dst = append(dst, `,"digest":`...)
	dst = jsontext.AppendString(dst, t.Digest())
	dst = append(dst, `,"canonicalInputSchema":`...)
	dst = append(dst, t.Input.Canonical()...)
	dst = append(dst, `,"canonicalOutputSchema":`...)
	dst = append(dst, orNull(t.Output.Canonical())...)
	return jsontext.Compact(nil, append(dst, '}')), nil
}

func appendToolText(dst []byte, t *catalog.Tool) []byte {
	dst = append(dst, `,"title":`...)
	dst = jsontext.AppendString(dst, t.Title)
	dst = append(dst, `,"description":`...)
	return jsontext.AppendString(dst, t.Description)
}

// appendAnnotations appends MCP's hints.
func appendAnnotations(dst []byte, t *catalog.Tool) []byte {
	return t.AppendAnnotations(append(dst, `,"annotations":`...))
}

// appendVersion appends version and fingerprint.
func appendVersion(dst []byte, t *catalog.Tool) []byte {
	dst = append(dst, `,"version":`...)
	dst = jsontext.AppendString(dst, t.Version)
	dst = append(dst, `,"fingerprint":`...)
	return jsontext.AppendString(dst, t.Fingerprint())
}

// appendFacts appends version, fingerprint and metadata. Every metadata member
// is always there.
func appendFacts(dst []byte, t *catalog.Tool) []byte {
	dst = appendVersion(dst, t)
	dst = append(dst, `,"metadata":{"module":`...)
	dst = jsontext.AppendString(dst, t.Metadata.Module)
	dst = append(dst, `,"destructive":`...)
	dst = strconv.AppendBool(dst, t.Metadata.Destructive)
	dst = append(dst, `,"deprecated_in":`...)
	if t.Metadata.DeprecatedIn == "" {
		dst = append(dst, "null"...)
	} else {
		dst = jsontext.AppendString(dst, t.Metadata.DeprecatedIn)
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

// ListedToolJSON returns one tool as tools/list of the newest revision of MCP shows it.
func ListedToolJSON(t *catalog.Tool, form catalog.ListForm) json.RawMessage {
	return jsontext.Compact(nil, appendMCPTool(nil, t, form))
}

// entryForm appends a tool as a list shows it.
type entryForm = func(dst []byte, t *catalog.Tool, form catalog.ListForm) []byte

// listing is the tools of a catalog as one dialect lists them. Immutable.
type listing struct {
	catalog *catalog.Catalog
	tools   []*catalog.Tool
	// text holds the tools, compact, each with a comma before it, and ends where
	// each of them ends there.
	text []byte
	ends []int
	// sums are the digests of the tools as they are listed; nil until they are asked for.
	sums atomic.Pointer[[]string]
}

// entry is one tool, with its comma.
func (l *listing) entry(i int) []byte { return l.text[l.start(i):l.ends[i]] }

func (l *listing) start(i int) int {
	if i == 0 {
		return 0
	}
	return l.ends[i-1]
}

// listed returns the listing of a snapshot, rendering it on first use; one is
// how a tool looks in its form. Tools that look as they did in the newest listing before are
// copied from it, so that a change costs what has changed. Two callers that come
// at once may both render; either result is right.
func listed(slot *atomic.Pointer[listing], cat *catalog.Catalog, one entryForm) *listing {
	before := slot.Load()
	if before != nil && before.catalog == cat {
		return before
	}
	form := cat.ListForm()
	if before == nil || before.catalog.ListForm() != form {
		before = &listing{}
	}
	tools := cat.Tools()
	l := &listing{
		catalog: cat, tools: tools, ends: make([]int, 0, len(tools)),
		text: make([]byte, 0, len(before.text)+len(before.text)/grownBy),
	}
	var raw []byte
	at := 0 // both lists are sorted by name
	for _, t := range tools {
		for at < len(before.tools) && before.tools[at] != t && before.tools[at].Name < t.Name {
			at++
		}
		if at < len(before.tools) && before.tools[at].IsSame(t) {
			l.text = append(l.text, before.entry(at)...)
		} else {
			raw = one(append(raw[:0], ','), t, form)
			l.text = jsontext.Compact(l.text, raw)
		}
		l.ends = append(l.ends, len(l.text))
	}
	if cap(l.text)-len(l.text) > 2*len(l.text)/grownBy {
		l.text = bytes.Clone(l.text) // it is kept
	}
	slot.Store(l)
	return l
}

// grownBy is the part of a listing that is left free for what may have come since
// the one before: most changes are of one tool among many.
const grownBy = 16

// page is the entries of the tools from first to before next. They are the listing's own.
func (l *listing) page(first, next int) []byte {
	if first >= next {
		return nil
	}
	return l.text[l.start(first)+1 : l.ends[next-1]] // no comma before the first
}

// list puts the page of a listing into the reply; tail closes the result, from the bracket on.
func (c *exchange) list(l *listing, tail []byte) ([]byte, *errmap.Error) {
	c.putPage(l.page(c.resp.First, c.resp.Next), jsontext.Compact(nil, tail))
	return nil, nil
}

// putPage makes the reply with a page. It does not copy a large one.
func (c *exchange) putPage(entries, tail []byte) {
	head := []byte(`{"tools":[`)
	if len(entries) < leastShared {
		c.reply.body = c.enveloped(head, entries, tail)
		return
	}
	c.reply.body = c.enveloped(head, tail)
	c.reply.shared = shared{part: entries, at: len(c.reply.body) - len(tail) - len(`}`)}
}

// mcpList is listed for MCP clients, whose models read the list. Its cost is reported when it is rendered.
func (h *Handler) mcpList(slot *atomic.Pointer[listing], cat *catalog.Catalog, one entryForm) *listing {
	before := slot.Load()
	l := listed(slot, cat, one)
	if l != before && h.opts.Listed != nil {
		h.opts.Listed(l.cost())
	}
	return l
}

// cost is what the listing costs.
func (l *listing) cost() listcost.List {
	return listcost.Measure(l.catalog.Fingerprint(), len(l.tools), func(i int) (string, int, int) {
		entry := l.entry(i)
		object := bytes.TrimPrefix(entry, []byte(","))
		read := len(object)
		for name, value := range jsontext.Members(object) {
			if name == "_meta" || name == "icons" {
				read -= len(`,"":`) + len(name) + len(value)
			}
		}
		return l.tools[i].Name, len(entry), read
	})
}

// ListCost returns what the list of a catalog costs an MCP client of the modern era. It renders the list, and keeps nothing.
func ListCost(cat *catalog.Catalog) listcost.List {
	return listed(&atomic.Pointer[listing]{}, cat, appendMCPTool).cost()
}
