// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"reflect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// ReadChangeFilter reads the member "notifications" of the params of
// subscriptions/listen. The member is required: nil is an error.
func ReadChangeFilter(raw []byte) (*outriggerv1.ChangeFilter, error) {
	var r reader
	if raw == nil {
		r.fail("Say which notifications you want; MCP requires this object.")
		return nil, r.err
	}
	f := new(outriggerv1.ChangeFilter)
	r.message(r.whole(raw), f)
	if r.err == nil {
		r.err = r.late
	}
	if r.err != nil {
		return nil, r.err
	}
	return f, nil
}

// AppendChangeFilter appends a filter in the form that subscriptions/listen accepts and
// notifications/subscriptions/acknowledged repeats: only what was requested, or {} if
// that is nothing.
func AppendChangeFilter(dst []byte, f *outriggerv1.ChangeFilter) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.object(f)
	return w.done()
}

// ReadCompleteRequest reads the params of completion/complete, without _meta.
func ReadCompleteRequest(params []byte) (*outriggerv1.CompleteRequest, error) {
	var r reader
	object := r.whole(params)
	out := new(outriggerv1.CompleteRequest)
	p, into := planOf(out), reflect.ValueOf(out).Elem()
	r.reference(p.field("reference"), r.required(object, "ref"), into)
	r.read(p.field("argument"), object, into)
	if context, ok := r.member(object, "context"); ok {
		r.enter("context")
		r.read(p.field("filled_arguments"), context, into)
		r.leave()
	}
	if r.err != nil {
		return nil, r.err
	}
	return out, nil
}

// reference reads where the user is.
func (r *reader) reference(m *member, ref []byte, into reflect.Value) {
	r.enter("ref")
	defer r.leave()
	kind := r.need(ref, "type")
	for _, a := range m.alternatives {
		if kind == "ref/"+a.field {
			r.read(a, ref, a.wrap(into.Field(m.index)))
			return
		}
	}
	r.failIn("type", "Use ref/prompt or ref/resource.")
}

// ReadPromptArguments reads the member "arguments" of the params of prompts/get. If it
// is missing (nil) or null, the map is nil.
func ReadPromptArguments(raw []byte) (map[string]string, error) {
	if raw == nil || jsontext.IsNull(jsontext.Trim(raw)) {
		return nil, nil
	}
	var r reader
	arguments := r.pairs(&compiled().arguments, r.whole(raw))
	if r.err != nil {
		return nil, r.err
	}
	return arguments, nil
}
