// SPDX-License-Identifier: Apache-2.0

// Package policy decides whether a call may run, and when. All edges, aliases and batches ask it, so none can bypass it. What can
// be decided without the arguments is decided before they are read.
//
// In the order of a call: an [Authorizer] holds callers with OAuth tokens to their scopes, and an [Engine] applies the rules in CEL
// that need no arguments, both also to lists. A [Gate] blocks destructive tools for untrusted callers. A [Limiter] holds callers
// and tools to their rates, and a [RateService] asks a service that counts for all replicas, over envoy.service.ratelimit.v3.
// [Slots] admit calls, fairly between tools and callers, and hand out turns on the CPU. Once the arguments are known, the Engine
// applies the other rules.
//
// # Rules
//
// [Compile] makes a [Set] and reports what is wrong with its rules. A Set compiles its rules for a tool when it first meets the
// tool, against its input: the descriptor of the request, or the JSON schema of a native tool. Tools with the same request share
// programs. A rule sees "args", "caller" and "tool". Rules without args also decide which tools a caller sees. A tool that any
// allow rule matches is denied unless one of them holds; a deny rule that holds takes precedence. A rule that fails or costs too
// much counts against the caller. An Engine holds the Set in use, which may be replaced at any time; each decision is made by one
// Set.
//
// # Scopes
//
// An Authorizer knows which tool and operation needs which scope, from the configuration, the options of tools, or a rule. What is
// missing is PERMISSION_DENIED with a challenge (RFC 6750, section 3.1), so that a client can request a token with more scopes.
// It verifies no token. Callers that were identified in another way have no scopes and are not restricted.
//
// # The rate limit service
//
// A question takes a bounded time, and a bounded number of them are open at once. A service that fails several times in a row is
// not asked for a while; meanwhile requests run or are rejected, as [RateServiceOptions] say. It never learns the names of
// callers: a caller is a hash.
//
// Everything is safe for concurrent use.
package policy
