// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// OpenRPC is an open RPC whose errors are canonical. One goroutine may send while another
// receives.
type OpenRPC interface {
	// Send sends a message, and does not keep it. Its error is io.EOF if the RPC has
	// ended, and otherwise an *errmap.Error about the message.
	Send(message []byte) error
	CloseSend()
	// Receive returns the next message, valid until the next call, and io.EOF at the good
	// end. Any other error is an *errmap.Error.
	Receive() ([]byte, error)
	// Header waits for the response, and reports whether there is one.
	Header() (http.Header, bool)
	// Trailer is there once Receive has returned an error.
	Trailer() http.Header
	Close()
}

// Upstream is a bridge.Upstream over the client of one backend: its errors are canonical. It is safe for
// concurrent use. It does not close the client.
type Upstream struct {
	client *Client
}

// NewUpstream returns an Upstream over a client.
func NewUpstream(client *Client) *Upstream {
	return &Upstream{client: client}
}

// Call implements bridge.Upstream.
func (c *Upstream) Call(ctx context.Context, m *catalog.Method, in []byte, header http.Header) (*Answer, *errmap.Error) {
	answer, err := c.client.Call(ctx, m.Procedure, in, header)
	if err != nil {
		return FailedAnswer(err), canonical(ctx, err)
	}
	return answer, nil
}

// Stream implements bridge.Upstream.
func (c *Upstream) Stream(ctx context.Context, m *catalog.Method, in []byte, header http.Header, each func([]byte) error) (*Answer, *errmap.Error) {
	answer, err := c.client.Stream(ctx, m.Procedure, in, header, each)
	if err != nil {
		return FailedAnswer(err), canonical(ctx, err)
	}
	return answer, nil
}

// FailedAnswer is the answer to a call that failed: what the backend sent beside
// its status. Protocols mix headers and trailers there.
func FailedAnswer(err error) *Answer {
	var failed *Error
	if !errors.As(err, &failed) || len(failed.Header) == 0 && len(failed.Trailer) == 0 {
		return nil
	}
	return &Answer{Header: failed.Header, Trailer: failed.Trailer}
}

// unreachableRetry is the hint that goes with UNAVAILABLE where nothing better is known: about one backoff step of the
// catalog's loader.
const unreachableRetry = time.Second

// statusSlack is how much earlier than ours the backend may notice the
// deadline that it was sent: clocks start at different moments and protocols
// round to milliseconds.
const statusSlack = 20 * time.Millisecond

// canonical gives a failed call its canonical code. Only what kept the call
// from reaching the backend, or its answer from coming back, is ours to name;
// what the backend said itself stays its own.
func canonical(ctx context.Context, err error) *errmap.Error {
	var failed *Error
	if !errors.As(err, &failed) {
		return errmap.Wrap(errmap.InternalError, err)
	}
	switch failed.Kind {
	case KindUnreachable:
		wait := unreachableRetry
		if failed.RetryAfter > 0 {
			wait = failed.RetryAfter
		}
		return errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(wait),
			errmap.Message("Tool service unavailable: "+failed.Message))
	case KindTimeout:
		return errmap.Wrap(errmap.Timeout, err)
	case KindCancelled:
		return errmap.Wrap(errmap.Cancelled, err)
	case KindTransport, KindForeign:
		return errmap.Wrap(errmap.TransportError, err)
	case KindTooLarge:
		return errmap.Wrap(errmap.ResourceExhausted, err, errmap.Message("Result too large: "+failed.Message))
	case KindRequestTooLarge:
		return errmap.Wrap(errmap.PayloadTooLarge, err, errmap.Message("Payload too large: "+failed.Message))
	case KindGarbage:
		if !failed.Sent {
			return errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(unreachableRetry),
				errmap.Message("Tool service unavailable: "+failed.Message))
		}
		return errmap.Wrap(errmap.SerializationError, err)
	case KindUnsupported:
		return errmap.FromBackendStatus(failed.Code, failed.Message, nil).WithCause(failed)
	case KindStatus:
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
	return ok && time.Until(deadline) <= statusSlack
}

// NewReflectionSource returns a source of tools that asks the client's backend by gRPC
// server reflection, over the same connections and protocol as calls. Each load looks
// for the protocol if it is not known yet.
func NewReflectionSource(client *Client, o source.ReflectionOptions) source.Reflection {
	o.Mask = client.Mask
	return source.NewReflection(client.Target().String(), func(ctx context.Context) (source.Endpoint, error) {
		e, err := client.Streams(ctx)
		if err != nil {
			return source.Endpoint{}, err
		}
		return source.Endpoint{HTTPClient: e.HTTPClient, BaseURL: e.BaseURL, Options: e.Options}, nil
	}, o)
}

// NativeUpstream is a bridge.Native over a client of outrigger.v1.ToolService. It is safe
// for concurrent use.
type NativeUpstream struct {
	client *NativeClient
}

