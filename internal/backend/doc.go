// SPDX-License-Identifier: Apache-2.0

// Package backend calls the tool service. It is the last stage of a call: it
// sends the encoded request and returns the encoded response, without decoding
// either.
//
// One [Client] represents one backend. It owns the connections (HTTP/1.1 and
// HTTP/2, plain, over TLS or over a Unix socket) and speaks gRPC, Connect or
// gRPC-Web, as the [Target] defines or as [Client.Probe] detects. The first call
// that needs the protocol probes for it, so a backend may start later than its
// client.
//
// Every failure is an [*Error], classified by what a caller may conclude:
// whether the request was sent, whether the response is the service's own, or
// whether the outcome is unknown. The classification uses the type of the cause
// and the HTTP trace. In doubt, the outcome counts as unknown.
//
// The package does not follow redirects, use a proxy, decode beyond its size
// limits, or send metadata that HTTP could misread. It never retries for its
// caller. It repeats a request only if the peer reported, by the rules of
// HTTP/2, that it was not processed.
//
// Calls are unary ([Client.Call]), server-streaming ([Client.Stream]), or open streams of
// any kind ([Client.OpenStream]).
//
// A Client and its Methods are safe for concurrent use. Request bytes are read
// until the call returns, and never kept.
package backend
