// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpbody"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// isBatch holds for an array in a session of 2025-03-26, the one revision that
// has them, on this transport too.
func (s *session) isBatch(text []byte) bool {
	return s.opened != nil && s.opened.Context().GetProtocolVersion() == content.Rev20250326.String() && jsonrpc.IsBatch(text)
}

// takeBatch takes every entry in its order, as if it stood on its own line.
// The replies come together in one line, in the order of the requests; where
// there is none, nothing comes.
func (s *session) takeBatch(l line) {
	entries, err := jsonrpc.SplitBatch(l.text, s.opts.MaxBatch, s.limits)
	if err != nil {
		in := s.inbound(dialect.Legacy)
		in.Start = l.at
		s.write(s.rpc.Refuse(in, httpbody.BatchError(err, s.opts.MaxBatch)))
		return
	}
	b := &batch{session: s, replies: make([]*dialect.Reply, len(entries)), left: len(entries) + 1}
	for i, entry := range entries {
		msg := jsonrpc.Parse(entry, jsonrpc.ProfileMCP, s.limits)
		if s.answered(&msg) {
			b.done()
			continue
		}
		s.takeEntry(&msg, l.at, len(entry), func(reply *dialect.Reply) {
			b.replies[i] = reply
			b.done()
		})
	}
	b.done()
}

// takeEntry begins one entry of a batch. What a call says meanwhile goes out line by
// line.
func (s *session) takeEntry(msg *jsonrpc.Message, at time.Time, size int, deliver func(*dialect.Reply)) {
	in := s.inbound(dialect.Legacy)
	in.Message, in.Session, in.Send, in.Start = msg, s.opened, s.send, at
	var err *errmap.Error
	if msg.Fault == nil && dialect.ClaimsModern(msg.Params) {
		err = errmap.New(errmap.InvalidEnvelope, errmap.WithViolations(errmap.Violation{
			Path: "/params/_meta", Keyword: "batch", Message: "the protocol version of this message has no batches; send it alone",
		}))
	}
	s.answerOrQueue(&arrival{in: in, size: size, failed: err, deliver: deliver})
}

// batch gathers the replies to one batch. Each entry is queued and run like a message by itself.
type batch struct {
	session *session
	replies []*dialect.Reply // each is set by its own entry

	mu   sync.Mutex
	left int // entries without a reply, and one until all have begun
}

// done counts the end of one entry. After the last one it writes the replies.
func (b *batch) done() {
	b.mu.Lock()
	b.left--
	left := b.left
	b.mu.Unlock()
	if left == 0 {
		b.write()
	}
}

// write writes the replies as one line, in the order of the requests; nothing
// where there are none.
func (b *batch) write() {
	var out []byte
	for _, reply := range b.replies {
		if reply == nil || reply.IsEmpty() {
			continue
		}
		separator := byte(',')
		if out == nil {
			separator = '['
		}
		out = reply.AppendTo(append(out, separator))
	}
	if out != nil {
		b.session.write(dialect.NewReply(append(out, ']')))
	}
}
