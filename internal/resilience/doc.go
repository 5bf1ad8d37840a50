// SPDX-License-Identifier: Apache-2.0

// Package resilience stands around a call of the backend: it repeats what failed
// on the way and may be repeated, and holds calls back while the backend is away.
//
// One [Guard] stands for one backend. What counts is the canonical code of a
// failure and nothing else: what the tool service answers itself, however bad, is
// an answer, which is neither repeated nor held against the backend. So a tool
// that always fails takes no other tool with it. Timeouts count for their tool, which
// has a breaker of its own; the backend's breaker opens for them where two or more
// tools time out and none answers, or where the backend does not answer its health
// check.
//
// A call is repeated only where its owner says that a second run does no harm,
// before anything of an answer has come, while its deadline leaves room for it,
// and within a budget: repetitions are paid with a share of the calls that there
// were, so that a backend that is overloaded is not overloaded more.
//
// The breaker and the pauses between attempts are failsafe-go's. The budget is
// not: the library's counts what runs at a time, which a backend that refuses
// within microseconds never fills.
//
// A Guard is safe for concurrent use. A nil Guard lets everything through once.
package resilience
