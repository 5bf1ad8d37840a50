// SPDX-License-Identifier: Apache-2.0

package content

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// message reads an object into a message.
func (r *reader) message(object []byte, into proto.Message) {
	r.all(planOf(into), object, reflect.ValueOf(into).Elem())
}

// all reads all members of a message into its struct.
func (r *reader) all(p *plan, object []byte, into reflect.Value) {
	var found [maxMembers]json.RawMessage // an array, so that it is no allocation
	for name, raw := range jsontext.Fields(object) {
		for i, m := range p.reading {
			if found[i] == nil && string(name) == m.name {
				found[i] = raw
				break
			}
		}
	}
	for i, m := range p.reading {
		switch m.kind {
		case kindChoice:
			r.choose(m, object, into.Field(m.index))
		case kindTagged:
			r.tagged(m, object, into.Field(m.index))
		default:
			r.one(m, found[i], into)
		}
	}
}

// read reads one member of an object into its field.
func (r *reader) read(m *member, object []byte, into reflect.Value) {
	raw, _ := jsontext.Lookup(object, m.name)
	r.one(m, raw, into)
}

// one reads the value of a member into its field; nil is one that is missing.
func (r *reader) one(m *member, raw []byte, into reflect.Value) {
	if len(raw) == 0 {
		if m.Required || m.always {
			r.failIn(m.name, "MCP requires this %s.", m.jsonType())
		}
		return
	}
	r.enter(m.name)
	v := into.Field(m.index)
	if m.isPointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	r.value(m, raw, into, v)
	r.leave()
}

// jsonType names what MCP requires.
func (m *member) jsonType() string {
	switch m.kind {
	case kindObject, kindFreeForm:
		return "object"
	case kindObjects, kindBlocks:
		return "array"
	default:
		return "string"
	}
}

// value reads the value of a member.
func (r *reader) value(m *member, raw []byte, into, v reflect.Value) {
	switch m.kind {
	case kindText:
		v.SetString(r.judged(m, &m.FieldRules, raw))
	case kindFlag:
		v.SetBool(r.flag(raw))
	case kindYes:
		r.whole(raw)
		v.SetBool(true)
	case kindInteger:
		v.SetInt(r.integer(m, raw))
	case kindNumber:
		v.SetFloat(r.number(m, raw))
	case kindBinary:
		v.SetBytes(r.base64(m, raw))
	case kindMoment:
		v.Set(reflect.ValueOf(r.moment(raw)))
	case kindWord:
		v.SetInt(r.word(m, raw))
	case kindPairs:
		v.Set(reflect.ValueOf(r.pairs(&m.FieldRules, r.whole(raw))))
	case kindObject:
		r.object(m, raw, v)
	case kindTexts, kindWords, kindObjects:
		r.elements(m, raw, v)
	case kindFreeForm, kindStructured:
		r.payload(m, raw, v)
	default:
		r.special(m, raw, into, v)
	}
}

// special reads a member that is MCP's own.
func (r *reader) special(m *member, raw []byte, into, v reflect.Value) {
	switch m.kind {
	case kindBlocks:
		if !jsontext.IsObject(raw) {
			r.elements(m, raw, v)
			return
		}
		v.Grow(1)
		v.SetLen(1)
		r.object(m, raw, v.Index(0))
	case kindElicitationCap:
		capability := r.whole(raw)
		_, url := r.member(capability, "url")
		_, form := r.member(capability, "form")
		v.Set(reflect.ValueOf(&outriggerv1.ElicitationCapability{Form: form || !url, Url: url}))
	case kindExtensions:
		if r.payload(m, raw, v) {
			c, _ := reflect.TypeAssert[*outriggerv1.ClientCapabilities](into.Addr())
			_, c.Tasks = r.member(raw, tasksExtension)
		}
	case kindForm:
		if !jsontext.IsNull(raw) && r.payload(m, raw, v) {
			r.form(raw)
		}
	default: // what only servers send
	}
}

// judged reads a string and keeps the fault of one that breaks the rules.
func (r *reader) judged(m *member, rules *schema.FieldRules, raw []byte) string {
	s := r.text(rules, raw)
	reason := ""
	switch {
	case s == "" && !rules.Required:
	case rules.URI && !isURI(s):
		reason = noURI
	case len(rules.In) > 0 && !slices.Contains(rules.In, s), rules.Pattern != nil && !rules.Pattern.MatchString(s):
		reason = m.reason
	}
	switch {
	case reason == "":
	case !m.late:
		r.fail("%s", reason)
	case r.late == nil:
		r.late = &InvalidError{Path: r.path(), Reason: reason}
	}
	return s
}

