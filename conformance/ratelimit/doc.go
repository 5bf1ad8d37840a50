// SPDX-License-Identifier: Apache-2.0

// Package ratelimit tests the sidecar's binary with the rate limit service that the users of
// Envoy run, as a process, with a store in the process of the test: replicas share one limit,
// and the service goes away and comes back.
//
// It is its own module, so that nothing else in the repository depends on the service.
package ratelimit
