// SPDX-License-Identifier: Apache-2.0

package content

import (
	"encoding/base64"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// members appends the members of a message without the braces around them.
func (w *writer) members(m proto.Message) {
	p := planOf(m)
	w.all(p, p.at(reflect.ValueOf(m)))
}

// object appends a message as an object.
func (w *writer) object(m proto.Message) { w.planned(planOf(m), reflect.ValueOf(m)) }

// array appends messages as an array. The field is where they are, for paths. There
// is no function value here and below, so that the writer stays on the stack.
func array[M proto.Message](w *writer, field string, messages []M) {
	var none M
	p := planOf(none)
	w.raw("[")
	w.enter(field)
	for i, m := range messages {
		w.comma()
		w.item(i)
		w.planned(p, reflect.ValueOf(m))
		w.leave()
	}
	w.leave()
	w.raw("]")
}

// at returns the struct behind a pointer to a message, an empty one behind nil.
func (p *plan) at(pointer reflect.Value) reflect.Value {
	if pointer.IsNil() {
		return p.empty
	}
	return pointer.Elem()
}

// planned appends the message behind a pointer as an object.
func (w *writer) planned(p *plan, pointer reflect.Value) {
	w.raw("{")
	w.all(p, p.at(pointer))
	w.raw("}")
}

// all appends all members of a message.
func (w *writer) all(p *plan, message reflect.Value) {
	for _, m := range p.members {
		w.write(m, message)
	}
}

// write appends one member of a message, where it has a value or has to be there.
func (w *writer) write(m *member, message reflect.Value) {
	v := message.Field(m.index)
	if m.isPointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	switch m.kind {
	case kindText, kindTemplate:
		w.text(m, v.String())
	case kindFlag:
		if m.isPointer || v.Bool() {
			w.named(m)
			w.raw(boolText(v.Bool()))
		}
	case kindInteger, kindNumber, kindWord:
		w.scalar(m, v)
	case kindBinary:
		w.binary(m, v.Bytes())
	case kindMoment:
		w.moment(m, v)
	case kindTexts, kindWords, kindObjects:
		w.elements(m, v)
	case kindBlocks:
		w.blocks(m, v)
	case kindObject:
		if v.IsNil() && !m.Required {
			return
		}
		w.named(m)
		w.enter(m.field)
		w.planned(m.of, v)
		w.leave()
	case kindChoice, kindTagged:
		w.choose(m, v)
	case kindFreeForm:
		w.payload(m, v)
	default:
		w.special(m, message, v)
	}
}

// named begins a member.
func (w *writer) named(m *member) {
	key := m.key // begins with a comma
	if n := len(w.dst); n == w.start || w.dst[n-1] == '{' {
		key = key[1:]
	}
	w.dst = append(w.dst, key...)
}

// need keeps the fault of a member that has to have a value and has none.
func (w *writer) need(m *member) {
	if m.lacks != "" {
		w.failIn(m.field, "%s", m.lacks)
	}
}

// text appends a string, and leaves it out where it is empty and may be missing.
func (w *writer) text(m *member, s string) {
	if s == "" {
		w.need(m)
		if !m.always {
			return
		}
	}
	if len(m.In) > 0 && !m.isWord(s) {
		w.failIn(m.field, "Use one of the words that MCP knows here.")
	}
	if m.kind == kindTemplate && !isTemplate(s) {
		w.failIn(m.field, "Make it a URI template (RFC 6570).")
	}
	w.named(m)
	w.quote(s)
}

// scalar appends a number or an enum.
func (w *writer) scalar(m *member, v reflect.Value) {
	switch m.kind {
	case kindInteger:
		w.integer(m, v.Int())
	case kindNumber:
		w.number(m, v.Float())
	default:
		w.named(m)
		if n := v.Int(); !w.word(m, n) {
			w.failIn(m.field, "%s", m.lacks)
		}
	}
}

// integer appends an integer. One that has to be there is not 0.
func (w *writer) integer(m *member, n int64) {
	if n == 0 || m.Required && m.Min != nil && n < *m.Min {
		w.need(m)
	}
	w.named(m)
	w.dst = strconv.AppendInt(w.dst, n, 10)
}

// number appends a number, which has to be finite, because JSON knows no other.
func (w *writer) number(m *member, f float64) {
	switch {
	case m.Ranged && !(f >= m.Low && f <= m.High):
		w.failIn(m.field, "Make it a number from %v to %v.", m.Low, m.High)
	case !isFinite(f):
		w.failIn(m.field, "Make it a finite number; JSON knows no other.")
	default:
		w.named(m)
		w.dst = appendNumber(w.dst, f)
	}
}

// word appends a value of an enum, and reports whether there is a word for it.
func (w *writer) word(m *member, n int64) bool {
	if n <= 0 || int(n) >= len(m.enum) {
		return false
	}
	w.dst = append(w.dst, '"')
	w.raw(m.enum[n])
	w.dst = append(w.dst, '"')
	return true
}

func (w *writer) binary(m *member, b []byte) {
	if len(b) == 0 {
		w.need(m)
	}
	w.named(m)
	w.base64(b)
}

func (w *writer) moment(m *member, v reflect.Value) {
	t, _ := reflect.TypeAssert[*timestamppb.Timestamp](v)
	if t == nil && !m.Required {
		return
	}
	if t.CheckValid() != nil {
		w.failIn(m.field, "Make it a time between the years 1 and 9999.")
		return
	}
	w.named(m)
	w.time(t.AsTime())
}

// elements appends a list, and leaves it out where it is empty and may be missing.
func (w *writer) elements(m *member, v reflect.Value) {
	n := v.Len()
	if n == 0 && !m.always {
		return
	}
	w.named(m)
	w.raw("[")
	w.enter(m.field)
	for i := range n {
		w.comma()
		w.item(i)
		switch e := v.Index(i); m.kind {
		case kindTexts:
			w.quote(e.String())
		case kindWords:
			if !w.word(m, e.Int()) {
				w.fail("%s", m.lacks)
			}
		default:
			w.planned(m.of, e)
		}
		w.leave()
	}
	w.leave()
	w.raw("]")
}

// blocks appends the blocks of a message. A single one has no array around it, which
// every revision understands.
func (w *writer) blocks(m *member, v reflect.Value) {
	if v.Len() != 1 {
		w.elements(m, v)
		return
	}
	w.named(m)
	w.enter(m.field)
	w.item(int(w.firstBlock))
	w.planned(m.of, v.Index(0))
	w.leave()
	w.leave()
}

// alternative returns the alternative of a oneof that is set, and the struct that
// wraps it.
func (m *member) alternative(v reflect.Value) (*member, reflect.Value) {
	if v.IsNil() {
		return nil, reflect.Value{}
	}
	wrapper := v.Elem()
	t := wrapper.Type()
	for _, a := range m.alternatives {
		if a.wrapper == t && !wrapper.IsNil() {
			return a, wrapper.Elem()
		}
	}
	return nil, reflect.Value{}
}

// choose appends the alternative of a oneof that is set. MCP flattens some behind the
// member "type".
func (w *writer) choose(m *member, v reflect.Value) {
	a, wrapper := m.alternative(v)
	switch {
	case a == nil:
		if m.lacks != "" {
			w.fail("%s", m.lacks)
		}
	case a.kind == kindLink && !w.rev.hasResourceLinks():
		w.linkText(wrapper)
	case m.kind == kindTagged:
		w.named(m)
		w.raw(a.tag)
		w.enter(a.field)
		w.all(a.of, a.of.at(wrapper.Field(0)))
		w.leave()
	default:
		w.write(a, wrapper)
	}
}

// forms returns the form of a payload that is set, and its name: the text, or a Struct
// or a Value.
func (m *member) forms(v reflect.Value) (field string, raw []byte, message proto.Message) {
	a, wrapper := m.alternative(v)
	switch {
	case a == nil:
		return m.field, nil, nil
	case a.kind == kindBinary:
		raw = wrapper.Field(0).Bytes()
	case !wrapper.Field(0).IsNil():
		message, _ = reflect.TypeAssert[proto.Message](wrapper.Field(0))
	}
	return a.field, raw, message
}

// payload appends a payload, unchanged, and reports whether one is set.
func (w *writer) payload(m *member, v reflect.Value) bool {
	field, raw, message := m.forms(v)
	if raw == nil && message == nil {
		w.need(m)
		if m.always {
			w.named(m)
			w.raw("{}")
		}
		return false
	}
	w.named(m)
	at := len(w.dst)
	w.form(field, raw, message)
	if m.isObject && w.err == nil && !jsontext.IsObject(w.dst[at:]) {
		w.failIn(field, "Make it a JSON object.")
	}
	return true
}

// writer appends one value, or the members of one, and keeps the first thing that
// is wrong with the message. After that it still goes on, and what it appended is
// thrown away at the end.
type writer struct {
	trail
	dst   []byte
	start int
	rev   Revision
	// firstBlock is the place of the first block of a message that is written in
	// parts.
	firstBlock int32
}

func newWriter(dst []byte, rev Revision) writer {
	return writer{dst: dst, start: len(dst), rev: rev}
}

// done returns the extended buffer, or the buffer as it was and the fault.
func (w *writer) done() ([]byte, error) {
	if w.err != nil {
		return w.dst[:w.start], w.err
	}
	return w.dst, nil
}

// unsupported keeps a fault of the revision, not of the message.
func (w *writer) unsupported(feature string) {
	if w.err == nil {
		w.err = &UnsupportedError{Revision: w.rev, Feature: feature}
	}
}

func (w *writer) raw(s string) { w.dst = append(w.dst, s...) }

// comma separates from what is before in the same container. A value never
// ends in an opening bracket, so the last byte tells.
func (w *writer) comma() {
	if n := len(w.dst); n > w.start && w.dst[n-1] != '{' && w.dst[n-1] != '[' {
		w.dst = append(w.dst, ',')
	}
}

// member appends the name of a member, one of MCP's, and its colon.
func (w *writer) member(name string) {
	w.comma()
	w.dst = append(w.dst, '"')
	w.dst = append(w.dst, name...)
	w.dst = append(w.dst, `":`...)
}

// key appends a name that is not ours.
func (w *writer) key(name string) {
	w.comma()
	w.quote(name)
	w.raw(":")
}

func (w *writer) quote(s string) { w.dst = jsontext.AppendString(w.dst, s) }

// require keeps the fault of a field that is empty.
func (w *writer) require(field, value string) {
	if value == "" {
		w.failIn(field, noValue)
	}
}

// base64 appends base64 with padding (RFC 4648, section 4).
func (w *writer) base64(value []byte) {
	w.raw(`"`)
	w.dst = base64.StdEncoding.AppendEncode(w.dst, value)
	w.raw(`"`)
}

// time appends a time of RFC 3339 in UTC, with as many digits of a second as there
// are.
func (w *writer) time(t time.Time) {
	w.raw(`"`)
	w.dst = t.AppendFormat(w.dst, time.RFC3339Nano)
	w.raw(`"`)
}

func isFinite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// appendNumber appends a finite number as ECMAScript writes it, which is what
// readers of JSON are used to: the shortest digits that mean this number, with an
// exponent only where it is very large or very small.
func appendNumber(dst []byte, f float64) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, 64)
}

