// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"mime"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Field numbers of google.api.HttpBody.
const (
	httpBodyContentType = 1
	httpBodyData        = 2
)

// rawBody shows an answer of the type google.api.HttpBody as what it is: a
// document with a media type, and no Protobuf message to be described by a
// schema.
func (b *Bridge) rawBody(c *toolCall) *errmap.Error {
	mediaType, data, ok := readHTTPBody(c.answer.Body)
	if !ok {
		return errmap.Because(errmap.SerializationError, "the answer is no google.api.HttpBody")
	}
	if b.opts.MaxResult > 0 && len(data) > b.opts.MaxResult {
		return b.tooLargeResult(len(data))
	}
	c.resp.Outcome = &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
		Status:  StatusSuccess,
		Content: []*outriggerv1.ContentBlock{bodyBlock(c.tool.Name, mediaType, data)},
	}}}
	return nil
}

// readHTTPBody reads the two fields that matter; extensions have no place in a
// content block.
func readHTTPBody(wire []byte) (mediaType string, data []byte, ok bool) {
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return "", nil, false
		}
		wire = wire[n:]
		if kind == protowire.BytesType && (number == httpBodyContentType || number == httpBodyData) {
			value, n := protowire.ConsumeBytes(wire)
			if n < 0 {
				return "", nil, false
			}
			if number == httpBodyContentType {
				mediaType = string(value)
			} else {
				data = value
			}
			wire = wire[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(number, kind, wire); n < 0 {
			return "", nil, false
		}
		wire = wire[n:]
	}
	return mediaType, data, utf8.ValidString(mediaType)
}

// defaultMediaType is that of bytes about which nothing is known (RFC 9110,
// section 8.3).
const defaultMediaType = "application/octet-stream"

// bodyBlock is the kind of content that a media type calls for.
func bodyBlock(tool, mediaType string, data []byte) *outriggerv1.ContentBlock {
	kind, params, err := mime.ParseMediaType(mediaType)
	if err != nil {
		kind, mediaType = defaultMediaType, defaultMediaType
	}
	switch {
	case isText(kind, params["charset"]) && utf8.Valid(data):
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

// isText holds for media types that people and models read as text.
func isText(kind, charset string) bool {
	if charset != "" && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "us-ascii") {
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

// StatusSuccess is the status of a result that ended well.
const StatusSuccess = "success"
