// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"context"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/listcost"
	"github.com/outrigger-mcp/outrigger/internal/content/bytepool"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/offer"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/redact"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// Options configure a Handler.
type Options struct {
	// Offers answer what is offered besides calls. Nil makes some without options.
	Offers *offer.Service
	// Sessions holds the sessions of the legacy eras. Nil makes one.
	Sessions *session.Manager
	// Notify receives every valid notification of the canonical dialect that is not a
	// cancellation: the context of its caller, its method, its params (a JSON object, or nil) and its origin. It
	// is called in reading order, must return at once, and must copy what it keeps.
	// Nil drops notifications.
	Notify func(ctx context.Context, method string, params []byte, origin correlate.Origin)
	// Record records every envelope of the JSON-RPC edges; nil does not.
	Record *trail.Run
	// RecordPayloads makes Record include arguments and results.
	RecordPayloads bool
	// Denials has callers bring back the handle of an approval as the draft SEP-2643 does.
	Denials bool
	// SkillCache, ToolDigests, ToolManifest and Variants are experimental features: cache hints of skills in every era, digests in lists
	// of tools, lists of tools by their digests, and the revision with results for different audiences.
	SkillCache, ToolDigests, ToolManifest, Variants bool
	// Listed is called with the cost of each list of tools for MCP clients that is rendered: once per catalog, caller's view and
	// era, unless two callers come at once. It must return soon. Nil is not called.
	Listed func(listcost.List)
}

// runner runs requests. A [*bridge.Bridge] is one, and all of the following.
type runner interface {
	Begin(ctx context.Context, req *bridge.Request) *bridge.Flight
	RepairArguments(raw []byte) bridge.Payload
	Panicked(p any, fields ...zap.Field) *errmap.Error
	Secrets(tool *catalog.Tool, err *errmap.Error) []redact.Names
}

// shown is what callers are shown of a server.
type shown interface {
	Server() bridge.ServerInfo
	Instructions(cat *catalog.Catalog) string
	Catalogs() bridge.Catalogs
	Catalog(ctx context.Context) (*catalog.Catalog, *errmap.Error)
	Rendered(cat *catalog.Catalog, fresh func() any) any
}

// sights are what callers see of results.
type sights interface {
	ResultsKey(ctx context.Context) string
}

// refusals count, log and audit what never became a request.
type refusals interface {
	Refused(r *bridge.Refusal)
	CountRefused(req *bridge.Request, err *errmap.Error)
	AuditRefused(ctx context.Context, req *bridge.Request, err *errmap.Error)
	AuditUnread(ctx context.Context, req *bridge.Request, err *errmap.Error)
	AuditDenied(ctx context.Context, req *bridge.Request, operation string, err *errmap.Error)
}

// places are those of long-lived streams.
type places interface {
	MayRun(ctx context.Context, op bridge.Op) *errmap.Error
	OpenStream(caller, what, tool string) (release func(), err *errmap.Error)
}

// Handler handles JSON-RPC messages. It converts them to requests and runs these
// with its bridge. Make one with [New]; it is safe for concurrent use.
type Handler struct {
	runner   runner
	shown    shown
	refusals refusals
	places   places
	sights   sights
	flights  *correlate.Table
	buffers  *bytepool.Pool
	tracer   *telemetry.Tracer
	stats    *telemetry.Stats
	// noted is the log for lines that callers can cause at will.
	noted *zap.Logger
	// software is the version of the sidecar itself.
	software string

	opts                      Options
	offers                    *offer.Service
	canonical, modern, legacy *era
	rendered                  atomic.Pointer[introduction]
	// inboxes are the calls whose items follow.
	inboxes inboxes
}

// Flights returns the table of requests in flight. Edges take their origins from it.
func (h *Handler) Flights() *correlate.Table { return h.flights }

// Tracer returns the tracer of the bridge, or nil.
func (h *Handler) Tracer() *telemetry.Tracer { return h.tracer }

// ResultsKey identifies what the caller in ctx sees of results, for what is kept of them.
func (h *Handler) ResultsKey(ctx context.Context) string { return h.sights.ResultsKey(ctx) }

// OpenChanges takes a place for a stream of changes that is no request, or returns why there is none. The function that it
// returns gives the place back and must be called once.
func (h *Handler) OpenChanges(ctx context.Context, in *Inbound) (release func(), err *errmap.Error) {
	if err := h.places.MayRun(ctx, bridge.OpListen); err != nil {
		h.refusals.AuditDenied(ctx, in.Denied(), bridge.OpListen.String(), err)
		return nil, err
	}
	return h.places.OpenStream(in.Caller, "messages of a session", "")
}

// Offers returns what answers requests about what is offered besides calls.
func (h *Handler) Offers() *offer.Service { return h.offers }

// introduction is what replies repeat about the server, rendered once per catalog: serverInfo is how every MCP era names it,
// modernTail closes every result of the modern one, and modernMeta is what _meta has there besides.
type introduction struct {
	catalog                            *catalog.Catalog
	serverInfo, modernTail, modernMeta []byte
}

// introduction returns how the server introduces itself with the current catalog.
func (h *Handler) introduction() *introduction {
	now := h.shown.Catalogs().Current()
	if known := h.rendered.Load(); known != nil && known.catalog == now {
		return known
	}
	server := h.shown.Server()
	info := append([]byte(nil), `{"name":`...)
	info = jsontext.AppendString(info, server.Name)
	if server.Title != "" {
		info = append(info, `,"title":`...)
		info = jsontext.AppendString(info, server.Title)
	}
	info = append(info, `,"version":`...)
	info = append(jsontext.AppendString(info, server.Version), '}')
	out := &introduction{catalog: now, serverInfo: info}
	out.modernMeta = out.appendServerMeta([]byte{','})
	out.modernTail = append(out.appendServerMeta([]byte(`,"resultType":"complete","_meta":{`)), `}}`...)
	h.rendered.Store(out)
	return out
}

// appendServerMeta appends the _meta member that names the server on every
// modern result.
func (i *introduction) appendServerMeta(dst []byte) []byte {
	dst = append(dst, `"io.modelcontextprotocol/serverInfo":`...)
	return append(dst, i.serverInfo...)
}

// appendSoftware appends the _meta member that names the sidecar itself, for operators: serverInfo names the service.
func (h *Handler) appendSoftware(dst []byte) []byte {
	dst = append(dst, `"dev.outrigger/sidecar":{"name":"`+defaults.ServerName+`","version":`...)
	return append(jsontext.AppendString(dst, h.software), '}')
}
