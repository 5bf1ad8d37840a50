// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
)

// natives asks several native backends as if they were one: lists follow each other in the order of the backends, and what has a name
// or a URI is of the first backend that knows it. A backend that is away is left out of lists, and its own are UNAVAILABLE. It is a
// bridge.Native and safe for concurrent use.
type natives struct{ all []*Service }

// CallTool implements bridge.Native. Tools have the backend that they are of, which is not this one.
func (natives) CallTool(context.Context, *outriggerv1.ToolCall, http.Header, func(*outriggerv1.ToolEvent)) (*outriggerv1.ToolOutcome, *bridge.Answer, *errmap.Error) {
	return nil, nil, errmap.Wrap(errmap.InternalError, errors.New("the tool is of no backend"))
}

// HasOwnRules implements bridge.OwnRules: each backend gets the headers that its own settings let through.
func (natives) HasOwnRules() {}

// Ask implements bridge.Native. A backend that does not answer leaves the others a share of the time.
func (n natives) Ask(ctx context.Context, in proto.Message, header http.Header) (proto.Message, *bridge.Answer, *errmap.Error) {
	if fd := in.ProtoReflect().Descriptor().Fields().ByName("cursor"); fd != nil && in.ProtoReflect().Descriptor().Fields().ByName("uri") == nil {
		return n.list(ctx, in, fd, header)
	}
	var said *errmap.Error
	var answer *bridge.Answer
	all := n.offering(in)
	for i, s := range all {
		out, got, err := s.ask(ctx, in, header, len(all)-i)
		if err == nil || err.Code == errmap.InvalidParams && !isOfAnother(err) {
			return out, got, err
		}
		if said == nil || isOfAnother(said) { // what refuses or is away may be what has it
			said, answer = err, got
		}
	}
	if said == nil {
		said = errmap.New(errmap.MethodNotFound, errmap.Message("Method not found: no backend offers this"))
	}
	return nil, answer, said
}

// offering are the backends that offer what is asked for. One that has not been loaded yet offers nothing.
func (n natives) offering(in proto.Message) (out []*Service) {
	for _, s := range n.all {
		cat := s.live.Current()
		if s.native == nil || cat == nil || cat.Description() == nil {
			continue
		}
		if offers(cat.Description().GetCapabilities(), in) {
			out = append(out, s)
		}
	}
	return out
}

// offers reports whether a backend has what a question is about.
func offers(c *outriggerv1.ServerCapabilities, in proto.Message) bool {
	switch in.(type) {
	case *outriggerv1.ListResourcesRequest, *outriggerv1.ListResourceTemplatesRequest, *outriggerv1.ReadResourceRequest:
		return c.GetResources() != nil
	case *outriggerv1.ListPromptsRequest, *outriggerv1.GetPromptRequest:
		return c.GetPrompts() != nil
	case *outriggerv1.CompleteRequest:
		return c.GetCompletions()
	case *outriggerv1.ListSkillsRequest, *outriggerv1.GetSkillRequest:
		return c.GetSkills() != nil
	case *outriggerv1.ReadDirectoryRequest:
		return c.GetSkills().GetDirectoryRead()
	}
	return false // tasks are asked of the backend whose tool they are of
}

// isOfAnother reports whether a backend says that it does not have what was asked for.
func isOfAnother(err *errmap.Error) bool {
	switch err.Code { //nolint:exhaustive // all others are about what it has
	case errmap.ResourceNotFound, errmap.MethodNotFound:
		return true
	case errmap.InvalidParams:
		return len(err.Violations) == 1 && slices.Contains([]string{"prompt", "reference", "skill", "directory"}, err.Violations[0].Keyword)
	}
	return false
}

// Cursors of joint lists are the name of a backend and its own cursor, which is absent for its first page.
const (
	firstPage = "-"
	laterPage = "+"
)

// list asks for a page of a list, which is of one backend. Those that fail are left out, unless all do.
func (n natives) list(ctx context.Context, in proto.Message, cursor protoreflect.FieldDescriptor, header http.Header) (proto.Message, *bridge.Answer, *errmap.Error) {
	all := n.offering(in)
	own := proto.Clone(in)
	at, inner := 0, firstPage
	if in.ProtoReflect().Has(cursor) {
		name, rest, _ := strings.Cut(in.ProtoReflect().Get(cursor).String(), "\x00")
		if known := slices.IndexFunc(all, func(s *Service) bool { return s.opts.name == name }); known >= 0 {
			at, inner = known, rest
		}
	}
	var said *errmap.Error
	for ; at < len(all); at, inner = at+1, firstPage {
		own.ProtoReflect().Clear(cursor)
		if rest, ok := strings.CutPrefix(inner, laterPage); ok {
			own.ProtoReflect().Set(cursor, protoreflect.ValueOfString(rest))
		}
		out, got, err := all[at].ask(ctx, own, header, len(all)-at)
		if err != nil {
			said = err
			continue
		}
		next := out.ProtoReflect().Descriptor().Fields().ByName("next_cursor")
		switch {
		case out.ProtoReflect().Has(next):
			out.ProtoReflect().Set(next, protoreflect.ValueOfString(all[at].opts.name+"\x00"+laterPage+out.ProtoReflect().Get(next).String()))
		case at+1 < len(all):
			out.ProtoReflect().Set(next, protoreflect.ValueOfString(all[at+1].opts.name+"\x00"+firstPage))
		}
		return out, got, nil
	}
	if in.ProtoReflect().Has(cursor) {
		return emptyPage(in), nil, nil // those that had more are away
	}
	if said == nil {
		said = errmap.New(errmap.MethodNotFound, errmap.Message("Method not found: no backend offers this"))
	}
	return nil, nil, said
}

// emptyPage is the last page of a list, without entries.
func emptyPage(in proto.Message) proto.Message {
	name := protoreflect.FullName(strings.TrimSuffix(string(in.ProtoReflect().Descriptor().FullName()), "Request") + "Response")
	page, _ := protoregistry.GlobalTypes.FindMessageByName(name) // it is linked in with its request
	return page.New().Interface()
}

// ask puts one question to a native backend: in the name of the caller, behind its guard, and within the share that one of several
// backends still to be asked has of the time.
func (s *Service) ask(ctx context.Context, in proto.Message, header http.Header, several int) (out proto.Message, answer *bridge.Answer, err *errmap.Error) {
	deadline, isBound := ctx.Deadline()
	if isBound {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, time.Now().Add(time.Until(deadline)/time.Duration(several)))
		defer cancel()
	}
	if maker := s.behalf.maker; maker != nil && !backend.HasAuthorization(ctx) {
		value, err := maker.Authorization(ctx)
		if err != nil {
			return nil, nil, err
		}
		ctx = backend.WithAuthorization(ctx, value)
	}
	// Time that is cut short says nothing of the backend.
	risk := backend.GuardedCall{Key: "/" + string(in.ProtoReflect().Descriptor().Name()), Repeatable: true, Hurried: several > 1}
	header = s.metadata.Inbound(header)
	out, err = backend.DoGuarded(ctx, s.Guard, risk, func(ctx context.Context) (out proto.Message, err *errmap.Error) {
		out, answer, err = s.native.Ask(ctx, in, header)
		return out, err
	})
	if answer != nil {
		answer = &bridge.Answer{Header: s.metadata.Outbound(answer.Header), Trailer: s.metadata.Outbound(answer.Trailer)}
	}
	return out, answer, err
}
