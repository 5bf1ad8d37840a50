// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Errors of questions to the client.
var (
	// errUnexpected: no request waits for a response with this id.
	errUnexpected = errors.New("session: no one waits for a response with this id")
	// ErrNoAnswer: the client did not answer in time.
	ErrNoAnswer = errors.New("session: the client did not answer in time")
)

// RefusedError is an error response of the client to a question.
type RefusedError struct {
	// Method is the method of the question, Message the client's error message.
	Method, Message string
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("session: the client answered %s with an error: %s", e.Method, e.Message)
}

// reply is the client's response, as a copy.
type reply struct {
	result []byte
	failed string
	isErr  bool
}

// Ask sends the client a request and waits for its response, whose result it returns. send writes one JSON-RPC message to the
// client; params is compact JSON. A client that is not waited for any longer learns it with notifications/cancelled (MCP,
// cancellation), so that it can close what it shows to its user. The errors are a *[RefusedError], [ErrNoAnswer], [ErrClosed],
// that of send, and the cause of ctx.
func (s *Session) Ask(ctx context.Context, send func([]byte) error, method string, params []byte) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	id, answer, err := s.expect()
	if err != nil {
		return nil, err
	}
	if err := send(request(id, method, params)); err != nil {
		s.withdraw(id)
		return nil, err
	}
	timer := time.NewTimer(s.manager.opts.AskTimeout)
	defer timer.Stop()
	var reason string
	select {
	case r, ok := <-answer:
		switch {
		case !ok:
			return nil, ErrClosed
		case r.isErr:
			return nil, &RefusedError{Method: method, Message: r.failed}
		}
		return r.result, nil
	case <-timer.C:
		err, reason = ErrNoAnswer, "no answer in time"
	case <-ctx.Done():
		err, reason = context.Cause(ctx), "the request that asked has ended"
	}
	s.withdraw(id)
	_ = send(withdrawal(id, reason)) // a client that is gone need not know
	return nil, err
}

// expect registers a question, and returns its id and where its response arrives.
func (s *Session) expect() (string, chan reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return "", nil, ErrClosed
	}
	id := s.newName("ask") + s.questionMark()
	answer := make(chan reply, 1)
	if s.pending == nil {
		s.pending = map[string]chan reply{}
	}
	s.pending[id] = answer
	return id, answer, nil
}

// maxWithdrawn is how many questions a session remembers that it gave up: those whose answers may still be on their way.
const maxWithdrawn = 16

// withdraw gives up a question.
func (s *Session) withdraw(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, id)
	if s.isClosed {
		return
	}
	if s.withdrawn = append(s.withdrawn, id); len(s.withdrawn) > maxWithdrawn {
		s.withdrawn = slices.Delete(s.withdrawn, 0, 1)
	}
}

// Deliver passes a response to the request that waits for it, also at another replica. Only the first one counts; a response
// that crosses the end of the wait is ignored. The errors are [errUnexpected], and for another replica [ErrUnavailable] and the
// cause of ctx.
func (s *Session) Deliver(ctx context.Context, m *jsonrpc.Message) error {
	id, isText := jsontext.Text(m.ID.Raw())
	if !isText {
		return errUnexpected
	}
	var r reply
	if m.Kind == jsonrpc.KindError {
		r.isErr = true
		if m.Error != nil {
			r.failed = strings.Clone(m.Error.Message)
		}
	} else {
		r.result = slices.Clone(m.Result)
	}
	err := s.answered(id, r)
	if replica := s.askedBy(id); errors.Is(err, errUnexpected) && replica != "" {
		return s.forward(ctx, replica, id, r)
	}
	return err
}

// answered passes a response to the request that waits for it here. The error is [errUnexpected].
func (s *Session) answered(id string, r reply) error {
	answer, isLate := s.awaited(id)
	switch {
	case isLate:
		return nil
	case answer == nil:
		return errUnexpected
	}
	answer <- r
	return nil
}

// awaited removes a question, and returns where its response is wanted.
func (s *Session) awaited(id string) (answer chan reply, isLate bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer = s.pending[id]
	delete(s.pending, id)
	return answer, slices.Contains(s.withdrawn, id)
}

func request(id, method string, params []byte) []byte {
	dst := jsontext.AppendString([]byte(`{"jsonrpc":"2.0","id":`), id)
	dst = jsontext.AppendString(append(dst, `,"method":`...), method)
	if len(params) > 0 {
		dst = append(append(dst, `,"params":`...), params...)
	}
	return append(dst, '}')
}

func withdrawal(id, reason string) []byte {
	dst := jsontext.AppendString([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), id)
	dst = jsontext.AppendString(append(dst, `,"reason":`...), reason)
	return append(dst, `}}`...)
}
