// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/resource"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

const (
	// cursorTTL is how long a cursor can be used: far longer than a client
	// needs to turn a page.
	cursorTTL = time.Hour
	// purposeCursor is the purpose of sealed cursors.
	purposeCursor = "cursor"
)

// cursor is where a list goes on: in which of its parts, and where in it. It
// holds no position that a change of the list would shift.
type cursor struct {
	part  int
	inner *string
}

// sealCursor hides a cursor and binds it to the list and the caller, so that any
// replica can go on with it.
func (s *Service) sealCursor(req *bridge.Request, c cursor) (*string, *errmap.Error) {
	plain := binary.AppendUvarint(nil, uint64(c.part))
	if c.inner != nil {
		plain = append(append(plain, 1), *c.inner...)
	}
	token, err := s.host.Sealer().Seal(cursorBinding(req), plain)
	if err != nil {
		return nil, errmap.Wrap(errmap.InternalError, err)
	}
	return &token, nil
}

// openCursor reads a cursor; none is the start of the list.
func (s *Service) openCursor(req *bridge.Request, token *string) (cursor, *errmap.Error) {
	if token == nil {
		return cursor{}, nil
	}
	plain, err := s.host.Sealer().Open(cursorBinding(req), *token)
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

// invalidCursor is INVALID_PARAMS for a cursor of another list or another caller.
func invalidCursor(req *bridge.Request) *errmap.Error {
	return errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{
		Path: req.At("cursor"), Keyword: "cursor",
		Message: "the cursor is not valid for this list, or has expired; start again without one",
	}))
}

func cursorBinding(req *bridge.Request) keys.Binding {
	return keys.Binding{Purpose: purposeCursor, Principal: req.Caller, Digest: keys.Digest(keys.Label(req.Op.String())), TTL: cursorTTL}
}

// pageSize is how many entries a page may have: what the caller wants, within
// what the sidecar gives.
func (s *Service) pageSize(wanted int) int {
	if wanted > 0 {
		return min(wanted, s.opts.PageSize)
	}
	return s.opts.PageSize
}

// listTools chooses the tools of one page. A page begins behind the last tool of the
// page before, by name, so that tools which come and go meanwhile shift nothing. The tools themselves are in the catalog, of
// which edges keep what they have rendered.
func (s *Service) listTools(ctx context.Context, req *bridge.Request) *bridge.Response {
	cat, err := s.host.Listed(ctx, req.List)
	if err != nil {
		return &bridge.Response{Err: err}
	}
	all := cat.Tools()
	resp := &bridge.Response{Catalog: cat, Next: len(all)}
	if req.PageSize <= 0 {
		return resp
	}
	from, err := s.openCursor(req, req.Cursor)
	if err != nil {
		return &bridge.Response{Err: err}
	}
	if from.inner != nil {
		at, found := slices.BinarySearchFunc(all, *from.inner, func(t *catalog.Tool, name string) int { return cmp.Compare(t.Name, name) })
		if found {
			at++
		}
		resp.First = at
	}
	if last := resp.First + s.pageSize(req.PageSize); last < len(all) {
		resp.Next = last
		if resp.NextCursor, err = s.sealCursor(req, cursor{inner: &all[last-1].Name}); err != nil {
			return &bridge.Response{Err: err}
		}
	}
	return resp
}

// list is a list of any kind, made of parts that follow each other: those of the descriptors first, that of the native backend
// last.
type list[T any] struct{ parts []part[T] }

// part is a part of a list. It reads one page, from an inner cursor on.
type part[T any] func(ctx context.Context, inner *string, size int) (page[T], *errmap.Error)

// page is a page of one part.
type page[T any] struct {
	entries []T
	next    *string
	cache   *outriggerv1.CachePolicy
	// isFull: the page of the list ends here, although it may have fewer entries.
	isFull bool
}

// maxPartsAPage bounds the RPCs that one page of a list may cost.
const maxPartsAPage = 16

