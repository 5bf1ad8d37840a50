// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"sync"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/bridge/edge/httpbody"
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/bridge/mcpjson"
	"github.com/outrigger-mcp/outrigger/errmap"
)

// isBatch holds for an array in a session of 2025-03-26, the one revision that
// has them, on this transport too.
func (s *session) isBatch(text []byte) bool {
	return s.opened != nil && s.opened.Context().GetProtocolVersion() == mcpjson.Rev20250326.String() && jsonrpc.IsBatch(text)
}

// takeBatch takes every entry in its order, as if it stood on a line of its own.
// The replies come together in one line, in the order of the requests; where
// there is none, nothing comes.
func (s *session) takeBatch(text []byte) {
	entries, err := jsonrpc.SplitBatch(text, s.opts.MaxBatch, s.limits)
	if err != nil {
		in := s.inbound(bridge.DialectLegacy)
		s.write(s.bridge.Refuse(in, httpbody.BatchError(err, s.opts.MaxBatch)))
		return
	}
	runs := make([]func() *bridge.Reply, 0, len(entries))
	for _, entry := range entries {
		msg := jsonrpc.Parse(entry, jsonrpc.ProfileMCP, s.limits)
		if !s.answered(&msg) {
			runs = append(runs, s.entry(&msg))
		}
	}
	s.running.Go(func() { s.writeBatch(runs) })
}

// entry begins one entry of a batch.
func (s *session) entry(msg *jsonrpc.Message) func() *bridge.Reply {
	in := s.inbound(bridge.DialectLegacy)
	in.Message, in.Session = msg, s.opened
	isRequest := msg.Kind == jsonrpc.KindRequest && msg.Fault == nil
	var err *errmap.Error
	switch {
	case msg.Fault == nil && bridge.ClaimsModern(msg.Params):
		err = errmap.New(errmap.InvalidEnvelope, errmap.WithViolations(errmap.Violation{
			Path: "/params/_meta", Keyword: "batch", Message: "the revision that this message names has no batches; send it alone",
		}))
	case isRequest:
		err = s.admit()
	}
	switch {
	case err != nil:
		reply := s.bridge.Refuse(in, err)
		return func() *bridge.Reply { return &reply }
	case !isRequest:
		reply := s.bridge.HandleMessage(s.run, in)
		return func() *bridge.Reply { return &reply }
	}
	in.Send = s.send
	run := s.bridge.BeginMessage(s.run, in)
	return func() *bridge.Reply {
		defer func() { <-s.slots }()
		return run()
	}
}

// writeBatch runs what was begun and writes the replies.
func (s *session) writeBatch(runs []func() *bridge.Reply) {
	replies := make([]*bridge.Reply, len(runs))
	var running sync.WaitGroup
	for i, run := range runs {
		running.Go(func() { replies[i] = run() })
	}
	running.Wait()
	var out []byte
	for _, reply := range replies {
		if reply.IsEmpty() {
			continue
		}
		separator := byte(',')
		if out == nil {
			separator = '['
		}
		out = reply.AppendTo(append(out, separator))
	}
	if out != nil {
		s.write(bridge.NewReply(append(out, ']')))
	}
}
