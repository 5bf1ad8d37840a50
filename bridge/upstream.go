// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/metadata"
	"github.com/outrigger-mcp/outrigger/internal/native"
	"github.com/outrigger-mcp/outrigger/internal/resilience"
)

// Upstream calls methods of the backend with encoded messages. It returns canonical
// errors, because only it knows whether the backend was reached; each error is made for
// its call, and the bridge adds to it. With an error the Answer may be nil, and has
// metadata at most. Implementations must not keep the bytes of in after a call, or
// return a part of them: the buffer is used again.
type Upstream interface {
	Call(ctx context.Context, m *catalog.Method, in []byte, header http.Header) (*Answer, *errmap.Error)
	// Stream calls a server-streaming method, and passes each message to each, in order,
	// before it returns. The bytes belong to each until each returns. An error of each
	// ends the call.
	Stream(ctx context.Context, m *catalog.Method, in []byte, header http.Header, each func(message []byte) error) (*Answer, *errmap.Error)
}

// Answer is the backend's answer to one RPC: the encoded message and the metadata.
type Answer struct {
	Body            []byte
	Header, Trailer http.Header
}

// Native is a backend that implements outrigger.v1.ToolService, and so can offer more
// than RPCs. Its errors are canonical. Implementations are safe for concurrent use.
type Native interface {
	// CallTool runs a tool. If events is not nil, it receives the events of the call, in
	// order, before CallTool returns.
	CallTool(ctx context.Context, call *outriggerv1.ToolCall, header http.Header, events func(*outriggerv1.ToolEvent)) (*outriggerv1.ToolOutcome, *Answer, *errmap.Error)
	// Ask calls the unary RPC of the tool API that takes the type of in: a
	// ReadResourceRequest gets a ResourceOutcome, and so on. The answer's Body is empty.
	Ask(ctx context.Context, in proto.Message, header http.Header) (proto.Message, *Answer, *errmap.Error)
}

// risk is what the guard of the backend has to know of a call.
func (b *Bridge) risk(c *toolCall) resilience.Call {
	return resilience.Call{
		Key:        c.tool.Name,
		Repeatable: c.tool.IsIdempotent() || metadata.IdempotencyKey(c.req.Header) != "",
		Hurried:    c.req.Timeout > 0 && c.req.Timeout < b.allowed(c),
	}
}

// callRPC makes a unary call of the backend, and repeats it where that may be.
func (b *Bridge) callRPC(ctx context.Context, c *toolCall) *errmap.Error {
	header, risk := b.sentHeader(c.req.Header), b.risk(c)
	ctx, err := b.onBehalf(ctx, c.req)
	if err != nil {
		return err
	}
	if risk.Repeatable && b.opts.Guard != nil {
		risk.Claim = &c.claim
		ctx = backend.Repeatable(ctx, &c.claim)
	}
	if c.req.Procedure != "" && c.req.Timeout == 0 && c.tool.Timeout == 0 {
		// The default is the sidecar's. Typed callers and their service agree on deadlines.
		ctx = backend.PrivateDeadline(ctx)
	}
	ctx = c.req.calling(ctx, &risk)
	c.answer, err = resilience.Do(ctx, b.opts.Guard, risk, func(ctx context.Context) (*Answer, *errmap.Error) {
		return b.upstream.Call(ctx, c.tool.Method, c.wire, header)
	})
	return err
}

// sentHeader is what of a caller's headers goes to the backend with a call.
func (b *Bridge) sentHeader(h http.Header) http.Header {
	out := b.opts.Metadata.Inbound(h)
	key := metadata.IdempotencyKey(h)
	if key == "" {
		return out
	}
	if out == nil {
		out = make(http.Header, 1)
	}
	out[metadata.IdempotencyHeader] = []string{key}
	return out
}

// questionKey begins what the guard knows questions to a native backend by; no tool's
// name has a slash.
const questionKey = "/"

// askNative puts a question to a native backend. Those that change nothing there
// are repeated.
func (b *Bridge) askNative(ctx context.Context, req *Request, in proto.Message) (out proto.Message, answer *Answer, err *errmap.Error) {
	risk := resilience.Call{Key: questionKey + string(in.ProtoReflect().Descriptor().Name()), Repeatable: true, Hurried: req.Timeout > 0 && req.Timeout < b.opts.Timeout}
	switch in.(type) {
	case *outriggerv1.UpdateTaskRequest, *outriggerv1.CancelTaskRequest:
		risk.Repeatable = false
	}
	header := b.opts.Metadata.Inbound(req.Header)
	if ctx, err = b.onBehalf(ctx, req); err != nil {
		return nil, nil, err
	}
	ctx = req.calling(ctx, &risk)
	out, err = resilience.Do(ctx, b.opts.Guard, risk, func(ctx context.Context) (out proto.Message, err *errmap.Error) {
		out, answer, err = b.opts.Native.Ask(ctx, in, header)
		return out, err
	})
	return out, answer, err
}

// BackendUpstream is an [Upstream] over the client of one backend. It is safe for
// concurrent use. It does not close the client.
type BackendUpstream struct {
	client *backend.Client
}

