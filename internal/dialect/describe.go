// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// discoverTTL is how long a client may keep the answer to server/discover, in
// milliseconds. What it says changes with the sidecar and its services.
const discoverTTL = 60_000

func (h *Handler) appendInstructions(dst []byte, cat *catalog.Catalog) []byte {
	text := h.Instructions(cat)
	if text == "" {
		return dst
	}
	dst = append(dst, `,"instructions":`...)
	return jsontext.AppendString(dst, text)
}

// writeDiscover renders server/discover.
func writeDiscover(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	dst := append([]byte(nil), `{"supportedVersions":[`...)
	for i, v := range Versions() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsontext.AppendString(dst, v)
	}
	dst = append(dst, `],"capabilities":`...)
	dst = appendMCPCapabilities(dst, h.Features(call.resp.Catalog), true)
	dst = h.appendInstructions(dst, call.resp.Catalog)
	dst = append(dst, `,"ttlMs":`...)
	dst = strconv.AppendInt(dst, discoverTTL, 10)
	dst = appendCacheScope(dst, call.resp.CacheScope())
	return h.closeResult(dst, typeComplete, nil, string(h.appendSoftware(nil)))
}

// writeDescription renders server/describe of the canonical dialect.
func writeDescription(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	return h.appendDescription(nil, call.resp.Catalog), nil
}

// Description returns the response to server/describe in the canonical dialect.
// Like every request about tools it waits for the first catalog, and is
// UNAVAILABLE without one: counts of zero would look like a service without tools.
func (h *Handler) Description(ctx context.Context) (json.RawMessage, *errmap.Error) {
	cat, err := h.Catalog(ctx)
	if err != nil {
		return nil, err
	}
	return h.appendDescription(nil, cat), nil
}

// appendDescription appends the description. It says what [Handler.Offer] says, so
// that all edges agree. Every member is always present: what is not offered has
// the value false.
func (h *Handler) appendDescription(dst []byte, cat *catalog.Catalog) []byte {
	offer, server := h.Offer(cat), h.Server()
	dst = append(dst, `{"name":`...)
	dst = jsontext.AppendString(dst, server.Name)
	dst = append(dst, `,"version":`...)
	dst = jsontext.AppendString(dst, server.Version)
	dst = append(dst, `,"contract_version":"`+bridge.ContractVersion+`","capabilities":{"tools":{"listChanged":`...)
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
func writeEmpty(*Handler, *exchange) ([]byte, *errmap.Error) { return emptyObject, nil }

// appendMCPCapabilities appends what MCP calls the server's capabilities. The
// tasks extension exists in the modern era alone.
func appendMCPCapabilities(dst []byte, f bridge.Features, isModern bool) []byte {
	dst = append(dst, `{"tools":{"listChanged":true}`...)
	if f.Resources {
		dst = append(dst, `,"resources":{"listChanged":true`...)
		if f.ResourcesSubscribe {
			dst = append(dst, `,"subscribe":true`...)
		}
		dst = append(dst, '}')
	}
	if f.Prompts {
		dst = append(dst, `,"prompts":{`...)
		if f.PromptsChanged {
			dst = append(dst, `"listChanged":true`...)
		}
		dst = append(dst, '}')
	}
	if f.Completions {
		dst = append(dst, `,"completions":{}`...)
	}
	if f.Logging {
		dst = append(dst, `,"logging":{}`...)
	}
	return append(appendExtensions(dst, f, isModern), '}')
}

// tasksExtension is MCP's identifier of the tasks extension.
const tasksExtension = "io.modelcontextprotocol/tasks"
