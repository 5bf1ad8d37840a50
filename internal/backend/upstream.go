// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// OpenRPC is an open RPC whose errors are canonical, such as a [Stream].
type OpenRPC interface {
	Send(message []byte) error
	CloseSend()
	Receive() ([]byte, error)
	Header() (http.Header, bool)
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

// NewReflectionSource returns a source of tools that asks the client's backend by gRPC
// server reflection, over the same connections and protocol as calls. Each load looks
// for the protocol if it is not known yet.
func NewReflectionSource(client *Client, o source.ReflectionOptions) source.Reflection {
	o.Mask = client.Mask
	return source.NewReflection(client.Target().String(), client.Streams, o)
}

// CallTool implements bridge.Native: it is callTool with canonical errors.
func (c *NativeClient) CallTool(ctx context.Context, call *outriggerv1.ToolCall, header http.Header, events func(*outriggerv1.ToolEvent)) (*outriggerv1.ToolOutcome, *Answer, *errmap.Error) {
	outcome, answer, err := c.callTool(ctx, call, header, events)
	if err != nil {
		return nil, failedNative(answer, err), nativeError(ctx, err)
	}
	return outcome, answer, nil
}

// Ask implements bridge.Native. What a backend says with the bare code of an RPC gets
// the meaning that the contract gives it there.
func (c *NativeClient) Ask(ctx context.Context, in proto.Message, header http.Header) (proto.Message, *Answer, *errmap.Error) {
	out, answer, err := c.ask(ctx, in, header)
	if err != nil {
		return nil, failedNative(answer, err), askError(in, nativeError(ctx, err))
	}
	return out, answer, nil
}

// failedNative is the answer to an RPC that failed: that of the RPC, or what the error has of it.
func failedNative(answer *Answer, err error) *Answer {
	if answer == nil || answer.Header == nil && answer.Trailer == nil {
		return FailedAnswer(err)
	}
	return answer
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

// Open implements bridge.Upstream.
func (c *Upstream) Open(ctx context.Context, m *catalog.Method, header http.Header) (OpenRPC, *errmap.Error) {
	stream, err := c.client.OpenStream(ctx, m.Procedure, kindOf(m), header)
	if err != nil {
		return nil, canonical(ctx, err)
	}
	return stream, nil
}

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
