// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/resource"
	"github.com/outrigger-mcp/outrigger/internal/held"
	"github.com/outrigger-mcp/outrigger/internal/skills"
)

// maxURI bounds a resource's URI, as outrigger.v1.ReadResourceRequest does.
const maxURI = 8192

// readResource reads a resource: one that an RPC stands for, or one of the
// native backend.
func (b *Bridge) readResource(ctx context.Context, req *Request, cat *catalog.Catalog) *Response {
	ask, _ := req.Message.(*outriggerv1.ReadResourceRequest)
	req.traceURI(ask.GetUri())
	f := b.Features(cat)
	if !f.Resources {
		return &Response{Err: errmap.NotOffered("resources")}
	}
	if b.opts.Held != nil && held.Is(ask.GetUri()) && len(ask.GetUri()) <= maxURI {
		return b.readHeld(ctx, req, ask.GetUri())
	}
	if own := b.opts.Skills.Current(); own.IsFile(ask.GetUri()) {
		return b.readSkillFile(ctx, own, ask.GetUri())
	} else if own.IsDirectory(ask.GetUri()) {
		return &Response{Err: unknownURI(req, ask.GetUri(), keywordDirectory, "it is a directory, which is listed and not read")}
	}
	if len(ask.GetUri()) <= maxURI {
		if method, variables, ok := cat.Resources().Match(ask.GetUri()); ok {
			if err := b.mayUse(ctx, cat.ResourceTool(method)); err != nil {
				return &Response{Err: err}
			}
			if method.IsWatch() {
				return b.readWatch(ctx, req, cat.ResourceTool(method), method, ask.GetUri())
			}
			return b.readMethod(ctx, req, cat.ResourceTool(method), method, ask.GetUri(), variables)
		}
		if err := b.hiddenResource(ctx, ask.GetUri()); err != nil {
			return &Response{Err: err}
		}
	}
	if err := req.CheckURI(req.pointer("uri"), ask.GetUri()); err != nil {
		return &Response{Err: err}
	}
	if cat.Description().GetCapabilities().GetResources() == nil {
		return &Response{Err: errmap.UnknownResource(ask.GetUri())}
	}
	if who := access.FromContext(ctx); !who.MayRead(ask.GetUri()) {
		return &Response{Err: notPermitted(who, "this resource")}
	}
	return b.readNative(ctx, req, ask)
}

// CheckURI returns INVALID_PARAMS for a URI that is not absolute (RFC 3986, section
// 4.3) or too long, and nil for one that is fine. The pointer is the JSON Pointer of
// the URI in the request, for the error.
func (*Request) CheckURI(pointer, uri string) *errmap.Error {
	parsed, err := url.Parse(uri)
	if err == nil && parsed.Scheme != "" && len(uri) <= maxURI {
		return nil
	}
	return errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{
		Path: pointer, Keyword: "format", Message: errmap.Quote(uri) + " is no absolute URI",
	}))
}

// readNative has the native backend read a resource.
func (b *Bridge) readNative(ctx context.Context, req *Request, ask *outriggerv1.ReadResourceRequest) *Response {
	req, err := req.complete()
	if err != nil {
		return &Response{Err: err}
	}
	digest := requestDigest(OpReadResource, ask.GetUri(), nil)
	opened, err := b.openState(ctx, req.Caller, digest, req.RequestState, req.pointer("request_state"))
	if err != nil {
		return &Response{Err: err}
	}
	req.Span.Link(opened.asker)
	sent := &outriggerv1.ReadResourceRequest{
		Uri: ask.GetUri(), InputResponses: req.InputResponses, RequestState: opened.backend, Context: req.Context,
	}
	if len(req.Meta) > 0 {
		sent.MetaForm = &outriggerv1.ReadResourceRequest_MetaJson{MetaJson: req.Meta}
	}
	resp := b.ask(ctx, req, sent)
	if resp.Err != nil {
		return resp
	}
	outcome, _ := resp.Message.(*outriggerv1.ResourceOutcome)
	if in := outcome.GetInputRequired(); in != nil {
		resp.Err = b.settleQuestion(req, digest, in)
	}
	return resp
}

// settleQuestion checks and seals a question that is none of a tool's.
func (b *Bridge) settleQuestion(req *Request, digest [32]byte, in *outriggerv1.InputRequired) *errmap.Error {
	if err := askable("", req.Context.GetCapabilities(), in); err != nil {
		return err
	}
	return b.sealInput(req, digest, false, in)
}

