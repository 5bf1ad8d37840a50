// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// Host is what a bridge does for its [Offers]: it shows them the tools, asks the native backend, and runs tools within requests
// that are no calls, through the steps of a call, so that nothing gets around the policy.
type Host struct {
	parts    *parts
	draining <-chan struct{}
	log      *zap.Logger
}

// Ask puts one question to the native backend, under the shorter of the
// caller's deadline and the default.
func (h *Host) Ask(ctx context.Context, req *Request, in proto.Message) *Response {
	return h.parts.natives.ask(ctx, req, in)
}

// AskRound puts a question to the native backend that may take several rounds with the caller. The name of what it is about
// and the arguments bind the state between the rounds; ask makes the message with the backend's part of that state.
func (h *Host) AskRound(ctx context.Context, req *Request, name string, arguments []byte, ask func(state []byte) proto.Message) *Response {
	return h.parts.natives.askRound(ctx, req, name, arguments, ask)
}

// Listed returns the catalog for the caller in ctx as it is listed in a form.
func (h *Host) Listed(ctx context.Context, form compact.List) (*catalog.Catalog, *errmap.Error) {
	cat, err := h.parts.directory.catalog(ctx)
	if err != nil {
		return nil, err
	}
	return h.parts.directory.listedAs(cat, form)
}

// Current returns the current catalog with all tools, nil before the first.
func (h *Host) Current() *catalog.Catalog { return h.parts.directory.catalogs.Current() }

// IsView reports whether a catalog is what some callers see of another.
func (h *Host) IsView(cat *catalog.Catalog) bool { return h.parts.directory.views.Has(cat) }

// HasTasks reports whether calls of a catalog's tools may go on as tasks.
func (h *Host) HasTasks(cat *catalog.Catalog) bool { return h.parts.tasks.areOffered(cat) }

// HoldsResults reports whether tools of a catalog may have results that are held.
func (h *Host) HoldsResults(cat *catalog.Catalog) bool { return h.parts.decoder.holdsResults(cat) }

// MayUse returns PERMISSION_DENIED if the caller in ctx may not call a tool, else nil.
func (h *Host) MayUse(ctx context.Context, tool *catalog.Tool) *errmap.Error {
	return h.parts.directory.mayUse(ctx, tool)
}

// MayRead returns PERMISSION_DENIED if the caller in ctx sees something else of the results of a tool than a result that was made for
// a view has, else nil. A nil tool is gone.
func (h *Host) MayRead(ctx context.Context, tool *catalog.Tool, name, view string) *errmap.Error {
	if name != catalog.RunName {
		return h.parts.rulebook.mayRead(ctx, tool, name, view)
	}
	var views map[string]string
	if view != "" && json.Unmarshal([]byte(view), &views) != nil {
		return errmap.New(errmap.InternalError)
	}
	return h.parts.rulebook.mayReadAll(ctx, h.Current(), views)
}

// NotPermitted is PERMISSION_DENIED for what a caller may not use.
func (h *Host) NotPermitted(who *identity.Identity, what string) *errmap.Error {
	return policy.NotPermitted(who, what)
}

// Draining is closed when streams of changes are to end.
func (h *Host) Draining() <-chan struct{} { return h.draining }

// Log returns the log.
func (h *Host) Log() *zap.Logger { return h.log }

// Sealer seals what callers send back.
func (h *Host) Sealer() *keys.Sealer { return h.parts.rounds.sealer }

// CheckSize returns RESOURCE_EXHAUSTED for a result of more bytes than one may have, else nil.
func (h *Host) CheckSize(size int) *errmap.Error { return h.parts.decoder.limit.check(size) }

// Documents returns what holds large results.
func (h *Host) Documents() *content.Keeper { return h.parts.decoder.keeper }

// partOf is a call of a tool within a request.
func partOf(req *Request, tool *catalog.Tool, arguments []byte) *toolCall {
	return &toolCall{tool: tool, isPart: true, req: &Request{
		Op: OpCall, Origin: req.Origin, Tool: tool.Name, Arguments: Payload{Bytes: arguments}, Timeout: req.Timeout, Pointer: req.Pointer,
		Header: req.Header, Caller: req.Caller, Transport: req.Transport, Route: req.Route, Method: req.Method, Span: req.Span, meter: req.meter,
	}}
}

