// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

const (
	// maxDetails and maxDetailBytes bound the details that are kept of a backend's error: a handful is usual, and they
	// travel in trailers, where much more than this is refused by proxies. What is over the bound is left out whole.
	maxDetails     = 16
	maxDetailBytes = 32 << 10
	// maxDetailsJSON bounds their rendering: a packed number or an unknown type grows as text.
	maxDetailsJSON = 64 << 10
	// maxDetailDepth bounds the walk through a detail's messages. The details of google.rpc have three levels.
	maxDetailDepth = 32
)

// DetailTypes resolves the types of error details that are not linked into the program; see [Error.ReadDetails].
type DetailTypes interface {
	protoregistry.MessageTypeResolver
	protoregistry.ExtensionTypeResolver
	// AppendJSON appends the JSON of a detail to dst.
	AppendJSON(dst []byte, d *anypb.Any) ([]byte, error)
}

// ReadDetails decodes and redacts the backend's details with these types. Without it, details whose types are not
// linked in are shown as bytes.
func (e *Error) ReadDetails(types DetailTypes) {
	e.types = types
	e.Details = keepDetails(e.Details, types)
}

// unpacked is the message of a detail.
func unpacked(d *anypb.Any, types DetailTypes) (proto.Message, error) {
	m, err := d.UnmarshalNew()
	if err == nil || types == nil || isKnownType(d) {
		return m, err
	}
	return anypb.UnmarshalNew(d, proto.UnmarshalOptions{AllowPartial: true, Resolver: types})
}

// keepDetails returns the details that may leave: within the bounds, without DebugInfo, which holds stack traces, and with
// every string of a known message redacted. A detail in which nothing was redacted keeps its bytes.
func keepDetails(details []*anypb.Any, types DetailTypes) []*anypb.Any {
	var kept []*anypb.Any
	size := 0
	for _, d := range details {
		if d == nil || d.MessageIs((*errdetails.DebugInfo)(nil)) {
			continue
		}
		size += len(d.GetTypeUrl()) + len(d.GetValue())
		if len(kept) == maxDetails || size > maxDetailBytes {
			break
		}
		if d = redactDetail(d, types); d != nil {
			kept = append(kept, d)
		}
	}
	return kept
}

// redactDetail redacts the strings of a detail whose type is known. The bytes of others cannot be read, so they stay.
// It returns nil for a type that is linked in where the bytes are not a message of it.
func redactDetail(d *anypb.Any, types DetailTypes) *anypb.Any {
	if len(d.GetTypeUrl()) > maxNameBytes || cleanLine(d.GetTypeUrl()) != d.GetTypeUrl() {
		return nil
	}
	m, err := unpacked(d, types)
	if err != nil {
		if isKnownType(d) {
			return nil
		}
		return d
	}
	r := redactor{types: types}
	changed := r.message(m.ProtoReflect(), maxDetailDepth)
	if detail, ok := m.(*outriggerv1.ErrorDetail); ok {
		changed = redactErrorDetail(detail) || changed
	}
	if !changed {
		return d
	}
	value, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(m)
	if err != nil {
		return nil
	}
	return &anypb.Any{TypeUrl: d.GetTypeUrl(), Value: value}
}

// redactor redacts the strings of messages.
type redactor struct{ types DetailTypes }

// message redacts the strings of a message in place and reports whether it changed any. Below depth everything is
// dropped. What an Any in it holds is redacted where its type is known.
func (r redactor) message(m protoreflect.Message, depth int) bool {
	if m.Descriptor().FullName() == anyName {
		return r.any(m, depth)
	}
	changed := false
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if r.field(m, fd, v, depth) {
			changed = true
		}
		return true
	})
	return changed
}

func (r redactor) field(m protoreflect.Message, fd protoreflect.FieldDescriptor, v protoreflect.Value, depth int) bool {
	switch {
	case isMarkedSecret(fd):
		m.Clear(fd)
		return true
	case fd.IsMap():
		return r.mapping(v.Map(), fd.MapValue(), depth)
	case fd.IsList():
		return r.list(v.List(), fd, depth)
	case fd.Kind() == protoreflect.StringKind:
		clean, changed := redactPair(string(fd.Name()), v.String())
		if changed {
			m.Set(fd, protoreflect.ValueOfString(clean))
		}
		return changed
	case fd.Message() == nil:
		return false
	case depth <= 0:
		m.Clear(fd)
		return true
	default:
		return r.message(m.Mutable(fd).Message(), depth-1)
	}
}