// readMethod reads a resource that an RPC stands for: through the same steps as
// a call of its tool, so that nothing gets around the policy. What the backend
// does not find is a resource that does not exist.
func (b *Bridge) readMethod(ctx context.Context, req *Request, tool *catalog.Tool, method *resource.Method, uri string, variables map[string]string) *Response {
	arguments, err := method.Request(variables)
	if err != nil {
		return &Response{Err: errmap.UnknownResource(uri)}
	}
	req.traceTool(tool)
	body, resp := b.callMethod(ctx, req, tool, arguments)
	if resp.Err != nil {
		if isMissing(resp.Err) {
			resp.Err = errmap.UnknownResource(uri)
		}
		return resp
	}
	contents, err := method.Contents(uri, body)
	if err != nil {
		resp.Err = errmap.Wrap(errmap.InvalidToolOutput, err)
		return resp
	}
	resp.Message = &outriggerv1.ResourceOutcome{Outcome: &outriggerv1.ResourceOutcome_Result{
		Result: &outriggerv1.ResourceResult{Contents: []*outriggerv1.ResourceContents{contents}},
	}}
	return resp
}

// callMethod runs the RPC behind a resource and returns its answer as JSON.
func (b *Bridge) callMethod(ctx context.Context, req *Request, tool *catalog.Tool, arguments []byte) ([]byte, *Response) {
	c := &toolCall{tool: tool, isPart: true, req: &Request{
		Op: OpCall, Origin: req.Origin, Tool: tool.Name, Arguments: Payload{Bytes: arguments},
		Timeout: req.Timeout, Header: req.Header, Caller: req.Caller, Transport: req.Transport, Route: req.Route,
		Method: req.Method, Span: req.Span, meter: req.meter,
	}}
	defer b.leave(c)
	for _, step := range [...]func(context.Context, *toolCall) *errmap.Error{b.gate, b.limit, b.share, b.admit, b.encode, b.permit, b.recordCall, b.invokeRPC} {
		if err := step(ctx, c); err != nil {
			c.resp.Err = b.explained(ctx, c, err)
			return nil, &c.resp
		}
	}
	body, err := b.answerJSON(ctx, c, nil, c.answer.Body)
	if err != nil {
		c.resp.Err = outputError(err)
	} else if limit := b.opts.MaxResult; limit > 0 && len(body) > limit {
		c.resp.Err = b.tooLargeResult(len(body))
	}
	return body, &c.resp
}

// isMissing reports whether the backend said that there is no such thing.
func isMissing(err *errmap.Error) bool {
	return err.Code == errmap.ToolExecutionFailed && err.BackendCode == "not_found"
}

// maxPageFiles bounds the files that the skills of one page have together: an entry has all of its files, and a page
// bounded by skills alone could have a hundred megabytes.
const maxPageFiles = 4096

// listSkills lists the skills of folders, then those of the native backend. A caller sees the skills whose SKILL.md it may
// read.
func (b *Bridge) listSkills(ctx context.Context, req *Request, cat *catalog.Catalog) *Response {
	if !b.Features(cat).Skills {
		return &Response{Err: errmap.NotOffered("skills")}
	}
	req, err := req.complete()
	if err != nil {
		return &Response{Err: err}
	}
	ask, _ := req.Message.(*outriggerv1.ListSkillsRequest)
	who, own := access.FromContext(ctx), b.opts.Skills.Current()
	isFull := false
	list := entries[*outriggerv1.Skill]{op: OpListSkills, isFull: func() bool { return isFull }}
	if !own.IsEmpty() {
		list.parts = append(list.parts, func(ctx context.Context, inner *string, size int) (page[*outriggerv1.Skill], *errmap.Error) {
			visible := only(own.Skills(), func(s *outriggerv1.Skill) bool { return who.MayRead(s.GetUri()) })
			most, isCut := fewFiles(visible, inner, size)
			isFull = isCut
			return inPages((*outriggerv1.Skill).GetUri, func(context.Context) (page[*outriggerv1.Skill], *errmap.Error) {
				return page[*outriggerv1.Skill]{entries: visible, cache: announcedList()}, nil
			})(ctx, inner, most)
		})
	}
	if cat.Description().GetCapabilities().GetSkills() != nil {
		list.parts = append(list.parts, func(ctx context.Context, inner *string, size int) (page[*outriggerv1.Skill], *errmap.Error) {
			got, err := asked[*outriggerv1.ListSkillsResponse](ctx, b, req, &outriggerv1.ListSkillsRequest{
				Cursor: inner, PageSize: int32(size), Context: req.Context,
			})
			if err != nil {
				return page[*outriggerv1.Skill]{}, err
			}
			shown := only(got.GetSkills(), func(s *outriggerv1.Skill) bool {
				_, isOwn := own.Skill(s.GetUri())
				return !isOwn && who.MayRead(s.GetUri())
			})
			for _, s := range shown {
				if err := checkSkill(s); err != nil {
					return page[*outriggerv1.Skill]{}, err
				}
			}
			return page[*outriggerv1.Skill]{shown, got.NextCursor, got.GetCache()}, nil
		})
	}
	got, err := list.read(ctx, b, req, ask.Cursor, b.pageSize(ask.GetPageSize()))
	if err != nil {
		return &Response{Err: err}
	}
	return &Response{Message: &outriggerv1.ListSkillsResponse{Skills: got.entries, NextCursor: got.next, Cache: got.cache}}
}

