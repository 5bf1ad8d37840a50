// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// ContractVersion is the version of the canonical contract that is served.
const ContractVersion = "1.0.0"

// Offer is what is offered with one catalog: exactly what answers.
type Offer struct {
	Capabilities *outriggerv1.ServerCapabilities
	// Tools counts the tools that callers may see, Resources and Prompts what is
	// listed of them, to 10,000 each. Where a backend has to be asked for that, it
	// is asked at most every ten seconds, without any caller's credentials, and for
	// two seconds at most; where it does not answer, the counts are those of its own
	// description.
	Tools, Resources, Prompts int
}

// Offer tells what is offered with a catalog; nil offers tools, of which there
// are none yet. It is for edges that describe the sidecar in other words than
// MCP's. Its message is the caller's own.
func (b *Bridge) Offer(cat *catalog.Catalog) Offer {
	f := b.Features(cat)
	out := Offer{Tools: visibleTools(cat), Capabilities: &outriggerv1.ServerCapabilities{
		Tools:       &outriggerv1.ToolsCapability{ListChanged: true},
		Completions: f.Completions, Logging: f.Logging, Tasks: f.Tasks,
	}}
	if f.Resources {
		out.Capabilities.Resources = &outriggerv1.ResourcesCapability{ListChanged: true, Subscribe: f.ResourcesSubscribe}
	}
	if f.Prompts {
		out.Capabilities.Prompts = &outriggerv1.PromptsCapability{ListChanged: f.PromptsChanged}
	}
	listed := b.count(cat)
	out.Resources, out.Prompts = listed.resources, listed.prompts
	return out
}

// visibleTools counts what tools/list shows.
func visibleTools(cat *catalog.Catalog) int {
	if cat == nil {
		return 0
	}
	return len(cat.Tools())
}