// ResultMetaKey is the member of a tool result's _meta for what MCP has no member for:
// {"status", "explanation"?, "error"?}, with the names of ToolResult.
const ResultMetaKey = "dev.outrigger/result"

// Values of the status of a ToolResult.
const (
	// StatusSuccess is that of a tool that did what it was asked to, and StatusFailure that of one that failed.
	StatusSuccess  = "success"
	StatusFailure  = "failure"
	statusNoChange = "no_change_needed"
	// StatusPartial is that of a result that holds a part of what there was.
	StatusPartial = "partial_success"
)

// Outcome returns data as the outcome of a call.
func Outcome(status string, data []byte, explanation string) *outriggerv1.ToolOutcome {
	return &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
		Status: status, Explanation: explanation, DataForm: &outriggerv1.ToolResult_DataJson{DataJson: data},
	}}}
}

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
	w.raw(boolText(r.GetStatus() == StatusFailure))
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
	case StatusSuccess, statusNoChange, StatusPartial:
	case StatusFailure:
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

// madeContent appends content for a result that has none.
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
	case StatusPartial:
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

// ReadInputResponses reads the member "inputResponses" of a request: the answers to
// questions, by key. It is an error if the member is not an object, has more than 64
// keys, or has a key that no question can have. An answer itself never causes an error;
// see ReadInputResponse.
func ReadInputResponses(raw []byte) (map[string]*outriggerv1.InputResponse, error) {
	var r reader
	rules := compiled().answers
	out := make(map[string]*outriggerv1.InputResponse)
	for key, answer := range jsontext.Members(r.whole(raw)) {
		switch {
		case len(out) == rules.MaxItems:
			r.fail("Give at most %d answers.", rules.MaxItems)
		case key == "" || len(key) > rules.Keys.MaxBytes:
			r.fail("Make each key at least 1 and at most %d bytes long, as those of the questions are.", rules.Keys.MaxBytes)
		default:
			out[key] = ReadInputResponse(answer)
			continue
		}
		break
	}
	return outcome(&r, out)
}

