// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge/backend"
	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/native"
)

// NativeUpstream is a [Native] over the client of a backend that speaks the tool
// API. It is safe for concurrent use.
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

// NewNativeSource returns a source of tools: what a backend that speaks the tool
// API offers itself. Where must is not set, a backend that does not speak it
// offers nothing, which is no failure.
func NewNativeSource(name string, client *native.Client, must bool) catalog.Source {
	return catalog.NewNative(name, func(ctx context.Context) (*catalog.Native, error) {
		description, err := client.Describe(ctx)
		if err != nil {
			if !must && isUnimplemented(err) {
				return nil, nil //nolint:nilnil // the source's contract: nothing is offered
			}
			return nil, err
		}
		out := &catalog.Native{Description: description}
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
