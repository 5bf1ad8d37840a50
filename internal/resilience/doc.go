// SPDX-License-Identifier: Apache-2.0

// Package resilience has the retries and circuit breakers of backend calls.
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
package resilience
