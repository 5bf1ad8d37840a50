// SPDX-License-Identifier: Apache-2.0

// Package rpchttp is the edge for the canonical dialect over HTTP: POST /rpc
// with one JSON-RPC 2.0 message or a batch. It only handles framing; methods,
// errors and statuses come from the bridge. A Handler is safe for concurrent
// use.
package rpchttp

import (
	"encoding/json"
	"net/http"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpbody"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// Path is the path of the endpoint.
const Path = "/rpc"

// Options configure a Handler. Zero fields mean their defaults.
type Options struct {
	Limits jsonrpc.Limits
	// MaxBatch is the maximum number of entries of a batch. It bounds the concurrency
	// of one request.
	MaxBatch int
	// AnyID also accepts integer ids.
	AnyID bool
	// UUIDs accepts only UUIDs as ids, as the contract requires for deterministic ids.
	// AnyID takes precedence.
	UUIDs bool
}

// Handler serves the canonical dialect. Make one with [New].
type Handler struct {
	rpc     *dialect.Handler
	opts    Options
	profile jsonrpc.Profile
}

// New returns a Handler in front of rpc.
func New(rpc *dialect.Handler, o Options) *Handler {
	o.Limits = o.Limits.WithDefaults()
	defaults.Fill(&o.MaxBatch, defaults.MaxBatchEntries)
	h := &Handler{rpc: rpc, opts: o, profile: jsonrpc.ProfileCanonical}
	switch {
	case o.AnyID:
		h.profile = jsonrpc.ProfileCanonicalAnyID
	case o.UUIDs:
		h.profile = jsonrpc.ProfileCanonicalUUID
	}
	return h
}

// ServeHTTP handles one message or one batch. It uses the request's context: when
// the caller disconnects, its calls are cancelled.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := httpbody.Read(w, r, h.opts.Limits.MaxBytes)
	if err != nil {
		httpbody.Write(w, h.rpc.Refuse(h.known(0, r), err))
		return
	}
	origin := h.rpc.Flights().NewOrigin()
	if jsonrpc.IsBatch(body) {
		h.batch(w, r, origin, body)
		return
	}
	msg := jsonrpc.Parse(body, h.profile, h.opts.Limits)
	reply := h.rpc.HandleMessage(r.Context(), h.inbound(origin, &msg, r))
	httpbody.Write(w, reply)
	reply.Release()
}

func (h *Handler) inbound(origin correlate.Origin, msg *jsonrpc.Message, r *http.Request) *dialect.Inbound {
	return &dialect.Inbound{
		Dialect: dialect.Canonical, Origin: origin, Message: msg,
		Header: r.Header, Caller: bridge.CallerOf(r.Context(), r.RemoteAddr), Peer: r.RemoteAddr, Transport: "http", Route: Path,
		HTTP: h.rpc.Request(r.Context()),
	}
}

// known is a message that could not be read, of a caller who is known.
func (h *Handler) known(origin correlate.Origin, r *http.Request) *dialect.Inbound {
	in := h.inbound(origin, nil, r)
	if r.Method == http.MethodPost {
		in.Known(r.Context())
	}
	return in
}

// Refuse responds to a request that was refused before it was read.
func (h *Handler) Refuse(w http.ResponseWriter, r *http.Request, err *errmap.Error) {
	httpbody.Write(w, h.rpc.Refuse(h.inbound(0, nil, r), err))
}

// batch answers an array: 200 and the replies in the order of the requests,
// notifications left out, or 202 where there were only notifications.
func (h *Handler) batch(w http.ResponseWriter, r *http.Request, origin correlate.Origin, body []byte) {
	entries, err := jsonrpc.SplitBatch(body, h.opts.MaxBatch, h.opts.Limits)
	if err != nil {
		httpbody.Write(w, h.rpc.Refuse(h.known(origin, r), httpbody.BatchError(err, h.opts.MaxBatch)))
		return
	}
	httpbody.WriteReplies(w, httpbody.RunBatch(h.beginAll(r, origin, entries)))
}

// beginAll registers the entries in their order, so that of two equal ids the
// second is refused.
func (h *Handler) beginAll(r *http.Request, origin correlate.Origin, entries []json.RawMessage) []func() *dialect.Reply {
	runs := make([]func() *dialect.Reply, len(entries))
	for i, entry := range entries {
		msg := jsonrpc.Parse(entry, h.profile, h.opts.Limits)
		runs[i] = h.rpc.BeginMessage(r.Context(), h.inbound(origin, &msg, r))
	}
	return runs
}