// ReadInputResponse reads one answer of a client by its shape, since nothing names the
// question. An object with "action" is the result of an elicitation, one with "role"
// that of sampling, one with "roots" that of roots/list. An answer that does not match
// exactly one of these shapes, down to the types and bounds of its known members, is
// other_json with its exact bytes. A null content of an elicitation counts as absent,
// because clients send it with decline and cancel.
func ReadInputResponse(raw []byte) *outriggerv1.InputResponse {
	raw = jsontext.Trim(raw)
	var r reader
	out := new(outriggerv1.InputResponse)
	switch shapeOf(raw) {
	case "action":
		answer := new(outriggerv1.ElicitationResult)
		r.message(raw, answer)
		out.Response = &outriggerv1.InputResponse_Elicitation{Elicitation: answer}
	case "role":
		answer := new(outriggerv1.SamplingResult)
		r.message(raw, answer)
		out.Response = &outriggerv1.InputResponse_Sampling{Sampling: answer}
	case "roots":
		answer := new(outriggerv1.ListRootsResult)
		r.message(raw, answer)
		out.Response = &outriggerv1.InputResponse_Roots{Roots: answer}
	default:
		r.fail("It has none of the shapes.")
	}
	if r.err != nil {
		out.Response = &outriggerv1.InputResponse_OtherJson{OtherJson: raw}
	}
	return out
}

