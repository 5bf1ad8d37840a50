// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// samplingBlock reads one block of a message from a model.
func (r *reader) samplingBlock(raw []byte) *outriggerv1.SamplingContent {
	raw = r.whole(raw)
	out := &outriggerv1.SamplingContent{Annotations: r.annotations(raw)}
	switch kind := r.need(raw, "type", 1, maxWordBytes); kind {
	case "text":
		out.Block = &outriggerv1.SamplingContent_Text{Text: r.textBlock(raw)}
	case "image":
		data, mimeType := r.media(raw)
		out.Block = &outriggerv1.SamplingContent_Image{Image: &outriggerv1.ImageContent{Data: data, MimeType: mimeType}}
	case "audio":
		data, mimeType := r.media(raw)
		out.Block = &outriggerv1.SamplingContent_Audio{Audio: &outriggerv1.AudioContent{Data: data, MimeType: mimeType}}
	case "tool_use":
		out.Block = &outriggerv1.SamplingContent_ToolUse{ToolUse: r.toolUse(raw)}
	case "tool_result":
		out.Block = &outriggerv1.SamplingContent_ToolResult{ToolResult: r.toolResult(raw)}
	default:
		r.failIn("type", "Use a type that MCP knows here.")
	}
	if meta := r.meta(raw); meta != nil {
		out.MetaForm = &outriggerv1.SamplingContent_MetaJson{MetaJson: meta}
	}
	return out
}

// block reads one content block.
func (r *reader) block(raw []byte) *outriggerv1.ContentBlock {
	raw = r.whole(raw)
	out := &outriggerv1.ContentBlock{Annotations: r.annotations(raw)}
	switch kind := r.need(raw, "type", 1, maxWordBytes); kind {
	case "text":
		out.Block = &outriggerv1.ContentBlock_Text{Text: r.textBlock(raw)}
	case "image":
		data, mimeType := r.media(raw)
		out.Block = &outriggerv1.ContentBlock_Image{Image: &outriggerv1.ImageContent{Data: data, MimeType: mimeType}}
	case "audio":
		data, mimeType := r.media(raw)
		out.Block = &outriggerv1.ContentBlock_Audio{Audio: &outriggerv1.AudioContent{Data: data, MimeType: mimeType}}
	case "resource_link":
		out.Block = &outriggerv1.ContentBlock_ResourceLink{ResourceLink: r.link(raw)}
	case "resource":
		contents := r.contents(r.required(raw, "resource"))
		out.Block = &outriggerv1.ContentBlock_Resource{Resource: &outriggerv1.EmbeddedResource{Contents: contents}}
	default:
		r.failIn("type", "Use a type that MCP knows here.")
	}
	if meta := r.meta(raw); meta != nil {
		out.MetaForm = &outriggerv1.ContentBlock_MetaJson{MetaJson: meta}
	}
	return out
}

func (r *reader) textBlock(raw []byte) *outriggerv1.TextContent {
	return &outriggerv1.TextContent{Text: r.need(raw, "text", 0, maxPayloadBytes)}
}

// media reads what a picture and a recording have in common.
func (r *reader) media(raw []byte) (data []byte, mimeType string) {
	mimeType = r.need(raw, "mimeType", 1, maxWordBytes)
	if !isMediaType(mimeType) {
		r.failIn("mimeType", "Make it a media type, such as image/png.")
	}
	data = r.base64(raw, "data")
	if len(data) == 0 {
		r.failIn("data", "Give it a value; it is empty.")
	}
	return data, mimeType
}

// isMediaType is the contract's pattern of a media type: something, a slash,
// something, each of which begins without a space.
func isMediaType(s string) bool {
	kind, rest, ok := strings.Cut(s, "/")
	return ok && kind != "" && !strings.Contains(kind, " ") && rest != "" && rest[0] != ' ' && rest[0] != '/' &&
		!strings.Contains(rest, "\n")
}

// base64 reads bytes that MCP shows in base64 (RFC 4648, section 4).
func (r *reader) base64(object []byte, name string) []byte {
	text := r.need(object, name, 0, base64.StdEncoding.EncodedLen(maxPayloadBytes))
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(data) > maxPayloadBytes {
		r.failIn(name, "Make it base64 with padding (RFC 4648, section 4) of at most %d bytes.", maxPayloadBytes)
	}
	return data
}

func (r *reader) link(raw []byte) *outriggerv1.ResourceLink {
	return &outriggerv1.ResourceLink{
		Uri:         r.uri(raw, "uri", maxURIBytes),
		Name:        r.need(raw, "name", 1, maxNameBytes),
		Title:       r.text(raw, "title", maxNameBytes),
		Description: r.text(raw, "description", maxTextBytes),
		MimeType:    r.text(raw, "mimeType", maxWordBytes),
		Size:        r.size(raw),
		Icons:       r.icons(raw),
	}
}