// fewFiles is how many skills fit on a page, from an inner cursor on: at least one, and not too many files. isCut is set if
// the files end the page.
func fewFiles(all []*outriggerv1.Skill, inner *string, size int) (most int, isCut bool) {
	first := 0
	if inner != nil {
		first = behind(*inner, all, (*outriggerv1.Skill).GetUri)
	}
	files := 0
	for n, skill := range all[first:] {
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

// getSkill returns one skill.
func (b *Bridge) getSkill(ctx context.Context, req *Request, cat *catalog.Catalog) *Response {
	ask, _ := req.Message.(*outriggerv1.GetSkillRequest)
	req.traceURI(ask.GetUri())
	if !b.Features(cat).Skills {
		return &Response{Err: errmap.NotOffered("skills")}
	}
	who := access.FromContext(ctx)
	if skill, ok := b.opts.Skills.Current().Skill(ask.GetUri()); ok {
		if !who.MayRead(ask.GetUri()) {
			return &Response{Err: notPermitted(who, "this skill")}
		}
		return &Response{Message: &outriggerv1.GetSkillResponse{Skill: skill, Cache: unkept()}}
	}
	unknown := unknownURI(req, ask.GetUri(), keywordSkill, "no skill has this URI; the list of skills has those that there are")
	if cat.Description().GetCapabilities().GetSkills() == nil {
		return &Response{Err: unknown}
	}
	if err := b.mayAskAbout(ctx, req, ask.GetUri()); err != nil {
		return &Response{Err: err}
	}
	req, err := req.complete()
	if err != nil {
		return &Response{Err: err}
	}
	resp := b.ask(ctx, req, &outriggerv1.GetSkillRequest{Uri: ask.GetUri(), Context: req.Context})
	switch got, _ := resp.Message.(*outriggerv1.GetSkillResponse); {
	case resp.Err != nil && isUnknown(resp.Err):
		resp.Err = unknown
	case resp.Err != nil:
	case got.GetSkill().GetUri() != ask.GetUri():
		resp.Err = errmap.Wrap(errmap.InvalidToolOutput, errors.New("the backend returned another skill"))
	default:
		resp.Err = checkSkill(got.GetSkill())
	}
	return resp
}

// readDirectory lists what is directly in a directory.
func (b *Bridge) readDirectory(ctx context.Context, req *Request, cat *catalog.Catalog) *Response {
	ask, _ := req.Message.(*outriggerv1.ReadDirectoryRequest)
	req.traceURI(ask.GetUri())
	if !b.Features(cat).Directories {
		return &Response{Err: errmap.NotOffered("directories")}
	}
	req, err := req.complete()
	if err != nil {
		return &Response{Err: err}
	}
	who, own := access.FromContext(ctx), b.opts.Skills.Current()
	unknown := unknownURI(req, ask.GetUri(), keywordDirectory, "no directory has this URI; it has no slash at its end")
	var part listPart[*outriggerv1.Resource]
	children, isFound, mayRead := own.Directory(ask.GetUri(), who.MayRead)
	switch {
	case isFound && !mayRead:
		return &Response{Err: notPermitted(who, "this directory")}
	case isFound:
		part = inPages((*outriggerv1.Resource).GetUri, func(context.Context) (page[*outriggerv1.Resource], *errmap.Error) {
			return page[*outriggerv1.Resource]{entries: children, cache: announcedList()}, nil
		})
	case own.IsFile(ask.GetUri()) || !cat.Description().GetCapabilities().GetSkills().GetDirectoryRead():
		return &Response{Err: unknown}
	default:
		if err := b.mayAskAbout(ctx, req, ask.GetUri()); err != nil {
			return &Response{Err: err}
		}
		part = b.nativeDirectory(req, ask.GetUri())
	}
	list := entries[*outriggerv1.Resource]{op: OpReadDirectory, parts: []listPart[*outriggerv1.Resource]{ofDirectory(req, ask.GetUri(), part)}}
	got, err := list.read(ctx, b, req, ask.Cursor, b.pageSize(ask.GetPageSize()))
	switch {
	case err != nil && isUnknown(err):
		return &Response{Err: unknown}
	case err != nil:
		return &Response{Err: err}
	}
	return &Response{Message: &outriggerv1.ReadDirectoryResponse{Resources: got.entries, NextCursor: got.next, Cache: got.cache}}
}

// nativeDirectory lists a directory of the native backend.
func (b *Bridge) nativeDirectory(req *Request, uri string) listPart[*outriggerv1.Resource] {
	return func(ctx context.Context, inner *string, size int) (page[*outriggerv1.Resource], *errmap.Error) {
		got, err := asked[*outriggerv1.ReadDirectoryResponse](ctx, b, req, &outriggerv1.ReadDirectoryRequest{
			Uri: uri, Cursor: inner, PageSize: int32(size), Context: req.Context,
		})
		if err != nil {
			return page[*outriggerv1.Resource]{}, err
		}
		return page[*outriggerv1.Resource]{only(got.GetResources(), func(r *outriggerv1.Resource) bool {
			return access.FromContext(ctx).MayRead(r.GetUri())
		}), got.NextCursor, got.GetCache()}, nil
	}
}

// ofDirectory binds the cursors of a list to its directory.
func ofDirectory(req *Request, uri string, part listPart[*outriggerv1.Resource]) listPart[*outriggerv1.Resource] {
	mark := entryDigest(uri) + "/"
	return func(ctx context.Context, inner *string, size int) (page[*outriggerv1.Resource], *errmap.Error) {
		if inner != nil {
			rest, ok := strings.CutPrefix(*inner, mark)
			if !ok {
				return page[*outriggerv1.Resource]{}, invalidCursor(req)
			}
			inner = &rest
		}
		got, err := part(ctx, inner, size)
		if got.next != nil {
			next := mark + *got.next
			got.next = &next
		}
		return got, err
	}
}

// readSkillFile reads a file of a skill from a folder.
func (b *Bridge) readSkillFile(ctx context.Context, own *skills.Set, uri string) *Response {
	f, _ := own.File(uri)
	if who := access.FromContext(ctx); !who.MayRead(uri) {
		return &Response{Err: notPermitted(who, "this resource")}
	}
	if limit := b.opts.MaxResult; limit > 0 && f.Size() > limit {
		return &Response{Err: b.tooLargeResult(f.Size())}
	}
	return &Response{Message: &outriggerv1.ResourceOutcome{Outcome: &outriggerv1.ResourceOutcome_Result{Result: &outriggerv1.ResourceResult{
		Contents: []*outriggerv1.ResourceContents{f.Contents()}, Cache: unkept(),
	}}}}
}

// skillResources are the resources of the files that the caller may read.
func (b *Bridge) skillResources(ctx context.Context) []*outriggerv1.Resource {
	who := access.FromContext(ctx)
	return only(b.opts.Skills.Current().Resources(), func(r *outriggerv1.Resource) bool { return who.MayRead(r.GetUri()) })
}

// mayAskAbout checks a URI before the native backend is asked about it.
func (b *Bridge) mayAskAbout(ctx context.Context, req *Request, uri string) *errmap.Error {
	if err := req.CheckURI(req.pointer("uri"), uri); err != nil {
		return err
	}
	if who := access.FromContext(ctx); !who.MayRead(uri) {
		return notPermitted(who, "this resource")
	}
	return nil
}

// checkSkill is INVALID_TOOL_OUTPUT for an entry of the native backend that breaks the rules of the extension.
func checkSkill(s *outriggerv1.Skill) *errmap.Error {
	if err := skills.Check(s); err != nil {
		return errmap.Wrap(errmap.InvalidToolOutput, err)
	}
	return nil
}

// isUnknown reports whether the backend said that there is nothing with a URI.
func isUnknown(err *errmap.Error) bool {
	return err.Code == errmap.ResourceNotFound || isMissing(err) || namesNothing(err)
}

// unknownURI is INVALID_PARAMS for a URI that names no skill, or no directory: the code that the extension has for it, in
// every revision.
func unknownURI(req *Request, uri, keyword, reason string) *errmap.Error {
	return errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{
		Path: req.pointer("uri"), Keyword: keyword, Message: errmap.Quote(uri) + ": " + reason,
	}))
}

// unkept is the cache policy of what is the same for every caller and may change at any time: a host that sees another digest
// than it expected asks again, and must not get the old answer.
func unkept() *outriggerv1.CachePolicy {
	return &outriggerv1.CachePolicy{Ttl: durationpb.New(0), Scope: outriggerv1.CacheScope_CACHE_SCOPE_PUBLIC}
}

// announcedList is the cache policy of a list whose changes are announced.
func announcedList() *outriggerv1.CachePolicy {
	return &outriggerv1.CachePolicy{Scope: outriggerv1.CacheScope_CACHE_SCOPE_PUBLIC}
}
