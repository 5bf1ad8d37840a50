// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"io"
	"net/http"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// Open implements [Streams].
func (c *BackendUpstream) Open(ctx context.Context, m *catalog.Method, header http.Header) (BackendStream, *errmap.Error) {
	stream, err := c.client.OpenStream(ctx, m.Procedure, kindOf(m), header)
	if err != nil {
		return nil, backendError(ctx, err)
	}
	return &openStream{ctx: ctx, stream: stream}, nil
}

// openStream is a [BackendStream] over the client of a backend.
type openStream struct {
	ctx    context.Context
	stream *backend.Stream
}

// Send implements [BackendStream].
func (s *openStream) Send(message []byte) error { return s.canonical(s.stream.Send(message)) }

// CloseSend implements [BackendStream].
func (s *openStream) CloseSend() { _ = s.stream.CloseSend() } // never fails

// Receive implements [BackendStream].
func (s *openStream) Receive() ([]byte, error) {
	message, err := s.stream.Receive()
	return message, s.canonical(err)
}

// canonical gives what failed its canonical code.
func (s *openStream) canonical(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return backendError(s.ctx, err)
}

// Header implements [BackendStream].
func (s *openStream) Header() (http.Header, bool) {
	header := s.stream.Header()
	return header, s.stream.Responded()
}

// Trailer implements [BackendStream].
func (s *openStream) Trailer() http.Header { return s.stream.Trailer() }

// Close implements [BackendStream].
func (s *openStream) Close() { s.stream.Close() }

// BackendStatus returns the status of a failed call as the backend sent it (code, message and details, with nothing added or
// taken away), and nil if the call failed otherwise. The metadata of the error is that of the response.
func (r *Response) BackendStatus() *connect.Error {
	var failed *backend.Error
	if r.Err == nil || r.Err.Code == errmap.Timeout || !errors.As(r.Err, &failed) || failed.Kind != backend.KindStatus {
		return nil
	}
	code := failed.Code
	if failed.PeerStatus != 0 {
		code = connect.Code(failed.PeerStatus)
	}
	out := connect.NewError(code, errors.New(failed.Message))
	for _, d := range failed.Details {
		if detail, err := connect.NewErrorDetail(d); err == nil {
			out.AddDetail(detail)
		}
	}
	return out
}
