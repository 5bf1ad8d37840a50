// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/base64"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/fit"
)

// part is a block of content as a budget sees it.
type part struct {
	kind fit.Kind
	// size is how many bytes it has in JSON, apart from escapes.
	size      int
	mediaType string
	// text or data is what it holds.
	text string
	data []byte
}

// whole is a copy of a text, or the data themselves.
func (p *part) whole() []byte {
	if p.data == nil {
		return []byte(p.text)
	}
	return p.data
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
	return part{kind: kind, size: len(text), mediaType: mediaType, text: text}
}

func bytesPart(kind fit.Kind, mediaType string, data []byte) part {
	if mediaType == "" {
		mediaType = "application/octet-stream"
	}
	return part{kind: kind, size: base64.StdEncoding.EncodedLen(len(data)), mediaType: mediaType, data: data}
}
