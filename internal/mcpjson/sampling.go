// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"slices"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// featureSamplingTools is what the revisions before 2025-11-25 lack.
const featureSamplingTools = "tools in sampling"

// sampling appends the members of the params of sampling/createMessage.
func (w *writer) sampling(s *outriggerv1.Sampling) {
	if usesTools(s) && !w.rev.hasSamplingTools() {
		w.unsupported(featureSamplingTools)
	}
	if len(s.GetMessages()) == 0 {
		w.failIn("messages", "Give at least one message.")
	}
	w.checkToolUses(s.GetMessages())
	w.member("messages")
	w.conversation(s.GetMessages())
	if s.GetMaxTokens() <= 0 {
		w.failIn("max_tokens", "MCP requires it; make it positive.")
	}
	w.integer("maxTokens", s.GetMaxTokens())
	w.text("systemPrompt", s.GetSystemPrompt())
	w.modelPreferences(s.GetModelPreferences())
	w.oneOf("includeContext", "include_context", s.GetIncludeContext(), "none", "thisServer", "allServers")
	if s != nil && s.Temperature != nil {
		w.number("temperature", "temperature", s.GetTemperature())
	}
	if len(s.GetStopSequences()) > 0 {
		w.texts("stopSequences", s.GetStopSequences())
	}
	w.object("metadata", "metadata", s.GetMetadataJson(), s.GetMetadata())
	if len(s.GetTools()) > 0 {
		w.member("tools")
		list(w, "tools", s.GetTools(), func(w *writer, t *outriggerv1.Tool) { w.tool(t, nil) })
	}
	if c := s.GetToolChoice(); c != nil {
		w.enter("tool_choice")
		w.member("toolChoice")
		w.raw("{")
		w.oneOf("mode", "mode", c.GetMode(), "auto", "required", "none")
		w.raw("}")
		w.leave()
	}
	w.object("_meta", "meta", s.GetMetaJson(), s.GetMeta())
}

// usesTools reports whether a conversation is for a client that knows tools in
// sampling.
func usesTools(s *outriggerv1.Sampling) bool {
	return len(s.GetTools()) > 0 || s.GetToolChoice() != nil ||
		slices.ContainsFunc(s.GetMessages(), func(m *outriggerv1.SamplingMessage) bool {
			return slices.ContainsFunc(m.GetContent(), func(c *outriggerv1.SamplingContent) bool {
				return c.GetToolUse() != nil || c.GetToolResult() != nil
			})
		})
}

// conversation appends messages as an array. In the revisions in which a message
// is one block, each block becomes a message of the same role.
func (w *writer) conversation(messages []*outriggerv1.SamplingMessage) {
	w.raw("[")
	w.enter("messages")
	for i, m := range messages {
		w.item(i)
		switch blocks := m.GetContent(); {
		case len(blocks) == 0:
			w.failIn("content", "Give at least one block.")
		case len(blocks) == 1 || w.rev.hasSamplingTools():
			w.samplingMessage(m, blocks, 0)
		default:
			for j := range blocks {
				w.samplingMessage(m, blocks[j:j+1], j)
			}
		}
		w.leave()
	}
	w.leave()
	w.raw("]")
}

// samplingMessage appends one message with these blocks of it, the first of which
// has this index. A single block has no array around it, which every revision
// understands.
func (w *writer) samplingMessage(m *outriggerv1.SamplingMessage, blocks []*outriggerv1.SamplingContent, first int) {
	w.comma()
	w.raw("{")
	w.roleMember(m.GetRole())
	w.member("content")
	if len(blocks) == 1 {
		w.enter("content")
		w.item(first)
		w.samplingBlock(blocks[0])
		w.leave()
		w.leave()
	} else {
		list(w, "content", blocks, (*writer).samplingBlock)
	}
	w.object("_meta", "meta", m.GetMetaJson(), m.GetMeta())
	w.raw("}")
}

