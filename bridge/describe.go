// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// ContractVersion is the version of the canonical contract that is served.
const ContractVersion = "1.0.0"

// discoverTTL is how long a client may keep the answer to server/discover, in
// milliseconds. What it says changes with a new sidecar only.
const discoverTTL = 60_000

// prepare renders once what every reply of a dialect repeats.
func (b *Bridge) prepare() {
	info := append([]byte(nil), `{"name":`...)
	info = jsonrpc.AppendString(info, b.opts.Server.Name)
	if b.opts.Server.Title != "" {
		info = append(info, `,"title":`...)
		info = jsonrpc.AppendString(info, b.opts.Server.Title)
	}
	info = append(info, `,"version":`...)
	info = jsonrpc.AppendString(info, b.opts.Server.Version)
	info = append(info, '}')
	b.serverInfo = info

	tail := append([]byte(nil), `,"resultType":"complete","_meta":{`...)
	tail = b.appendServerMeta(tail)
	tail = append(tail, `}}`...)
	b.modernTail = tail
}

// appendServerMeta appends the _meta member that names the server on every
// modern result.
func (b *Bridge) appendServerMeta(dst []byte) []byte {
	dst = append(dst, `"io.modelcontextprotocol/serverInfo":`...)
	return append(dst, b.serverInfo...)
}

func (b *Bridge) appendInstructions(dst []byte) []byte {
	if b.opts.Server.Instructions == "" {
		return dst
	}
	dst = append(dst, `,"instructions":`...)
	return jsonrpc.AppendString(dst, b.opts.Server.Instructions)
}

// writeDiscover renders server/discover.
func writeDiscover(b *Bridge, call *exchange) ([]byte, *errmap.Error) {
	dst := append([]byte(nil), `{"supportedVersions":[`...)
	for i, v := range Versions() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonrpc.AppendString(dst, v)
	}
	dst = append(dst, `],"capabilities":`...)
	dst = b.features(call.resp.Catalog).appendMCPCapabilities(dst, true)
	dst = b.appendInstructions(dst)
	dst = append(dst, `,"ttlMs":`...)
	dst = strconv.AppendInt(dst, discoverTTL, 10)
	dst = appendCacheScope(dst, call.resp.CacheScope())
	return append(dst, b.modernTail...), nil
}

// writeDescription renders server/describe of the canonical dialect.
func writeDescription(b *Bridge, call *exchange) ([]byte, *errmap.Error) {
	return b.appendDescription(nil, call.resp.Catalog), nil
}

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
	f := b.features(cat)
	out := Offer{Tools: visibleTools(cat), Capabilities: &outriggerv1.ServerCapabilities{
		Tools:       &outriggerv1.ToolsCapability{ListChanged: true},
		Completions: f.completions, Logging: f.logging, Tasks: f.tasks,
	}}
	if f.resources {
		out.Capabilities.Resources = &outriggerv1.ResourcesCapability{ListChanged: true, Subscribe: f.resourcesSubscribe}
	}
	if f.prompts {
		out.Capabilities.Prompts = &outriggerv1.PromptsCapability{ListChanged: f.promptsChanged}
	}
	listed := b.count(cat)
	out.Resources, out.Prompts = listed.resources, listed.prompts
	return out
}

// Description is what server/describe answers in the canonical dialect. Like
// every request about tools it waits for the first catalog, and is UNAVAILABLE
// without one: counts of zero would look like a service without tools.
func (b *Bridge) Description(ctx context.Context) (json.RawMessage, *errmap.Error) {
	cat, err := b.catalog(ctx)
	if err != nil {
		return nil, err
	}
	return b.appendDescription(nil, cat), nil
}

// appendDescription appends the description. It says what [Bridge.Offer] says, so
// that all edges agree. Every member is always present: what is not offered has
// the value false.
func (b *Bridge) appendDescription(dst []byte, cat *catalog.Catalog) []byte {
	offer := b.Offer(cat)
	dst = append(dst, `{"name":`...)
	dst = jsonrpc.AppendString(dst, b.opts.Server.Name)
	dst = append(dst, `,"version":`...)
	dst = jsonrpc.AppendString(dst, b.opts.Server.Version)
	dst = append(dst, `,"contract_version":"`+ContractVersion+`","capabilities":{"tools":{"listChanged":`...)
	dst = strconv.AppendBool(dst, offer.Capabilities.GetTools().GetListChanged())
	dst = append(dst, `},"resources":{"listChanged":`...)
	dst = strconv.AppendBool(dst, offer.Capabilities.GetResources().GetListChanged())
	dst = append(dst, `,"subscribe":`...)
	dst = strconv.AppendBool(dst, offer.Capabilities.GetResources().GetSubscribe())
	dst = append(dst, `},"prompts":{"listChanged":`...)
	dst = strconv.AppendBool(dst, offer.Capabilities.GetPrompts().GetListChanged())
	dst = append(dst, `}},"tools_count":`...)
	dst = strconv.AppendInt(dst, int64(offer.Tools), 10)
	dst = append(dst, `,"resources_count":`...)
	dst = strconv.AppendInt(dst, int64(offer.Resources), 10)
	dst = append(dst, `,"prompts_count":`...)
	return append(strconv.AppendInt(dst, int64(offer.Prompts), 10), '}')
}

// writeEmpty renders the result of ping.
func writeEmpty(*Bridge, *exchange) ([]byte, *errmap.Error) { return emptyObject, nil }

// visibleTools counts what tools/list shows.
func visibleTools(cat *catalog.Catalog) int {
	if cat == nil {
		return 0
	}
	return len(cat.Tools())
}
