// SPDX-License-Identifier: Apache-2.0

// Package backend calls the tool service and decides how: what a failure means, when a call is repeated, which headers cross.
//
// # Calls
//
// The client is the last stage of a call: it
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
//
// # Backends that implement ToolService
//
// A NativeClient speaks outrigger.v1.ToolService with a backend that implements
// it: tools with progress, resources, prompts, completion, tasks, and a feed of
// changes. It is between bridge, which knows what callers may have, and
// internal/backend, which transports bytes.
//
// A [NativeClient] makes the calls. A [Watcher] keeps a subscription to changes alive.
//
// Data from the backend is untrusted: it is decoded and validated against the
// rules of the contract before it is returned. A violation is an
// [*InvalidAnswerError]. Errors of the backend or the connection are the
// [*Error] of the client, unchanged. Requests are not validated
// here; edges validate their input, and the backend has its own rules.
//
// The package keeps no state about tools or callers, does not repeat a call that
// may have run, and forwards every member of a message unchanged.
//
// All of it is safe for concurrent use.
//
// # Retries and circuit breakers
//
// One [Guard] belongs to one backend. Only the canonical code of a failure counts: an
// error that the tool service itself returns is a response, which is neither retried
// nor counted as a failure. So a tool that always fails does not affect other tools.
// Timeouts count for their tool, which has its own breaker. The backend's breaker
// opens on timeouts if two or more tools time out and none answers, or if the backend
// does not answer its health check.
//
// A call is retried only if a second execution is safe, before any part of a response
// has arrived, while its deadline leaves time, and within a budget. The budget is a
// share of the number of calls, so that retries do not overload a backend further.
//
// The breaker and the backoff are from failsafe-go. The budget is not: the library's
// counts concurrent retries, which a backend that rejects calls within microseconds
// never exhausts.
//
// A Guard is safe for concurrent use. A nil Guard makes one attempt.
//
// # Metadata
//
// Callers and backends send metadata with their messages: HTTP headers, gRPC
// metadata. [MetadataRules] are two allow-lists, one for each direction. Credentials and
// hop-by-hop headers never cross, whatever a list says. Only one header needs no
// rule: the idempotency key of calls ([IdempotencyHeader]).
//
// # Backends in the same process
//
// An InProcess serves an HTTP handler to clients in the same process, over
// connections in memory: no port is opened, and nothing outside can reach it.
package backend