// NewBackendUpstream returns a BackendUpstream over a client.
func NewBackendUpstream(client *backend.Client) *BackendUpstream {
	return &BackendUpstream{client: client}
}

// Call implements [Upstream].
func (c *BackendUpstream) Call(ctx context.Context, m *catalog.Method, in []byte, header http.Header) (*Answer, *errmap.Error) {
	answer, err := c.client.Call(ctx, m.Procedure, in, header)
	if err != nil {
		return metadataOf(err), backendError(ctx, err)
	}
	return &Answer{Body: answer.Body, Header: answer.Header, Trailer: answer.Trailer}, nil
}

// Stream implements [Upstream].
func (c *BackendUpstream) Stream(ctx context.Context, m *catalog.Method, in []byte, header http.Header, each func([]byte) error) (*Answer, *errmap.Error) {
	answer, err := c.client.Stream(ctx, m.Procedure, in, header, each)
	if err != nil {
		return metadataOf(err), backendError(ctx, err)
	}
	return &Answer{Header: answer.Header, Trailer: answer.Trailer}, nil
}

// metadataOf is the answer to a call that failed: what the backend sent beside
// its status. Protocols mix headers and trailers there.
func metadataOf(err error) *Answer {
	var failed *backend.Error
	if !errors.As(err, &failed) || len(failed.Header) == 0 && len(failed.Trailer) == 0 {
		return nil
	}
	return &Answer{Header: failed.Header, Trailer: failed.Trailer}
}

// NoBackend is an Upstream for a sidecar that only shows tools.
type NoBackend struct{}

// Call implements [Upstream]: it is always UNAVAILABLE.
func (NoBackend) Call(context.Context, *catalog.Method, []byte, http.Header) (*Answer, *errmap.Error) {
	return nil, unavailable("no backend is configured; set --backend")
}

// Stream implements [Upstream]: it is always UNAVAILABLE.
func (NoBackend) Stream(context.Context, *catalog.Method, []byte, http.Header, func([]byte) error) (*Answer, *errmap.Error) {
	return nil, unavailable("no backend is configured; set --backend")
}

// deadlineSlack is how much earlier than ours the backend may notice the
// deadline that it was sent: clocks start at different moments and protocols
// round to milliseconds.
const deadlineSlack = 20 * time.Millisecond

// backendError gives a failed call its canonical code. Only what kept the call
// from reaching the backend, or its answer from coming back, is ours to name;
// what the backend said itself stays its own.
func backendError(ctx context.Context, err error) *errmap.Error {
	var failed *backend.Error
	if !errors.As(err, &failed) {
		return errmap.Wrap(errmap.InternalError, err)
	}
	switch failed.Kind {
	case backend.KindUnreachable:
		wait := retryAfter
		if failed.RetryAfter > 0 {
			wait = failed.RetryAfter
		}
		return errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(wait),
			errmap.Message("Tool service unavailable: "+failed.Message))
	case backend.KindTimeout:
		return errmap.Wrap(errmap.Timeout, err)
	case backend.KindCancelled:
		return errmap.Wrap(errmap.Cancelled, err)
	case backend.KindTransport, backend.KindForeign:
		return errmap.Wrap(errmap.TransportError, err)
	case backend.KindTooLarge:
		return errmap.Wrap(errmap.ResourceExhausted, err, errmap.Message("Result too large: "+failed.Message))
	case backend.KindRequestTooLarge:
		return errmap.Wrap(errmap.PayloadTooLarge, err, errmap.Message("Payload too large: "+failed.Message))
	case backend.KindGarbage:
		if !failed.Sent {
			return errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(retryAfter),
				errmap.Message("Tool service unavailable: "+failed.Message))
		}
		return errmap.Wrap(errmap.SerializationError, err)
	case backend.KindUnsupported:
		return errmap.FromBackendStatus(failed.Code, failed.Message, nil).WithCause(failed)
	case backend.KindStatus:
		if failed.Code == connect.CodeDeadlineExceeded && due(ctx) {
			return errmap.Wrap(errmap.Timeout, err)
		}
		code := failed.Code
		if failed.PeerStatus != 0 {
			code = connect.Code(failed.PeerStatus)
		}
		out := errmap.FromBackendStatus(code, failed.Message, failed.Details).WithCause(failed)
		switch {
		case failed.RetryAfter < 0:
			out.Retryable, out.RetryAfter = new(bool), 0
		case out.RetryAfter == 0:
			out.RetryAfter = failed.RetryAfter
		}
		return out
	}
	return errmap.Wrap(errmap.InternalError, err)
}

// due reports whether our own deadline has come.
func due(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= deadlineSlack
}

// NewReflectionSource returns a source of tools that asks the client's backend by gRPC
// server reflection, over the same connections and protocol as calls. Each load looks
// for the protocol if it is not known yet.
func NewReflectionSource(client *backend.Client, o source.ReflectionOptions) source.Reflection {
	o.Mask = client.Mask
	return source.NewReflection(client.Target().String(), func(ctx context.Context) (source.Endpoint, error) {
		e, err := client.Streams(ctx)
		if err != nil {
			return source.Endpoint{}, err
		}
		return source.Endpoint{HTTPClient: e.HTTPClient, BaseURL: e.BaseURL, Options: e.Options}, nil
	}, o)
}

