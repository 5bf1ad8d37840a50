// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/held"
	"github.com/outrigger-mcp/outrigger/internal/seal"
	"github.com/outrigger-mcp/outrigger/internal/share"
)

// purposeHeld is the purpose of the sealed id of a held result.
const purposeHeld = "held-result"

// holdsResults reports whether tools of a catalog may have results that are held.
func (b *Bridge) holdsResults(cat *catalog.Catalog) bool {
	if b.opts.Held == nil {
		return false
	}
	for _, tool := range cat.Tools() {
		if tool.IsDocument() || b.toolBudget(tool) > 0 {
			return true
		}
	}
	return false
}

// isInline reports whether a document of so many bytes is part of the result itself.
func (b *Bridge) isInline(size int) bool {
	if limit := b.opts.MaxResult; limit > 0 && size > limit {
		return false
	}
	return b.opts.Held == nil || size <= b.opts.MaxInline
}

// mostDocument is the maximum size of a document that comes in parts; zero is none.
func (b *Bridge) mostDocument() int {
	if b.opts.Held == nil {
		return b.opts.MaxResult
	}
	return int(b.opts.Held.Most())
}

// holdFunc keeps a document: [held.Store.Put], or [held.Writer.Keep] for one that came in
// parts.
type holdFunc func(d held.Document) (held.ID, time.Time, share.Verdict, error)

// hold keeps a document for its caller, and returns the content that tells of it: what a
// model is to do, in words, and the link for hosts.
func (b *Bridge) hold(c *toolCall, mediaType string, data []byte, hold holdFunc) ([]*outriggerv1.ContentBlock, *errmap.Error) {
	uri, until, failed := b.heldAs(c, mediaType, data, hold)
	if failed != nil {
		return nil, failed
	}
	size := int64(len(data))
	what, text := held.Explain(uri, mediaType, len(data), b.partOf(len(data)), until)
	return []*outriggerv1.ContentBlock{
		{Block: &outriggerv1.ContentBlock_Text{Text: &outriggerv1.TextContent{Text: text}}},
		{Block: &outriggerv1.ContentBlock_ResourceLink{ResourceLink: &outriggerv1.ResourceLink{
			Uri: uri, Name: c.tool.Name + " result", Description: what, MimeType: mediaType, Size: &size,
		}}},
	}, nil
}

// heldAs keeps a document for its caller, and returns its URI and how long it can be read.
func (b *Bridge) heldAs(c *toolCall, mediaType string, data []byte, hold holdFunc) (uri string, until time.Time, failed *errmap.Error) {
	id, until, verdict, err := hold(held.Document{
		Tool: c.tool.Name, MediaType: mediaType, IsText: isTextDocument(mediaType, data), Data: data,
	})
	if err != nil {
		return "", until, errmap.Wrap(errmap.InternalError, err)
	}
	switch verdict {
	case share.Granted:
	case share.Over:
		return "", until, b.noRoom(len(data), "the caller's share of the results that are held (--max-held-bytes, --caller-share)")
	case share.Full, share.OverTool:
		return "", until, b.noRoom(len(data), "the room for results that are held (--max-held-bytes)")
	}
	token, err := b.opts.Sealer.Seal(heldBinding(c.req.Caller, b.opts.Held.TTL()), id[:])
	if err != nil {
		return "", until, errmap.Wrap(errmap.InternalError, err)
	}
	return held.URI + token, until, nil
}

// putFor keeps documents of a call that are complete.
func (b *Bridge) putFor(c *toolCall) holdFunc {
	return func(d held.Document) (held.ID, time.Time, share.Verdict, error) {
		return b.opts.Held.Put(c.req.Caller, d)
	}
}

// partOf is how much of a document its reader is advised to read at once.
func (b *Bridge) partOf(size int) int {
	part := min(size, b.opts.MaxInline)
	if limit := b.opts.MaxResult; limit > 0 {
		part = min(part, limit)
	}
	return part
}

// noRoom is RESOURCE_EXHAUSTED for a document that cannot be held now.
func (b *Bridge) noRoom(size int, what string) *errmap.Error {
	return errmap.Because(errmap.ResourceExhausted, fmt.Sprintf("the result has %d bytes, more than is left of %s", size, what))
}

func heldBinding(caller string, ttl time.Duration) seal.Binding {
	return seal.Binding{Purpose: purposeHeld, Principal: caller, TTL: ttl}
}