// NewNativeUpstream returns a NativeUpstream over a client.
func NewNativeUpstream(client *NativeClient) *NativeUpstream {
	return &NativeUpstream{client: client}
}

// CallTool implements bridge.Native.
func (c *NativeUpstream) CallTool(ctx context.Context, call *outriggerv1.ToolCall, header http.Header, events func(*outriggerv1.ToolEvent)) (*outriggerv1.ToolOutcome, *Answer, *errmap.Error) {
	outcome, metadata, err := c.client.CallTool(ctx, call, header, events)
	if err != nil {
		return nil, nativeMetadata(metadata, err), nativeError(ctx, err)
	}
	return outcome, nativeMetadata(metadata, nil), nil
}

// Ask implements bridge.Native. What a backend says with the bare code of an RPC gets
// the meaning that the contract gives it there.
func (c *NativeUpstream) Ask(ctx context.Context, in proto.Message, header http.Header) (proto.Message, *Answer, *errmap.Error) {
	out, metadata, err := c.client.Ask(ctx, in, header)
	if err != nil {
		return nil, nativeMetadata(metadata, err), askError(in, nativeError(ctx, err))
	}
	return out, nativeMetadata(metadata, nil), nil
}

func nativeMetadata(m NativeMetadata, err error) *Answer {
	if err != nil && m.Header == nil && m.Trailer == nil {
		return FailedAnswer(err)
	}
	return &Answer{Header: m.Header, Trailer: m.Trailer}
}

// nativeError gives a failed RPC of the tool API its canonical code.
func nativeError(ctx context.Context, err error) *errmap.Error {
	var invalid *InvalidAnswerError
	if !errors.As(err, &invalid) {
		return canonical(ctx, err)
	}
	out := errmap.Wrap(errmap.InvalidToolOutput, err)
	for _, v := range invalid.Violations {
		out.Violations = append(out.Violations, errmap.Violation{Path: v.Path, Keyword: v.Keyword, Message: v.Message})
	}
	return out
}

// askError reads the bare status of an RPC that is none of a tool's: the
// contract (outrigger.v1.ToolService) says what the codes mean there. A status
// with its own canonical code says enough.
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
				errmap.WithViolations(errmap.Violation{Keyword: "prompt", Message: "there is no prompt with this name"}))
		case *outriggerv1.CompleteRequest:
			return errmap.Wrap(errmap.InvalidParams, err, errmap.Message("Invalid params: unknown reference"),
				errmap.WithViolations(errmap.Violation{Keyword: "reference", Message: "there is no such prompt or resource template"}))
		}
	}
	return err
}

// NewNativeSource returns a source of the tools that a native backend describes itself.
// If must is false, a backend that does not implement outrigger.v1.ToolService has no
// tools; otherwise that is an error.
func NewNativeSource(name string, client *NativeClient, must bool) source.Source {
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
	var failed *Error
	return errors.As(err, &failed) && failed.Kind == KindStatus && failed.Code == connect.CodeUnimplemented
}

// Open implements bridge.Upstream.
func (c *Upstream) Open(ctx context.Context, m *catalog.Method, header http.Header) (OpenRPC, *errmap.Error) {
	stream, err := c.client.OpenStream(ctx, m.Procedure, kindOf(m), header)
	if err != nil {
		return nil, canonical(ctx, err)
	}
	return &openStream{ctx: ctx, stream: stream}, nil
}

// openStream is an [OpenRPC] over the client of a backend.
type openStream struct {
	ctx    context.Context
	stream *Stream
}

// Send implements [OpenRPC].
func (s *openStream) Send(message []byte) error { return s.canonical(s.stream.Send(message)) }

// CloseSend implements [OpenRPC].
func (s *openStream) CloseSend() { _ = s.stream.CloseSend() } // never fails

// Receive implements [OpenRPC].
func (s *openStream) Receive() ([]byte, error) {
	message, err := s.stream.Receive()
	return message, s.canonical(err)
}

// canonical gives what failed its canonical code.
func (s *openStream) canonical(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return canonical(s.ctx, err)
}

// Header implements [OpenRPC].
func (s *openStream) Header() (http.Header, bool) {
	header := s.stream.Header()
	return header, s.stream.Responded()
}

// Trailer implements [OpenRPC].
func (s *openStream) Trailer() http.Header { return s.stream.Trailer() }

// Close implements [OpenRPC].
func (s *openStream) Close() { s.stream.Close() }

// kindOf is the kind of an RPC.
func kindOf(m *catalog.Method) connect.StreamType {
	kind := connect.StreamTypeUnary
	if m.ClientStreaming {
		kind |= connect.StreamTypeClient
	}
	if m.ServerStreaming {
		kind |= connect.StreamTypeServer
	}
	return kind
}
