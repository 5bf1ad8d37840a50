// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"mime"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/held"
	"github.com/outrigger-mcp/outrigger/internal/share"
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
		return errmap.Because(errmap.SerializationError, "the response is not a google.api.HttpBody")
	}
	return b.document(c, mediaType, data, "", func(d held.Document) (held.ID, time.Time, share.Verdict, error) {
		return b.opts.Held.Put(c.req.Caller, d)
	})
}

// documentOf is the document that a stream brought.
func (b *Bridge) documentOf(c *toolCall, g *gathering) *errmap.Error {
	return b.document(c, g.mediaType, g.document.Bytes(), g.full, g.document.Keep)
}

// document makes the result of a call of a document: a block of content, or where it is
// larger than a model should have to take at once, a link to it, which hold keeps. missing
// says why a part of it is missing, if one is.
func (b *Bridge) document(c *toolCall, mediaType string, data []byte, missing string, hold holdFunc) *errmap.Error {
	if _, _, err := mime.ParseMediaType(mediaType); err != nil {
		mediaType = defaultMediaType
	}
	result := &outriggerv1.ToolResult{Status: StatusSuccess}
	if missing != "" {
		result.Status = StatusPartial
		result.Explanation = fmt.Sprintf("This result is incomplete: %s. It has the first %d bytes.", missing, len(data))
	}
	switch {
	case b.isInline(len(data)):
		result.Content = []*outriggerv1.ContentBlock{bodyBlock(c.tool.Name, mediaType, data)}
	case b.opts.Held == nil:
		return b.tooLargeResult(len(data))
	default:
		var err *errmap.Error
		if result.Content, err = b.hold(c, mediaType, data, hold); err != nil {
			return err
		}
	}
	c.resp.Outcome = &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: result}}
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

// readBytes reads the field of a message that has only that one, of type bytes.
func readBytes(wire []byte, number protowire.Number) (data []byte, ok bool) {
	for len(wire) > 0 {
		field, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return nil, false
		}
		wire = wire[n:]
		if field == number && kind == protowire.BytesType {
			if data, n = protowire.ConsumeBytes(wire); n < 0 {
				return nil, false
			}
		} else if n = protowire.ConsumeFieldValue(field, kind, wire); n < 0 {
			return nil, false
		}
		wire = wire[n:]
	}
	return data, true
}

// defaultMediaType is that of bytes about which nothing is known (RFC 9110,
// section 8.3).
const defaultMediaType = "application/octet-stream"

// bodyBlock is the kind of content that a valid media type calls for.
func bodyBlock(tool, mediaType string, data []byte) *outriggerv1.ContentBlock {
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
