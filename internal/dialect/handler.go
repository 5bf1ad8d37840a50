// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"context"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/listcost"
	"github.com/outrigger-mcp/outrigger/internal/record"
	"github.com/outrigger-mcp/outrigger/internal/redact"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// Options configure a Handler.
type Options struct {
	// Sessions holds the sessions of the legacy eras. Nil makes one.
	Sessions *session.Manager
	// Notify receives every valid notification of the canonical dialect that is not a
	// cancellation: the context of its caller, its method, its params (a JSON object, or nil) and its origin. It
	// is called in reading order, must return at once, and must copy what it keeps.
	// Nil drops notifications.
	Notify func(ctx context.Context, method string, params []byte, origin correlate.Origin)
	// Record records every envelope of the JSON-RPC edges; nil does not.
	Record *record.Run
	// RecordPayloads makes Record include arguments and results.
	RecordPayloads bool
	// Listed is called with the cost of each list of tools for MCP clients that is rendered: once per catalog, caller's view and
	// era, unless two callers come at once. It must return soon. Nil is not called.
	Listed func(listcost.List)
}

// Handler handles JSON-RPC messages. It converts them to requests and runs these
// with its bridge. Make one with [New]; it is safe for concurrent use.
type Handler struct {
	*bridge.Bridge

	opts                      Options
	canonical, modern, legacy *era
	rendered                  atomic.Pointer[introduction]
	// inboxes are the calls whose items follow.
	inboxes inboxes
	// secrets are the fields that messages mark as secret, for the run record.
	secrets redact.Messages
}

// New returns a Handler in front of a bridge.
func New(b *bridge.Bridge, opts Options) *Handler {
	if opts.Sessions == nil {
		opts.Sessions = session.New(session.Options{Feed: b.Feed()})
	}
	return &Handler{Bridge: b, opts: opts, canonical: newCanonical(), modern: newModern(), legacy: newLegacy()}
}

// introduction is what replies repeat about the server, rendered once per catalog: serverInfo is how every MCP era names it,
// modernTail closes every result of the modern one, and modernMeta is what _meta has there besides.
type introduction struct {
	catalog                            *catalog.Catalog
	serverInfo, modernTail, modernMeta []byte
}

// introduction returns how the server introduces itself with the current catalog.
func (h *Handler) introduction() *introduction {
	now := h.Catalogs().Current()
	if known := h.rendered.Load(); known != nil && known.catalog == now {
		return known
	}
	server := h.Server()
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
	return append(jsontext.AppendString(dst, h.Version()), '}')
}