// readHeld reads a result that is held for the caller, or the part of it that the URI asks for.
func (b *Bridge) readHeld(ctx context.Context, req *Request, uri string) *Response {
	token, part, wrong := held.Parse(uri)
	if wrong != "" {
		return &Response{Err: errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{
			Path: req.pointer("uri"), Keyword: "format", Message: wrong,
		}))}
	}
	d, until, ok := b.openHeld(req.Caller, token)
	if !ok {
		err := errmap.New(errmap.ResourceNotFound, errmap.Message("Resource not found: the result has expired, made way for a newer one, or is held by another replica or for another caller; call the tool again"))
		err.URI = uri
		return &Response{Err: err}
	}
	if failed := b.mayReadHeld(ctx, d.Tool); failed != nil {
		return &Response{Err: failed}
	}
	data, failed := b.cut(req.pointer("uri"), token, part, &d)
	if failed != nil {
		return &Response{Err: failed}
	}
	contents := &outriggerv1.ResourceContents{Uri: uri, MimeType: d.MediaType}
	if d.IsText && utf8.Valid(data) {
		contents.Data = &outriggerv1.ResourceContents_Text{Text: string(data)}
	} else {
		contents.Data = &outriggerv1.ResourceContents_Blob{Blob: data}
	}
	if part.Asked {
		contents.MetaForm = &outriggerv1.ResourceContents_MetaJson{MetaJson: part.Meta(uri, len(data), len(d.Data))}
	}
	return &Response{Message: &outriggerv1.ResourceOutcome{Outcome: &outriggerv1.ResourceOutcome_Result{Result: &outriggerv1.ResourceResult{
		Contents: []*outriggerv1.ResourceContents{contents},
		Cache: &outriggerv1.CachePolicy{
			Ttl: durationpb.New(max(time.Until(until), 0)), Scope: outriggerv1.CacheScope_CACHE_SCOPE_PRIVATE,
		},
	}}}}
}

// openHeld is the document that a sealed id of this caller stands for.
func (b *Bridge) openHeld(caller, token string) (d held.Document, until time.Time, ok bool) {
	plain, until, err := b.opts.Sealer.OpenUntil(heldBinding(caller, 0), token)
	if err != nil || len(plain) != held.IDBytes {
		return d, until, false
	}
	d, ok = b.opts.Held.Get(held.ID(plain))
	return d, until, ok
}

// mayReadHeld asks whether a caller may still use the tool that made a result.
func (b *Bridge) mayReadHeld(ctx context.Context, name string) *errmap.Error {
	if all := b.catalogs.Current(); all != nil {
		if tool, ok := all.Lookup(name); ok {
			return b.mayUse(ctx, tool)
		}
	}
	if who := access.FromContext(ctx); !who.MayCall(name) {
		return notPermitted(who, "tool "+name)
	}
	return nil
}

// wholeRunes is a part of a text without a character that it has only the beginning of,
// unless it has nothing else.
func wholeRunes(data []byte) []byte {
	for n := len(data) - 1; n >= 0 && n >= len(data)-utf8.UTFMax; n-- {
		if utf8.RuneStart(data[n]) {
			if n > 0 && !utf8.FullRune(data[n:]) {
				return data[:n]
			}
			break
		}
	}
	return data
}

// cut is the part of a document that is asked for; of a text, it ends with a whole
// character. A part that would be too large is refused rather than shortened: a reader
// might take it for the whole.
func (b *Bridge) cut(pointer, token string, part held.Part, d *held.Document) ([]byte, *errmap.Error) {
	data := d.Data
	if part.Offset > len(data) {
		return nil, errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{
			Path: pointer, Keyword: "maximum", Message: fmt.Sprintf("offset is behind the end: the result has %d bytes", len(data)),
		}))
	}
	data = data[part.Offset:]
	if part.Length >= 0 && part.Length < len(data) {
		data = data[:part.Length]
		if d.IsText {
			data = wholeRunes(data)
		}
	}
	if limit := b.opts.MaxResult; limit > 0 && len(data) > limit {
		b.opts.Stats.Over(errmap.LimitResultBytes)
		return nil, errmap.Because(errmap.ResourceExhausted, fmt.Sprintf(
			"it is %d bytes; the limit is %d (--max-result-bytes): read it in parts, from %s on", len(data), limit, held.PartURI(held.URI+token, part.Offset, limit)))
	}
	return data, nil
}

// heldResults is the template of all results that are held.
func heldResults() *outriggerv1.ResourceTemplate {
	return &outriggerv1.ResourceTemplate{
		UriTemplate: held.Template, Name: "held results", Title: "Large results",
		Description: "Results that were too large to be part of a tool's answer, which has the URI. offset and length, in bytes, select a part; " +
			"without them all is read. Only the caller of the tool can read a result, and only for some minutes.",
	}
}
