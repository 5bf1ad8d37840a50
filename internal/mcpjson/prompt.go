// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// AppendPrompts appends the entries of prompts/list as a JSON array.
func AppendPrompts(dst []byte, prompts []*outriggerv1.Prompt) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	list(&w, "prompts", prompts, (*writer).prompt)
	return w.done()
}

func (w *writer) prompt(p *outriggerv1.Prompt) {
	w.raw("{")
	w.named(p)
	if len(p.GetArguments()) > 0 {
		w.member("arguments")
		list(w, "arguments", p.GetArguments(), (*writer).promptArgument)
	}
	w.icons(p.GetIcons())
	w.object("_meta", "meta", p.GetMetaJson(), p.GetMeta())
	w.raw("}")
}

func (w *writer) promptArgument(a *outriggerv1.PromptArgument) {
	w.raw("{")
	w.named(a)
	w.flag("required", a.GetRequired())
	w.raw("}")
}

// AppendPromptMessages appends the messages of prompts/get as a JSON array.
func AppendPromptMessages(dst []byte, messages []*outriggerv1.PromptMessage, rev Revision) ([]byte, error) {
	w := newWriter(dst, rev)
	list(&w, "messages", messages, (*writer).promptMessage)
	return w.done()
}

func (w *writer) promptMessage(m *outriggerv1.PromptMessage) {
	w.raw("{")
	w.roleMember(m.GetRole())
	w.member("content")
	w.enter("content")
	w.block(m.GetContent())
	w.leave()
	w.raw("}")
}

func (w *writer) roleMember(r outriggerv1.Role) {
	w.member("role")
	w.enter("role")
	w.role(r)
	w.leave()
}

// ReadPromptArguments reads the member "arguments" of the params of prompts/get. It
// may be missing (nil) or null, and the map is nil then.
func ReadPromptArguments(raw []byte) (map[string]string, error) {
	if raw == nil || jsontext.IsNull(jsontext.Trim(raw)) {
		return nil, nil
	}
	var r reader
	arguments := r.strings(r.whole(raw), maxValueBytes)
	if r.err != nil {
		return nil, r.err
	}
	return arguments, nil
}
