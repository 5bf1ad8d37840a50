// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"slices"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// versionVariants is the revision that the draft SEP-3279 assumes: as [VersionModern], apart from what tools and results look like.
const versionVariants = "2026-12-01"

const (
	variantsName   = "result-variants"
	requestedParam = "requestedOutputs"
	// maxOutputs bounds the outputs that one call asks for; there are fewer.
	maxOutputs = 8
)

// variant is for whom an output of a tool is, and in which form.
type variant struct{ audience, format string }

// variants returns what a tool can answer with. The first is what a call without a choice gets.
func variants(t *catalog.Tool) []variant {
	all := []variant{{"assistant", "content"}, {"user", "content"}, {"assistant", "structured"}, {"programmatic", "structured"}, {"user", "structured"}}
	if !t.HasOutput() {
		return all[:2]
	}
	return all
}

// draft is what a request says or gets in terms of drafts; nil in nearly all.
type draft struct {
	// outputs are those that the call asks for; nil for a result as its revision has it.
	outputs []variant
	// names are the tools that tools/describe names.
	names []string
	// members are further members of the data of an error, each with a comma before it.
	members []byte
}

// readOutputs reads which outputs a call wants. asked is nil if it does not say.
func (call *exchange) readOutputs(asked []byte) *errmap.Error {
	on := call.handler.opts.Variants
	version, _ := MetaVersion(call.meta)
	switch {
	case on && version == versionVariants:
	case asked == nil:
		return nil
	case on:
		return invalidParams(requestedParam, "revision", "%s is a member of revision %s, not of %s", requestedParam, versionVariants, errmap.Quote(version))
	default:
		return content.NotOn(errmap.InvalidParams, "/params/"+requestedParam, requestedParam, variantsName)
	}
	call.draft = &draft{outputs: []variant{{"assistant", "content"}}}
	if asked == nil {
		return nil
	}
	if asked[0] != '[' {
		return invalidParams(requestedParam, "type", "%s is %s, want an array", requestedParam, jsonKind(asked))
	}
	call.draft.outputs = []variant{}
	for raw := range jsontext.Elements(asked) {
		var v variant
		for name, value := range jsontext.Fields(raw) {
			switch string(name) {
			case "audience":
				v.audience, _ = jsontext.Text(value)
			case "format":
				v.format, _ = jsontext.Text(value)
			}
		}
		switch {
		case v.audience == "" || v.format == "":
			return invalidParams(requestedParam, "required", "each of %s is an object with audience and format", requestedParam)
		case slices.Contains(call.draft.outputs, v):
			return invalidParams(requestedParam, "uniqueItems", "%s with the format %s is asked for twice", errmap.Quote(v.audience), errmap.Quote(v.format))
		case len(call.draft.outputs) == maxOutputs:
			return invalidParams(requestedParam, "maxItems", "%s has more than %d outputs", requestedParam, maxOutputs)
		}
		call.draft.outputs = append(call.draft.outputs, v)
	}
	if len(call.draft.outputs) == 0 {
		return invalidParams(requestedParam, "minItems", "%s is empty; leave it out for a text for the assistant", requestedParam)
	}
	return nil
}

// checkOutputs refuses outputs that the tool does not declare.
func (d *draft) checkOutputs(tool *catalog.Tool) *errmap.Error {
	known := variants(tool)
	for _, v := range d.outputs {
		if !slices.Contains(known, v) {
			return invalidParams(requestedParam, "enum", "tool %s does not declare an output for %s with the format %s", tool.MCPName, errmap.Quote(v.audience), errmap.Quote(v.format))
		}
	}
	return nil
}

// reshape makes a reply with the outputs that its call asked for of one with content and structured content. Other replies stay as they
// are: errors of the protocol, questions and tasks. What is structured of an error is its data.
func (call *exchange) reshape() {
	result, ok := jsontext.Lookup(call.reply.Bytes(), "result")
	if kind, _ := jsontext.Lookup(result, "resultType"); !ok || string(kind) != `"`+typeComplete+`"` {
		return
	}
	blocks, hasContent := jsontext.Lookup(result, "content")
	if !hasContent {
		return
	}
	structured, ok := jsontext.Lookup(result, "structuredContent")
	if !ok {
		meta, _ := jsontext.Lookup(result, "_meta")
		if structured, ok = jsontext.Lookup(meta, errmap.MetaKey); !ok {
			structured = []byte("null")
		}
	}
	dst := jsonrpc.AppendResultHead(make([]byte, 0, call.reply.Len()), call.in.Message.ID)
	dst = append(dst, `{"outputs":[`...)
	for i, v := range call.draft.outputs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(v.appendTo(append(dst, '{')), ',')
		if v.format == "content" {
			dst = appendBlocks(append(dst, `"content":`...), blocks, v.audience)
		} else {
			dst = append(append(dst, `"structuredContent":`...), structured...)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	for name, value := range jsontext.Members(result) {
		if name == "content" || name == "structuredContent" {
			continue
		}
		dst = append(jsontext.AppendString(append(dst, ','), name), ':')
		dst = append(dst, value...)
	}
	dst = append(dst, `}}`...)
	kept := call.reply
	kept.body, kept.lender, kept.shared, kept.quoted = dst, nil, shared{}, quoted{}
	call.reply.Release()
	call.reply = kept
}

// appendBlocks appends the blocks of content that are for an audience. A block that names no audience is for all. The assistant gets all
// blocks if none is for it, because its output has to say something.
func appendBlocks(dst, blocks []byte, audience string) []byte {
	start := len(dst)
	for block := range jsontext.Elements(blocks) {
		annotations, _ := jsontext.Lookup(block, "annotations")
		named, _ := jsontext.Lookup(annotations, "audience")
		isFor := true
		for raw := range jsontext.Elements(named) {
			who, _ := jsontext.Text(raw)
			if isFor = who == audience; isFor {
				break
			}
		}
		if isFor {
			dst = append(append(dst, ','), block...)
		}
	}
	switch {
	case len(dst) > start:
		dst[start] = '['
		return append(dst, ']')
	case audience == "assistant":
		return append(dst, blocks...)
	}
	return append(dst, `[]`...)
}

func (v variant) appendTo(dst []byte) []byte {
	dst = append(dst, `"audience":"`...)
	dst = append(append(dst, v.audience...), `","format":"`...)
	return append(append(dst, v.format...), '"')
}

// appendVariantTool appends a tool as [versionVariants] shows it: with its variants in place of an output schema.
func appendVariantTool(dst []byte, t *catalog.Tool, form catalog.ListForm) []byte {
	input, output := form.Input(t), form.Output(t)
	start := len(dst)
	dst = appendToolOf(dst, t, input, nil, isPartial(t, form, input, output), appendAsItIs)
	members := dst[start+1:]
	head := append([]byte(nil), `{"outputVariants":[`...)
	for i, v := range variants(t) {
		if i > 0 {
			head = append(head, ',')
		}
		head = v.appendTo(append(head, '{'))
		if v.format == "structured" && len(output) > 0 {
			head = append(append(head, `,"schema":`...), output...)
		}
		head = append(head, '}')
	}
	head = append(head, `],`...)
	return append(dst[:start:start], append(head, members...)...)
}
