// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge/backend"
	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/errmap"
)

// BackendUpstream calls the methods of one backend. It is an [Upstream] and safe for
// concurrent use; closing the client is its owner's business.
type BackendUpstream struct {
	client *backend.Client
}

// NewBackendUpstream returns one over a backend's client.
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
	if !errors.As(err, &failed) || len(failed.Metadata) == 0 {
		return nil
	}
	return &Answer{Trailer: failed.Metadata}
}

// NoBackend is an Upstream for a sidecar that only shows tools.
type NoBackend struct{}

// Call implements [Upstream]: it is always UNAVAILABLE.
func (NoBackend) Call(context.Context, *catalog.Method, []byte, http.Header) (*Answer, *errmap.Error) {
	return nil, unavailable("no backend is configured; name it with --backend")
}

// Stream implements [Upstream]: it is always UNAVAILABLE.
func (NoBackend) Stream(context.Context, *catalog.Method, []byte, http.Header, func([]byte) error) (*Answer, *errmap.Error) {
	return nil, unavailable("no backend is configured; name it with --backend")
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
		return errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(retryAfter),
			errmap.Message("Tool service unavailable: "+failed.Message))
	case backend.KindTimeout:
		return errmap.Wrap(errmap.Timeout, err)
	case backend.KindCancelled:
		return errmap.Wrap(errmap.Cancelled, err)
	case backend.KindTransport:
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
	case backend.KindStatus:
		if failed.Code == connect.CodeDeadlineExceeded && due(ctx) {
			return errmap.Wrap(errmap.Timeout, err)
		}
		code := failed.Code
		if failed.PeerStatus != 0 {
			code = connect.Code(failed.PeerStatus)
		}
		return errmap.FromBackendStatus(code, failed.Message, failed.Details)
	}
	return errmap.Wrap(errmap.InternalError, err)
}

// due reports whether our own deadline has come.
func due(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= deadlineSlack
}