// read fills one page. next is where the list goes on, nil at its end.
func (l *list[T]) read(ctx context.Context, from cursor, size int) (out page[T], next *cursor, err *errmap.Error) {
	for asked := 0; from.part < len(l.parts); asked++ {
		if len(out.entries) >= size || asked == maxPartsAPage || out.isFull {
			return out, &from, nil
		}
		got, err := l.parts[from.part](ctx, from.inner, size-len(out.entries))
		if err != nil {
			return page[T]{}, nil, err
		}
		out.entries = append(out.entries, got.entries...)
		out.cache, out.isFull = shorter(out.cache, got.cache), got.isFull
		from.inner = got.next
		if got.next == nil {
			from.part++
		}
	}
	return out, nil, nil
}

// paged is a request for a page of a list.
type paged interface {
	proto.Message
	GetPageSize() int32
}

// answerPage answers a request with the page of a list that it asks for, whose cursor is the one given.
func answerPage[T any](ctx context.Context, s *Service, req *bridge.Request, ask paged, token *string, l list[T], message func(page[T]) proto.Message) *bridge.Response {
	from, err := s.openCursor(req, token)
	if err != nil {
		return &bridge.Response{Err: err}
	}
	out, next, err := l.read(ctx, from, s.pageSize(int(ask.GetPageSize())))
	if err != nil {
		return &bridge.Response{Err: err}
	}
	if next != nil {
		if out.next, err = s.sealCursor(req, *next); err != nil {
			return &bridge.Response{Err: err}
		}
	}
	if token != nil || next != nil {
		// Cursors are their caller's own, and so are all pages of a list that has some.
		out.cache = forOne(out.cache)
	}
	out.cache = s.scoped(ctx, req, out.cache)
	return &bridge.Response{Message: message(out)}
}

// native is the part of a list that the native backend has. ask makes the question for a page, read takes the page from the
// answer, and may says what of it the caller is shown.
func native[T any, R proto.Message](s *Service, req *bridge.Request, ask func(inner *string, size int32) proto.Message, read func(R) page[T], may func(*identity.Identity, T) bool) part[T] {
	return func(ctx context.Context, inner *string, size int) (page[T], *errmap.Error) {
		resp := s.host.Ask(ctx, req, ask(inner, int32(size)))
		got, ok := resp.Message.(R)
		switch {
		case resp.Err != nil:
			return page[T]{}, resp.Err
		case !ok:
			return page[T]{}, errmap.Wrap(errmap.InternalError, errors.New("the backend's client answered with another message"))
		}
		out, who := read(got), identity.FromContext(ctx)
		out.entries = only(out.entries, func(e T) bool { return may(who, e) })
		return out, nil
	}
}

// only are the entries that may be shown.
func only[T any](entries []T, may func(T) bool) []T {
	out := make([]T, 0, len(entries))
	for _, e := range entries {
		if may(e) {
			out = append(out, e)
		}
	}
	return out
}

