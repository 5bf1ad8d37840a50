// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// AppendResources appends the entries of resources/list as a JSON array.
func AppendResources(dst []byte, resources []*outriggerv1.Resource) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	list(&w, "resources", resources, (*writer).resource)
	return w.done()
}

func (w *writer) resource(r *outriggerv1.Resource) {
	w.raw("{")
	w.need("uri", "uri", r.GetUri())
	w.named(r)
	w.text("mimeType", r.GetMimeType())
	if r != nil {
		w.size(r.Size)
	}
	w.icons(r.GetIcons())
	w.annotations(r.GetAnnotations())
	w.object("_meta", "meta", r.GetMetaJson(), r.GetMeta())
	w.raw("}")
}

// AppendTemplates appends the entries of resources/templates/list as a JSON array.
func AppendTemplates(dst []byte, templates []*outriggerv1.ResourceTemplate) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	list(&w, "resource_templates", templates, (*writer).template)
	return w.done()
}

func (w *writer) template(t *outriggerv1.ResourceTemplate) {
	w.raw("{")
	w.need("uriTemplate", "uri_template", t.GetUriTemplate())
	if !isTemplate(t.GetUriTemplate()) {
		w.failIn("uri_template", "Make it a URI template (RFC 6570).")
	}
	w.named(t)
	w.text("mimeType", t.GetMimeType())
	w.icons(t.GetIcons())
	w.annotations(t.GetAnnotations())
	w.object("_meta", "meta", t.GetMetaJson(), t.GetMeta())
	w.raw("}")
}

// AppendContents appends the contents of resources/read as a JSON array. There is
// at least one: a resource that does not exist is an error, never an empty array
// (MCP 2026-07-28, resources).
func AppendContents(dst []byte, contents []*outriggerv1.ResourceContents) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	if len(contents) == 0 {
		w.failIn("contents", "Give at least one part; a resource that does not exist is an error.")
	}
	list(&w, "contents", contents, (*writer).contents)
	return w.done()
}
