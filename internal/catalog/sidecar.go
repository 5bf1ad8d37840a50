// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"

	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
)

// isSidecar reports whether a native backend is a sidecar itself. Only such a one serves MCP: a backend leaves that to the
// sidecar in front of it.
func isSidecar(n *source.Native) bool {
	return n != nil && len(n.Description.GetProtocolVersions()) > 0
}

// typedService takes note of the RPCs of a service that a sidecar offers. It has made tools of them, as its operator wants
// them, and lists those itself: under other names, without some, with more than one for an RPC. So they become no tools here,
// and nothing is to be said about them.
func (b *builder) typedService(of offer) {
	aside := *b // what it appends is of no interest
	aside.before = nil
	methods := of.service.Methods()
	for i := range methods.Len() {
		if t, err := aside.tool(methods.Get(i), of.source); err == nil && t != nil {
			t.isPlain = false // it becomes what the sidecar has made of it
			b.typed = append(b.typed, t)
		}
	}
}

// typedTools are the RPCs behind the tools that a sidecar lists, for typed callers. Each is known to the policy as the tool
// that was made of it, so that neither way leads around what the other is held to. An RPC without a tool here, because the
// sidecar has none or a glob left it out, cannot be reached.
func (b *builder) typedTools() []*Tool {
	made := map[string][]*Tool{}
	for _, t := range b.tools {
		if t.behind != "" && !t.Hidden {
			made[t.behind] = append(made[t.behind], t)
		}
	}
	out := b.operations
	for _, rpc := range b.typed {
		tools := made[rpc.Method.Procedure]
		if len(tools) == 0 {
			continue
		}
		slices.SortFunc(tools, inOrder)
		as := tools[0]
		if i := slices.IndexFunc(tools, func(t *Tool) bool { return t.Name == rpc.Name || t.Name == rpc.Alias }); i >= 0 {
			as = tools[i]
		}
		rpc.Name, rpc.MCPName, rpc.Version, rpc.Timeout = as.Name, as.MCPName, as.Version, as.Timeout
		rpc.Alias, rpc.Annotations, rpc.Metadata = as.Alias, as.Annotations, as.Metadata
		if i := slices.IndexFunc(tools, func(t *Tool) bool { return t.Metadata.Destructive }); i >= 0 {
			// What the RPC may destroy it destroys under every name.
			rpc.Annotations, rpc.Metadata.Destructive = tools[i].Annotations, true
		}
		out = append(out, rpc)
	}
	return out
}