// samplingBlock appends one block of a message to a model.
func (w *writer) samplingBlock(c *outriggerv1.SamplingContent) {
	w.raw("{")
	switch block := c.GetBlock().(type) {
	case *outriggerv1.SamplingContent_Text:
		w.textBlock(block.Text)
	case *outriggerv1.SamplingContent_Image:
		w.mediaBlock("image", block.Image)
	case *outriggerv1.SamplingContent_Audio:
		w.mediaBlock("audio", block.Audio)
	case *outriggerv1.SamplingContent_ToolUse:
		w.enter("tool_use")
		w.toolUse(block.ToolUse)
		w.leave()
	case *outriggerv1.SamplingContent_ToolResult:
		w.enter("tool_result")
		w.toolResult(block.ToolResult)
		w.leave()
	default:
		w.fail("Set what the block is.")
	}
	w.annotations(c.GetAnnotations())
	w.object("_meta", "meta", c.GetMetaJson(), c.GetMeta())
	w.raw("}")
}

func (w *writer) toolUse(u *outriggerv1.ToolUseContent) {
	w.raw(`"type":"tool_use"`)
	w.need("id", "id", u.GetId())
	w.need("name", "name", u.GetName())
	if !w.object("input", "input", u.GetInputJson(), u.GetInput()) {
		w.member("input")
		w.raw("{}")
	}
}

func (w *writer) toolResult(r *outriggerv1.ToolResultContent) {
	w.raw(`"type":"tool_result"`)
	w.need("toolUseId", "tool_use_id", r.GetToolUseId())
	w.member("content")
	list(w, "content", r.GetContent(), (*writer).block)
	w.enter(formName("structured_content", r.GetStructuredContentJson() != nil))
	var data []byte
	if text := r.GetStructuredContentJson(); text != nil {
		data = w.freeForm(text, nil)
	} else {
		data = w.freeForm(nil, r.GetStructuredContent())
	}
	w.leave()
	if data != nil {
		w.structured(data)
	}
	w.flag("isError", r.GetIsError())
}

func (w *writer) modelPreferences(p *outriggerv1.ModelPreferences) {
	if p == nil {
		return
	}
	w.enter("model_preferences")
	w.member("modelPreferences")
	w.raw("{")
	if len(p.GetHints()) > 0 {
		w.member("hints")
		list(w, "hints", p.GetHints(), func(w *writer, h *outriggerv1.ModelHint) {
			w.raw("{")
			w.text("name", h.GetName())
			w.raw("}")
		})
	}
	w.fraction("costPriority", "cost_priority", p.CostPriority)
	w.fraction("speedPriority", "speed_priority", p.SpeedPriority)
	w.fraction("intelligencePriority", "intelligence_priority", p.IntelligencePriority)
	w.raw("}")
	w.leave()
}

// checkToolUses keeps what breaks MCP's rule for tools in a conversation: a message
// with tool results holds nothing else, and answers exactly the tool uses of the
// message before (MCP 2026-07-28, sampling). Clients and model providers refuse
// other conversations.
func (w *writer) checkToolUses(messages []*outriggerv1.SamplingMessage) {
	w.enter("messages")
	defer w.leave()
	var open []string
	for i, m := range messages {
		var uses, results []string
		for _, c := range m.GetContent() {
			if u := c.GetToolUse(); u != nil {
				uses = append(uses, u.GetId())
			}
			if r := c.GetToolResult(); r != nil {
				results = append(results, r.GetToolUseId())
			}
		}
		w.item(i)
		if len(results) > 0 && len(results) != len(m.GetContent()) {
			w.failIn("content", "A message with tool results holds nothing else.")
		}
		slices.Sort(open)
		slices.Sort(results)
		if !slices.Equal(open, results) {
			w.failIn("content", "Answer each tool use of the message before with one tool result, and nothing else.")
		}
		w.leave()
		open = uses
	}
	if len(open) > 0 {
		w.fail("The last message uses tools; give their results behind it.")
	}
}
