// SPDX-License-Identifier: Apache-2.0

// Package caller calls tools over every edge of a sidecar, with clients that
// are not the sidecar's own: plain HTTP, lines on stdio, the MCP Go SDK,
// connect-go's generated clients and grpc-go.
//
// [Edges] is the list. An [Edge] makes agents; an [Agent] is one independent
// caller with its own connection, stream or process, and runs many calls at
// once. All answers come back in one form, [Answer], so that one test can hold
// for all edges.
package caller
