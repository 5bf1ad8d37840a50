// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"math"
	"time"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/offer"
)

// ListTools lists the visible tools, page by page.
func (s *Service) ListTools(ctx context.Context, req *connect.Request[outriggerv1.ListToolsRequest]) (*connect.Response[outriggerv1.ListToolsResponse], error) {
	list := s.request(ctx, bridge.OpList, req)
	list.Cursor, list.PageSize = req.Msg.Cursor, int(req.Msg.GetPageSize())
	list.List = listForm(req.Msg.GetCompact())
	if list.PageSize == 0 {
		list.PageSize = math.MaxInt32 // as many as the sidecar gives
	}
	resp := s.run(ctx, list)
	if resp.Err != nil {
		return nil, connectError(resp)
	}
	return connect.NewResponse(toolsPage(resp)), nil
}

// GetTool returns the description of one tool with both its schemas.
func (s *Service) GetTool(ctx context.Context, req *connect.Request[outriggerv1.GetToolRequest]) (*connect.Response[outriggerv1.Tool], error) {
	get := s.request(ctx, bridge.OpGet, req)
	get.Tool, get.Version = req.Msg.GetToolName(), req.Msg.GetVersion()
	resp := s.run(ctx, get)
	if resp.Err != nil {
		return nil, connectError(resp)
	}
	return connect.NewResponse(toolMessage(resp.Tool, true)), nil
}

// listTTL is how long a page of tools may be used again: the contract's default
// for what discovery answers (300 s), as in MCP's lists.
const listTTL = 300 * time.Second

// listForm is the form of a list: all tools, unless the compact form is asked for, so that sidecars can be put in front of
// one another.
func listForm(isCompact bool) compact.List {
	if isCompact {
		return compact.ListCompact
	}
	return compact.ListAll
}

// toolsPage renders a page.
func toolsPage(resp *bridge.Response) *outriggerv1.ListToolsResponse {
	tools := resp.Catalog.Tools()
	out := &outriggerv1.ListToolsResponse{
		Tools:      make([]*outriggerv1.Tool, 0, resp.Next-resp.First),
		NextCursor: resp.NextCursor,
		Cache:      &outriggerv1.CachePolicy{Ttl: durationpb.New(listTTL), Scope: resp.CacheScope()},
	}
	for _, tool := range tools[resp.First:resp.Next] {
		out.Tools = append(out.Tools, toolMessage(tool, false))
	}
	return out
}

// toolMessage describes a tool; the canonical schemas and the digest go with it
// where one tool was asked for.
func toolMessage(t *catalog.Tool, canonical bool) *outriggerv1.Tool {
	out := &outriggerv1.Tool{
		Name: t.Name, McpName: t.MCPName, Title: t.Title, Description: t.Description, Icons: t.Icons,
		InputSchemaForm: &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: t.Input.Advertised()},
		Annotations: &outriggerv1.ToolAnnotations{
			Title: t.Title, ReadOnlyHint: t.Annotations.ReadOnly, DestructiveHint: t.Annotations.Destructive,
			IdempotentHint: t.Annotations.Idempotent, OpenWorldHint: t.Annotations.OpenWorld,
		},
		Version: t.Version, Fingerprint: t.Fingerprint(),
		Metadata: &outriggerv1.ToolMetadata{
			Module: t.Metadata.Module, Destructive: t.Metadata.Destructive, DeprecatedIn: t.Metadata.DeprecatedIn,
			CacheTtl: durationpb.New(t.Metadata.CacheTTL),
		},
		Execution: &outriggerv1.ToolExecution{
			TaskSupport: t.TaskSupport, ServerStreaming: t.Method.ServerStreaming, ClientStreaming: t.Method.ClientStreaming,
		},
		Tags: t.Tags,
	}
	if t.HasOutput() {
		out.OutputSchemaForm = &outriggerv1.Tool_OutputSchemaJson{OutputSchemaJson: t.Output.Advertised()}
	}
	if t.Timeout > 0 {
		out.Execution.Timeout = durationpb.New(t.Timeout)
	}
	if !t.Native {
		// What runs a native tool is its backend's affair.
		rpc := t.Method.Descriptor
		out.Binding = &outriggerv1.ToolBinding{Service: string(rpc.Parent().FullName()), Method: string(rpc.Name())}
	}
	for _, e := range t.Examples {
		out.Examples = append(out.Examples, &outriggerv1.ToolExample{
			Name: e.Name, Description: e.Description, ArgumentsJson: string(e.Arguments), DataJson: string(e.Data), Status: e.Status,
		})
	}
	if len(t.Meta) > 0 {
		out.MetaForm = &outriggerv1.Tool_MetaJson{MetaJson: t.Meta}
	}
	if canonical {
		out.CanonicalInputSchemaJson = t.Input.Canonical()
		out.CanonicalOutputSchemaJson = t.Output.Canonical()
		out.Digest = t.Digest()
	}
	return out
}

// Describe returns what the sidecar is and offers. Like every RPC about tools, it
// waits for the first catalog. Otherwise it would count no tools.
func (s *Service) Describe(ctx context.Context, req *connect.Request[outriggerv1.DescribeRequest]) (*connect.Response[outriggerv1.ServerDescription], error) {
	resp := s.run(ctx, s.request(ctx, bridge.OpList, req))
	if resp.Err != nil {
		return nil, connectError(resp)
	}
	server, described := s.bridge.Server(), s.rpc.Offers().Describe(resp.Catalog)
	return connect.NewResponse(&outriggerv1.ServerDescription{
		Name: server.Name, Title: server.Title, Version: server.Version, Instructions: s.bridge.Instructions(resp.Catalog),
		ContractVersion:  offer.ContractVersion,
		Capabilities:     described.Capabilities,
		ToolsCount:       count(described.Tools),
		ResourcesCount:   count(described.Resources),
		PromptsCount:     count(described.Prompts),
		ProtocolVersions: dialect.Versions(),
		Cache:            &outriggerv1.CachePolicy{Ttl: durationpb.New(listTTL), Scope: resp.CacheScope()},
	}), nil
}

// count is a number of entries, as the contract has it.
func count(n int) int32 { return int32(min(n, math.MaxInt32)) }

// maxStepBytes is where a step is split: a quarter of what gRPC clients take in
// one message by default (4 MiB). A tool that is larger has its own message.
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
	l, failed := s.last(ctx, req.Peer().Addr, "tools (WatchTools)")
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