func (r redactor) list(list protoreflect.List, fd protoreflect.FieldDescriptor, depth int) bool {
	changed := false
	for i := range list.Len() {
		switch {
		case fd.Kind() == protoreflect.StringKind:
			if clean, differs := redactString(list.Get(i).String()); differs {
				list.Set(i, protoreflect.ValueOfString(clean))
				changed = true
			}
		case fd.Message() == nil:
			return changed
		case depth <= 0:
			list.Truncate(0)
			return true
		default:
			changed = r.message(list.Get(i).Message(), depth-1) || changed
		}
	}
	return changed
}

func (r redactor) mapping(entries protoreflect.Map, value protoreflect.FieldDescriptor, depth int) bool {
	changed := false
	entries.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		switch {
		case value.Kind() == protoreflect.StringKind:
			clean, differs := redactPair(k.String(), v.String())
			if differs {
				entries.Set(k, protoreflect.ValueOfString(clean))
				changed = true
			}
		case value.Message() == nil:
		case depth <= 0:
			entries.Clear(k)
			changed = true
		case namesSecret(k.String(), v.Message()):
			entries.Set(k, protoreflect.ValueOfMessage(structpb.NewStringValue(redacted).ProtoReflect()))
			changed = true
		default:
			changed = r.message(v.Message(), depth-1) || changed
		}
		return true
	})
	return changed
}

// anyName is the message that holds any other.
const anyName protoreflect.FullName = "google.protobuf.Any"

func (r redactor) any(m protoreflect.Message, depth int) bool {
	fields := m.Descriptor().Fields()
	url, value := fields.ByName("type_url"), fields.ByName("value")
	if url == nil || value == nil || depth <= 0 {
		return false
	}
	held := &anypb.Any{TypeUrl: m.Get(url).String(), Value: m.Get(value).Bytes()}
	inner, err := unpacked(held, r.types)
	if err != nil || !r.message(inner.ProtoReflect(), depth-1) {
		return false
	}
	clean, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(inner)
	if err != nil {
		clean = nil
	}
	m.Set(value, protoreflect.ValueOfBytes(clean))
	return true
}

// redactPair redacts a map's value with its key, as key=value: ErrorInfo.metadata names secrets that way.
func redactPair(key, value string) (string, bool) {
	if redactPairs(key+"="+value) != key+"="+value {
		return redacted, value != redacted
	}
	return redactString(value)
}

// isMarkedSecret reports whether the field's own option says that it is not for logs.
func isMarkedSecret(fd protoreflect.FieldDescriptor) bool {
	options, ok := fd.Options().(*descriptorpb.FieldOptions)
	return ok && options.GetDebugRedact()
}

// namesSecret reports whether an entry of a google.protobuf.Struct is a string under the name of a secret.
func namesSecret(name string, m protoreflect.Message) bool {
	value, ok := m.Interface().(*structpb.Value)
	if !ok {
		return false
	}
	text, ok := value.GetKind().(*structpb.Value_StringValue)
	if !ok || text.StringValue == redacted {
		return false
	}
	_, differs := redactPair(name, text.StringValue)
	return differs
}

func redactString(s string) (string, bool) {
	out := Redact(s)
	return out, out != s
}

// isKnownType reports whether the detail's type is linked in.
func isKnownType(d *anypb.Any) bool {
	_, err := protoregistry.GlobalTypes.FindMessageByURL(d.GetTypeUrl())
	return err == nil
}

