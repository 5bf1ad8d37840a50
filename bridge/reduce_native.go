// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/fit"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/mcpjson"
)

// reduceNative reduces the result of a native tool: its data to the fields that its caller chose, then data and content to its budget.
func (b *Bridge) reduceNative(c *toolCall, result *outriggerv1.ToolResult) *errmap.Error {
	budget := b.budget(c)
	if c.mask == nil && budget == 0 && c.noted == "" || result.GetStatus() == StatusFailure {
		return nil
	}
	given, err := mcpjson.FreeForm(result.GetDataJson(), result.GetData())
	if err != nil {
		return errmap.Unwritable(err)
	}
	if jsontext.IsNull(given) {
		given = nil
	}
	isData := func(string) bool { return false }
	if len(given) > 0 {
		before := sortedJSON(given)
		isData = func(text string) bool { return bytes.Equal(sortedJSON([]byte(text)), before) }
	}
	content := b.fitContent(c, result, budget, isData)
	var about *fit.Reduction
	if len(given) > 0 {
		about = b.fitData(c, result, given, budget, isData)
	}
	if about == nil && len(content) == 0 {
		return nil
	}
	result.Status = StatusPartial
	if err := fit.SetMeta(result, about, content); err != nil {
		return errmap.Unwritable(err)
	}
	return nil
}

// fitData reduces the data of a native tool's result. It returns nothing where they are not cut.
func (b *Bridge) fitData(c *toolCall, result *outriggerv1.ToolResult, given []byte, budget int, isData func(string) bool) *fit.Reduction {
	whole := jsontext.Compact(nil, given)
	data, note := whole, c.noted
	var about *fit.Reduction
	var link []*outriggerv1.ContentBlock
	if c.mask != nil {
		if chosen := c.mask.Append(nil, whole); keepsTo(c, chosen) {
			data = chosen
		} else {
			note = strings.TrimSpace(note + " " + fit.AllFields)
		}
	}
	if budget > 0 && len(data) > budget {
		var cut []byte
		if cut, about = b.cutToBudget(c, data); about == nil {
			note = strings.TrimSpace(note + " " + fit.TooLarge(len(data), budget))
		} else {
			data, note, link = cut, strings.TrimSpace(note+" "+about.Text()), about.Link(c.tool.Name)
		}
	}
	if note != "" || !bytes.Equal(data, whole) {
		fit.SetData(result, data, isData, note, link)
	}
	return about
}

// fitContent fits the content of a native tool's result that is not its data, so that all blocks together have at most so many bytes:
// texts are cut at ends of lines, and what else is too large is left out. The whole of each is held, and linked behind it.
func (b *Bridge) fitContent(c *toolCall, result *outriggerv1.ToolResult, budget int, isData func(string) bool) []fit.Reduction {
	if budget == 0 {
		return nil
	}
	all := result.GetContent()
	parts, sizes := make([]part, len(all)), make([]int, len(all))
	for i, block := range all {
		if text := block.GetText(); text == nil || !isData(text.GetText()) {
			parts[i] = blockPart(block)
			sizes[i] = parts[i].size
		}
	}
	shares := fit.Shares(sizes, budget)
	var content []*outriggerv1.ContentBlock
	var cuts []fit.Reduction
	for i, block := range all {
		if sizes[i] <= shares[i] {
			content = append(content, block)
			continue
		}
		p := &parts[i]
		about := fit.Reduction{Size: len(p.data), Budget: budget, Media: p.mediaType, Kind: p.kind, IsCallers: budget != b.toolBudget(c.tool), Path: fmt.Sprintf("/content/%d", len(content))}
		b.reduced.Add(1)
		b.holdWhole(c, &about, p.data)
		if text := block.GetText(); text != nil {
			about.CutText(text, shares[i])
			content = append(content, block)
		}
		content = append(append(content, fit.Text(about.Text())), about.Link(c.tool.Name)...)
		cuts = append(cuts, about)
	}
	result.Content = content
	return cuts
}

// part is a block of content as a budget sees it.
type part struct {
	kind fit.Kind
	// size is how many bytes it has in JSON, apart from escapes.
	size      int
	mediaType string
	data      []byte
}

// blockPart is what a block holds; nothing for a link.
func blockPart(block *outriggerv1.ContentBlock) part {
	switch held := block.GetBlock().(type) {
	case *outriggerv1.ContentBlock_Text:
		return textPart(fit.KindText, "text/plain; charset=utf-8", held.Text.GetText())
	case *outriggerv1.ContentBlock_Image:
		return bytesPart(fit.KindImage, held.Image.GetMimeType(), held.Image.GetData())
	case *outriggerv1.ContentBlock_Audio:
		return bytesPart(fit.KindAudio, held.Audio.GetMimeType(), held.Audio.GetData())
	case *outriggerv1.ContentBlock_Resource:
		contents := held.Resource.GetContents()
		if _, isText := contents.GetData().(*outriggerv1.ResourceContents_Text); isText {
			return textPart(fit.KindResource, contents.GetMimeType(), contents.GetText())
		}
		return bytesPart(fit.KindResource, contents.GetMimeType(), contents.GetBlob())
	}
	return part{}
}

func textPart(kind fit.Kind, mediaType, text string) part {
	if mediaType == "" {
		mediaType = "text/plain; charset=utf-8"
	}
	return part{kind: kind, size: len(text), mediaType: mediaType, data: []byte(text)}
}

func bytesPart(kind fit.Kind, mediaType string, data []byte) part {
	if mediaType == "" {
		mediaType = "application/octet-stream"
	}
	return part{kind: kind, size: base64.StdEncoding.EncodedLen(len(data)), mediaType: mediaType, data: data}
}
