// SPDX-License-Identifier: Apache-2.0

// Package mcphttp is the edge of MCP over Streamable HTTP: one endpoint for
// every protocol era. It tells the era of each message from the message itself
// and the version header, once, and leaves everything else to the bridge. A
// Handler is safe for concurrent use.
package mcphttp

import (
	"context"
	"net/http"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/bridge/edge/httpbody"
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/errmap"
)

// Path is where the edge is mounted.
const Path = "/mcp"

// Options configure a Handler. Zero fields take their defaults.
type Options struct {
	Limits jsonrpc.Limits
}

// Handler serves MCP over HTTP. Make one with [New].
type Handler struct {
	bridge *bridge.Bridge
	limits jsonrpc.Limits
}

// New returns a handler in front of b.
func New(b *bridge.Bridge, o Options) *Handler {
	return &Handler{bridge: b, limits: o.Limits.WithDefaults()}
}

// ServeHTTP answers one message. GET and DELETE belong to sessions of the
// legacy eras, which are not kept: 405 is the answer that those revisions
// provide for that.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in := &bridge.Inbound{
		Dialect: headerDialect(r.Header), Header: r.Header,
		Caller: bridge.CallerAddress(r.RemoteAddr), Transport: "http", Route: Path,
	}
	body, err := httpbody.Read(w, r, h.limits.MaxBytes)
	if err != nil {
		httpbody.Write(w, h.bridge.Refuse(in, err))
		return
	}
	answer, err := negotiate(r.Header)
	if err != nil {
		httpbody.Write(w, h.bridge.Refuse(in, err))
		return
	}
	envelope := jsonrpc.Read(body, h.limits)
	in.Dialect = dialect(&envelope, r.Header)
	msg := envelope.As(jsonrpc.ProfileMCP)
	in.Message = &msg
	in.Origin = h.bridge.Flights().NewOrigin()
	answer(w, h.bridge.HandleMessage(callContext(r.Context(), in.Dialect), in))
}

// callContext carries the rule in which the eras are opposites: a connection
// that goes away cancels a modern request and does not cancel a legacy one,
// which still ends at its own deadline.
func callContext(ctx context.Context, d bridge.Dialect) context.Context {
	if d == bridge.DialectLegacy {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// dialect tells the era of a message. The _meta of the message decides; where
// it says nothing, the version header does, except for initialize, which opens
// the legacy eras whatever the header says.
func dialect(e *jsonrpc.Envelope, header http.Header) bridge.Dialect {
	if version, ok := bridge.MetaVersion(e.Params()); ok {
		if bridge.IsLegacyVersion(version) {
			return bridge.DialectLegacy
		}
		return bridge.DialectModern
	}
	if e.Method() == "initialize" {
		return bridge.DialectLegacy
	}
	return headerDialect(header)
}

// headerDialect reads the version header alone. Revisions are dates, so they
// compare as text; without a header a client is older than the header.
func headerDialect(header http.Header) bridge.Dialect {
	version := header.Get("Mcp-Protocol-Version")
	if isRevision(version) && version >= bridge.VersionModern {
		return bridge.DialectModern
	}
	return bridge.DialectLegacy
}

// isRevision holds for the form of MCP's revisions, a date.
func isRevision(version string) bool {
	_, err := time.Parse(time.DateOnly, version)
	return err == nil
}

// negotiate picks the form of the answer: JSON, which every client must take,
// or one server-sent event for a client that asks for nothing else.
func negotiate(header http.Header) (func(http.ResponseWriter, bridge.Reply), *errmap.Error) {
	switch {
	case accepts(header, "application/json"):
		return httpbody.Write, nil
	case accepts(header, "text/event-stream"):
		return writeEvent, nil
	}
	return nil, errmap.New(errmap.NotAcceptable, errmap.WithViolations(errmap.Violation{
		Keyword: "accept", Message: "Accept admits neither application/json nor text/event-stream",
	}))
}
