// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"net/url"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/resource"
	"github.com/outrigger-mcp/outrigger/internal/held"
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
		return &Response{Err: unknownURI(req, ask.GetUri(), keywordDirectory, "it is a directory; resources/directory/read lists what is in it")}
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
	if err := CheckURI(req.pointer("uri"), ask.GetUri()); err != nil {
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
func CheckURI(pointer, uri string) *errmap.Error {
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
