// SPDX-License-Identifier: Apache-2.0

// Package ratetest is a rate limit service for tests: a grpc-go server on loopback, whose
// answers the test decides, and which remembers what it was asked.
//
// It is imported by tests alone.
package ratetest
