// SPDX-License-Identifier: Apache-2.0

package stats

// Edge is the interface through which a request arrived.
type Edge uint8

// The edges. EdgeTyped is the typed pass-through in any protocol. The three before it
// are the tool API. EdgeAdmin is the listeners for operators and for probes. EdgeOther
// is everything else, such as a command that makes one call.
const (
	EdgeMCP Edge = iota
	EdgeRPC
	EdgeStdio
	EdgeConnect
	EdgeGRPC
	EdgeGRPCWeb
	EdgeTyped
	EdgeAdmin
	EdgeOther
	edges int = iota
)

// EdgeOf returns the edge of a request from its transport and route. isTyped marks
// requests of the typed pass-through.
func EdgeOf(transport, route string, isTyped bool) Edge {
	if isTyped {
		return EdgeTyped
	}
	switch transport {
	case "http":
		if route == "/rpc" {
			return EdgeRPC
		}
		return EdgeMCP
	case "stdio":
		return EdgeStdio
	case "connect":
		return EdgeConnect
	case "grpc":
		return EdgeGRPC
	case "grpcweb":
		return EdgeGRPCWeb
	}
	return EdgeOther
}

// Transport returns OpenTelemetry's name of the transport of an edge (network.transport), or ""
// for the edges that have none. Callers reach all others by TCP.
func (e Edge) Transport() string {
	switch e {
	case EdgeStdio:
		return "pipe"
	case EdgeMCP, EdgeRPC, EdgeConnect, EdgeGRPC, EdgeGRPCWeb, EdgeTyped:
		return "tcp"
	}
	return ""
}

// IsJSONRPC reports whether messages of the edge are JSON-RPC, in MCP or in the canonical dialect.
func (e Edge) IsJSONRPC() bool { return e == EdgeMCP || e == EdgeRPC || e == EdgeStdio }

// String returns the name of the edge, for logs and metrics.
func (e Edge) String() string {
	switch e {
	case EdgeMCP:
		return "mcp"
	case EdgeRPC:
		return "rpc"
	case EdgeStdio:
		return "stdio"
	case EdgeConnect:
		return "connect"
	case EdgeGRPC:
		return "grpc"
	case EdgeGRPCWeb:
		return "grpcweb"
	case EdgeTyped:
		return "typed"
	case EdgeAdmin:
		return "admin"
	}
	return "other"
}
