// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// AppendPrompts appends the entries of prompts/list as a JSON array.
func AppendPrompts(dst []byte, prompts []*outriggerv1.Prompt) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	array(&w, "prompts", prompts)
	return w.done()
}

// AppendResources appends the entries of resources/list as a JSON array.
func AppendResources(dst []byte, resources []*outriggerv1.Resource) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	array(&w, "resources", resources)
	return w.done()
}

// AppendTemplates appends the entries of resources/templates/list as a JSON array.
func AppendTemplates(dst []byte, templates []*outriggerv1.ResourceTemplate) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	array(&w, "resource_templates", templates)
	return w.done()
}

// AppendIcons appends images for a user interface as an object with the single member
// "icons": {"icons": [...]}. The object is empty if there are none.
func AppendIcons(dst []byte, icons []*outriggerv1.Icon) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.raw("{")
	if len(icons) > 0 {
		w.member("icons")
		array(&w, "icons", icons)
	}
	w.raw("}")
	return w.done()
}

// AppendCompletion appends the object "completion" of completion/complete.
func AppendCompletion(dst []byte, c *outriggerv1.CompleteResponse) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	if most := planOf(c).field("values").MaxItems; len(c.GetValues()) > most {
		w.failIn("values", "Give at most %d values, and say has_more.", most)
	}
	w.object(c)
	return w.done()
}
