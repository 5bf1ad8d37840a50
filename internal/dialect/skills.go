// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"strconv"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcpjson"
)

// skillsExtension is MCP's identifier of the skills extension (SEP-2640), which has the same methods in every revision.
const skillsExtension = "io.modelcontextprotocol/skills"

// appendExtensions appends the extensions that are offered, with their settings.
func appendExtensions(dst []byte, f bridge.Features, isModern bool) []byte {
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
	dst, err := mcpjson.AppendSkills([]byte(`{"skills":`), got.GetSkills())
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	dst = appendNextCursor(dst, got.NextCursor)
	return h.closeCached(call, dst, got, true)
}

func writeSkill(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	got, failed := answerOf[*outriggerv1.GetSkillResponse](call)
	if failed != nil {
		return nil, failed
	}
	dst, err := mcpjson.AppendSkill([]byte(`{"skill":`), got.GetSkill())
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	return h.closeCached(call, dst, got, false)
}

func writeDirectory(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	got, failed := answerOf[*outriggerv1.ReadDirectoryResponse](call)
	if failed != nil {
		return nil, failed
	}
	dst, err := mcpjson.AppendResources([]byte(`{"resources":`), got.GetResources())
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	dst = appendNextCursor(dst, got.NextCursor)
	return h.closeCached(call, dst, got, true)
}
