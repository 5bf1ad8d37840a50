// SPDX-License-Identifier: Apache-2.0

package content

import (
	"encoding/base64"
	"mime"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Field numbers of google.api.HttpBody.
const (
	httpBodyContentType = 1
	httpBodyData        = 2
)

// HTTPBody reads the two fields that matter; extensions have no place in a
// content block.
func HTTPBody(wire []byte) (mediaType string, data []byte, ok bool) {
	var kind []byte
	ok = readBytes(wire, func(number protowire.Number, value []byte) {
		switch number {
		case httpBodyContentType:
			kind = value
		case httpBodyData:
			data = value
		}
	})
	return string(kind), data, ok && utf8.Valid(kind)
}

// BytesField reads the field of a message that has only that one, of type bytes.
func BytesField(wire []byte, number protowire.Number) (data []byte, ok bool) {
	ok = readBytes(wire, func(field protowire.Number, value []byte) {
		if field == number {
			data = value
		}
	})
	return data, ok
}

// readBytes calls visit with each field that holds bytes. It reports whether the message can be read.
func readBytes(wire []byte, visit func(number protowire.Number, value []byte)) bool {
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return false
		}
		wire = wire[n:]
		if n = protowire.ConsumeFieldValue(number, kind, wire); n < 0 {
			return false
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(wire)
			visit(number, value)
		}
		wire = wire[n:]
	}
	return true
}

// defaultMediaType is that of bytes about which nothing is known (RFC 9110,
// section 8.3).
const defaultMediaType = "application/octet-stream"

// documentBlock is the kind of content that a valid media type calls for.
func documentBlock(tool, mediaType string, data []byte) *outriggerv1.ContentBlock {
	kind, _, _ := mime.ParseMediaType(mediaType)
	switch {
	case isTextDocument(mediaType, data):
		return &outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Text{Text: &outriggerv1.TextContent{Text: string(data)}}}
	case strings.HasPrefix(kind, "image/") && len(data) > 0:
		return &outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Image{Image: &outriggerv1.ImageContent{Data: data, MimeType: mediaType}}}
	case strings.HasPrefix(kind, "audio/") && len(data) > 0:
		return &outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Audio{Audio: &outriggerv1.AudioContent{Data: data, MimeType: mediaType}}}
	}
	return &outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Resource{Resource: &outriggerv1.EmbeddedResource{
		Contents: &outriggerv1.ResourceContents{
			Uri: "outrigger://tools/" + tool + "/result", MimeType: mediaType,
			Data: &outriggerv1.ResourceContents_Blob{Blob: data},
		},
	}}}
}

// isTextDocument holds for documents that people and models read as text.
func isTextDocument(mediaType string, data []byte) bool {
	kind, params, _ := mime.ParseMediaType(mediaType)
	return isText(kind, params["charset"]) && utf8.Valid(data)
}

// isText holds for media types that people and models read as text.
func isText(kind, charset string) bool {
	switch strings.ToLower(charset) {
	case "", "utf-8", "utf8", "us-ascii":
	default:
		return false
	}
	switch {
	case strings.HasPrefix(kind, "text/"), strings.HasSuffix(kind, "+json"), strings.HasSuffix(kind, "+xml"):
		return true
	}
	switch kind {
	case "application/json", "application/xml", "application/yaml", "application/x-ndjson", "application/javascript":
		return true
	}
	return false
}

// sizedBlock is a block of content as a budget sees it.
type sizedBlock struct {
	kind reductionKind
	// size is how many bytes it has in JSON, apart from escapes.
	size      int
	mediaType string
	// text or data is what it holds.
	text string
	data []byte
}

// whole is a copy of a text, or the data themselves.
func (p *sizedBlock) whole() []byte {
	if p.data == nil {
		return []byte(p.text)
	}
	return p.data
}

// sizedOf is what a block holds; nothing for a link.
func sizedOf(block *outriggerv1.ContentBlock) sizedBlock {
	switch held := block.GetBlock().(type) {
	case *outriggerv1.ContentBlock_Text:
		return textPart(blockText, "text/plain; charset=utf-8", held.Text.GetText())
	case *outriggerv1.ContentBlock_Image:
		return bytesPart(blockImage, held.Image.GetMimeType(), held.Image.GetData())
	case *outriggerv1.ContentBlock_Audio:
		return bytesPart(blockAudio, held.Audio.GetMimeType(), held.Audio.GetData())
	case *outriggerv1.ContentBlock_Resource:
		contents := held.Resource.GetContents()
		if _, isText := contents.GetData().(*outriggerv1.ResourceContents_Text); isText {
			return textPart(blockResource, contents.GetMimeType(), contents.GetText())
		}
		return bytesPart(blockResource, contents.GetMimeType(), contents.GetBlob())
	}
	return sizedBlock{}
}

func textPart(kind reductionKind, mediaType, text string) sizedBlock {
	if mediaType == "" {
		mediaType = "text/plain; charset=utf-8"
	}
	return sizedBlock{kind: kind, size: len(text), mediaType: mediaType, text: text}
}

func bytesPart(kind reductionKind, mediaType string, data []byte) sizedBlock {
	if mediaType == "" {
		mediaType = "application/octet-stream"
	}
	return sizedBlock{kind: kind, size: base64.StdEncoding.EncodedLen(len(data)), mediaType: mediaType, data: data}
}