// shapeOf returns the one member that tells the shape of an answer; empty where
// there is none, or more than one.
func shapeOf(raw []byte) string {
	shape := ""
	for _, name := range []string{"action", "role", "roots"} {
		if _, ok := jsontext.Lookup(raw, name); !ok {
			continue
		}
		if shape != "" {
			return ""
		}
		shape = name
	}
	return shape
}

// form checks a filled-in form: a string, number, boolean or list of strings for
// each property (MCP, ElicitResult).
func (r *reader) form(content []byte) {
	for _, value := range jsontext.Members(content) {
		if !isFormValue(value) {
			r.fail("Make each value a string, number, boolean or list of strings.")
		}
	}
}

func isFormValue(raw []byte) bool {
	if len(raw) == 0 {
		return false
	}
	switch raw[0] {
	case '{', 'n':
		return false
	case '[':
		for element := range jsontext.Elements(raw) {
			if element[0] != '"' {
				return false
			}
		}
	}
	return true
}

// AppendContent appends content blocks as a JSON array, [] if there are none.
func AppendContent(dst []byte, blocks []*outriggerv1.ContentBlock, rev Revision) ([]byte, error) {
	w := newWriter(dst, rev)
	array(&w, "content", blocks)
	return w.done()
}

// AppendContents appends the contents of resources/read as a JSON array. It has at
// least one element: a resource that does not exist is an error, never an empty array
// (MCP 2026-07-28, resources).
func AppendContents(dst []byte, contents []*outriggerv1.ResourceContents) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	if len(contents) == 0 {
		w.failIn("contents", "Give at least one part; a resource that does not exist is an error.")
	}
	array(&w, "contents", contents)
	return w.done()
}

// AppendPromptMessages appends the messages of prompts/get as a JSON array.
func AppendPromptMessages(dst []byte, messages []*outriggerv1.PromptMessage, rev Revision) ([]byte, error) {
	w := newWriter(dst, rev)
	array(&w, "messages", messages)
	return w.done()
}

// linkText appends the text block that represents a resource link.
func (w *writer) linkText(wrapper reflect.Value) {
	l, _ := reflect.TypeAssert[*outriggerv1.ResourceLink](wrapper.Field(0))
	w.enter("resource_link")
	w.require("uri", l.GetUri())
	w.require("name", l.GetName())
	w.leave()
	text := l.GetTitle()
	if text == "" {
		text = l.GetName()
	}
	text += ": " + l.GetUri()
	if l.GetDescription() != "" {
		text += "\n" + l.GetDescription()
	}
	w.raw(`"type":"text","text":`)
	w.quote(text)
}

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

// AppendProgress appends the params of notifications/progress. The token is the
// caller's progressToken, unchanged: raw JSON, a string or an integer.
func AppendProgress(dst, token []byte, p *outriggerv1.Progress) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.raw(`{"progressToken":`)
	w.dst = append(w.dst, token...)
	w.members(p)
	w.raw("}")
	return w.done()
}

// AppendLog appends the params of notifications/message.
func AppendLog(dst []byte, m *outriggerv1.LogMessage) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.object(m)
	return w.done()
}

// ReadLogLevel returns the level with this MCP name, and false for an unknown name.
func ReadLogLevel(name string) (outriggerv1.LogLevel, bool) {
	i := slices.Index(planOf(new(outriggerv1.LogMessage)).field("level").enum, name)
	if i <= 0 {
		return outriggerv1.LogLevel_LOG_LEVEL_UNSPECIFIED, false
	}
	return outriggerv1.LogLevel(i), true
}