// NativeUpstream is a [Native] over a client of outrigger.v1.ToolService. It is safe
// for concurrent use.
type NativeUpstream struct {
	client *native.Client
}

// NewNativeUpstream returns a NativeUpstream over a client.
func NewNativeUpstream(client *native.Client) *NativeUpstream { return &NativeUpstream{client: client} }

// CallTool implements [Native].
func (c *NativeUpstream) CallTool(ctx context.Context, call *outriggerv1.ToolCall, header http.Header, events func(*outriggerv1.ToolEvent)) (*outriggerv1.ToolOutcome, *Answer, *errmap.Error) {
	outcome, metadata, err := c.client.CallTool(ctx, call, header, events)
	if err != nil {
		return nil, nativeMetadata(metadata, err), nativeError(ctx, err)
	}
	return outcome, nativeMetadata(metadata, nil), nil
}

// Ask implements [Native]. What a backend says with the bare code of an RPC gets
// the meaning that the contract gives it there.
func (c *NativeUpstream) Ask(ctx context.Context, in proto.Message, header http.Header) (proto.Message, *Answer, *errmap.Error) {
	out, metadata, err := c.client.Ask(ctx, in, header)
	if err != nil {
		return nil, nativeMetadata(metadata, err), askError(in, nativeError(ctx, err))
	}
	return out, nativeMetadata(metadata, nil), nil
}

func nativeMetadata(m native.Metadata, err error) *Answer {
	if err != nil && m.Header == nil && m.Trailer == nil {
		return metadataOf(err)
	}
	return &Answer{Header: m.Header, Trailer: m.Trailer}
}

// nativeError gives a failed RPC of the tool API its canonical code.
func nativeError(ctx context.Context, err error) *errmap.Error {
	var invalid *native.InvalidAnswerError
	if !errors.As(err, &invalid) {
		return backendError(ctx, err)
	}
	out := errmap.Wrap(errmap.InvalidToolOutput, err)
	for _, v := range invalid.Violations {
		out.Violations = append(out.Violations, errmap.Violation{Path: v.Path, Keyword: v.Keyword, Message: v.Message})
	}
	return out
}

// askError reads the bare status of an RPC that is none of a tool's: the
// contract (outrigger.v1.ToolService) says what the codes mean there. A status
// with a canonical code of its own says enough.
func askError(in proto.Message, err *errmap.Error) *errmap.Error {
	if err.Code != errmap.ToolExecutionFailed {
		return err
	}
	switch err.BackendCode {
	case connect.CodeUnimplemented.String():
		return errmap.Wrap(errmap.MethodNotFound, err, errmap.Message("Method not found: the backend does not offer this"))
	case connect.CodeInvalidArgument.String():
		return errmap.Wrap(errmap.InvalidParams, err, errmap.Message("Invalid params: "+err.Message))
	case connect.CodeNotFound.String():
		switch m := in.(type) {
		case *outriggerv1.ReadResourceRequest:
			return errmap.UnknownResource(m.GetUri())
		case *outriggerv1.GetSkillRequest:
			return errmap.UnknownResource(m.GetUri())
		case *outriggerv1.ReadDirectoryRequest:
			return errmap.UnknownResource(m.GetUri())
		case *outriggerv1.GetPromptRequest:
			return errmap.Wrap(errmap.InvalidParams, err, errmap.Message("Invalid params: unknown prompt "+errmap.Quote(m.GetName())),
				errmap.WithViolations(errmap.Violation{Keyword: keywordPrompt, Message: "there is no prompt with this name"}))
		case *outriggerv1.CompleteRequest:
			return errmap.Wrap(errmap.InvalidParams, err, errmap.Message("Invalid params: unknown reference"),
				errmap.WithViolations(errmap.Violation{Keyword: keywordReference, Message: "there is no such prompt or resource template"}))
		}
	}
	return err
}

// NewNativeSource returns a source of the tools that a native backend describes itself.
// If must is false, a backend that does not implement outrigger.v1.ToolService has no
// tools; otherwise that is an error.
func NewNativeSource(name string, client *native.Client, must bool) source.Source {
	return source.NewNative(name, func(ctx context.Context) (*source.Native, error) {
		description, err := client.Describe(ctx)
		if err != nil {
			if !must && isUnimplemented(err) {
				return nil, nil //nolint:nilnil // the source's contract: nothing is offered
			}
			return nil, err
		}
		out := &source.Native{Description: description}
		if description.GetCapabilities().GetTools() == nil {
			return out, nil
		}
		if out.Tools, err = client.Tools(ctx); err != nil {
			return nil, err
		}
		return out, nil
	})
}

// isUnimplemented reports whether a backend said that it has no such RPC.
func isUnimplemented(err error) bool {
	var failed *backend.Error
	return errors.As(err, &failed) && failed.Kind == backend.KindStatus && failed.Code == connect.CodeUnimplemented
}
