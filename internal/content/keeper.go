// SPDX-License-Identifier: Apache-2.0

package content

import (
	"fmt"
	"mime"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/peer"
)

// Keeper makes results of documents. It holds those that are too large for a model, under a sealed id for their caller.
type Keeper struct {
	// Store holds documents; nil makes every document a part of its result.
	Store *Store
	// Seal seals the id of a document for its caller, for so long, and Open opens it: it returns until when that is.
	Seal func(caller string, ttl time.Duration, id []byte) (token string, err error)
	Open func(caller, token string) (id []byte, until time.Time, err error)
	// MaxInline is the maximum size of a document in a result where others are held, MaxResult that of any result; zero is none.
	MaxInline, MaxResult int
	// Exceeded is the error for a result of so many bytes, which are more than MaxResult.
	Exceeded func(size int) *errmap.Error
}

// Most returns the maximum size of a document that comes in parts; zero is none.
func (k *Keeper) Most() int {
	if k.Store == nil {
		return k.MaxResult
	}
	return int(k.Store.Most())
}

// Hold keeps a document for its caller, and returns its URI and until when it can be read. parts are those that it came in, nil for
// one that is complete.
func (k *Keeper) Hold(caller string, d Document, parts *DocumentWriter) (uri string, until time.Time, failed *errmap.Error) {
	d.IsText = isTextDocument(d.MediaType, d.Data)
	var id DocumentID
	var verdict peer.Verdict
	var err error
	if parts != nil {
		id, until, verdict, err = parts.Keep(d)
	} else {
		id, until, verdict, err = k.Store.Put(caller, d)
	}
	what := ""
	switch {
	case err != nil:
		return "", until, errmap.Wrap(errmap.InternalError, err)
	case verdict == peer.Over:
		what = "the caller's share of the results that are held (--max-held-bytes, --caller-share)"
	case verdict != peer.Granted:
		what = "the room for results that are held (--max-held-bytes)"
	}
	if what != "" {
		return "", until, errmap.Because(errmap.ResourceExhausted, fmt.Sprintf("the result has %d bytes, more than is left of %s", len(d.Data), what))
	}
	token, err := k.Seal(caller, k.Store.TTL(), id[:])
	if err != nil {
		return "", until, errmap.Wrap(errmap.InternalError, err)
	}
	return DocumentURI + token, until, nil
}

// Get returns the document that a sealed id of a caller represents, and until when it is held.
func (k *Keeper) Get(caller, token string) (d Document, until time.Time, ok bool) {
	id, until, err := k.Open(caller, token)
	if err != nil || len(id) != idBytes {
		return d, until, false
	}
	d, ok = k.Store.Get(DocumentID(id))
	return d, until, ok
}

// Result returns the result of a call of a document: a block of content, or where it is larger than a model should have to take at
// once, a link to it, and what a model is to do in words. parts are as for [Keeper.Hold]; missing says why a part of the document is
// missing, if one is.
func (k *Keeper) Result(caller string, d Document, parts *DocumentWriter, missing string) (*outriggerv1.ToolResult, *errmap.Error) {
	if _, _, err := mime.ParseMediaType(d.MediaType); err != nil {
		d.MediaType = defaultMediaType
	}
	size := int64(len(d.Data))
	result := &outriggerv1.ToolResult{Status: StatusSuccess}
	if missing != "" {
		result.Status = StatusPartial
		result.Explanation = fmt.Sprintf("This result is incomplete: %s. It has the first %d bytes.", missing, size)
	}
	isTooLarge := k.MaxResult > 0 && len(d.Data) > k.MaxResult
	switch {
	case !isTooLarge && (k.Store == nil || len(d.Data) <= k.MaxInline):
		result.Content = []*outriggerv1.ContentBlock{documentBlock(d.Tool, d.MediaType, d.Data)}
		return result, nil
	case k.Store == nil:
		return nil, k.Exceeded(len(d.Data))
	}
	uri, until, failed := k.Hold(caller, d, parts)
	if failed != nil {
		return nil, failed
	}
	part := min(len(d.Data), k.MaxInline)
	if k.MaxResult > 0 {
		part = min(part, k.MaxResult)
	}
	end := until.UTC().Format(time.RFC3339)
	text := fmt.Sprintf("The result is too large to be shown here (%d bytes of %s). Read it with resources/read from %s, or a part of it with ?offset=0&length=%d added to that URI. "+
		"It can be read until %s.", size, d.MediaType, uri, part, end)
	what := fmt.Sprintf("%d bytes of %s, until %s", size, d.MediaType, end)
	result.Content = []*outriggerv1.ContentBlock{textBlock(text), {Block: &outriggerv1.ContentBlock_ResourceLink{ResourceLink: &outriggerv1.ResourceLink{
		Uri: uri, Name: d.Tool + " result", Description: what, MimeType: d.MediaType, Size: &size,
	}}}}
	return result, nil
}
