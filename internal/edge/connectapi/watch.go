// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// maxStepBytes is where a step is split: a quarter of what gRPC clients take in
// one message by default (4 MiB). A tool that is larger has a message of its own.
const maxStepBytes = 1 << 20

// announcer is a source of catalogs that says when there is another one.
type announcer interface {
	OnChange(fn func(old, now *catalog.Catalog)) (stop func())
}

var _ announcer = (*catalog.Live)(nil)

// watchCatalog returns a channel that holds a token whenever the catalog has
// changed since the last one was taken: a slow reader sees fewer, larger steps
// and does not block. The channel is nil where nothing is announced.
func (s *Service) watchCatalog() (changed <-chan struct{}, stop func()) {
	if s.announcer == nil {
		return nil, func() {}
	}
	tokens := make(chan struct{}, 1)
	stop = s.announcer.OnChange(func(_, _ *catalog.Catalog) {
		select {
		case tokens <- struct{}{}:
		default:
		}
	})
	return tokens, stop
}

// WatchTools sends all tools, then every change. It compares the last state it sent
// with the current one, so that no change is lost.
func (s *Service) WatchTools(ctx context.Context, req *connect.Request[outriggerv1.WatchToolsRequest], stream *connect.ServerStream[outriggerv1.ToolsChange]) error {
	if err := protovalidate.Validate(req.Msg); err != nil {
		return s.refused(req.Peer().Protocol, ruleError(err), errmap.About{})
	}
	l, failed := s.last(ctx, req.Peer().Addr)
	if failed != nil {
		return errmap.ToConnect(failed, errmap.About{})
	}
	defer l.close()
	// Before the first look, or a change in between would be missed.
	changed, stop := s.watchCatalog()
	defer stop()
	list := s.request(l.ctx, bridge.OpList, req)
	list.List = listForm(req.Msg.GetCompact())
	resp := s.run(l.ctx, list)
	if resp.Err != nil {
		return connectError(resp)
	}
	var sent *catalog.Catalog
	for now := resp.Catalog; ; now = s.bridge.ListedFor(l.ctx, list.List) {
		for _, part := range s.step(sent, now) {
			if err := send(l, stream, part); err != nil {
				return err
			}
		}
		sent = now
		select {
		case <-changed:
		case <-l.ctx.Done():
			return l.ended(context.Cause(l.ctx))
		}
	}
}

// step is a step between two catalogs as it is sent, kept because many watchers
// take the same one at the same time. Immutable.
type step struct {
	from, to string
	parts    []*outriggerv1.ToolsChange
}

// step returns the messages that lead from one catalog to another; none where
// callers see no difference. From nil it is a snapshot.
func (s *Service) step(old, now *catalog.Catalog) []*outriggerv1.ToolsChange {
	from, slot := "", &s.snapshot
	if old != nil {
		from, slot = old.Fingerprint(), &s.change
	}
	if from == now.Fingerprint() {
		return nil
	}
	if kept := slot.Load(); kept != nil && kept.from == from && kept.to == now.Fingerprint() {
		return kept.parts
	}
	made := &step{from: from, to: now.Fingerprint(), parts: stepParts(now, now.Since(old))}
	made.parts[0].Snapshot = old == nil
	slot.Store(made)
	return made.parts
}

// stepParts splits a step into messages, of which the last says that there is no
// more. There is at least one.
func stepParts(now *catalog.Catalog, change catalog.Change) []*outriggerv1.ToolsChange {
	var parts []*outriggerv1.ToolsChange
	var part *outriggerv1.ToolsChange
	size := 0
	grow := func(n int) {
		if part == nil || (size > 0 && size+n > maxStepBytes) {
			part = &outriggerv1.ToolsChange{CatalogFingerprint: now.Fingerprint(), More: true}
			parts, size = append(parts, part), 0
		}
		size += n
	}
	grow(0)
	for _, t := range change.Added {
		m := toolMessage(t, false)
		grow(proto.Size(m))
		part.Added = append(part.Added, m)
	}
	for _, t := range change.Changed {
		m := toolMessage(t, false)
		grow(proto.Size(m))
		part.Changed = append(part.Changed, m)
	}
	for _, name := range change.Removed {
		grow(len(name))
		part.Removed = append(part.Removed, name)
	}
	part.More = false
	return parts
}
