// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/compact"
	"github.com/outrigger-mcp/outrigger/internal/seal"
)

const (
	// cursorTTL is how long a cursor can be used: far longer than a client
	// needs to turn a page.
	cursorTTL = time.Hour
)

// cursor is where a list goes on: in which of its parts, and where in it. It
// holds no position that a change of the list would shift.
type cursor struct {
	part  int
	inner *string
}

// sealCursor hides a cursor and binds it to the list and the caller, so that any
// replica can go on with it.
func (b *Bridge) sealCursor(caller string, list Op, c cursor) (*string, *errmap.Error) {
	plain := binary.AppendUvarint(nil, uint64(c.part))
	if c.inner != nil {
		plain = append(append(plain, 1), *c.inner...)
	}
	token, err := b.opts.Sealer.Seal(cursorBinding(caller, list), plain)
	if err != nil {
		return nil, errmap.Wrap(errmap.InternalError, err)
	}
	return &token, nil
}

// openCursor reads a cursor; none is the start of the list.
func (b *Bridge) openCursor(req *Request, list Op, token *string) (cursor, *errmap.Error) {
	if token == nil {
		return cursor{}, nil
	}
	plain, err := b.opts.Sealer.Open(cursorBinding(req.Caller, list), *token)
	part, n := binary.Uvarint(plain)
	if err != nil || n <= 0 {
		return cursor{}, invalidCursor(req)
	}
	c := cursor{part: int(min(part, 1<<30))}
	if len(plain) > n {
		inner := string(plain[n+1:])
		c.inner = &inner
	}
	return c, nil
}

// invalidCursor is INVALID_PARAMS for a cursor of another list, or of nobody's.
func invalidCursor(req *Request) *errmap.Error {
	return errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{
		Path: req.pointer("cursor"), Keyword: "cursor",
		Message: "the cursor is not valid for this list, or has expired; start again without one",
	}))
}

func cursorBinding(caller string, list Op) seal.Binding {
	return seal.Binding{Purpose: purposeCursor, Principal: caller, Digest: seal.Digest(seal.Label(list.String())), TTL: cursorTTL}
}

// pageSize is how many entries a page may have: what the caller wants, within
// what the sidecar gives.
func (b *Bridge) pageSize(wanted int32) int {
	if wanted > 0 {
		return min(int(wanted), b.opts.PageSize)
	}
	return b.opts.PageSize
}

// list chooses the tools of one page. A page begins behind the last tool of the
// page before, by name, so that tools which come and go meanwhile shift nothing.
func (b *Bridge) list(ctx context.Context, req *Request) *Response {
	cat, err := b.Catalog(ctx)
	if err != nil {
		return &Response{Err: err}
	}
	if cat, err = b.listedAs(cat, req.List); err != nil {
		return &Response{Err: err}
	}
	tools := cat.Tools()
	resp := &Response{Catalog: cat, Next: len(tools), who: access.FromContext(ctx)}
	if req.PageSize <= 0 {
		return resp
	}
	from, err := b.openCursor(req, OpList, req.Cursor)
	if err != nil {
		return &Response{Err: err}
	}
	if from.inner != nil {
		at, found := slices.BinarySearchFunc(tools, *from.inner, func(t *catalog.Tool, name string) int { return cmp.Compare(t.Name, name) })
		if found {
			at++
		}
		resp.First = at
	}
	if last := resp.First + min(req.PageSize, b.opts.PageSize); last < len(tools) {
		resp.Next = last
		if resp.NextCursor, err = b.sealCursor(req.Caller, OpList, cursor{inner: &tools[last-1].Name}); err != nil {
			return &Response{Err: err}
		}
	}
	return resp
}

// entries is one kind of list besides tools, made of parts that follow each
// other: those of the descriptors first, that of the native backend last.
type entries[T proto.Message] struct {
	op    Op
	parts []listPart[T]
	// isFull, if set, reports whether the part that was read last has ended the page.
	isFull func() bool
}

// listPart is a part of a list. It reads one page, from an inner cursor on.
type listPart[T proto.Message] = func(ctx context.Context, inner *string, size int) (page[T], *errmap.Error)

// page is a page of one part.
type page[T proto.Message] struct {
	entries []T
	next    *string
	cache   *outriggerv1.CachePolicy
}

// maxPartsAPage bounds the RPCs that one page of a list may cost.
const maxPartsAPage = 16