// detailsJSON renders details as a JSON array, nil for none. An unknown type, or whose bytes do not fit it, is
// {"@type", "value"} with the bytes in base64.
func detailsJSON(details []*anypb.Any, types DetailTypes) []byte {
	if len(details) == 0 {
		return nil
	}
	dst := []byte{'['}
	for _, d := range details[:min(len(details), maxDetails)] {
		if d == nil || d.MessageIs((*errdetails.DebugInfo)(nil)) {
			continue
		}
		one := detailJSON(d, types)
		if len(dst)+len(one) > maxDetailsJSON {
			break
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(dst, one...)
	}
	if len(dst) == 1 {
		return nil
	}
	return append(dst, ']')
}

func detailJSON(d *anypb.Any, types DetailTypes) []byte {
	if text := errorDetailJSON(d); text != nil {
		return text
	}
	if text, err := protojson.Marshal(d); err == nil {
		// protojson varies its spacing from build to build on purpose; one line without spaces is the same everywhere.
		var compact bytes.Buffer
		if json.Compact(&compact, text) == nil {
			return compact.Bytes()
		}
	}
	if types != nil {
		if text, err := types.AppendJSON(nil, d); err == nil {
			return text
		}
	}
	dst := jsontext.AppendString([]byte(`{"@type":`), clip(d.GetTypeUrl(), maxNameBytes))
	dst = append(dst, `,"value":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, d.GetValue())
	return append(dst, `"}`...)
}

// namesFile reports whether a google.rpc.ResourceInfo says that the resource is a file.
func namesFile(details []*anypb.Any) bool {
	for _, d := range details {
		info := new(errdetails.ResourceInfo)
		if d.MessageIs(info) && d.UnmarshalTo(info) == nil && strings.EqualFold(info.GetResourceType(), "file") {
			return true
		}
	}
	return false
}

// fieldFaults are the faults that a backend's google.rpc.BadRequest names, with the paths as the backend wrote them. They
// are for the text of a tool result: a path of theirs is no JSON Pointer.
func fieldFaults(details []*anypb.Any) []Violation {
	var faults []Violation
	for _, d := range details {
		bad := new(errdetails.BadRequest)
		if !d.MessageIs(bad) || d.UnmarshalTo(bad) != nil {
			continue
		}
		for _, f := range bad.GetFieldViolations() {
			if len(faults) == maxViolations {
				return faults
			}
			faults = append(faults, Violation{Path: f.GetField(), Keyword: f.GetReason(), Message: Redact(f.GetDescription())})
		}
	}
	return faults
}

// Detail returns the error as the outrigger.v1.ErrorDetail of a ToolResult; its details are the data object.
func (e *Error) Detail(about About) *outriggerv1.ErrorDetail {
	e = e.known()
	return &outriggerv1.ErrorDetail{
		ErrorType:    e.Type(),
		ErrorMessage: string(e.message()),
		ErrorDetailsForm: &outriggerv1.ErrorDetail_ErrorDetailsJson{
			ErrorDetailsJson: e.withRan(e.Data(about)),
		},
	}
}

// withRan adds to the data of an error what a program had run, as the data of JSON-RPC have it. What a stream had sent is not in details.
func (e *Error) withRan(data []byte) []byte {
	if e.PartialIs == "" || len(e.Partial) == 0 || len(e.Partial) > maxRan || len(data) == 0 {
		return data
	}
	out := append(bytes.Clone(data[:len(data)-1]), `,"partial":`...)
	return append(append(out, e.Partial...), '}')
}

// maxRan bounds what a program had run in the details of an error.
const maxRan = maxTrailerBytes / 2

// maxTrailerBytes bounds the violations of a Connect error. gRPC carries details in a trailer, and proxies refuse header
// blocks of some sixty kilobytes; violations stand there twice.
const maxTrailerBytes = 8 << 10

// lean is e for a Connect error: without the backend's details, which travel beside the data object, and with as many
// violations as a trailer bears.
func (e *Error) lean() *Error {
	lean := *e
	lean.ErrorType = e.Type() // which the details may decide
	lean.Details = nil
	size := 0
	for i, v := range e.Violations {
		size += min(len(v.Path), maxViolationBytes) + min(len(v.Keyword), maxViolationBytes) + min(len(v.Message), maxViolationBytes)
		if size > maxTrailerBytes || i == maxViolations {
			lean.Violations = e.Violations[:i]
			break
		}
	}
	return &lean
}

// leanRules are the broken rules as a trailer bears them, nil for none.
func (e *Error) leanRules() *validate.Violations {
	size := 0
	all := e.Broken.GetViolations()
	for i, v := range all {
		if size += proto.Size(v); size > maxTrailerBytes || i == maxViolations {
			all = all[:i]
			break
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &validate.Violations{Violations: all}
}

// The bounds of the violations in a message. The details have more of them.
const (
	maxFieldsInMessage     = 5
	maxFieldInMessageBytes = 256
)

// fieldMessage is the message for callers over Connect, gRPC and gRPC-Web, whose logs often have nothing else of an error:
// where it says no more than the code, with the violations and their fields.
func (e *Error) fieldMessage() string {
	text := string(e.message())
	if e.Message != "" || string(e.sentence()) != e.row().Message || e.Code == InternalError {
		return text
	}
	var b strings.Builder
	b.WriteString(text)
	for i, v := range e.Violations {
		if i == maxFieldsInMessage {
			b.WriteString("; and " + strconv.Itoa(len(e.Violations)-i) + " more")
			break
		}
		b.WriteString([]string{": ", "; "}[min(i, 1)])
		if field := clip(fieldPath(e.Document, v.Path), maxFieldInMessageBytes); field != "" {
			b.WriteString(field + ": ")
		}
		b.WriteString(Redact(clip(v.Message, maxFieldInMessageBytes)))
	}
	return b.String()
}

// withoutFields is the message of another sidecar's error without the fields that [Error.fieldMessage] adds.
func withoutFields(message string, details []*anypb.Any) string {
	for _, d := range details {
		detail := new(outriggerv1.ErrorDetail)
		if isErrorDetail(d) && d.UnmarshalTo(detail) == nil && detail.GetErrorMessage() != "" && strings.HasPrefix(message, detail.GetErrorMessage()+": ") {
			return detail.GetErrorMessage()
		}
	}
	return message
}

// ourViolations are the violations in another sidecar's ErrorDetail, whose paths and keywords are as they were.
func ourViolations(details []*anypb.Any) []Violation {
	for _, d := range details {
		detail := new(outriggerv1.ErrorDetail)
		if !isErrorDetail(d) || d.UnmarshalTo(detail) != nil {
			continue
		}
		var data struct {
			Violations []Violation `json:"violations"`
		}
		if json.Unmarshal(detail.GetErrorDetailsJson(), &data) == nil && len(data.Violations) > 0 {
			return data.Violations[:min(len(data.Violations), maxViolations)]
		}
	}
	return nil
}

// redactErrorDetail redacts the JSON that an ErrorDetail holds as bytes, and reports whether it changed. Bytes that are no
// JSON are dropped.
func redactErrorDetail(detail *outriggerv1.ErrorDetail) bool {
	text := detail.GetErrorDetailsJson()
	if len(text) == 0 {
		return false
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // 64-bit numbers keep their digits
	var value any
	if decoder.Decode(&value) != nil || decoder.More() {
		detail.ErrorDetailsForm = nil
		return true
	}
	clean, changed := redactJSON(value)
	if !changed {
		return false
	}
	out, err := json.Marshal(clean)
	if err != nil {
		detail.ErrorDetailsForm = nil
		return true
	}
	detail.ErrorDetailsForm = &outriggerv1.ErrorDetail_ErrorDetailsJson{ErrorDetailsJson: out}
	return true
}

// redactJSON redacts the strings of a JSON value, those of an object together with their names.
func redactJSON(value any) (any, bool) {
	changed := false
	switch v := value.(type) {
	case string:
		return redactString(v)
	case []any:
		for i := range v {
			clean, differs := redactJSON(v[i])
			v[i], changed = clean, changed || differs
		}
	case map[string]any:
		for name, member := range v {
			clean, differs := redactJSON(member)
			if text, ok := clean.(string); ok && !differs {
				clean, differs = redactPair(name, text)
			}
			v[name], changed = clean, changed || differs
		}
	}
	return value, changed
}

// errorDetailJSON renders a backend's ErrorDetail with its details as JSON, not as base64; nil where d is none.
func errorDetailJSON(d *anypb.Any) []byte {
	detail := new(outriggerv1.ErrorDetail)
	if !d.MessageIs(detail) || d.UnmarshalTo(detail) != nil || !json.Valid(detail.GetErrorDetailsJson()) {
		return nil
	}
	dst := jsontext.AppendString([]byte(`{"@type":`), clip(d.GetTypeUrl(), maxNameBytes))
	dst = append(dst, `,"error_type":`...)
	dst = jsontext.AppendString(dst, detail.GetErrorType())
	dst = append(dst, `,"error_message":`...)
	dst = jsontext.AppendString(dst, detail.GetErrorMessage())
	dst = append(dst, `,"error_details":`...)
	var compact bytes.Buffer
	if json.Compact(&compact, detail.GetErrorDetailsJson()) != nil {
		return nil
	}
	return append(append(dst, compact.Bytes()...), '}')
}

// declaredType is the error type that a native backend, or another sidecar, declared; "" for none.
func declaredType(details []*anypb.Any) string {
	for _, d := range details {
		detail := new(outriggerv1.ErrorDetail)
		if d.MessageIs(detail) && d.UnmarshalTo(detail) == nil && validErrorType(detail.GetErrorType()) {
			return detail.GetErrorType()
		}
	}
	return ""
}

func isErrorDetail(d *anypb.Any) bool {
	return d.MessageIs((*outriggerv1.ErrorDetail)(nil))
}

// fieldPath writes a JSON Pointer as google.rpc.BadRequest names fields: emailAddresses[0].email, labels["a key"]. md is the
// message that the pointer leads into, nil where it is not known.
func fieldPath(md protoreflect.MessageDescriptor, pointer string) string {
	if pointer == "" {
		return ""
	}
	var out []byte
	var key protoreflect.FieldDescriptor // of the map that the next token is a key of
	inList := false
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		token = unescapeToken.Replace(token)
		fd := fieldNamed(md, token)
		switch {
		case key != nil && key.Kind() == protoreflect.StringKind, key == nil && !inList && fd == nil && !isPlainName(token) && !isIndex(token):
			out = append(strconv.AppendQuote(append(out, '['), token), ']')
		case key != nil, inList, fd == nil && isIndex(token):
			out = append(append(append(out, '['), token...), ']')
		case fd != nil:
			out = appendName(out, fd.JSONName())
		default:
			out = appendName(out, token)
		}
		if key != nil || inList {
			key, inList = nil, false // md is that of the values
			continue
		}
		md = nil
		if fd == nil {
			continue
		}
		inList = fd.IsList()
		if fd.IsMap() {
			key, fd = fd.MapKey(), fd.MapValue()
		}
		if md = fd.Message(); md != nil && md.ParentFile().Package() == "google.protobuf" {
			md = nil // its JSON has other members, or none
		}
	}
	return string(out)
}

// unescapeToken reads a token of a JSON Pointer.
var unescapeToken = strings.NewReplacer("~1", "/", "~0", "~")

func appendName(dst []byte, name string) []byte {
	if len(dst) > 0 {
		dst = append(dst, '.')
	}
	return append(dst, name...)
}

// fieldNamed is the field with one of the names that JSON may use for it.
func fieldNamed(md protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if md == nil {
		return nil
	}
	if fd := md.Fields().ByJSONName(name); fd != nil {
		return fd
	}
	return md.Fields().ByTextName(name)
}

// isIndex holds for the index of a list.
func isIndex(token string) bool {
	_, err := strconv.ParseUint(token, 10, 32)
	return err == nil
}

// isPlainName holds for names of fields, and for those of extensions in brackets.
func isPlainName(token string) bool {
	if inner, ok := strings.CutPrefix(token, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		return ok && protoreflect.FullName(inner).IsValid()
	}
	return protoreflect.Name(token).IsValid()
}

// maxReasonBytes is the limit of google.rpc.BadRequest.
const maxReasonBytes = 63

// reasonOf writes the keyword of a violation as google.rpc.BadRequest names reasons: minLength is MIN_LENGTH, string.email is
// STRING_EMAIL.
func reasonOf(keyword string) string {
	out := make([]byte, 0, len(keyword))
	lower := false
	for i := range min(len(keyword), 2*maxReasonBytes) {
		switch c := keyword[i]; {
		case c >= 'a' && c <= 'z':
			out, lower = append(out, c-'a'+'A'), true
		case c >= 'A' && c <= 'Z':
			if lower {
				out = append(out, '_')
			}
			out, lower = append(out, c), false
		case c >= '0' && c <= '9' && len(out) > 0:
			out, lower = append(out, c), true
		default:
			if len(out) > 0 && out[len(out)-1] != '_' {
				out = append(out, '_')
			}
			lower = false
		}
	}
	return strings.TrimRight(string(out[:min(len(out), maxReasonBytes)]), "_")
}

// Bounds of the names that are looked for in a backend's text, and of those that are explained.
const (
	maxKnownFields  = 2048
	maxNamesPerText = 10
)

// argumentNames are the fields of a request, and of the messages in it, by their names in the .proto file, where JSON has
// another one. A backend knows only the former, a model only the latter.
type argumentNames map[string]string

func argumentNamesOf(md protoreflect.MessageDescriptor) argumentNames {
	names := argumentNames{}
	if md == nil {
		return names
	}
	seen := map[protoreflect.FullName]bool{md.FullName(): true}
	count := 0
	for queue := []protoreflect.MessageDescriptor{md}; len(queue) > 0; queue = queue[1:] {
		fields := queue[0].Fields()
		for i := range fields.Len() {
			if count++; count > maxKnownFields {
				return names
			}
			fd := fields.Get(i)
			name := string(fd.Name())
			if _, known := names[name]; !known && fd.JSONName() != name {
				names[name] = fd.JSONName()
			}
			if fd.IsMap() {
				fd = fd.MapValue()
			}
			if below := fd.Message(); below != nil && !seen[below.FullName()] && below.ParentFile().Package() != "google.protobuf" {
				seen[below.FullName()] = true
				queue = append(queue, below)
			}
		}
	}
	return names
}

// explain adds to each field that a text names the name of its argument, once: "page_token (argument pageToken) is not valid".
// A name that could be any word, without an underscore, is a field's only in quotes.
func (names argumentNames) explain(text string) string {
	if len(names) == 0 {
		return text
	}
	var out strings.Builder
	told := map[string]bool{}
	from := 0
	eachWord(text, func(start, end int) {
		word := text[start:end]
		argument, ok := names[word]
		if !ok || told[word] || len(told) == maxNamesPerText || !strings.Contains(word, "_") && !isQuoted(text, start, end) || hasWord(text, argument) {
			return
		}
		told[word] = true
		if isQuoted(text, start, end) {
			end++
		}
		out.WriteString(text[from:end] + " (argument " + clip(argument, maxNameBytes) + ")")
		from = end
	})
	out.WriteString(text[from:])
	return out.String()
}

// path is explain for the path of a field.
func (names argumentNames) path(path string) string {
	var out strings.Builder
	from := 0
	eachWord(path, func(start, end int) {
		if argument, ok := names[path[start:end]]; ok {
			out.WriteString(path[from:start] + argument)
			from = end
		}
	})
	if from == 0 {
		return path
	}
	out.WriteString(path[from:])
	return path + " (argument " + clip(out.String(), maxNameBytes) + ")"
}

// eachWord calls each with the bounds of what could be a field's name.
func eachWord(text string, each func(start, end int)) {
	start := -1
	for i := range len(text) + 1 {
		isPart := i < len(text) && (text[i] == '_' || text[i] >= 0x80 ||
			'a' <= text[i] && text[i] <= 'z' || 'A' <= text[i] && text[i] <= 'Z' || '0' <= text[i] && text[i] <= '9')
		switch {
		case isPart && start < 0:
			start = i
		case !isPart && start >= 0:
			each(start, i)
			start = -1
		}
	}
}

func isQuoted(text string, start, end int) bool {
	return start > 0 && end < len(text) && text[start-1] == text[end] && strings.IndexByte("\"'`", text[end]) >= 0
}

func hasWord(text, word string) (has bool) {
	eachWord(text, func(start, end int) { has = has || text[start:end] == word })
	return has
}
