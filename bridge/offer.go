// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/resource"
	"github.com/outrigger-mcp/outrigger/internal/logkey"
)

// offer answers what is about neither tools nor the sidecar: resources, prompts,
// completion and tasks.
func (b *Bridge) offer(ctx context.Context, req *Request) *Response {
	cat, err := b.Catalog(ctx)
	if err != nil {
		return &Response{Err: err}
	}
	var resp *Response
	switch req.Op {
	case OpListResources:
		resp = b.listResources(ctx, req, cat)
	case OpListTemplates:
		resp = b.listTemplates(ctx, req, cat)
	case OpReadResource:
		resp = b.readResource(ctx, req, cat)
	case OpListSkills:
		resp = b.listSkills(ctx, req, cat)
	case OpGetSkill:
		resp = b.getSkill(ctx, req, cat)
	case OpReadDirectory:
		resp = b.readDirectory(ctx, req, cat)
	case OpListPrompts:
		resp = b.listPrompts(ctx, req, cat)
	case OpGetPrompt:
		resp = b.getPrompt(ctx, req, cat)
	case OpComplete:
		resp = b.completeArgument(ctx, req, cat)
	case OpGetTask, OpUpdateTask, OpCancelTask:
		resp = b.task(ctx, req, cat)
	default:
		resp = &Response{Err: errmap.Wrap(errmap.InternalError, fmt.Errorf("operation %d is none of the offer", req.Op))}
	}
	b.keepPrivate(ctx, req, resp)
	resp.Catalog = cat
	return resp
}

