// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"reflect"
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
	w.members(s)
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

// conversation appends the messages of a conversation. In the revisions in which a
// message is one block, each block becomes a message of the same role.
func (w *writer) conversation(m *member, messages []*outriggerv1.SamplingMessage) {
	w.checkToolUses(messages)
	w.named(m)
	w.raw("[")
	w.enter(m.field)
	for i, message := range messages {
		w.item(i)
		switch blocks := message.GetContent(); {
		case len(blocks) == 0:
			w.failIn("content", "Give at least one block.")
		case len(blocks) == 1 || w.rev.hasSamplingTools():
			w.comma()
			w.planned(m.of, reflect.ValueOf(message))
		default:
			for j := range blocks {
				w.comma()
				w.firstBlock = int32(j)
				w.object(&outriggerv1.SamplingMessage{Role: message.GetRole(), Content: blocks[j : j+1], MetaForm: message.GetMetaForm()})
			}
			w.firstBlock = 0
		}
		w.leave()
	}
	w.leave()
	w.raw("]")
}

// checkToolUses keeps what breaks MCP's rule for tools in a conversation: a message
// with tool results holds nothing else, and answers exactly the tool uses of the
// message before (MCP 2026-07-28, sampling). Clients and model providers refuse
// other conversations.
func (w *writer) checkToolUses(messages []*outriggerv1.SamplingMessage) {
	w.enter("messages")
	defer w.leave()
	if len(messages) == 0 {
		w.fail("Give at least one message.")
	}
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
