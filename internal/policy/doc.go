// SPDX-License-Identifier: Apache-2.0

// Package policy decides whether a call may run, before its arguments are read where that is enough: the destructive gate, rules,
// scopes, rates, and the admission of concurrent calls.
//
// # Gate, rates and admission
//
// A [Gate] decides whether a resolved tool may run for a caller, a [Limiter] how often, and [Slots] when. All edges, aliases and batches use it, so none can
// bypass it. Its types are safe for concurrent use.
//
// # Rules
//
// Rules in CEL decide who may call which tools with which
// arguments.
//
// [Compile] makes a [Set] of rules and reports what is wrong with them. A Set
// compiles its rules for a tool when it first meets the tool, against the tool's
// input: the descriptor of its request, or the JSON schema of a native tool. Tools
// with the same request share programs.
//
// A rule sees three variables. "args" are the arguments, "caller" is who calls and
// "tool" is the tool. Rules without args also decide which tools a caller sees. A
// tool that any allow rule matches is denied unless one of them holds; a deny rule
// that holds takes precedence. A rule that fails or costs too much counts against
// the caller.
//
// An [Engine] holds the Set in use, which may be replaced at any time. Each decision
// is made by one Set. Everything is safe for concurrent use.
//
// # Scopes
//
// An [Authorizer] holds callers with OAuth access tokens to the scopes that tools and
// operations need. It knows what needs which scope, from the configuration, from the
// options of tools, or by a rule, and it compares that with the scopes of a token. What
// is missing is PERMISSION_DENIED with a challenge (RFC 6750, section 3.1), so that a
// client can request a token with more scopes.
//
// Callers that were identified in another way have no scopes and are not restricted
// here. It verifies no token. It is safe for concurrent use.
//
// # The rate limit service
//
// A [RateService] asks a rate limit service that replicas share, over
// envoy.service.ratelimit.v3. It comes after the rates that each replica counts by itself,
// so what those reject is not asked about.
//
// A question takes a bounded time and a bounded number of them are open at once. A service
// that fails several times in a row is not asked for a while. While there is no answer,
// requests run or are rejected, as [RateServiceOptions] say.
//
// It keeps no counts of callers, and never sends their names: a caller is a hash.
// It starts no goroutine. A [RateService] is safe for concurrent use.
package policy
