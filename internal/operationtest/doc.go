// SPDX-License-Identifier: Apache-2.0

// Package operationtest is a backend for tests: a grpc-go server with long-running
// operations (AIP-151) and a list in pages (AIP-158). Nothing in it depends on time: the
// test says what becomes of an operation, and when.
//
// It is imported by tests alone.
package operationtest