// noURI is the reason for a string that is no address.
const noURI = "Make it an absolute URI (RFC 3986)."

func (r *reader) integer(m *member, raw []byte) int64 {
	n, ok := jsontext.Int64(raw)
	if !ok || m.Min != nil && n < *m.Min {
		r.fail("Make it an integer within its bounds.")
	}
	return n
}

func (r *reader) number(m *member, raw []byte) float64 {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || m.Ranged && !(f >= m.Low && f <= m.High) {
		r.fail("Make it a number from %v to %v.", m.Low, m.High)
	}
	return f
}

// base64 reads bytes that MCP shows in base64 (RFC 4648, section 4).
func (r *reader) base64(m *member, raw []byte) []byte {
	data, err := base64.StdEncoding.Strict().DecodeString(r.text(&schema.FieldRules{MaxBytes: base64.StdEncoding.EncodedLen(m.MaxBytes)}, raw))
	if err != nil || len(data) > m.MaxBytes || len(data) == 0 && m.Required {
		r.fail("Make it base64 with padding (RFC 4648, section 4) of at most %d bytes.", m.MaxBytes)
	}
	return data
}

func (r *reader) moment(raw []byte) *timestamppb.Timestamp {
	t, err := time.Parse(time.RFC3339, r.text(&schema.FieldRules{}, raw))
	out := timestamppb.New(t)
	if err != nil || out.CheckValid() != nil {
		r.fail("Make it a time with its offset (RFC 3339).")
	}
	return out
}

// word reads one of the words of an enum.
func (r *reader) word(m *member, raw []byte) int64 {
	n := slices.Index(m.enum, r.text(&schema.FieldRules{Required: true}, raw))
	if n <= 0 {
		r.fail("Use one of the words that MCP knows here.")
	}
	return int64(n)
}

// object reads an object into a message, which is made.
func (r *reader) object(m *member, raw []byte, v reflect.Value) {
	v.Set(reflect.New(v.Type().Elem()))
	r.all(m.of, r.whole(raw), v.Elem())
}

// elements reads an array. MCP's lists of words are sets.
func (r *reader) elements(m *member, raw []byte, v reflect.Value) {
	n := r.count(raw, m.MaxItems)
	if n == 0 {
		return
	}
	v.Grow(n)
	v.SetLen(n)
	i := 0
	for element := range jsontext.Elements(raw) {
		r.item(i)
		switch e := v.Index(i); m.kind {
		case kindTexts:
			e.SetString(r.judged(m, m.Items, element))
		case kindWords:
			e.SetInt(r.word(m, element))
			for before := range i {
				if v.Index(before).Int() == e.Int() {
					r.fail("Name each once.")
				}
			}
		default:
			r.object(m, element, e)
		}
		r.leave()
		i++
	}
}

// payload keeps a value as it is.
func (r *reader) payload(m *member, raw []byte, v reflect.Value) bool {
	switch {
	case m.isObject && !jsontext.IsObject(raw):
		r.fail("Make it an object, not %s.", kindOf(raw))
		return false
	case len(raw) > m.MaxBytes:
		r.fail("Make it at most %d bytes long.", m.MaxBytes)
	}
	m.alternatives[1].wrap(v).Field(0).SetBytes(raw)
	return true
}

// choose reads the one alternative of a oneof that is there.
func (r *reader) choose(m *member, object []byte, v reflect.Value) {
	for _, a := range m.alternatives {
		raw, ok := jsontext.Lookup(object, a.name)
		if ok && !v.IsNil() {
			r.fail("%s", m.reason)
		} else if ok {
			r.one(a, raw, a.wrap(v))
		}
	}
	if v.IsNil() {
		r.fail("%s", m.reason)
	}
}

// tagged reads the alternative that the member "type" names.
func (r *reader) tagged(m *member, object []byte, v reflect.Value) {
	kind := r.need(object, "type")
	for _, a := range m.alternatives {
		if a.field == kind {
			r.object(a, object, a.wrap(v).Field(0))
			return
		}
	}
	r.failIn("type", "Use a type that MCP knows here.")
}

// wrap sets a oneof to an alternative, and returns the struct around its value.
func (m *member) wrap(v reflect.Value) reflect.Value {
	wrapper := reflect.New(m.wrapper.Elem())
	v.Set(wrapper)
	return wrapper.Elem()
}

// maxWordBytes bounds strings for which the contract has a pattern or a list alone.
const maxWordBytes = 256

