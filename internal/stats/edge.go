// SPDX-License-Identifier: Apache-2.0

package stats

// Edge is where a request came in.
type Edge uint8

// The edges. EdgeTyped is the typed pass-through, whatever its protocol. The
// three before it are the tool API. EdgeAdmin is the listeners for operators and
// for probes. EdgeOther is everything else, such as a command that makes one call.
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

// EdgeOf finds the edge by what a request says of itself; isTyped marks those of
// the typed pass-through.
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

// String is the edge's name, for logs and metrics.
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
