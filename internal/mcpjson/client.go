// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"reflect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// tasksExtension is MCP's identifier of the tasks extension, which
// ClientCapabilities also has as a field of its own.
const tasksExtension = "io.modelcontextprotocol/tasks"

// AppendCapabilities appends a ClientCapabilities object, as used in a client's
// declaration and in requiredCapabilities.
func AppendCapabilities(dst []byte, c *outriggerv1.ClientCapabilities) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.object(c)
	return w.done()
}

// extensions appends the extensions, and the one of tasks where only its own field
// says so.
func (w *writer) extensions(m *member, v reflect.Value, hasTasks bool) {
	if !w.payload(m, v) {
		if hasTasks {
			w.named(m)
			w.raw(`{"` + tasksExtension + `":{}}`)
		}
		return
	}
	if w.err != nil || !hasTasks {
		return
	}
	_, raw, message := m.forms(v)
	written, _ := FreeForm(raw, message)
	if _, ok := jsontext.Lookup(written, tasksExtension); !ok {
		w.dst = w.dst[:len(w.dst)-1] // the brace
		w.member(tasksExtension)
		w.raw("{}}")
	}
}

// AppendImplementation appends an Implementation object: clientInfo or serverInfo.
func AppendImplementation(dst []byte, i *outriggerv1.Implementation) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.object(i)
	return w.done()
}

// ReadCapabilities reads a ClientCapabilities object. An elicitation that names no
// mode means forms; one that names only the URL mode does not. Extensions and
// experimental capabilities keep their bytes. Revision.Narrow restricts the
// declaration to what a legacy revision supports.
func ReadCapabilities(raw []byte) (*outriggerv1.ClientCapabilities, error) {
	var r reader
	c := new(outriggerv1.ClientCapabilities)
	r.message(r.whole(raw), c)
	if r.err != nil {
		return nil, r.err
	}
	return c, nil
}

// ReadImplementation reads an Implementation object, such as clientInfo.
func ReadImplementation(raw []byte) (*outriggerv1.Implementation, error) {
	var r reader
	i := new(outriggerv1.Implementation)
	r.message(r.whole(raw), i)
	if r.err != nil {
		return nil, r.err
	}
	return i, nil
}
