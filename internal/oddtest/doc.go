// SPDX-License-Identifier: Apache-2.0

// Package oddtest is a backend for tests: a grpc-go server whose answers hold
// what schemas cannot promise. There are Anys of types that its services do not
// import, of unknown types, error details of other types, and
// statuses above 16, as SpiceDB, Temporal and OpenFGA send them.
package oddtest
