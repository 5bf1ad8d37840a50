// SPDX-License-Identifier: Apache-2.0

// Package telemetry proves what the sidecar tells OpenTelemetry, with peers that others made: a collector's own receiver,
// a service with otelgrpc, and agents that trace their work.
//
// The spans and the metrics of each edge are in testdata, as text; `go test -update` writes them anew. It is a module of
// its own, because a collector is large.
package telemetry
