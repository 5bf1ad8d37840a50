// SPDX-License-Identifier: Apache-2.0

// Package outrigger embeds a sidecar in a Go program: it makes every RPC of a Protobuf
// service a tool, for agents over MCP, for programs over JSON-RPC, and over Connect,
// gRPC and gRPC-Web. The command in cmd/sidecar is the same assembly as a process of
// its own.
//
// # A tour
//
// [New] takes [Options] and returns a [Sidecar]. Name a backend by its URL
// (Options.Backend), or hand over an [http.Handler] of the same process
// (Options.Handler), which is called without a socket. Tools come from the backend's
// server reflection, or from sources of descriptors (Options.Sources):
// [Services] knows what is linked into the program, and [Source] is an interface that
// you can implement.
//
// [Sidecar.Handler] serves all protocols on one handler. Mount it at the root of a
// host name or a port: the paths are /mcp, /rpc, /outrigger.v1.ToolService/ and those
// of the backend's own services. [Sidecar.Run] loads the tools, keeps them fresh, and
// drains when its context ends: calls in flight are answered, new ones are refused
// with UNAVAILABLE. [Sidecar.Drain] begins that from outside and waits for it.
//
// The program itself lists tools with [Sidecar.Tools] and calls one with
// [Sidecar.CallTool], through the same validation, gate and limits.
//
// # On by default
//
// The handler checks the Host of each request against loopback names and
// Options.AllowedHosts, and Origin against Options.AllowedOrigins, so that no web page
// reaches it by DNS rebinding. Bodies have a timeout, messages, calls and streams are
// bounded ([Limits]), and tools that are marked as destructive are refused
// to callers without trust ([Policy]). Callers are authenticated as soon as there is an
// [Authenticator] or a callers file. No limit is taken from the process:
// GOMEMLIMIT and the garbage collector are left alone.
//
// What Options does not name is in Options.Config, which has every setting of the
// command (docs/configuration.md). Listeners are the exception: the package opens no
// port.
package outrigger
