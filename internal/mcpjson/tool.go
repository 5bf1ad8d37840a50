// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"reflect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// AppendTool appends a tool of a backend as an entry of tools/list, under its MCP name.
// The owned members go into its _meta as in AppendMeta; they may be empty.
func AppendTool(dst []byte, t *outriggerv1.Tool, owned []byte, rev Revision) ([]byte, error) {
	w := newWriter(dst, rev)
	w.tool(t, owned)
	return w.done()
}

// tool appends a tool, whose _meta has owned members, too.
func (w *writer) tool(t *outriggerv1.Tool, owned []byte) {
	p := planOf(t)
	w.raw("{")
	for _, m := range p.members {
		if m.name != "_meta" {
			w.write(m, p.at(reflect.ValueOf(t)))
		}
	}
	if meta := w.meta(t); len(meta) > 0 || len(owned) > 0 {
		w.member("_meta")
		merged, err := AppendMeta(w.dst, t, owned)
		if err == nil { // otherwise meta has kept it, with its path
			w.dst = merged
		}
	}
	w.raw("}")
}

// toolSchema appends the schema of the arguments, whose root must be an object's, or
// that of the data, where the tool has one that the revision understands.
func (w *writer) toolSchema(m *member, v reflect.Value) {
	field, raw, message := m.forms(v)
	w.enter(field)
	defer w.leave()
	schema := w.freeForm(raw, message)
	isOfObject := isObjectSchema(schema)
	switch {
	case m.kind == kindInputSchema && !isOfObject:
		w.fail(`Give a JSON Schema with "type": "object" at its root.`)
	case schema == nil:
	case !jsontext.IsObject(schema):
		w.fail("Give a JSON Schema that is an object.")
	case w.rev.isModern():
		w.named(m)
		w.dst = append(w.dst, schema...)
	case m.kind == kindInputSchema, w.rev.hasStructuredContent() && isOfObject:
		w.named(m)
		w.dst = AppendLegacySchema(w.dst, schema)
	}
}

// isObjectSchema reports whether a schema says that its instances are objects, in
// the one way that every revision understands.
func isObjectSchema(schema []byte) bool {
	kind, _ := jsontext.Lookup(schema, "type")
	text, ok := jsontext.Text(kind)
	return ok && text == "object"
}

// AppendLegacySchema appends the schema of a tool's input or output, a JSON object, in
// the form of the legacy revisions. They require the properties at its root to be
// objects, and clients refuse a whole list because of one that is not. A boolean is
// replaced by the equivalent object.
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