// through runs steps of a call until one fails.
func (h *Host) through(ctx context.Context, c *toolCall, steps ...step) *errmap.Error {
	for _, step := range steps {
		if err := step(ctx, c); err != nil {
			return h.parts.decoder.explained(ctx, c, err)
		}
	}
	return nil
}

// CallPart runs a tool within a request and returns its answer as JSON.
func (h *Host) CallPart(ctx context.Context, req *Request, tool *catalog.Tool, arguments []byte) ([]byte, *Response) {
	c := partOf(req, tool, arguments)
	defer h.parts.admission.leave(c)
	if c.resp.Err = h.through(ctx, c, h.parts.gatekeeper.gate, h.parts.rates.limit, h.parts.rates.share, h.parts.admission.admit, h.parts.encoder.encode,
		h.parts.rulebook.permit, h.parts.auditor.recordCall, h.parts.rpcs.invoke); c.resp.Err != nil {
		return nil, &c.resp
	}
	return h.shown(ctx, c, c.answer.Body)
}

// ReadPart is CallPart for a tool whose answer comes from elsewhere: read gets the encoded arguments, and returns an
// encoded answer. The arguments are those that the URI of the request has.
func (h *Host) ReadPart(ctx context.Context, req *Request, tool *catalog.Tool, arguments []byte, read func(ctx context.Context, wire []byte) ([]byte, *errmap.Error)) ([]byte, *Response) {
	c := partOf(req, tool, arguments)
	defer h.parts.admission.leave(c)
	if c.resp.Err = h.through(ctx, c, h.parts.gatekeeper.gate, h.parts.rates.limit, h.parts.rates.share, h.parts.admission.admit, h.encodeURI,
		h.parts.rulebook.permit, h.parts.auditor.recordCall); c.resp.Err != nil {
		return nil, &c.resp
	}
	defer c.req.waited(time.Now())
	ctx, cancel := context.WithTimeout(ctx, h.parts.sender.deadlines.timeout(c))
	defer cancel()
	c.deadline, _ = ctx.Deadline()
	value, err := read(ctx, h.takeWire(c))
	if seen := h.parts.sender.seenBy(ctx, c); seen != nil && err != nil {
		err = seen.failed(err)
	} else if seen != nil {
		value, err = seen.message(ctx, tool.Method, value)
	}
	if err != nil {
		c.resp.Err = err
		return nil, &c.resp
	}
	return h.shown(ctx, c, value)
}

// shown is an answer as JSON, if it is not too large.
func (h *Host) shown(ctx context.Context, c *toolCall, wire []byte) ([]byte, *Response) {
	body, err := h.parts.decoder.answerJSON(ctx, c, nil, wire)
	if err != nil {
		c.resp.Err = outputError(err)
	} else {
		c.resp.Err = h.parts.decoder.limit.check(len(body))
	}
	return body, &c.resp
}

// takeWire returns a copy of what the backend is sent, and gives its buffer back.
func (h *Host) takeWire(c *toolCall) []byte {
	wire := bytes.Clone(c.wire)
	h.parts.sender.recycle(c)
	return wire
}

// encodeURI is encode for arguments that a URI has. What is wrong with them is wrong with the URI.
func (h *Host) encodeURI(ctx context.Context, c *toolCall) *errmap.Error {
	err := h.parts.encoder.encode(ctx, c)
	if err == nil || err.Code != errmap.InvalidToolInput {
		return err
	}
	out := errmap.New(errmap.InvalidParams)
	for _, v := range err.Violations {
		message := v.Message
		if v.Path != "" {
			message = v.Path + ": " + message
		}
		out.Violations = append(out.Violations, errmap.Violation{Path: c.req.At("uri"), Keyword: v.Keyword, Message: message})
	}
	return out
}

// Subscribe passes a subscription to a stream of a tool through the steps of a call of it, and writes its line in the audit
// trail: the backend is called in the name of its caller. It returns the encoded arguments, which are those that the URI has.
func (h *Host) Subscribe(ctx context.Context, req *Request, tool *catalog.Tool, arguments []byte, uri string) (wire []byte, err *errmap.Error) {
	c := partOf(req, tool, arguments)
	defer h.parts.admission.leave(c)
	if err := h.through(ctx, c, h.parts.gatekeeper.gate, h.parts.rates.limit, h.parts.admission.room, h.parts.rates.share, h.encodeURI, h.parts.rulebook.permit); err != nil {
		return nil, err
	}
	if err := h.parts.auditor.recordSubscription(ctx, req, tool, uri, c.resp.Decision); err != nil {
		return nil, err
	}
	return h.takeWire(c), nil
}

