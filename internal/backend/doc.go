// SPDX-License-Identifier: Apache-2.0

// Package backend calls the tool service. It is the last stage of a call: it sends an encoded request and returns the encoded
// response, and decides what a failure means, whether the call is tried again, and which headers cross.
//
// A [Client] is one backend. It owns the connections (HTTP/1.1 and HTTP/2, plain, over TLS or a Unix socket, or to an
// [InProcess] handler) and speaks gRPC, Connect or gRPC-Web, as its [Target] says or as [Client.Probe] finds out. The first call
// that needs the protocol probes, so a backend may start later than its client. Calls are unary ([Client.Call]),
// server-streaming ([Client.Stream]), or open streams of any kind ([Client.OpenStream]). Request bytes are read until the call
// returns, and never kept.
//
// Every failure is an [*Error], classified by what a caller may conclude from it: the request was not sent, the response is the
// service's own, or the outcome is unknown. In doubt it is unknown. A Client follows no redirect, uses no proxy, decodes nothing
// beyond its limits, and repeats a request only if the peer reported, by the rules of HTTP/2, that it was not processed.
//
// A [Guard] retries and breaks circuits. What the service itself returns, error or not, is a response: it is neither retried nor
// counted as a failure. A call is retried only if a second execution is safe, before any part of a response has arrived, while
// its deadline leaves time, and within a budget that is a share of all calls, so that retries do not overload a backend further.
// Timeouts open the breaker of their tool. They open that of the backend if two or more tools time out and none
// answers, or if the backend does not answer its health check. A nil Guard makes one attempt.
//
// A Client of a target with many addresses ([Target.IsSpread]) has a client for each, and a balancer says which one makes a call: the
// less busy one of two that are chosen at random. Addresses whose calls fail are ejected for a while. The name is looked up again and
// again, and an address that it no longer has ends its calls first.
//
// [MetadataRules] are two allow-lists of headers, one for each direction. Credentials and hop-by-hop headers never cross,
// whatever a list says. The idempotency key ([IdempotencyHeader]) needs no rule.
//
// A [NativeClient] calls a backend that implements outrigger.v1.ToolService, and a [Watcher] keeps a subscription to its changes
// alive. Its answers are untrusted: they are decoded and checked by the rules of the contract, and a violation is an
// [*InvalidAnswerError]. Requests are not checked here, because edges do that. No state about tools or callers is kept.
//
// Everything is safe for concurrent use.
package backend
