// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/resource"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// readResource reads a resource: a result that is held, a file of a skill, one that an RPC represents, or one of the native
// backend.
func (s *Service) readResource(ctx context.Context, req *bridge.Request, cat *catalog.Catalog, ask *outriggerv1.ReadResourceRequest) *bridge.Response {
	uri := ask.GetUri()
	if content.IsDocument(uri) && len(uri) <= maxURI && s.host.Documents().Store != nil {
		return s.readHeld(ctx, req, uri)
	}
	own := s.opts.Skills.Current()
	if f, ok := own.File(uri); ok {
		return s.readFile(ctx, f, uri)
	}
	if own.IsDirectory(uri) {
		return &bridge.Response{Err: unknownURI(req, uri, keywordDirectory, "it is a directory, which is listed and not read")}
	}
	if len(uri) <= maxURI {
		if method, variables, ok := cat.Resources().Match(uri); ok {
			if err := s.host.MayUse(ctx, cat.ResourceTool(method)); err != nil {
				return &bridge.Response{Err: err}
			}
			return s.readMethod(ctx, req, cat.ResourceTool(method), method, uri, variables)
		}
		if err := s.hidden(ctx, uri); err != nil {
			return &bridge.Response{Err: err}
		}
	}
	if err := CheckURI(req.At("uri"), uri); err != nil {
		return &bridge.Response{Err: err}
	}
	if cat.Description().GetCapabilities().GetResources() == nil {
		return &bridge.Response{Err: errmap.UnknownResource(uri)}
	}
	if err := s.mayAskAbout(ctx, req, uri); err != nil {
		return &bridge.Response{Err: err}
	}
	req, err := req.Complete()
	if err != nil {
		return &bridge.Response{Err: err}
	}
	return s.host.AskRound(ctx, req, uri, nil, func(state []byte) proto.Message {
		sent := &outriggerv1.ReadResourceRequest{Uri: uri, InputResponses: req.InputResponses, RequestState: state, Context: req.Context}
		if len(req.Meta) > 0 {
			sent.MetaForm = &outriggerv1.ReadResourceRequest_MetaJson{MetaJson: req.Meta}
		}
		return sent
	})
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

// hidden refuses a resource that an RPC represents whose tool the caller
// may not call; nil where there is no such RPC.
func (s *Service) hidden(ctx context.Context, uri string) *errmap.Error {
	all := s.host.Current()
	if all == nil || s.bridge.MayUseAll(ctx) {
		return nil
	}
	method, _, ok := all.Resources().Match(uri)
	if !ok {
		return nil
	}
	return s.host.MayUse(ctx, all.ResourceTool(method))
}

// readMethod reads a resource that an RPC represents, or the newest message of a watch: through the same steps as a call of its
// tool, so that nothing gets around the policy. What the backend does not find is a resource that does not exist.
func (s *Service) readMethod(ctx context.Context, req *bridge.Request, tool *catalog.Tool, method *resource.Method, uri string, variables map[string]string) *bridge.Response {
	var body []byte
	var resp *bridge.Response
	result := &outriggerv1.ResourceResult{}
	if method.IsWatch() {
		traceTool(req, tool)
		arguments, err := watchArguments(req, method, uri)
		if err != nil {
			return &bridge.Response{Err: err}
		}
		body, resp = s.host.ReadPart(ctx, req, tool, arguments, func(read context.Context, wire []byte) ([]byte, *errmap.Error) {
			value, err := s.opts.Watches.Read(read, s.watchSpec(ctx, req, tool, wire, uri))
			return value, watchError(err)
		})
		result.Cache = momentary()
	} else {
		arguments, err := method.Request(variables)
		if err != nil {
			return &bridge.Response{Err: errmap.UnknownResource(uri)}
		}
		traceTool(req, tool)
		body, resp = s.host.CallPart(ctx, req, tool, arguments)
	}
	if resp.Err != nil {
		if resp.IsMissing() {
			resp.Err = errmap.UnknownResource(uri)
		}
		return resp
	}
	contents, err := method.Contents(uri, body)
	if err != nil {
		resp.Err = errmap.Wrap(errmap.InvalidToolOutput, err)
		return resp
	}
	result.Contents = []*outriggerv1.ResourceContents{contents}
	resp.Message = &outriggerv1.ResourceOutcome{Outcome: &outriggerv1.ResourceOutcome_Result{Result: result}}
	return resp
}

// traceTool names the tool behind a resource in the span of a request.
func traceTool(req *bridge.Request, tool *catalog.Tool) {
	if req.Span.IsRecording() {
		req.Span.Set(telemetry.Text(telemetry.CanonicalTool, tool.Name))
	}
}

// readHeld reads a result that is held for the caller, or the part of it that the URI asks for.
func (s *Service) readHeld(ctx context.Context, req *bridge.Request, uri string) *bridge.Response {
	token, part, wrong := content.ParseURI(uri)
	if wrong != "" {
		return &bridge.Response{Err: errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{
			Path: req.At("uri"), Keyword: "format", Message: wrong,
		}))}
	}
	d, until, ok := s.host.Documents().Get(req.Caller, token)
	if !ok {
		err := errmap.New(errmap.ResourceNotFound, errmap.Message("Resource not found: the result has expired, made way for a newer one, or is held by another replica or for another caller; call the tool again"))
		err.URI = uri
		return &bridge.Response{Err: err}
	}
	if failed := s.mayReadHeld(ctx, &d); failed != nil {
		return &bridge.Response{Err: failed}
	}
	data, failed := s.cutHeld(req.At("uri"), token, part, &d)
	if failed != nil {
		return &bridge.Response{Err: failed}
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
	return &bridge.Response{Message: &outriggerv1.ResourceOutcome{Outcome: &outriggerv1.ResourceOutcome_Result{Result: &outriggerv1.ResourceResult{
		Contents: []*outriggerv1.ResourceContents{contents},
		Cache: &outriggerv1.CachePolicy{
			Ttl: durationpb.New(max(time.Until(until), 0)), Scope: outriggerv1.CacheScope_CACHE_SCOPE_PRIVATE,
		},
	}}}}
}

