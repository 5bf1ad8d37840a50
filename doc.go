// SPDX-License-Identifier: Apache-2.0

// Package outrigger embeds a sidecar in a Go program. A sidecar makes every RPC of a
// Protobuf service a tool: for agents over MCP, for programs over JSON-RPC, Connect,
// gRPC and gRPC-Web. The command in cmd/sidecar runs the same code as a separate
// process.
//
// # A tour
//
// [New] takes [Options] and returns a [Sidecar]. Set the URL of a backend
// (Options.Backend), or pass an [http.Handler] of the same process (Options.Handler),
// which is called without a socket. Tools come from the backend's server reflection, or
// from other sources of descriptors (Options.Sources): [Services] provides services
// that are linked into the program, and [Source] is an interface that you can
// implement.
//
// [Sidecar.Handler] serves all protocols on one handler. Mount it at the root of a host
// name or a port: its paths are /mcp, /rpc, /outrigger.v1.ToolService/ and those of the
// backend's own services. [Sidecar.Run] loads the tools and keeps them up to date. When
// its context ends, it drains: calls in flight finish, and new calls are UNAVAILABLE.
// [Sidecar.Drain] starts a drain from outside and waits for it.
//
// The program itself can list tools with [Sidecar.Tools] and call one with
// [Sidecar.CallTool], with the same validation, gate and limits.
//
// # On by default
//
// The handler accepts requests only if their Host is a loopback name or in
// Options.AllowedHosts, and their Origin, if any, is in Options.AllowedOrigins. This
// prevents DNS rebinding by web pages. Bodies have a timeout. Messages, calls and
// streams are limited ([Limits]). Untrusted callers cannot run tools that are marked as
// destructive ([Policy]). Callers are authenticated if there is an [Authenticator] or a
// callers file. The package does not change process-wide settings: it leaves GOMEMLIMIT
// and the garbage collector alone.
//
// Settings without a field in Options are in Options.Config, which has every setting of
// the command (docs/configuration.md). Listeners are the exception: the package opens
// no port.
package outrigger
