// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// maxDescribed bounds the tools that one tools/describe names (draft SEP-2636: at least 50).
const maxDescribed = 128

// readManifest reads tools/manifest.
func readManifest(call *exchange) *errmap.Error {
	if err := call.manifestOn(); err != nil {
		return err
	}
	return readPage(call)
}

func (call *exchange) manifestOn() *errmap.Error {
	if call.handler.opts.ToolManifest {
		return nil
	}
	return content.NotOn(errmap.MethodNotFound, "", call.in.Message.Method, "tool-manifest")
}

// writeManifest renders a page of tools as their names and digests.
func writeManifest(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	dst := appendManifest(call, h.modernList(call))
	dst = strconv.AppendInt(append(dst, `,"ttlMs":`...), listTTL, 10)
	dst = appendCacheScope(dst, call.resp.CacheScope())
	return h.closeResult(dst, typeComplete, nil, "")
}

// writeLegacyManifest is writeManifest for revisions without cache hints.
func writeLegacyManifest(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	return append(appendManifest(call, h.legacyList(call)), '}'), nil
}

// appendManifest begins a result with a page of a list of tools.
func appendManifest(call *exchange, l *listing) []byte {
	sums := l.digests()
	dst := []byte(`{"entries":[`)
	for i := call.resp.First; i < call.resp.Next; i++ {
		if i > call.resp.First {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"name":`...)
		dst = jsontext.AppendString(dst, l.tools[i].MCPName)
		dst = append(dst, `,"digest":"`...)
		dst = append(append(dst, sums[i]...), '"')
		dst = append(appendAnnotations(dst, l.tools[i]), '}')
	}
	return appendNextCursor(append(dst, ']'), call.resp.NextCursor)
}

// digests are those of the tools as this list has them, with their _meta. Each is of its RFC 8785 form; one that has none has an
// algorithm that no client knows, and is read again each time.
func (l *listing) digests() []string {
	if sums := l.sums.Load(); sums != nil {
		return *sums
	}
	sums := make([]string, len(l.tools))
	for i := range l.tools {
		sum, err := lock.SumOf(bytes.TrimPrefix(l.entry(i), []byte(",")))
		if sums[i] = "sha256:" + sum; err != nil {
			sums[i] = "none:"
		}
	}
	l.sums.Store(&sums)
	return sums
}

// readDescribe reads tools/describe.
func readDescribe(call *exchange) *errmap.Error {
	if err := call.manifestOn(); err != nil {
		return err
	}
	raw, ok := call.in.Message.Param("names")
	if !ok || raw[0] != '[' {
		return invalidParams("names", "type", "names is %s, want an array of names of tools", jsonKind(raw))
	}
	names := []string{}
	for element := range jsontext.Elements(raw) {
		name, ok := jsontext.Text(element)
		if !ok {
			return invalidParams("names/"+strconv.Itoa(len(names)), "type", "a name is %s, want a string", jsonKind(element))
		}
		if len(names) == maxDescribed {
			call.draft = &draft{members: []byte(`,"maxNames":` + strconv.Itoa(maxDescribed))}
			return invalidParams("names", "maxItems", "names has more than %d names", maxDescribed)
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		call.draft = &draft{members: []byte(`,"reason":"empty"`)}
		return invalidParams("names", "minItems", "names is empty")
	}
	call.draft = &draft{names: names}
	return readPage(call)
}

// writeDescribed renders the tools of tools/describe, in the order of their names in the request.
func writeDescribed(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	dst, err := appendDescribed(call, h.modernList(call))
	if err != nil {
		return nil, err
	}
	return h.closeResult(dst, typeComplete, nil, "")
}

// writeLegacyDescribed is writeDescribed for revisions whose results have no type.
func writeLegacyDescribed(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	dst, err := appendDescribed(call, h.legacyList(call))
	return append(dst, '}'), err
}

// appendDescribed begins a result with tools of a list.
func appendDescribed(call *exchange, l *listing) ([]byte, *errmap.Error) {
	at := make(map[string]int, len(l.tools))
	for i, t := range l.tools {
		at[t.MCPName] = i
	}
	var unknown []string
	dst := []byte(`{"tools":[`)
	for i, name := range call.draft.names {
		n, ok := at[name]
		if !ok {
			if !slices.Contains(unknown, name) {
				unknown = append(unknown, name)
			}
			continue
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, bytes.TrimPrefix(l.entry(n), []byte(","))...)
	}
	if len(unknown) > 0 {
		members := []byte(`,"unknownNames":[`)
		for i, name := range unknown {
			if i > 0 {
				members = append(members, ',')
			}
			members = jsontext.AppendString(members, name)
		}
		members = append(members, ']')
		call.draft.members = members
		return nil, errmap.Because(errmap.InvalidParams, "unknown names of tools")
	}
	return append(dst, ']'), nil
}

// draftData is the data of an error with the members that a draft adds.
func (call *exchange) draftData(data []byte) []byte {
	if call.draft == nil || len(call.draft.members) == 0 || len(data) == 0 {
		return data
	}
	return append(append(bytes.Clone(data[:len(data)-1]), call.draft.members...), '}')
}