// mayReadHeld asks whether a caller may still use the tool that made a result, and still sees the same of its results.
func (s *Service) mayReadHeld(ctx context.Context, d *content.Document) *errmap.Error {
	name := d.Tool
	if all := s.host.Current(); all != nil {
		if tool, ok := all.Lookup(name); ok {
			if failed := s.host.MayUse(ctx, tool); failed != nil {
				return failed
			}
			return s.host.MayRead(ctx, tool, name, d.View)
		}
	}
	if who := identity.FromContext(ctx); !who.MayCall(name) {
		return s.host.NotPermitted(who, "tool "+name)
	}
	return s.host.MayRead(ctx, nil, name, d.View)
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

// cutHeld is the part of a document that is asked for; of a text, it ends with a whole
// character. A part that would be too large is refused rather than shortened: a reader
// might take it for the whole.
func (s *Service) cutHeld(pointer, token string, part content.Part, d *content.Document) ([]byte, *errmap.Error) {
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
	if err := s.host.CheckSize(len(data)); err != nil {
		limit := s.host.Documents().MaxResult
		return nil, errmap.Because(errmap.ResourceExhausted, fmt.Sprintf(
			"it is %d bytes; the limit is %d (--max-result-bytes): read it in parts, from %s on", len(data), limit, content.PartURI(content.DocumentURI+token, part.Offset, limit)))
	}
	return data, nil
}

// readFile reads a file of a skill from a folder.
func (s *Service) readFile(ctx context.Context, f *skillFile, uri string) *bridge.Response {
	if who := identity.FromContext(ctx); !who.MayRead(uri) {
		return &bridge.Response{Err: s.host.NotPermitted(who, "this resource")}
	}
	if err := s.host.CheckSize(f.Size()); err != nil {
		return &bridge.Response{Err: err}
	}
	return &bridge.Response{Message: &outriggerv1.ResourceOutcome{Outcome: &outriggerv1.ResourceOutcome_Result{Result: &outriggerv1.ResourceResult{
		Contents: []*outriggerv1.ResourceContents{f.Contents()}, Cache: unkept(),
	}}}}
}

// getSkill returns one skill.
func (s *Service) getSkill(ctx context.Context, req *bridge.Request, cat *catalog.Catalog, ask *outriggerv1.GetSkillRequest) *bridge.Response {
	who := identity.FromContext(ctx)
	if skill, ok := s.opts.Skills.Current().Skill(ask.GetUri()); ok {
		if !who.MayRead(ask.GetUri()) {
			return &bridge.Response{Err: s.host.NotPermitted(who, "this skill")}
		}
		return &bridge.Response{Message: &outriggerv1.GetSkillResponse{Skill: skill, Cache: unkept()}}
	}
	unknown := unknownURI(req, ask.GetUri(), keywordSkill, "no skill has this URI; the list of skills has those that there are")
	if cat.Description().GetCapabilities().GetSkills() == nil {
		return &bridge.Response{Err: unknown}
	}
	if err := s.mayAskAbout(ctx, req, ask.GetUri()); err != nil {
		return &bridge.Response{Err: err}
	}
	req, err := req.Complete()
	if err != nil {
		return &bridge.Response{Err: err}
	}
	resp := s.host.Ask(ctx, req, &outriggerv1.GetSkillRequest{Uri: ask.GetUri(), Context: req.Context})
	switch got, _ := resp.Message.(*outriggerv1.GetSkillResponse); {
	case resp.Err != nil && isUnknown(resp.Err):
		resp.Err = unknown
	case resp.Err != nil:
	case got.GetSkill().GetUri() != ask.GetUri():
		resp.Err = errmap.Wrap(errmap.InvalidToolOutput, errors.New("the backend returned another skill"))
	default:
		resp.Err = wellFormed(got.GetSkill())
	}
	return resp
}

// mayAskAbout checks a URI before the native backend is asked about it.
func (s *Service) mayAskAbout(ctx context.Context, req *bridge.Request, uri string) *errmap.Error {
	if err := CheckURI(req.At("uri"), uri); err != nil {
		return err
	}
	if who := identity.FromContext(ctx); !who.MayRead(uri) {
		return s.host.NotPermitted(who, "this resource")
	}
	return nil
}

// wellFormed is INVALID_TOOL_OUTPUT for an entry of the native backend that breaks the rules of the extension.
func wellFormed(s *outriggerv1.Skill) *errmap.Error {
	if err := checkSkill(s); err != nil {
		return errmap.Wrap(errmap.InvalidToolOutput, err)
	}
	return nil
}

// isUnknown reports whether the backend said that there is nothing with a URI.
func isUnknown(err *errmap.Error) bool {
	resp := &bridge.Response{Err: err}
	return err.Code == errmap.ResourceNotFound || resp.IsMissing() || resp.NamesNothing()
}

// Keywords of violations that say: what the request names does not exist. [bridge.Response.NamesNothing] knows them.
const (
	keywordSkill     = "skill"
	keywordDirectory = "directory"
)

// unknownURI is INVALID_PARAMS for a URI that names no skill, or no directory: the code that the extension has for it, in
// every revision.
func unknownURI(req *bridge.Request, uri, keyword, reason string) *errmap.Error {
	return errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{
		Path: req.At("uri"), Keyword: keyword, Message: errmap.Quote(uri) + ": " + reason,
	}))
}