// Detach returns what of a request a stream keeps that outlives it: a request with its caller, a context with the values of the
// caller's, and a key that is equal for callers whom the backend cannot tell apart.
func (h *Host) Detach(ctx context.Context, req *Request, tool *catalog.Tool) (own *Request, values context.Context, key string) {
	who := identity.FromContext(ctx)
	at := h.parts.sender.at(tool.Method.Backend)
	own, values = &Request{Caller: req.Caller, Header: at.Metadata.Inbound(req.Header).Clone()}, identity.NewContext(context.Background(), who)
	for _, name := range [...]string{"Traceparent", "Tracestate"} {
		own.Header.Del(name) // a stream belongs to no single request
	}
	isNamed := at.OnBehalf != nil
	if !isNamed && len(own.Header) == 0 {
		return own, values, ""
	}
	seen := [2]any{own.Header}
	if isNamed {
		values = context.WithoutCancel(ctx) // it has the caller's token
		seen[1] = []any{who.Principal(), who.Facts()}
	}
	text, err := json.Marshal(seen)
	if err != nil { // claims come from JSON
		text = []byte(rand.Text()) // not shared
	}
	sum := sha256.Sum256(text)
	return own, values, string(sum[:])
}

// Stream runs a tool that streams for a detached request, and gives each its messages. The policy is asked anew each time.
// The arguments are those that a URI has.
func (h *Host) Stream(ctx context.Context, req *Request, tool *catalog.Tool, arguments []byte, each func(message []byte)) *errmap.Error {
	c := partOf(req, tool, arguments)
	for _, step := range [...]step{h.parts.gatekeeper.gate, h.encodeURI, h.parts.rulebook.permit} {
		if err := step(ctx, c); err != nil {
			return err
		}
	}
	var stream BackendStream
	// The messages are kept for all readers: each sees its own part of them when it reads.
	err := h.parts.sender.open(ctx, c, h.parts.sender.of(c).everything(), req.Header, func(_ context.Context, opened BackendStream) *errmap.Error {
		stream = opened
		defer stream.CloseSend()
		if err := stream.Send(c.wire); err != nil && !errors.Is(err, io.EOF) {
			return asError(err)
		}
		return nil
	})
	if stream != nil {
		defer stream.Close()
	}
	if err != nil {
		return h.parts.decoder.explained(ctx, c, err)
	}
	for {
		message, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return h.parts.decoder.explained(ctx, c, asError(err))
		}
		each(message)
	}
}

// FollowTasks finds the tasks of a caller whose changes it wants to hear of. Ids that are unknown are left out. shown has, by
// the id of a task on the feed, how the caller is shown that task. While it cannot be said whether an id is known, the request
// fails.
func (h *Host) FollowTasks(ctx context.Context, req *Request, ids []string) (found []string, shown map[string]func(*outriggerv1.Task) *outriggerv1.Task, failed *errmap.Error) {
	if err := requireTasks(req, true); err != nil {
		return nil, nil, err
	}
	shown = make(map[string]func(*outriggerv1.Task) *outriggerv1.Task, len(ids))
	for _, id := range ids {
		ref, ok, err := h.parts.tasks.findTask(ctx, req.Caller, id)
		if err != nil {
			return nil, nil, err
		}
		if !ok {
			continue
		}
		found = append(found, id)
		shown[ref.Key(h.parts.natives.backendOf(h.Current(), ref.Native))] = func(t *outriggerv1.Task) *outriggerv1.Task {
			own, _ := proto.Clone(t).(*outriggerv1.Task)
			own.TaskId = id
			if cat := h.Current(); cat != nil && ref.Native != nil {
				h.parts.natives.settleTask(ctx, req, cat, ref.Native, own)
			}
			if ref.Native == nil {
				h.parts.tasks.changed(ctx, req.Caller, ref.ID, own)
			}
			return own
		}
	}
	return found, shown, nil
}
