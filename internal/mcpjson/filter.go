// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// ReadChangeFilter reads the member "notifications" of the params of
// subscriptions/listen, which has to be there: nil is an error.
func ReadChangeFilter(raw []byte) (*outriggerv1.ChangeFilter, error) {
	var r reader
	if raw == nil {
		r.fail("Say which notifications you want; MCP requires this object.")
		return nil, r.err
	}
	object := r.whole(raw)
	f := &outriggerv1.ChangeFilter{
		ToolsListChanged:     r.flag(object, "toolsListChanged"),
		PromptsListChanged:   r.flag(object, "promptsListChanged"),
		ResourcesListChanged: r.flag(object, "resourcesListChanged"),
		ResourceUris:         r.texts(object, "resourceSubscriptions", maxURIBytes),
		TaskIds:              r.texts(object, "taskIds", maxWordBytes),
	}
	r.each("resourceSubscriptions", f.GetResourceUris(), isURI, "Make it an absolute URI (RFC 3986).")
	r.each("taskIds", f.GetTaskIds(), isVisible, "Make it a task's id: visible ASCII.")
	if r.err != nil {
		return nil, r.err
	}
	return f, nil
}

// texts returns a member that is an array of strings; nil where it is missing or
// empty.
func (r *reader) texts(object []byte, name string, most int) []string {
	elements, _ := r.elements(object, name, maxItems)
	if len(elements) == 0 {
		return nil
	}
	r.enter(name)
	defer r.leave()
	out := make([]string, len(elements))
	for i, raw := range elements {
		r.item(i)
		out[i] = r.textIn(raw, 1, most)
		r.leave()
	}
	return out
}

// each keeps a fault of the first string that does not pass.
func (r *reader) each(name string, values []string, passes func(string) bool, reason string) {
	r.enter(name)
	defer r.leave()
	for i, v := range values {
		if !passes(v) {
			r.item(i)
			r.fail("%s", reason)
			r.leave()
			return
		}
	}
}

// isVisible holds for visible ASCII.
func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] < '!' || s[i] > '~' {
			return false
		}
	}
	return true
}

// AppendChangeFilter appends a filter as subscriptions/listen takes it and
// notifications/subscriptions/acknowledged repeats it: only what is asked for, {}
// where that is nothing.
func AppendChangeFilter(dst []byte, f *outriggerv1.ChangeFilter) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.raw("{")
	w.flag("toolsListChanged", f.GetToolsListChanged())
	w.flag("promptsListChanged", f.GetPromptsListChanged())
	w.flag("resourcesListChanged", f.GetResourcesListChanged())
	if len(f.GetResourceUris()) > 0 {
		w.texts("resourceSubscriptions", f.GetResourceUris())
	}
	if len(f.GetTaskIds()) > 0 {
		w.texts("taskIds", f.GetTaskIds())
	}
	w.raw("}")
	return w.done()
}