// reader takes a value apart and keeps the first thing that is wrong with it. What
// it returns after that is of no use.
type reader struct {
	trail
	// late is the first fault among what is judged when the whole was read.
	late error
}

// outcome returns what was read, or the fault.
func outcome[T any](r *reader, got T) (T, error) {
	if r.err = cmp.Or(r.err, r.late); r.err != nil {
		var none T
		return none, r.err
	}
	return got, nil
}

// whole returns an object that is the value itself.
func (r *reader) whole(raw []byte) []byte {
	raw = jsontext.Trim(raw)
	if !jsontext.IsObject(raw) {
		r.fail("Make it an object, not %s.", kindOf(raw))
		return nil
	}
	return raw
}

// member returns a member that has to be an object, and whether it is there.
func (r *reader) member(object []byte, name string) ([]byte, bool) {
	raw, ok := jsontext.Lookup(object, name)
	if ok && !jsontext.IsObject(raw) {
		r.failIn(name, "Make it an object, not %s.", kindOf(raw))
		return nil, false
	}
	return raw, ok
}

// required is member for one that has to be there.
func (r *reader) required(object []byte, name string) []byte {
	raw, ok := r.member(object, name)
	if !ok {
		r.failIn(name, "MCP requires this object.")
	}
	return raw
}

// need returns a word that has to be there.
func (r *reader) need(object []byte, name string) string {
	raw, ok := jsontext.Lookup(object, name)
	r.enter(name)
	defer r.leave()
	if !ok {
		r.fail("MCP requires this string.")
		return ""
	}
	return r.text(&schema.FieldRules{Required: true}, raw)
}

// text returns a value that has to be a string within its rules.
func (r *reader) text(rules *schema.FieldRules, raw []byte) string {
	most := rules.MaxBytes
	if most == 0 {
		most = maxWordBytes
	}
	s, ok := jsontext.Text(raw)
	switch {
	case !ok:
		r.fail("Make it a string, not %s.", kindOf(raw))
	case s == "" && rules.Required:
		r.fail("Give it a value; it is empty.")
	case len(s) > most:
		r.fail("Make it at most %d bytes long.", most)
	}
	return s
}

// count returns how many elements an array has.
func (r *reader) count(raw []byte, most int) int {
	if raw[0] != '[' {
		r.fail("Make it an array, not %s.", kindOf(raw))
		return 0
	}
	n := 0
	for range jsontext.Elements(raw) {
		if n++; n > most {
			r.fail("Give at most %d of them.", most)
			return 0
		}
	}
	return n
}

// flag returns a value that has to be a boolean.
func (r *reader) flag(raw []byte) bool {
	if string(raw) != "true" && string(raw) != "false" {
		r.fail("Make it true or false, not %s.", kindOf(raw))
	}
	return string(raw) == "true"
}

// pairs returns a map of strings.
func (r *reader) pairs(rules *schema.FieldRules, object []byte) map[string]string {
	out := make(map[string]string)
	for name, raw := range jsontext.Members(object) {
		if len(out) == rules.MaxItems {
			r.fail("Give at most %d of them.", rules.MaxItems)
			return nil
		}
		if name == "" || len(name) > rules.Keys.MaxBytes {
			r.fail("Make each name at least 1 and at most %d bytes long.", rules.Keys.MaxBytes)
			return nil
		}
		r.enter(name)
		out[name] = r.text(rules.Items, raw)
		r.leave()
		if r.err != nil {
			return nil
		}
	}
	return out
}

// kindOf names the JSON type of a value for a person; it tells integers from other
// numbers.
func kindOf(raw []byte) string {
	if jsontext.IsInteger(raw) {
		return "an integer"
	}
	return jsontext.TypeName(raw)
}

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
	return outcome(&r, f)
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
	return outcome(&r, out)
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
	return outcome(&r, r.pairs(&compiled().arguments, r.whole(raw)))
}

// missing returns the capabilities that a client must declare to be asked a question,
// but has not declared. It returns nil if the client can be asked, or the question is
// unset.
func missing(c *outriggerv1.ClientCapabilities, request *outriggerv1.InputRequest) *outriggerv1.ClientCapabilities {
	switch q := request.GetRequest().(type) {
	case *outriggerv1.InputRequest_Elicitation:
		return missingElicitation(c.GetElicitation(), q.Elicitation)
	case *outriggerv1.InputRequest_Sampling:
		return missingSampling(c.GetSampling(), q.Sampling)
	case *outriggerv1.InputRequest_ListRoots:
		if c.GetRoots() == nil {
			return &outriggerv1.ClientCapabilities{Roots: new(outriggerv1.RootsCapability)}
		}
	}
	return nil
}

