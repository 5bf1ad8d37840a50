// SPDX-License-Identifier: Apache-2.0

// Package backend calls the tool service. It is the last stage of a call: the
// encoded request goes in, the encoded answer comes out, and nothing in
// between looks inside either.
//
// One [Client] stands for one backend. It owns the connections (HTTP/1.1 and
// HTTP/2, plain, over TLS or over a Unix socket) and speaks gRPC, Connect or
// gRPC-Web, as the [Target] says or as [Client.Probe] finds out. The first
// call that needs the protocol looks for it, so a backend may come up later
// than its client.
//
// Every failure is an [*Error], sorted by what a caller may conclude from it:
// whether the request left, whether the answer is the service's own word, or
// whether the outcome is unknown. The sorting goes by the type of the cause
// and by what the HTTP trace saw, and where it is in doubt the outcome counts
// as unknown.
//
// The package refuses to follow redirects, to use a proxy, to decode beyond
// its size limits, to send metadata that HTTP could misread, and to repeat a
// request that the service may have begun to process. It never retries on
// behalf of its caller; it repeats a request only when the peer said, by the
// rules of HTTP/2, that it was not processed.
//
// Calls are unary ([Client.Call]) or server-streaming ([Client.Stream]); streams
// of requests are out of its scope.
//
// A Client and its Methods are safe for concurrent use. Request bytes are read
// until the call returns and are never kept.
package backend
