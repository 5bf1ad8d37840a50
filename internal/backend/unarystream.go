// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
)

// unaryStream is a unary call as a stream. It is made when its message is complete and
// somebody waits for the response.
type unaryStream struct {
	ctx    context.Context
	cancel context.CancelFunc
	method *Method
	md     http.Header

	message  []byte // the sender's until whole is closed
	sent     bool
	whole    chan struct{}
	complete func() // closes whole

	call   sync.Once
	answer *Answer
	err    error
	read   bool // the receiver's
}

func newUnaryStream(ctx context.Context, m *Method, md http.Header) *unaryStream {
	s := &unaryStream{method: m, md: md, whole: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.complete = sync.OnceFunc(func() { close(s.whole) })
	return s
}

func (s *unaryStream) send(message []byte) error {
	if s.sent {
		return newError(KindRejected, "a unary call has one request message", nil)
	}
	s.sent, s.message = true, slices.Clone(message)
	return nil
}

func (s *unaryStream) do() {
	s.call.Do(func() {
		select {
		case <-s.whole:
			s.answer, s.err = s.method.Call(s.ctx, s.message, s.md)
		case <-s.ctx.Done():
			s.err = ourEnd(ended(s.ctx), false)
		}
	})
}

func (s *unaryStream) receive() ([]byte, error) {
	s.do()
	switch {
	case s.err != nil:
		return nil, s.err
	case s.read:
		return nil, io.EOF
	}
	s.read = true
	return s.answer.Body, nil
}

func (s *unaryStream) header() http.Header {
	if s.do(); s.answer == nil {
		header, _ := metadataIn(s.err)
		return header
	}
	return s.answer.Header
}

func (s *unaryStream) trailer() http.Header {
	s.do()
	if s.answer == nil {
		_, trailer := metadataIn(s.err)
		return trailer
	}
	return s.answer.Trailer
}

// metadataIn is what a failed call brought beside its status.
func metadataIn(err error) (header, trailer http.Header) {
	if e, ok := err.(*Error); ok { //nolint:errorlint // a call's own error is not wrapped
		return e.Header, e.Trailer
	}
	return nil, nil
}