// ask puts one question to the native backend, under the shorter of the
// caller's deadline and the default.
func (b *Bridge) ask(ctx context.Context, req *Request, in proto.Message) *Response {
	timeout := b.opts.Timeout
	if req.Timeout > 0 {
		timeout = min(timeout, req.Timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := b.recordAsk(ctx, req); err != nil {
		return &Response{Err: err}
	}
	message, answer, err := b.askNative(ctx, req, in)
	resp := &Response{Err: err}
	if err == nil {
		resp.Message = message
	} else {
		locate(req, err)
	}
	if answer != nil {
		resp.Header = b.opts.Metadata.Outbound(answer.Header)
		resp.Trailer = b.opts.Metadata.Outbound(answer.Trailer)
	}
	if limit := b.opts.MaxResult; err == nil && limit > 0 && proto.Size(message) > limit {
		return &Response{Err: b.tooLargeResult(proto.Size(message))}
	}
	return resp
}

// locate says where the request names what does not exist, in the words of its
// caller: a backend knows another form of it, or none.
func locate(req *Request, err *errmap.Error) {
	if !namesNothing(err) {
		return
	}
	v := &err.Violations[0]
	switch {
	case v.Keyword == keywordPrompt:
		v.Path = req.pointer("name")
	case v.Keyword == keywordReference && req.Pointer != nil:
		v.Path = req.pointer("ref")
	}
}

// asked is ask for one part of a list.
func asked[T proto.Message](ctx context.Context, b *Bridge, req *Request, in proto.Message) (T, *errmap.Error) {
	resp := b.ask(ctx, req, in)
	out, ok := resp.Message.(T)
	if resp.Err == nil && !ok {
		return out, errmap.Wrap(errmap.InternalError, errors.New("the backend's client answered with another message"))
	}
	return out, resp.Err
}

// listResources lists what can be read: fixed resources of the descriptors,
// what listing RPCs return, and those of the native backend.
func (b *Bridge) listResources(ctx context.Context, req *Request, cat *catalog.Catalog) *Response {
	if !b.Features(cat).Resources {
		return &Response{Err: errmap.NotOffered("resources")}
	}
	req, err := req.complete()
	if err != nil {
		return &Response{Err: err}
	}
	ask, _ := req.Message.(*outriggerv1.ListResourcesRequest)
	list := entries[*outriggerv1.Resource]{op: OpListResources}
	if fixed := cat.Resources().Fixed(); len(fixed) > 0 {
		list.parts = append(list.parts, inPages((*outriggerv1.Resource).GetUri, func(context.Context) (page[*outriggerv1.Resource], *errmap.Error) {
			var out page[*outriggerv1.Resource]
			for _, method := range fixed {
				out.entries = append(out.entries, method.Resource())
			}
			return out, nil
		}))
	}
	own := b.opts.Skills.Current()
	if !own.IsEmpty() {
		list.parts = append(list.parts, inPages((*outriggerv1.Resource).GetUri, func(ctx context.Context) (page[*outriggerv1.Resource], *errmap.Error) {
			return page[*outriggerv1.Resource]{entries: b.skillResources(ctx)}, nil
		}))
	}
	for _, method := range cat.Resources().Listings() {
		list.parts = append(list.parts, inPages((*outriggerv1.Resource).GetUri, func(ctx context.Context) (page[*outriggerv1.Resource], *errmap.Error) {
			tool := cat.ResourceTool(method)
			if b.mayUse(ctx, tool) == nil {
				return b.listMethod(ctx, req, tool, method)
			}
			return page[*outriggerv1.Resource]{}, nil // of a tool that is shown, and may not be called
		}))
	}
	if cat.Description().GetCapabilities().GetResources() != nil {
		list.parts = append(list.parts, func(ctx context.Context, inner *string, size int) (page[*outriggerv1.Resource], *errmap.Error) {
			got, err := asked[*outriggerv1.ListResourcesResponse](ctx, b, req, &outriggerv1.ListResourcesRequest{
				Cursor: inner, PageSize: int32(size), Context: req.Context,
			})
			if err != nil {
				return page[*outriggerv1.Resource]{}, err
			}
			return page[*outriggerv1.Resource]{only(got.GetResources(), func(r *outriggerv1.Resource) bool {
				return !own.IsFile(r.GetUri()) && access.FromContext(ctx).MayRead(r.GetUri())
			}), got.NextCursor, got.GetCache()}, nil
		})
	}
	got, err := list.read(ctx, b, req, ask.Cursor, b.pageSize(ask.GetPageSize()))
	if err != nil {
		return &Response{Err: err}
	}
	return &Response{Message: &outriggerv1.ListResourcesResponse{Resources: got.entries, NextCursor: got.next, Cache: got.cache}}
}

// listMethod lists the resources that one RPC knows of. What it answers depends
// on the moment, so it must not be cached.
func (b *Bridge) listMethod(ctx context.Context, req *Request, tool *catalog.Tool, method *resource.Method) (page[*outriggerv1.Resource], *errmap.Error) {
	body, resp := b.callMethod(ctx, req, tool, emptyObject)
	if resp.Err != nil {
		return page[*outriggerv1.Resource]{}, resp.Err
	}
	items, err := method.Items(body)
	switch {
	case err != nil && len(items) == 0:
		return page[*outriggerv1.Resource]{}, errmap.Wrap(errmap.InvalidToolOutput, err)
	case err != nil:
		// One item without an id must not cost the others.
		b.noted.Warn("some list items are not valid resources",
			append(TraceFields(req.Span, req.Header), RequestID(req.ID), zap.String(logkey.CanonicalTool, tool.Name), logkey.Error(err))...)
	}
	return page[*outriggerv1.Resource]{entries: items, cache: momentary()}, nil
}

// listTemplates lists the templates of the descriptors and of the native backend.
func (b *Bridge) listTemplates(ctx context.Context, req *Request, cat *catalog.Catalog) *Response {
	if !b.Features(cat).Resources {
		return &Response{Err: errmap.NotOffered("resources")}
	}
	req, err := req.complete()
	if err != nil {
		return &Response{Err: err}
	}
	ask, _ := req.Message.(*outriggerv1.ListResourceTemplatesRequest)
	list := entries[*outriggerv1.ResourceTemplate]{op: OpListTemplates}
	if templates := cat.Resources().Templates(); len(templates) > 0 {
		list.parts = append(list.parts, inPages((*outriggerv1.ResourceTemplate).GetUriTemplate, func(context.Context) (page[*outriggerv1.ResourceTemplate], *errmap.Error) {
			var out page[*outriggerv1.ResourceTemplate]
			for _, method := range templates {
				out.entries = append(out.entries, method.Template())
			}
			return out, nil
		}))
	}
	if b.holdsResults(cat) {
		list.parts = append(list.parts, inPages((*outriggerv1.ResourceTemplate).GetUriTemplate, func(context.Context) (page[*outriggerv1.ResourceTemplate], *errmap.Error) {
			return page[*outriggerv1.ResourceTemplate]{entries: []*outriggerv1.ResourceTemplate{heldResults()}}, nil
		}))
	}
	if cat.Description().GetCapabilities().GetResources() != nil {
		list.parts = append(list.parts, func(ctx context.Context, inner *string, size int) (page[*outriggerv1.ResourceTemplate], *errmap.Error) {
			got, err := asked[*outriggerv1.ListResourceTemplatesResponse](ctx, b, req, &outriggerv1.ListResourceTemplatesRequest{
				Cursor: inner, PageSize: int32(size), Context: req.Context,
			})
			if err != nil {
				return page[*outriggerv1.ResourceTemplate]{}, err
			}
			return page[*outriggerv1.ResourceTemplate]{only(got.GetResourceTemplates(), func(t *outriggerv1.ResourceTemplate) bool {
				return access.FromContext(ctx).MayRead(t.GetUriTemplate())
			}), got.NextCursor, got.GetCache()}, nil
		})
	}
	got, err := list.read(ctx, b, req, ask.Cursor, b.pageSize(ask.GetPageSize()))
	if err != nil {
		return &Response{Err: err}
	}
	return &Response{Message: &outriggerv1.ListResourceTemplatesResponse{ResourceTemplates: got.entries, NextCursor: got.next, Cache: got.cache}}
}

// listPrompts lists the prompts of the native backend.
func (b *Bridge) listPrompts(ctx context.Context, req *Request, cat *catalog.Catalog) *Response {
	if !b.Features(cat).Prompts {
		return &Response{Err: errmap.NotOffered("prompts")}
	}
	req, err := req.complete()
	if err != nil {
		return &Response{Err: err}
	}
	ask, _ := req.Message.(*outriggerv1.ListPromptsRequest)
	list := entries[*outriggerv1.Prompt]{op: OpListPrompts}
	list.parts = append(list.parts, func(ctx context.Context, inner *string, size int) (page[*outriggerv1.Prompt], *errmap.Error) {
		got, err := asked[*outriggerv1.ListPromptsResponse](ctx, b, req, &outriggerv1.ListPromptsRequest{
			Cursor: inner, PageSize: int32(size), Context: req.Context,
		})
		if err != nil {
			return page[*outriggerv1.Prompt]{}, err
		}
		return page[*outriggerv1.Prompt]{only(got.GetPrompts(), func(p *outriggerv1.Prompt) bool {
			return access.FromContext(ctx).MayPrompt(p.GetName())
		}), got.NextCursor, got.GetCache()}, nil
	})
	got, err := list.read(ctx, b, req, ask.Cursor, b.pageSize(ask.GetPageSize()))
	if err != nil {
		return &Response{Err: err}
	}
	return &Response{Message: &outriggerv1.ListPromptsResponse{Prompts: got.entries, NextCursor: got.next, Cache: got.cache}}
}

// getPrompt has the native backend fill in a prompt.
func (b *Bridge) getPrompt(ctx context.Context, req *Request, cat *catalog.Catalog) *Response {
	if !b.Features(cat).Prompts {
		return &Response{Err: errmap.NotOffered("prompts")}
	}
	req, err := req.complete()
	if err != nil {
		return &Response{Err: err}
	}
	ask, _ := req.Message.(*outriggerv1.GetPromptRequest)
	if who := access.FromContext(ctx); !who.MayPrompt(ask.GetName()) {
		return &Response{Err: notPermitted(who, "this prompt")}
	}
	digest := requestDigest(OpGetPrompt, ask.GetName(), promptArguments(ask))
	opened, err := b.openState(ctx, req.Caller, digest, req.RequestState, req.pointer("request_state"))
	if err != nil {
		return &Response{Err: err}
	}
	req.Span.Link(opened.asker)
	sent, _ := proto.Clone(ask).(*outriggerv1.GetPromptRequest)
	sent.InputResponses, sent.RequestState, sent.Context = req.InputResponses, opened.backend, req.Context
	if len(req.Meta) > 0 {
		sent.MetaForm = &outriggerv1.GetPromptRequest_MetaJson{MetaJson: req.Meta}
	}
	resp := b.ask(ctx, req, sent)
	if resp.Err != nil {
		return resp
	}
	req.tracePrompt(ask.GetName())
	outcome, _ := resp.Message.(*outriggerv1.PromptOutcome)
	if in := outcome.GetInputRequired(); in != nil {
		resp.Err = b.settleQuestion(req, digest, in)
	}
	return resp
}

// completeArgument has the native backend propose values.
func (b *Bridge) completeArgument(ctx context.Context, req *Request, cat *catalog.Catalog) *Response {
	if !b.Features(cat).Completions {
		return &Response{Err: errmap.NotOffered("completions")}
	}
	req, err := req.complete()
	if err != nil {
		return &Response{Err: err}
	}
	ask, _ := req.Message.(*outriggerv1.CompleteRequest)
	if err := mayComplete(access.FromContext(ctx), ask); err != nil {
		return &Response{Err: err}
	}
	sent, _ := proto.Clone(ask).(*outriggerv1.CompleteRequest)
	sent.Context = req.Context
	if len(req.Meta) > 0 {
		sent.MetaForm = &outriggerv1.CompleteRequest_MetaJson{MetaJson: req.Meta}
	}
	return b.ask(ctx, req, sent)
}

// promptArguments are the arguments of a prompt as a JSON object.
func promptArguments(ask *outriggerv1.GetPromptRequest) []byte {
	out, err := json.Marshal(ask.GetArguments())
	if err != nil {
		return nil // strings always have a JSON form
	}
	return out
}

// momentary is the cache policy of what may be another thing a moment later.
func momentary() *outriggerv1.CachePolicy {
	return &outriggerv1.CachePolicy{Ttl: durationpb.New(0), Scope: outriggerv1.CacheScope_CACHE_SCOPE_PRIVATE}
}
