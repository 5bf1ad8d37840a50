// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// AppendSkills appends the entries of skills/list as a JSON array.
func AppendSkills(dst []byte, skills []*outriggerv1.Skill) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.raw("[")
	w.enter("skills")
	for i, s := range skills {
		w.comma()
		w.item(i)
		w.skill(s)
		w.leave()
	}
	w.leave()
	w.raw("]")
	return w.done()
}

// AppendSkill appends one entry, as in skills/list.
func AppendSkill(dst []byte, s *outriggerv1.Skill) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.skill(s)
	return w.done()
}

// skill appends an entry. Its files are an array, or a word where they have no digests.
func (w *writer) skill(s *outriggerv1.Skill) {
	w.raw("{")
	w.members(s)
	w.member("resources")
	if s.GetDynamic() {
		w.raw(`"dynamic"`)
	} else {
		array(w, "resources", s.GetResources())
	}
	w.raw("}")
}