func (r *reader) size(object []byte) *int64 {
	raw, ok := jsontext.Lookup(object, "size")
	if !ok {
		return nil
	}
	n, ok := jsontext.Int64(raw)
	if !ok || n < 0 {
		r.failIn("size", "Make it a whole number of bytes.")
	}
	return &n
}

func (r *reader) contents(raw []byte) *outriggerv1.ResourceContents {
	out := &outriggerv1.ResourceContents{Uri: r.uri(raw, "uri", maxURIBytes), MimeType: r.text(raw, "mimeType", maxWordBytes)}
	_, isText := jsontext.Lookup(raw, "text")
	_, isBlob := jsontext.Lookup(raw, "blob")
	switch {
	case isText == isBlob:
		r.fail("Give either text or blob.")
	case isText:
		out.Data = &outriggerv1.ResourceContents_Text{Text: r.need(raw, "text", 0, maxPayloadBytes)}
	default:
		out.Data = &outriggerv1.ResourceContents_Blob{Blob: r.base64(raw, "blob")}
	}
	if meta := r.meta(raw); meta != nil {
		out.MetaForm = &outriggerv1.ResourceContents_MetaJson{MetaJson: meta}
	}
	return out
}

func (r *reader) toolUse(raw []byte) *outriggerv1.ToolUseContent {
	out := &outriggerv1.ToolUseContent{Id: r.need(raw, "id", 1, maxNameBytes), Name: r.need(raw, "name", 1, maxWordBytes)}
	if input := r.required(raw, "input"); input != nil {
		out.InputForm = &outriggerv1.ToolUseContent_InputJson{InputJson: input}
	}
	return out
}

func (r *reader) toolResult(raw []byte) *outriggerv1.ToolResultContent {
	out := &outriggerv1.ToolResultContent{ToolUseId: r.need(raw, "toolUseId", 1, maxNameBytes), IsError: r.flag(raw, "isError")}
	blocks, ok := r.elements(raw, "content", maxItems)
	if !ok {
		r.failIn("content", "MCP requires this array.")
	}
	for _, block := range blocks {
		out.Content = append(out.Content, r.block(block))
	}
	if data, ok := jsontext.Lookup(raw, "structuredContent"); ok {
		out.StructuredContentForm = &outriggerv1.ToolResultContent_StructuredContentJson{StructuredContentJson: data}
	}
	return out
}

// annotations reads the hints about a piece of content, nil where there are none.
func (r *reader) annotations(object []byte) *outriggerv1.Annotations {
	raw, ok := r.object(object, "annotations")
	if !ok {
		return nil
	}
	out := &outriggerv1.Annotations{Audience: r.roles(raw, "audience")}
	if priority, ok := jsontext.Lookup(raw, "priority"); ok {
		f, err := strconv.ParseFloat(string(priority), 64)
		if err != nil || !(f >= 0 && f <= 1) {
			r.failIn("priority", "Make it a number from 0 to 1.")
		}
		out.Priority = &f
	}
	if _, ok := jsontext.Lookup(raw, "lastModified"); ok {
		t, err := time.Parse(time.RFC3339, r.need(raw, "lastModified", 1, maxWordBytes))
		if out.LastModified = timestamppb.New(t); err != nil || out.LastModified.CheckValid() != nil {
			r.failIn("lastModified", "Make it a time with its offset (RFC 3339).")
		}
	}
	return out
}

// icons reads the pictures of something.
func (r *reader) icons(object []byte) []*outriggerv1.Icon {
	elements, _ := r.elements(object, "icons", maxIcons)
	r.enter("icons")
	defer r.leave()
	var out []*outriggerv1.Icon
	for i, raw := range elements {
		r.item(i)
		out = append(out, r.icon(r.whole(raw)))
		r.leave()
	}
	return out
}

func (r *reader) icon(raw []byte) *outriggerv1.Icon {
	out := &outriggerv1.Icon{
		Src:      r.uri(raw, "src", maxIconBytes),
		MimeType: r.text(raw, "mimeType", maxWordBytes),
		Theme:    r.text(raw, "theme", maxWordBytes),
	}
	if out.Theme != "" && out.Theme != "light" && out.Theme != "dark" {
		r.failIn("theme", "Use light or dark.")
	}
	sizes, _ := r.elements(raw, "sizes", maxIcons)
	r.enter("sizes")
	defer r.leave()
	for i, size := range sizes {
		r.item(i)
		text := r.textIn(size, 1, maxWordBytes)
		if !isIconSize(text) {
			r.fail(`Make it "any", or width and height like "48x48".`)
		}
		out.Sizes = append(out.Sizes, text)
		r.leave()
	}
	return out
}

// isIconSize is the contract's pattern of a size.
func isIconSize(s string) bool {
	width, height, ok := strings.Cut(s, "x")
	return s == "any" || ok && isPixels(width) && isPixels(height)
}

func isPixels(s string) bool {
	return s != "" && s[0] != '0' && isDigits(s)
}
