// SPDX-License-Identifier: Apache-2.0

// Package rateservice asks a rate limit service that replicas share, over
// envoy.service.ratelimit.v3. It comes after the rates that each replica counts by itself,
// so what those reject is not asked about.
//
// A question takes a bounded time and a bounded number of them are open at once. A service
// that fails several times in a row is not asked for a while. While there is no answer,
// requests run or are rejected, as [Options] say.
//
// The package keeps no counts of callers, and never sends their names: a caller is a hash.
// It starts no goroutine. A [Service] is safe for concurrent use.
package rateservice
