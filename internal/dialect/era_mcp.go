// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"maps"

	"github.com/outrigger-mcp/outrigger/bridge"
)

// withMCP adds the methods that every era of MCP has to those of one era.
func withMCP(methods map[string]*method) map[string]*method {
	maps.Copy(methods, map[string]*method{
		"resources/list":           {op: bridge.OpListResources, read: readListResources, write: writeResources},
		"resources/templates/list": {op: bridge.OpListTemplates, read: readListTemplates, write: writeTemplates},
		"resources/read":           {op: bridge.OpReadResource, read: readReadResource, write: writeContents},
		"resources/directory/read": {op: bridge.OpReadDirectory, read: readReadDirectory, write: writeDirectory},
		"skills/list":              {op: bridge.OpListSkills, read: readListSkills, write: writeSkills},
		"skills/get":               {op: bridge.OpGetSkill, read: readGetSkill, write: writeSkill},
		"prompts/list":             {op: bridge.OpListPrompts, read: readListPrompts, write: writePrompts},
		"prompts/get":              {op: bridge.OpGetPrompt, read: readGetPrompt, write: writePromptMessages},
		"completion/complete":      {op: bridge.OpComplete, read: readComplete, write: writeCompletion},
	})
	return methods
}
