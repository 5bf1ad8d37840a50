// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"net/http"
	"time"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

// errOver ends a stream that goes on after its outcome.
var errOver = errors.New("the outcome was already received")

// CallTool runs a tool and returns its outcome. The outcome may be an error of the tool
// itself. If events is not nil, CallTool passes it progress, log, partial data and quiet
// events, in order, on the caller's goroutine, before it returns. CallTool reads no
// further event while events runs.
//
// With events the RPC is CallToolStream, without them CallTool. If the backend reports,
// before any event, that it does not implement CallToolStream, the client uses CallTool
// at once, and for StreamRetry afterwards.
//
// CallTool ignores everything after an outcome. It cuts a stream that does not end
// within EndGrace after the outcome, and then the metadata lacks the trailer. A stream
// that ends successfully without an outcome is an *InvalidAnswerError, like every event
// that breaks its rules. On errors after the response began, the metadata holds its
// header.
func (c *Client) CallTool(ctx context.Context, call *outriggerv1.ToolCall, header http.Header, events func(*outriggerv1.ToolEvent)) (*outriggerv1.ToolOutcome, Metadata, error) {
	unary := func() (*outriggerv1.ToolOutcome, Metadata, error) {
		return ask[outriggerv1.ToolOutcome](ctx, c, outriggerv1connect.ToolServiceCallToolProcedure, call, header)
	}
	if till := c.unaryTill.Load(); events == nil || till != nil && time.Now().Before(*till) {
		return unary()
	}
	s := &toolStream{client: c, events: events}
	outcome, md, err := s.run(ctx, call, header)
	if s.began || !unimplemented(err) {
		return outcome, md, err
	}
	outcome, md, err = unary()
	if !unimplemented(err) { // else it is the tool that is not there, or nothing is
		till := time.Now().Add(c.opts.StreamRetry)
		c.unaryTill.Store(&till)
	}
	return outcome, md, err
}

// toolStream is one call of CallToolStream.
type toolStream struct {
	client  *Client
	events  func(*outriggerv1.ToolEvent)
	began   bool // an event arrived
	outcome *outriggerv1.ToolOutcome
	refused error       // what was wrong with an event
	cut     func()      // ends the call
	grace   *time.Timer // calls cut
}

func (s *toolStream) run(ctx context.Context, call *outriggerv1.ToolCall, header http.Header) (*outriggerv1.ToolOutcome, Metadata, error) {
	const procedure = outriggerv1connect.ToolServiceCallToolStreamProcedure
	body, err := encode(call)
	if err != nil {
		return nil, Metadata{}, err
	}
	ctx, s.cut = context.WithCancel(ctx)
	defer s.cut()
	answer, err := s.client.backend.Stream(ctx, procedure, body, header, s.take)
	if s.grace != nil {
		s.grace.Stop()
	}
	md := metadataOf(answer)
	switch {
	case s.outcome != nil:
		return s.outcome, md, nil
	case s.refused != nil:
		return nil, md, s.refused
	case err != nil:
		return nil, md, err
	default:
		return nil, md, invalid(procedure, KeywordOutcome, "wanted an outcome as the last event")
	}
}

// take takes one event of the stream.
func (s *toolStream) take(message []byte) error {
	if s.outcome != nil {
		return errOver
	}
	s.began = true
	event := new(outriggerv1.ToolEvent)
	if s.refused = s.client.check(outriggerv1connect.ToolServiceCallToolStreamProcedure, message, event); s.refused != nil {
		return s.refused
	}
	if s.outcome = event.GetOutcome(); s.outcome != nil {
		s.grace = time.AfterFunc(s.client.opts.EndGrace, s.cut)
		return nil
	}
	s.events(event)
	return nil
}
