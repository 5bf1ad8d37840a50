// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/offer"
)

// discoverTTL is how long a client may keep the answer to server/discover, in
// milliseconds. What it says changes with the sidecar and its services.
const discoverTTL = 60_000

func (h *Handler) appendInstructions(dst []byte, cat *catalog.Catalog) []byte {
	text := h.shown.Instructions(cat)
	if text == "" {
		return dst
	}
	dst = append(dst, `,"instructions":`...)
	return jsontext.AppendString(dst, text)
}

// writeDiscover renders server/discover.
func writeDiscover(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	dst := append([]byte(nil), `{"supportedVersions":[`...)
	for i, v := range versions(h.opts.Variants) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsontext.AppendString(dst, v)
	}
	dst = append(dst, `],"capabilities":`...)
	dst = appendMCPCapabilities(dst, h.offers.Features(call.resp.Catalog), true, h.opts.ToolManifest)
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
	cat, err := h.shown.Catalog(ctx)
	if err != nil {
		return nil, err
	}
	return h.appendDescription(nil, cat), nil
}

// appendDescription appends the description. It says what [offer.Service.Describe] says, so
// that all edges agree. Every member is always present: what is not offered has
// the value false.
func (h *Handler) appendDescription(dst []byte, cat *catalog.Catalog) []byte {
	offers, server := h.offers.Describe(cat), h.shown.Server()
	dst = append(dst, `{"name":`...)
	dst = jsontext.AppendString(dst, server.Name)
	dst = append(dst, `,"version":`...)
	dst = jsontext.AppendString(dst, server.Version)
	dst = append(dst, `,"contract_version":"`+offer.ContractVersion+`","capabilities":{"tools":{"listChanged":`...)
	dst = strconv.AppendBool(dst, offers.Capabilities.GetTools().GetListChanged())
	dst = append(dst, `},"resources":{"listChanged":`...)
	dst = strconv.AppendBool(dst, offers.Capabilities.GetResources().GetListChanged())
	dst = append(dst, `,"subscribe":`...)
	dst = strconv.AppendBool(dst, offers.Capabilities.GetResources().GetSubscribe())
	dst = append(dst, `},"prompts":{"listChanged":`...)
	dst = strconv.AppendBool(dst, offers.Capabilities.GetPrompts().GetListChanged())
	dst = append(dst, `}},"tools_count":`...)
	dst = strconv.AppendInt(dst, int64(offers.Tools), 10)
	dst = append(dst, `,"resources_count":`...)
	dst = strconv.AppendInt(dst, int64(offers.Resources), 10)
	dst = append(dst, `,"prompts_count":`...)
	return append(strconv.AppendInt(dst, int64(offers.Prompts), 10), '}')
}

// writeEmpty renders the result of ping.
func writeEmpty(*Handler, *exchange) ([]byte, *errmap.Error) { return emptyObject, nil }

// appendMCPCapabilities appends what MCP calls the server's capabilities. The
// tasks extension exists in the modern era alone.
func appendMCPCapabilities(dst []byte, f offer.Features, isModern, hasManifest bool) []byte {
	dst = append(dst, `{"tools":{"listChanged":true`...)
	if hasManifest {
		dst = append(dst, `,"manifest":true`...)
	}
	dst = append(dst, '}')
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

// skillsExtension is MCP's identifier of the skills extension (SEP-2640), which has the same methods in every revision.
const skillsExtension = "io.modelcontextprotocol/skills"

// appendExtensions appends the extensions that are offered, with their settings.
func appendExtensions(dst []byte, f offer.Features, isModern bool) []byte {
	hasTasks := f.Tasks && isModern
	if !hasTasks && !f.Skills {
		return dst
	}
	dst = append(dst, `,"extensions":{`...)
	if f.Skills {
		dst = append(dst, `"`+skillsExtension+`":{`...)
		if f.Directories {
			dst = append(dst, `"directoryRead":`...)
			dst = strconv.AppendBool(dst, f.Directories)
		}
		dst = append(dst, '}')
	}
	if hasTasks {
		if f.Skills {
			dst = append(dst, ',')
		}
		dst = append(dst, `"`+tasksExtension+`":{}`...)
	}
	return append(dst, '}')
}

func readListSkills(call *exchange) *errmap.Error {
	cursor, err := cursorParam(call.in.Message)
	if err != nil {
		return err
	}
	call.req.Message = &outriggerv1.ListSkillsRequest{Cursor: cursor}
	return call.noteRest()
}

func readGetSkill(call *exchange) *errmap.Error {
	uri, err := textParam(call.in.Message, "uri")
	call.req.Message = &outriggerv1.GetSkillRequest{Uri: uri}
	return orRest(call, err)
}

func readReadDirectory(call *exchange) *errmap.Error {
	uri, err := textParam(call.in.Message, "uri")
	if err != nil {
		return err
	}
	cursor, err := cursorParam(call.in.Message)
	call.req.Message = &outriggerv1.ReadDirectoryRequest{Uri: uri, Cursor: cursor}
	return orRest(call, err)
}

func writeSkills(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	got, failed := answerOf[*outriggerv1.ListSkillsResponse](call)
	if failed != nil {
		return nil, failed
	}
	dst, err := content.AppendSkills([]byte(`{"skills":`), got.GetSkills())
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	dst = appendNextCursor(dst, got.NextCursor)
	return h.closeSkills(call, dst, got, true)
}

// closeSkills is closeCached for skills, whose extension requires the members; the older eras have them as an experiment.
func (h *Handler) closeSkills(call *exchange, dst []byte, from cacheable, announced bool) ([]byte, *errmap.Error) {
	if h.opts.SkillCache && call.in.Dialect == Legacy {
		dst = appendCache(dst, from.GetCache(), announced)
	}
	return h.closeCached(call, dst, from, announced)
}

func writeSkill(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	got, failed := answerOf[*outriggerv1.GetSkillResponse](call)
	if failed != nil {
		return nil, failed
	}
	dst, err := content.AppendSkill([]byte(`{"skill":`), got.GetSkill())
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	return h.closeSkills(call, dst, got, false)
}

func writeDirectory(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	got, failed := answerOf[*outriggerv1.ReadDirectoryResponse](call)
	if failed != nil {
		return nil, failed
	}
	dst, err := content.AppendResources([]byte(`{"resources":`), got.GetResources())
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	dst = appendNextCursor(dst, got.NextCursor)
	return h.closeSkills(call, dst, got, true)
}
