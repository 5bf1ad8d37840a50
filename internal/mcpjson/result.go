// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"slices"
	"strings"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// ResultMetaKey is the member of a tool result's _meta for what MCP has no member for:
// {"status", "explanation"?, "error"?}, with the names of ToolResult.
const ResultMetaKey = "dev.outrigger/result"

// The statuses of a ToolResult.
const (
	statusSuccess  = "success"
	statusFailure  = "failure"
	statusNoChange = "no_change_needed"
	statusPartial  = "partial_success"
)

// AppendToolResult appends the members "content", "structuredContent" (if there is
// data) and "isError" of a tool's result. The caller opens and closes the object and
// adds the members that its era requires, including _meta (AppendMeta,
// AppendResultMeta). The package comment describes how status, explanation and data
// are represented.
func AppendToolResult(dst []byte, r *outriggerv1.ToolResult, rev Revision) ([]byte, error) {
	w := newWriter(dst, rev)
	data := w.data(r)
	w.checkStatus(r, data)
	w.member("content")
	if len(r.GetContent()) > 0 {
		w.givenContent(r.GetContent(), data)
	} else {
		w.madeContent(r, data)
	}
	if data != nil {
		w.structured(data)
	}
	w.member("isError")
	w.raw(boolText(r.GetStatus() == statusFailure))
	return w.done()
}

// data returns the data of a result as compact JSON, nil where there are none;
// null counts as none.
func (w *writer) data(r *outriggerv1.ToolResult) []byte {
	w.enter(dataForm(r))
	defer w.leave()
	data := w.freeForm(r.GetDataJson(), r.GetData())
	if jsontext.IsNull(data) {
		return nil
	}
	return data
}

// dataForm is the name of the form of the data that is set.
func dataForm(r *outriggerv1.ToolResult) string { return formName("data_json", r.GetDataJson()) }

// checkStatus keeps what makes a result impossible to show: MCP knows only that a
// tool failed or did not, and a failure has to say why.
func (w *writer) checkStatus(r *outriggerv1.ToolResult, data []byte) {
	switch r.GetStatus() {
	case statusSuccess, statusNoChange, statusPartial:
	case statusFailure:
		w.enter("error")
		if r.GetError().GetErrorMessage() == "" {
			w.failIn("error_message", "A failure needs an error with a message.")
		}
		w.leave()
		if data != nil {
			w.failIn(dataForm(r), "A failure has no data; leave it out.")
		}
	default:
		w.failIn("status", "Use success, failure, no_change_needed or partial_success.")
	}
}

// givenContent appends the backend's own content. A revision without structured
// content gets the data as a text block behind it, unless they are in it already.
func (w *writer) givenContent(blocks []*outriggerv1.ContentBlock, data []byte) {
	array(w, "content", blocks)
	if data == nil || w.rev.hasStructuredContent() {
		return
	}
	shown := slices.ContainsFunc(blocks, func(b *outriggerv1.ContentBlock) bool {
		return b.GetText().GetText() == string(data)
	})
	if !shown {
		w.dst = w.dst[:len(w.dst)-1] // the bracket
		w.jsonBlock(data)
		w.raw("]")
	}
}

// madeContent appends content for a result that has none of its own.
func (w *writer) madeContent(r *outriggerv1.ToolResult, data []byte) {
	w.raw("[")
	if data != nil {
		w.jsonBlock(data)
	}
	if words := resultWords(r); words != "" {
		w.comma()
		w.raw(`{"type":"text","text":`)
		w.quote(words)
		w.raw("}")
	}
	w.raw("]")
}

// resultWords says in text what the data do not say; nothing for a bare success.
func resultWords(r *outriggerv1.ToolResult) string {
	words := strings.TrimSpace(r.GetError().GetErrorMessage() + "\n" + r.GetExplanation())
	if words != "" {
		return words
	}
	switch r.GetStatus() {
	case statusNoChange:
		return "No change was needed."
	case statusPartial:
		return "Only a part of the work was done, or a part of the data is here."
	default:
		return ""
	}
}

// jsonBlock appends a text block whose text is compact JSON.
func (w *writer) jsonBlock(data []byte) {
	w.comma()
	w.raw(`{"type":"text","text":`)
	w.dst = jsontext.AppendText(w.dst, data)
	w.raw(`}`)
}

// structured appends data as structured content, as far as the revision has it.
func (w *writer) structured(data []byte) {
	switch {
	case !w.rev.hasStructuredContent():
	case w.rev.isModern() || jsontext.IsObject(data):
		w.member("structuredContent")
		w.dst = append(w.dst, data...)
	default:
		w.member("structuredContent")
		w.raw(`{"value":`)
		w.dst = append(w.dst, data...)
		w.raw("}")
	}
}

// AppendResultMeta appends the member ResultMetaKey for the _meta of a tool's result,
// as one of the owned members of AppendMeta.
func AppendResultMeta(dst []byte, r *outriggerv1.ToolResult) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.member(ResultMetaKey)
	w.raw("{")
	w.member("status")
	w.quote(r.GetStatus())
	if r.GetExplanation() != "" {
		w.member("explanation")
		w.quote(r.GetExplanation())
	}
	if e := r.GetError(); e != nil {
		w.enter("error")
		w.member("error")
		w.raw("{")
		w.member("error_type")
		w.quote(e.GetErrorType())
		w.member("error_message")
		w.quote(e.GetErrorMessage())
		if e.GetErrorDetailsJson() != nil || e.GetErrorDetails() != nil {
			w.member("error_details")
			w.form(formName("error_details_json", e.GetErrorDetailsJson()), e.GetErrorDetailsJson(), e.GetErrorDetails())
		}
		w.raw("}")
		w.leave()
	}
	w.raw("}")
	return w.done()
}
