// SPDX-License-Identifier: Apache-2.0

// Package sidecar runs the sidecar's binary for tests: it builds it, starts it,
// reads its log, talks to it through pipes, and ends it by its process id when
// the test is over. A process that ends with anything but what the test
// expected, or that reports a data race, fails the test.
//
// Values are safe for concurrent use unless a method says otherwise.
package sidecar