// MissingAny is Missing for all questions of an InputRequired: the capabilities that
// the client must still declare to be asked all of them, or nil if there are none.
func MissingAny(c *outriggerv1.ClientCapabilities, requests map[string]*outriggerv1.InputRequest) *outriggerv1.ClientCapabilities {
	var all *outriggerv1.ClientCapabilities
	for _, request := range requests {
		one := missing(c, request)
		switch {
		case one == nil:
		case all == nil:
			all = one
		default:
			proto.Merge(all, one)
		}
	}
	return all
}

func missingElicitation(has *outriggerv1.ElicitationCapability, e *outriggerv1.Elicitation) *outriggerv1.ClientCapabilities {
	lacks := &outriggerv1.ElicitationCapability{
		Form: e.GetForm() != nil && !has.GetForm(),
		Url:  e.GetUrl() != nil && !has.GetUrl(),
	}
	if !lacks.Form && !lacks.Url {
		return nil
	}
	return &outriggerv1.ClientCapabilities{Elicitation: lacks}
}

func missingSampling(has *outriggerv1.SamplingCapability, s *outriggerv1.Sampling) *outriggerv1.ClientCapabilities {
	lacks := &outriggerv1.SamplingCapability{
		Tools:   usesTools(s) && !has.GetTools(),
		Context: s.GetIncludeContext() != "" && s.GetIncludeContext() != "none" && !has.GetContext(),
	}
	if has != nil && !lacks.Tools && !lacks.Context {
		return nil
	}
	return &outriggerv1.ClientCapabilities{Sampling: lacks}
}

// maxShownArguments bounds how much of the arguments the question for consent repeats.
const maxShownArguments = 2048

// AskConsent returns the question whether a destructive tool is to run. The arguments are JSON, as they are sent, without what the user is
// not to see: they are what the consent is for. words say what they mean, and preview what the call would do, as the tool itself says;
// either may be empty.
func AskConsent(tool, title string, arguments []byte, words, preview string) *outriggerv1.InputRequest {
	text := string(jsontext.Compact(nil, arguments))
	if len(text) > maxShownArguments {
		text = strings.ToValidUTF8(text[:maxShownArguments], "") + " ..."
	}
	message := "The tool " + tool + " (" + title + ") is marked destructive: its changes may be irreversible. "
	if preview != "" {
		message += "Its preview, which changed nothing, says: " + preview + ". "
	} else if words != "" {
		text += " (" + words + ")"
	}
	return AskConsentTo(message + "Run it with " + text + "?")
}

// AskConsentTo returns a question for consent in other words.
func AskConsentTo(message string) *outriggerv1.InputRequest {
	return &outriggerv1.InputRequest{Request: &outriggerv1.InputRequest_Elicitation{Elicitation: &outriggerv1.Elicitation{
		Message: message,
		Mode: &outriggerv1.Elicitation_Form{Form: &outriggerv1.ElicitationForm{
			RequestedSchemaForm: &outriggerv1.ElicitationForm_RequestedSchemaJson{RequestedSchemaJson: schema.ConsentForm()},
		}},
	}}}
}

// confirmField is what the form of that question asked for in earlier versions. An answer may still have it while replicas are
// replaced. Now accepting is the consent, and there is nothing to fill in.
const confirmField = "confirm"

// Consents reports whether an answer to that question is a yes. Accepting is, with an empty form, null or none. fault says why
// an answer that accepts is none all the same: its form came back with what was not asked for, which may mean anything.
func Consents(answer *outriggerv1.ElicitationResult) (yes bool, fault string) {
	if answer.GetAction() != outriggerv1.ElicitationAction_ELICITATION_ACTION_ACCEPT {
		return false, ""
	}
	content, err := FreeForm(answer.GetContentJson(), answer.GetContent())
	switch {
	case err != nil:
		return false, "its form cannot be read"
	case len(content) == 0 || jsontext.IsNull(content):
		return true, ""
	case !jsontext.IsObject(content):
		return false, "its form is " + jsontext.TypeName(content) + ", not an object"
	}
	if said, ok := jsontext.Lookup(content, confirmField); ok {
		switch string(said) {
		case "true":
			return true, ""
		case "false":
			return false, ""
		}
		return false, "the member " + confirmField + " of its form is neither true nor false"
	}
	for name := range jsontext.Members(content) {
		return false, "its form came back with the member " + errmap.Quote(name) + ", which was not asked for"
	}
	return true, ""
}
