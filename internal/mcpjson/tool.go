// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// AppendTool appends a tool of a backend as an entry of tools/list, under the name
// that MCP clients know it by. The owned members go into its _meta as in AppendMeta;
// they may be empty.
func AppendTool(dst []byte, t *outriggerv1.Tool, owned []byte, rev Revision) ([]byte, error) {
	w := newWriter(dst, rev)
	w.tool(t, owned)
	return w.done()
}

func (w *writer) tool(t *outriggerv1.Tool, owned []byte) {
	w.raw("{")
	name := t.GetMcpName()
	if name == "" {
		name = t.GetName()
	}
	w.need("name", "name", name)
	w.text("title", t.GetTitle())
	w.text("description", t.GetDescription())
	w.icons(t.GetIcons())
	w.inputSchema(t)
	w.outputSchema(t)
	w.toolAnnotations(t.GetAnnotations())
	if meta := w.meta(t); len(meta) > 0 || len(owned) > 0 {
		w.member("_meta")
		merged, err := AppendMeta(w.dst, t, owned)
		if err == nil { // otherwise meta has kept it, with its path
			w.dst = merged
		}
	}
	w.raw("}")
}

// inputSchema appends the schema of the arguments, whose root must be an object's.
func (w *writer) inputSchema(t *outriggerv1.Tool) {
	w.enter(formName("input_schema", t.GetInputSchemaJson() != nil))
	defer w.leave()
	schema := w.freeForm(t.GetInputSchemaJson(), t.GetInputSchema())
	if !isObjectSchema(schema) {
		w.fail(`Give a JSON Schema with "type": "object" at its root.`)
		return
	}
	w.schema("inputSchema", schema)
}

// outputSchema appends the schema of the data, where the tool has one that the
// revision understands.
func (w *writer) outputSchema(t *outriggerv1.Tool) {
	w.enter(formName("output_schema", t.GetOutputSchemaJson() != nil))
	defer w.leave()
	schema := w.freeForm(t.GetOutputSchemaJson(), t.GetOutputSchema())
	switch {
	case schema == nil:
	case !jsontext.IsObject(schema):
		w.fail("Give a JSON Schema that is an object.")
	case w.rev.isModern(), w.rev.hasStructuredContent() && isObjectSchema(schema):
		w.schema("outputSchema", schema)
	}
}

// isObjectSchema reports whether a schema says that its instances are objects, in
// the one way that every revision understands.
func isObjectSchema(schema []byte) bool {
	kind, _ := jsontext.Lookup(schema, "type")
	text, ok := jsontext.Text(kind)
	return ok && text == "object"
}

// schema appends a schema, unchanged in the modern revision.
func (w *writer) schema(name string, schema []byte) {
	w.member(name)
	if w.rev.isModern() {
		w.dst = append(w.dst, schema...)
		return
	}
	w.dst = AppendLegacySchema(w.dst, schema)
}

// AppendLegacySchema appends the schema of a tool's input or output, a JSON
// object, as the legacy revisions have it. The properties at its root must be
// objects there, and clients refuse a whole list for one that is not: a boolean
// becomes the object that means the same.
func AppendLegacySchema(dst, schema []byte) []byte {
	w := &writer{dst: dst}
	w.raw("{")
	for key, value := range jsontext.Members(schema) {
		w.key(key)
		if key != "properties" || !jsontext.IsObject(value) {
			w.dst = append(w.dst, value...)
			continue
		}
		w.raw("{")
		for property, sub := range jsontext.Members(value) {
			w.key(property)
			switch string(sub) {
			case "true":
				w.raw("{}")
			case "false":
				w.raw(`{"not":{}}`)
			default:
				w.dst = append(w.dst, sub...)
			}
		}
		w.raw("}")
	}
	w.raw("}")
	return w.dst
}

func (w *writer) toolAnnotations(a *outriggerv1.ToolAnnotations) {
	if a == nil {
		return
	}
	w.member("annotations")
	w.raw("{")
	w.text("title", a.GetTitle())
	for _, hint := range []struct {
		name  string
		value *bool
	}{
		{"readOnlyHint", a.ReadOnlyHint}, {"destructiveHint", a.DestructiveHint},
		{"idempotentHint", a.IdempotentHint}, {"openWorldHint", a.OpenWorldHint},
	} {
		if hint.value != nil {
			w.member(hint.name)
			w.raw(boolText(*hint.value))
		}
	}
	w.raw("}")
}
