// SPDX-License-Identifier: Apache-2.0

// Package demo is an example tool service: a courier's fleet on an atoll, and a workbench for callers.
//
// Its one job is to be a real backend: `--demo` starts it in the same process, and tests and benchmarks call it.
// It stands at the far end of the flow, behind the backend client, and knows nothing of tools, JSON-RPC or MCP.
// It speaks gRPC, gRPC-Web and Connect on one loopback listener, with health and reflection.
//
// It refuses to listen beyond loopback, because it does not authenticate callers. It keeps everything in memory and forgets
// it at the end; the data is the same at every start.
//
// Everything exported is safe for concurrent use.
package demo