// getPrompt has the native backend fill in a prompt.
func (s *Service) getPrompt(ctx context.Context, req *bridge.Request, ask *outriggerv1.GetPromptRequest) *bridge.Response {
	if who := identity.FromContext(ctx); !who.MayPrompt(ask.GetName()) {
		return &bridge.Response{Err: s.host.NotPermitted(who, "this prompt")}
	}
	arguments, err := json.Marshal(ask.GetArguments())
	if err != nil {
		arguments = nil // strings always have a JSON form
	}
	resp := s.host.AskRound(ctx, req, ask.GetName(), arguments, func(state []byte) proto.Message {
		sent, _ := proto.Clone(ask).(*outriggerv1.GetPromptRequest)
		sent.InputResponses, sent.RequestState, sent.Context = req.InputResponses, state, req.Context
		if len(req.Meta) > 0 {
			sent.MetaForm = &outriggerv1.GetPromptRequest_MetaJson{MetaJson: req.Meta}
		}
		return sent
	})
	if _, exists := resp.Message.(*outriggerv1.PromptOutcome); exists && req.Span.IsRecording() {
		req.Span.Found(ask.GetName())
		req.Span.Set(telemetry.Text(telemetry.PromptName, ask.GetName()))
	}
	return resp
}

// complete has the native backend propose values.
func (s *Service) complete(ctx context.Context, req *bridge.Request, ask *outriggerv1.CompleteRequest) *bridge.Response {
	who := identity.FromContext(ctx)
	if prompt := ask.GetPrompt(); prompt != "" && !who.MayPrompt(prompt) {
		return &bridge.Response{Err: s.host.NotPermitted(who, "this prompt")}
	}
	if template := ask.GetResource(); template != "" && !who.MayRead(template) {
		return &bridge.Response{Err: s.host.NotPermitted(who, "this resource template")}
	}
	sent, _ := proto.Clone(ask).(*outriggerv1.CompleteRequest)
	sent.Context = req.Context
	if len(req.Meta) > 0 {
		sent.MetaForm = &outriggerv1.CompleteRequest_MetaJson{MetaJson: req.Meta}
	}
	return s.host.Ask(ctx, req, sent)
}