// whole cuts a part of a list that comes in one piece into pages. key tells its
// entries apart.
//
// A page begins behind the last entry of the page before, wherever that is by
// then; where it is gone, at its place.
func whole[T any](key func(T) string, all func(ctx context.Context) (page[T], *errmap.Error)) part[T] {
	return func(ctx context.Context, inner *string, size int) (page[T], *errmap.Error) {
		out, err := all(ctx)
		if err != nil {
			return page[T]{}, err
		}
		first := behind(inner, out.entries, key)
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

// known is a part of a list whose entries are known, with a cache policy for them.
func known[T any](key func(T) string, entries []T, cache *outriggerv1.CachePolicy) part[T] {
	return whole(key, func(context.Context) (page[T], *errmap.Error) { return page[T]{entries: entries, cache: cache}, nil })
}

// behind is where a list goes on: inner is the number of entries before, and the
// digest of the last of them; nil is the start.
func behind[T any](inner *string, entries []T, key func(T) string) int {
	if inner == nil {
		return 0
	}
	number, digest, _ := strings.Cut(*inner, ":")
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

// bound binds the inner cursors of a part to what it is a list of.
func bound[T any](req *bridge.Request, of string, p part[T]) part[T] {
	mark := entryDigest(of) + "/"
	return func(ctx context.Context, inner *string, size int) (page[T], *errmap.Error) {
		if inner != nil {
			rest, ok := strings.CutPrefix(*inner, mark)
			if !ok {
				return page[T]{}, invalidCursor(req)
			}
			inner = &rest
		}
		got, err := p(ctx, inner, size)
		if got.next != nil {
			next := mark + *got.next
			got.next = &next
		}
		return got, err
	}
}

// mayReadResource reports whether a caller may read a resource.
func mayReadResource(who *identity.Identity, r *outriggerv1.Resource) bool {
	return who.MayRead(r.GetUri())
}

// resources is the list of what can be read: fixed resources of the descriptors, files of skills, what listing RPCs return, and
// those of the native backend.
func (s *Service) resources(req *bridge.Request, cat *catalog.Catalog) list[*outriggerv1.Resource] {
	var l list[*outriggerv1.Resource]
	uri := (*outriggerv1.Resource).GetUri
	var fixed []*outriggerv1.Resource
	for _, method := range cat.Resources().Fixed() {
		fixed = append(fixed, method.Resource())
	}
	if len(fixed) > 0 {
		l.parts = append(l.parts, known(uri, fixed, nil))
	}
	own := s.opts.Skills.Current()
	if !own.IsEmpty() {
		l.parts = append(l.parts, whole(uri, func(ctx context.Context) (page[*outriggerv1.Resource], *errmap.Error) {
			who := identity.FromContext(ctx)
			return page[*outriggerv1.Resource]{entries: only(s.opts.Skills.Current().Resources(), func(r *outriggerv1.Resource) bool { return mayReadResource(who, r) })}, nil
		}))
	}
	for _, method := range cat.Resources().Listings() {
		l.parts = append(l.parts, whole(uri, func(ctx context.Context) (page[*outriggerv1.Resource], *errmap.Error) {
			tool := cat.ResourceTool(method)
			if s.host.MayUse(ctx, tool) == nil {
				return s.listMethod(ctx, req, tool, method)
			}
			return page[*outriggerv1.Resource]{}, nil // of a tool that is shown, and may not be called
		}))
	}
	if cat.Description().GetCapabilities().GetResources() != nil {
		l.parts = append(l.parts, native(s, req, func(inner *string, size int32) proto.Message {
			return &outriggerv1.ListResourcesRequest{Cursor: inner, PageSize: size, Context: req.Context}
		}, func(got *outriggerv1.ListResourcesResponse) page[*outriggerv1.Resource] {
			return page[*outriggerv1.Resource]{entries: got.GetResources(), next: got.NextCursor, cache: got.GetCache()}
		}, func(who *identity.Identity, r *outriggerv1.Resource) bool {
			return !own.IsFile(r.GetUri()) && mayReadResource(who, r)
		}))
	}
	return l
}

func (s *Service) listResources(ctx context.Context, req *bridge.Request, cat *catalog.Catalog, ask *outriggerv1.ListResourcesRequest) *bridge.Response {
	return answerPage(ctx, s, req, ask, ask.Cursor, s.resources(req, cat), func(p page[*outriggerv1.Resource]) proto.Message {
		return &outriggerv1.ListResourcesResponse{Resources: p.entries, NextCursor: p.next, Cache: p.cache}
	})
}

// listMethod lists the resources that one RPC knows of. What it answers depends
// on the moment, so it must not be cached.
func (s *Service) listMethod(ctx context.Context, req *bridge.Request, tool *catalog.Tool, method *resource.Method) (page[*outriggerv1.Resource], *errmap.Error) {
	body, resp := s.host.CallPart(ctx, req, tool, []byte(jsontext.EmptyObject))
	if resp.Err != nil {
		return page[*outriggerv1.Resource]{}, resp.Err
	}
	items, err := method.Items(body)
	switch {
	case err != nil && len(items) == 0:
		return page[*outriggerv1.Resource]{}, errmap.Wrap(errmap.InvalidToolOutput, err)
	case err != nil:
		// One item without an id must not cost the others.
		s.bridge.BoundedLog().Warn("some list items are not valid resources",
			append(bridge.TraceFields(req.Span, req.Header), bridge.RequestID(req.ID), zap.String(logkey.CanonicalTool, tool.Name), logkey.Error(err))...)
	}
	return page[*outriggerv1.Resource]{entries: items, cache: momentary()}, nil
}

// listTemplates lists the templates of the descriptors, of held results and of the native backend.
func (s *Service) listTemplates(ctx context.Context, req *bridge.Request, cat *catalog.Catalog, ask *outriggerv1.ListResourceTemplatesRequest) *bridge.Response {
	var l list[*outriggerv1.ResourceTemplate]
	uri := (*outriggerv1.ResourceTemplate).GetUriTemplate
	var fixed []*outriggerv1.ResourceTemplate
	for _, method := range cat.Resources().Templates() {
		fixed = append(fixed, method.Template())
	}
	if len(fixed) > 0 {
		l.parts = append(l.parts, known(uri, fixed, nil))
	}
	if s.host.HoldsResults(cat) {
		l.parts = append(l.parts, known(uri, []*outriggerv1.ResourceTemplate{heldResults()}, nil))
	}
	if cat.Description().GetCapabilities().GetResources() != nil {
		l.parts = append(l.parts, native(s, req, func(inner *string, size int32) proto.Message {
			return &outriggerv1.ListResourceTemplatesRequest{Cursor: inner, PageSize: size, Context: req.Context}
		}, func(got *outriggerv1.ListResourceTemplatesResponse) page[*outriggerv1.ResourceTemplate] {
			return page[*outriggerv1.ResourceTemplate]{entries: got.GetResourceTemplates(), next: got.NextCursor, cache: got.GetCache()}
		}, func(who *identity.Identity, t *outriggerv1.ResourceTemplate) bool {
			return who.MayRead(t.GetUriTemplate())
		}))
	}
	return answerPage(ctx, s, req, ask, ask.Cursor, l, func(p page[*outriggerv1.ResourceTemplate]) proto.Message {
		return &outriggerv1.ListResourceTemplatesResponse{ResourceTemplates: p.entries, NextCursor: p.next, Cache: p.cache}
	})
}

// heldResults is the template of all results that are held.
func heldResults() *outriggerv1.ResourceTemplate {
	return &outriggerv1.ResourceTemplate{
		UriTemplate: content.Template, Name: "held results", Title: "Large results",
		Description: "Results that were too large to be part of a tool's answer, which has the URI. offset and length, in bytes, select a part; " +
			"without them all is read. Only the caller of the tool can read a result, and only for some minutes.",
	}
}

// prompts is the list of the prompts of the native backend.
func (s *Service) prompts(req *bridge.Request) list[*outriggerv1.Prompt] {
	return list[*outriggerv1.Prompt]{parts: []part[*outriggerv1.Prompt]{native(s, req, func(inner *string, size int32) proto.Message {
		return &outriggerv1.ListPromptsRequest{Cursor: inner, PageSize: size, Context: req.Context}
	}, func(got *outriggerv1.ListPromptsResponse) page[*outriggerv1.Prompt] {
		return page[*outriggerv1.Prompt]{entries: got.GetPrompts(), next: got.NextCursor, cache: got.GetCache()}
	}, func(who *identity.Identity, p *outriggerv1.Prompt) bool { return who.MayPrompt(p.GetName()) })}}
}

func (s *Service) listPrompts(ctx context.Context, req *bridge.Request, ask *outriggerv1.ListPromptsRequest) *bridge.Response {
	return answerPage(ctx, s, req, ask, ask.Cursor, s.prompts(req), func(p page[*outriggerv1.Prompt]) proto.Message {
		return &outriggerv1.ListPromptsResponse{Prompts: p.entries, NextCursor: p.next, Cache: p.cache}
	})
}

// maxPageFiles bounds the files that the skills of one page have together: an entry has all of its files, and a page
// bounded by skills alone could have a hundred megabytes.
const maxPageFiles = 4096

// listSkills lists the skills of folders, then those of the native backend. A caller sees the skills whose SKILL.md it may
// read.
func (s *Service) listSkills(ctx context.Context, req *bridge.Request, cat *catalog.Catalog, ask *outriggerv1.ListSkillsRequest) *bridge.Response {
	var l list[*outriggerv1.Skill]
	own := s.opts.Skills.Current()
	if !own.IsEmpty() {
		l.parts = append(l.parts, func(ctx context.Context, inner *string, size int) (page[*outriggerv1.Skill], *errmap.Error) {
			who := identity.FromContext(ctx)
			visible := only(own.Skills(), func(s *outriggerv1.Skill) bool { return who.MayRead(s.GetUri()) })
			most, isFull := fewFiles(visible, inner, size)
			got, err := known((*outriggerv1.Skill).GetUri, visible, announced())(ctx, inner, most)
			got.isFull = isFull
			return got, err
		})
	}
	if cat.Description().GetCapabilities().GetSkills() != nil {
		asked := native(s, req, func(inner *string, size int32) proto.Message {
			return &outriggerv1.ListSkillsRequest{Cursor: inner, PageSize: size, Context: req.Context}
		}, func(got *outriggerv1.ListSkillsResponse) page[*outriggerv1.Skill] {
			return page[*outriggerv1.Skill]{entries: got.GetSkills(), next: got.NextCursor, cache: got.GetCache()}
		}, func(who *identity.Identity, s *outriggerv1.Skill) bool {
			_, isOwn := own.Skill(s.GetUri())
			return !isOwn && who.MayRead(s.GetUri())
		})
		l.parts = append(l.parts, func(ctx context.Context, inner *string, size int) (page[*outriggerv1.Skill], *errmap.Error) {
			got, err := asked(ctx, inner, size)
			for _, skill := range got.entries {
				if err := wellFormed(skill); err != nil {
					return page[*outriggerv1.Skill]{}, err
				}
			}
			return got, err
		})
	}
	return answerPage(ctx, s, req, ask, ask.Cursor, l, func(p page[*outriggerv1.Skill]) proto.Message {
		return &outriggerv1.ListSkillsResponse{Skills: p.entries, NextCursor: p.next, Cache: p.cache}
	})
}

// fewFiles is how many skills fit on a page, from an inner cursor on: at least one, and not too many files. isCut is set if
// the files end the page.
func fewFiles(all []*outriggerv1.Skill, inner *string, size int) (most int, isCut bool) {
	files := 0
	for n, skill := range all[behind(inner, all, (*outriggerv1.Skill).GetUri):] {
		files += len(skill.GetResources())
		switch {
		case n == size:
			return n, false
		case n > 0 && files > maxPageFiles:
			return n, true
		}
	}
	return size, false
}

// readDirectory lists what is directly in a directory.
func (s *Service) readDirectory(ctx context.Context, req *bridge.Request, cat *catalog.Catalog, ask *outriggerv1.ReadDirectoryRequest) *bridge.Response {
	who, own := identity.FromContext(ctx), s.opts.Skills.Current()
	unknown := unknownURI(req, ask.GetUri(), keywordDirectory, "no directory has this URI; it has no slash at its end")
	var children part[*outriggerv1.Resource]
	found, isFound, mayRead := own.Directory(ask.GetUri(), who.MayRead)
	switch {
	case isFound && !mayRead:
		return &bridge.Response{Err: s.host.NotPermitted(who, "this directory")}
	case isFound:
		children = known((*outriggerv1.Resource).GetUri, found, announced())
	case own.IsFile(ask.GetUri()) || !cat.Description().GetCapabilities().GetSkills().GetDirectoryRead():
		return &bridge.Response{Err: unknown}
	default:
		if err := s.mayAskAbout(ctx, req, ask.GetUri()); err != nil {
			return &bridge.Response{Err: err}
		}
		children = native(s, req, func(inner *string, size int32) proto.Message {
			return &outriggerv1.ReadDirectoryRequest{Uri: ask.GetUri(), Cursor: inner, PageSize: size, Context: req.Context}
		}, func(got *outriggerv1.ReadDirectoryResponse) page[*outriggerv1.Resource] {
			return page[*outriggerv1.Resource]{entries: got.GetResources(), next: got.NextCursor, cache: got.GetCache()}
		}, mayReadResource)
	}
	l := list[*outriggerv1.Resource]{parts: []part[*outriggerv1.Resource]{bound(req, ask.GetUri(), children)}}
	resp := answerPage(ctx, s, req, ask, ask.Cursor, l, func(p page[*outriggerv1.Resource]) proto.Message {
		return &outriggerv1.ReadDirectoryResponse{Resources: p.entries, NextCursor: p.next, Cache: p.cache}
	})
	if resp.Err != nil && isUnknown(resp.Err) {
		resp.Err = unknown
	}
	return resp
}
