// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// maxCompletions is how many proposals MCP admits (CompleteResult).
const maxCompletions = 100

// AppendCompletion appends the object "completion" of completion/complete.
func AppendCompletion(dst []byte, c *outriggerv1.CompleteResponse) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	if len(c.GetValues()) > maxCompletions {
		w.failIn("values", "Give at most %d values, and say has_more.", maxCompletions)
	}
	w.raw("{")
	w.texts("values", c.GetValues())
	if c != nil && c.Total != nil {
		w.integer("total", int64(c.GetTotal()))
	}
	if c != nil && c.HasMore != nil {
		w.member("hasMore")
		w.raw(boolText(c.GetHasMore()))
	}
	w.raw("}")
	return w.done()
}

// ReadCompleteRequest reads the params of completion/complete, without _meta.
func ReadCompleteRequest(params []byte) (*outriggerv1.CompleteRequest, error) {
	var r reader
	object := r.whole(params)
	out := new(outriggerv1.CompleteRequest)
	r.reference(out, r.required(object, "ref"))
	argument := r.required(object, "argument")
	r.enter("argument")
	out.Argument = &outriggerv1.CompletionArgument{
		Name:  r.need(argument, "name", 1, maxNameBytes),
		Value: r.need(argument, "value", 0, maxTextBytes),
	}
	r.leave()
	if context, ok := r.object(object, "context"); ok {
		r.enter("context")
		if arguments, ok := r.object(context, "arguments"); ok {
			r.enter("arguments")
			out.FilledArguments = r.strings(arguments, maxTextBytes)
			r.leave()
		}
		r.leave()
	}
	if r.err != nil {
		return nil, r.err
	}
	return out, nil
}

// reference reads where the user is.
func (r *reader) reference(out *outriggerv1.CompleteRequest, ref []byte) {
	r.enter("ref")
	defer r.leave()
	switch r.need(ref, "type", 1, maxWordBytes) {
	case "ref/prompt":
		out.Reference = &outriggerv1.CompleteRequest_Prompt{Prompt: r.need(ref, "name", 1, maxNameBytes)}
	case "ref/resource":
		out.Reference = &outriggerv1.CompleteRequest_Resource{Resource: r.need(ref, "uri", 1, maxURIBytes)}
	default:
		r.failIn("type", "Use ref/prompt or ref/resource.")
	}
}