// read fills one page.
func (e *entries[T]) read(ctx context.Context, b *Bridge, req *Request, token *string, size int) (page[T], *errmap.Error) {
	from, err := b.openCursor(req, e.op, token)
	if err != nil {
		return page[T]{}, err
	}
	var out page[T]
	for asked := 0; from.part < len(e.parts); asked++ {
		if len(out.entries) >= size || asked == maxPartsAPage || e.isFull != nil && e.isFull() {
			if out.next, err = b.sealCursor(req.Caller, e.op, from); err != nil {
				return page[T]{}, err
			}
			break
		}
		got, err := e.parts[from.part](ctx, from.inner, size-len(out.entries))
		if err != nil {
			return page[T]{}, err
		}
		out.entries = append(out.entries, got.entries...)
		out.cache = shorter(out.cache, got.cache)
		from.inner = got.next
		if got.next == nil {
			from.part++
		}
	}
	if token != nil || out.next != nil {
		// Cursors are their caller's own, and so are all pages of a list that has some.
		out.cache = private(out.cache)
	}
	return out, nil
}

// shorter is the more careful of two cache policies; nil says nothing.
func shorter(a, b *outriggerv1.CachePolicy) *outriggerv1.CachePolicy {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	out := &outriggerv1.CachePolicy{Ttl: a.GetTtl(), Scope: a.GetScope()}
	if b.GetTtl() != nil && (out.Ttl == nil || b.GetTtl().AsDuration() < out.GetTtl().AsDuration()) {
		out.Ttl = b.GetTtl()
	}
	if b.GetScope() != outriggerv1.CacheScope_CACHE_SCOPE_PUBLIC {
		out.Scope = b.GetScope()
	}
	return out
}

// inPages cuts a part of a list that comes in one piece into pages. key tells its
// entries apart.
//
// A page begins behind the last entry of the page before, wherever that stands by
// then; where it is gone, at its place.
func inPages[T proto.Message](key func(T) string, whole func(ctx context.Context) (page[T], *errmap.Error)) listPart[T] {
	return func(ctx context.Context, inner *string, size int) (page[T], *errmap.Error) {
		out, err := whole(ctx)
		if err != nil {
			return page[T]{}, err
		}
		first := 0
		if inner != nil {
			first = behind(*inner, out.entries, key)
		}
		last := len(out.entries)
		if size < last-first {
			last = first + size
			next := strconv.Itoa(last) + ":" + entryDigest(key(out.entries[last-1]))
			out.next = &next
		}
		out.entries = out.entries[first:last]
		return out, nil
	}
}

// behind is where a list goes on: inner is the number of entries before, and the
// digest of the last of them.
func behind[T any](inner string, entries []T, key func(T) string) int {
	number, digest, _ := strings.Cut(inner, ":")
	place, err := strconv.Atoi(number)
	if err != nil {
		return 0 // it was sealed, and so is ours
	}
	isLast := func(e T) bool { return entryDigest(key(e)) == digest }
	if place > 0 && place <= len(entries) && isLast(entries[place-1]) {
		return place
	}
	if at := slices.IndexFunc(entries, isLast); at >= 0 {
		return at + 1
	}
	return min(max(place-1, 0), len(entries))
}

// digestBytes of a key's hash are enough to tell the entries of one list apart,
// and keep a cursor short whatever the key.
const digestBytes = 8

func entryDigest(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:digestBytes])
}

// listedAs is the catalog as it is listed in a form.
func (b *Bridge) listedAs(cat *catalog.Catalog, form compact.List) (*catalog.Catalog, *errmap.Error) {
	o := b.opts.Compact
	switch {
	case form == compact.ListCompact && !o.IsOffered():
		return nil, errmap.Because(errmap.MethodNotFound, "this sidecar has no compact list; its operator can set --catalog-mode")
	case form == compact.ListAll, form == compact.ListByMode && !o.IsOffered():
		return cat, nil
	case form == compact.ListByMode && o.Mode == compact.Auto && !cat.ListExceeds(o.AboveBytes):
		return cat, nil
	}
	out, err := cat.Compact()
	if err != nil {
		return nil, errmap.Wrap(errmap.InternalError, err)
	}
	return out, nil
}

// ListedFor returns the current snapshot of the tools as an OpList of the caller in ctx lists it; nil before the first load.
func (b *Bridge) ListedFor(ctx context.Context, form compact.List) *catalog.Catalog {
	cat := b.CatalogFor(ctx)
	if cat == nil {
		return nil
	}
	out, err := b.listedAs(cat, form)
	if err != nil {
		return cat
	}
	return out
}
