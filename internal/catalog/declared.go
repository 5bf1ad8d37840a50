// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source/shown"
)

// Declared holds the validators of declared schemas: those that an overlay entry or a registration substitutes for
// derived ones, and those of a native tool. A nil validator means that the schema was not declared.
// They run in addition to the transcoder, which knows only the RPC's own messages, or alone if there is no transcoder.
type Declared struct {
	// Input checks the arguments before the transcoder. Output checks the result as callers get it.
	Input, Output *schema.Validator
	// item checks one item of the result of a stream, by what the output schema says of items; nil if that is nothing.
	item *schema.Validator
	// types are what a request of a typed caller may hold.
	types *Types
}

// declaration is one declared schema, ready for use; the zero value is none.
type declaration struct {
	// text is the schema as it was declared, without white space; canonical is its one spelling, to compare by.
	text, canonical []byte
	validator       *schema.Validator
	// headers are the arguments that the schema wants in headers.
	headers []HeaderParam
}

// compileDeclared makes a declared schema ready for use. What it refuses, no caller could use: clients expect an object
// at the root of both schemas, and arguments and results always are objects.
func compileDeclared(raw json.RawMessage) (declaration, []schema.Violation) {
	d, faults := compileSchema(raw)
	if len(faults) > 0 {
		return declaration{}, faults
	}
	if root, _ := d.validator.Document().(map[string]any); root["type"] != "object" {
		faults = append(faults, schema.Violation{Path: "/type", Keyword: "type",
			Message: `the root is not an object schema: set "type": "object"`})
	}
	var misplaced []schema.Violation
	d.headers, misplaced = headerParams(d.validator.Document())
	if faults = append(faults, misplaced...); len(faults) > 0 {
		return declaration{}, faults
	}
	return d, nil
}

// compileSchema makes any schema ready for use, whatever its root admits.
func compileSchema(raw json.RawMessage) (declaration, []schema.Violation) {
	if len(raw) > contract().schema {
		return declaration{}, schemaFault("maxLength", fmt.Sprintf("the schema has %d bytes; the limit is %d", len(raw), contract().schema))
	}
	var d declaration
	var err error
	if d.validator, err = schema.Prepare(raw); err != nil {
		return declaration{}, schemaFault("schema", "the schema does not compile: "+plainSchemaError(err))
	}
	var text bytes.Buffer
	if err := json.Compact(&text, raw); err != nil {
		return declaration{}, schemaFault("schema", err.Error())
	}
	d.text = text.Bytes()
	if d.canonical, err = canonicalJSON(raw); err != nil {
		return declaration{}, schemaFault("schema", err.Error())
	}
	return d, nil
}

func schemaFault(keyword, message string) []schema.Violation {
	return []schema.Violation{{Keyword: keyword, Message: message}}
}

// plainSchemaError is a compiler's error on one line. Where it is a tree of lines, only the leaves say what to mend.
func plainSchemaError(err error) string {
	text := strings.TrimPrefix(err.Error(), schema.ErrInvalidSchema.Error()+": ")
	text = strings.ReplaceAll(strings.TrimPrefix(text, "compile: "), "mem:///schema.json", "")
	if before, _, isLoad := strings.Cut(text, ": no URLLoader registered"); isLoad {
		text = before + ": external references are not loaded"
	}
	var leaves []string
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		leaf, isEntry := strings.CutPrefix(strings.TrimLeft(line, " "), "- ")
		if isEntry && (i+1 == len(lines) || indent(lines[i+1]) <= indent(line)) {
			leaves = append(leaves, leaf)
		}
	}
	if len(leaves) == 0 {
		return shown.Clip(text)
	}
	return shown.ClipList(leaves)
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

func wrapValue(raw []byte) []byte { return append(append(OpenValue(nil), raw...), closeValue...) }

// The object around a message whose ProtoJSON is none.
const (
	openValue  = `{"value":`
	closeValue = `}`
)

// OpenValue appends the start of the wrapper object around a result whose ProtoJSON is not an object.
func OpenValue(dst []byte) []byte { return append(dst, openValue...) }

// CloseValue appends the end of the wrapper object that OpenValue starts.
func CloseValue(dst []byte) []byte { return append(dst, closeValue...) }

// isWrappedValue reports whether a document is {"value": ...}.
func isWrappedValue(raw []byte) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || len(members) != 1 {
		return false
	}
	_, ok := members["value"]
	return ok
}

// noSchemaForBody is why some tools cannot have an output schema.
const noSchemaForBody = "the RPC returns a document (google.api.HttpBody, or a stream of bytes), which an output schema cannot describe"

// spelling is one of the ways in which ProtoJSON lets a message be written. A schema that people declare knows one of
// them; a typed caller chose none.
type spelling struct{ protoNames, withDefaults, plainIntegers bool }

// spellings has the plain form first, which is what a refusal is explained with.
func spellings() []spelling {
	var out []spelling
	for i := range 8 {
		out = append(out, spelling{protoNames: i&1 != 0, withDefaults: i&2 != 0, plainIntegers: i&4 != 0})
	}
	return out
}

func (s spelling) write(m *dynamicpb.Message, types *Types) ([]byte, error) {
	text, err := protojson.MarshalOptions{
		Resolver: types, UseProtoNames: s.protoNames, EmitDefaultValues: s.withDefaults, AllowPartial: true,
	}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write request as JSON: %w", err)
	}
	if !s.plainIntegers {
		return text, nil
	}
	var value any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil, fmt.Errorf("read request as JSON: %w", err)
	}
	return json.Marshal(plainMessage(value, m.Descriptor()))
}

// plainMessage takes the quotes off the 64-bit integers of a message, all the way down. Messages with a special JSON
// form stay as they are.
func plainMessage(value any, md protoreflect.MessageDescriptor) any {
	switch md.FullName() {
	case "google.protobuf.Int64Value", "google.protobuf.UInt64Value":
		return plainInteger(value)
	}
	members, ok := value.(map[string]any)
	if !ok || md.FullName().Parent() == "google.protobuf" {
		return value
	}
	for name, member := range members {
		fd := md.Fields().ByJSONName(name)
		if fd == nil {
			fd = md.Fields().ByTextName(name)
		}
		if fd != nil {
			members[name] = plainField(member, fd)
		}
	}
	return members
}

func plainField(value any, fd protoreflect.FieldDescriptor) any {
	switch v := value.(type) {
	case []any:
		if !fd.IsList() {
			break
		}
		for i, entry := range v {
			v[i] = plainValue(entry, fd)
		}
		return v
	case map[string]any:
		if !fd.IsMap() {
			break
		}
		for key, entry := range v {
			v[key] = plainValue(entry, fd.MapValue())
		}
		return v
	}
	return plainValue(value, fd)
}

func plainValue(value any, fd protoreflect.FieldDescriptor) any {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return plainMessage(value, fd.Message())
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return plainInteger(value)
	}
	return value
}

func plainInteger(value any) any {
	if text, ok := value.(string); ok {
		return json.Number(text)
	}
	return value
}

// HeaderParam is an argument that an MCP client repeats in an HTTP header (MCP 2026-07-28, Streamable HTTP, custom
// headers). The server compares the header with the argument.
type HeaderParam struct {
	// Header is the part of the header's name after "Mcp-Param-": an RFC 9110 token, unique within the tool regardless
	// of case.
	Header string
	// Path holds the member names that lead to the argument. Pointer is the same path as a JSON Pointer into the arguments.
	Path    []string
	Pointer string
	// Type is the type that the schema gives the argument: "string", "integer" or "boolean".
	Type string
}

// headerKeyword is what a property's schema says to have its value repeated in a header.
const headerKeyword = "x-mcp-header"

// headerParams finds the keyword in an input schema. Where it is anywhere else than MCP allows, or says anything
// else, clients leave out the whole tool, so that is a fault.
func headerParams(document any) ([]HeaderParam, []schema.Violation) {
	w := &headerWalk{taken: map[string]string{}}
	w.schema(document, "", way{})
	return w.found, w.faults
}

// headerWalk is a walk through a schema, in the order of the names.
type headerWalk struct {
	found  []HeaderParam
	faults []schema.Violation
	// taken are the headers so far in lower case, with the places that they stand at.
	taken map[string]string
}

// way is how a schema is reached: through properties alone, or past another keyword, the first of which is named. From
// there on there is no place for the keyword.
type way struct {
	properties []string
	isOff      bool
	by         string
}

// off is the way past a keyword that is not "properties".
func (w way) off(keyword string) way {
	if w.isOff {
		return w
	}
	return way{isOff: true, by: keyword}
}

// schema looks at one schema and those within it.
func (w *headerWalk) schema(value any, at string, on way) {
	object, ok := value.(map[string]any)
	if !ok {
		return
	}
	for _, keyword := range shown.SortedKeys(object) {
		value, here := object[keyword], schema.AppendPointer(at, keyword)
		switch keyword {
		case headerKeyword:
			w.keyword(value, here, object["type"], on)
		case "const", "enum", "default", "examples":
			// These hold data, in which a name is only a name.
		case "properties":
			w.schemas(value, here, on)
		case "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
			w.schemas(value, here, on.off(keyword))
		default:
			w.below(value, here, on.off(keyword))
		}
	}
}

// schemas looks at an object whose members are schemas under names of somebody's choice.
func (w *headerWalk) schemas(value any, at string, on way) {
	object, ok := value.(map[string]any)
	if !ok {
		return
	}
	for _, name := range shown.SortedKeys(object) {
		next := on
		if !on.isOff {
			next.properties = slices.Concat(on.properties, []string{name})
		}
		w.schema(object[name], schema.AppendPointer(at, name), next)
	}
}

// below looks at the value of a keyword that holds a schema or several, or something unknown.
func (w *headerWalk) below(value any, at string, on way) {
	list, ok := value.([]any)
	if !ok {
		w.schema(value, at, on)
		return
	}
	for i, entry := range list {
		w.below(entry, fmt.Sprintf("%s/%d", at, i), on)
	}
}

// keyword takes one finding, or says what is wrong with it.
func (w *headerWalk) keyword(value any, at string, kind any, on way) {
	name, isText := value.(string)
	folded := strings.ToLower(name)
	fault := ""
	switch {
	case on.isOff:
		fault = fmt.Sprintf("a header needs a property that is reached only through \"properties\"; this one is below %q", shown.Clip(on.by))
	case len(on.properties) == 0:
		fault = "a header needs a property; this is the root"
	case !isText || !isToken(name):
		fault = "wanted the name of a header: letters, digits and !#$%&'*+-.^_`|~, at least one of them"
	case kind != "string" && kind != "integer" && kind != "boolean":
		fault = `a header is made of a value of "type": "string", "integer" or "boolean"`
	case w.taken[folded] != "":
		fault = fmt.Sprintf("the header %q is made of %s already; case makes no difference", shown.Clip(name), shown.Clip(w.taken[folded]))
	}
	if fault != "" {
		w.faults = append(w.faults, schema.Violation{Path: at, Keyword: headerKeyword, Message: fault})
		return
	}
	pointer := ""
	for _, step := range on.properties {
		pointer = schema.AppendPointer(pointer, step)
	}
	w.taken[folded] = pointer
	text, _ := kind.(string)
	w.found = append(w.found, HeaderParam{Header: name, Path: on.properties, Pointer: pointer, Type: text})
}

// isToken reports whether the text is a token of RFC 9110, section 5.6.2.
func isToken(text string) bool {
	for i := range len(text) {
		c := text[i]
		if !isUpper(c) && !isLower(c) && !isDigit(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return text != ""
}

// contract has the bounds of outrigger.v1.RegisterToolRequest that this package keeps itself, in bytes, read from its rules.
var contract = sync.OnceValue(func() (most struct{ schema, description int }) {
	var registration outriggerv1.RegisterToolRequest
	most.schema = schema.FieldRulesOf(&registration, "input_schema_json").MaxBytes
	most.description = schema.FieldRulesOf(&registration, "description").MaxBytes
	return most
})

// canonicalJSON is the one spelling of a JSON value: no white space, members sorted by name, strings with the fewest
// escapes, as RFC 8785 has it. Numbers stay as they were written, because RFC 8785 would round them to doubles.
func canonicalJSON(raw []byte) ([]byte, error) { return canonicalise(bytes.Clone(raw)) }

// canonicalise is canonicalJSON in the place of its argument, or a larger one.
func canonicalise(value jsontext.Value) ([]byte, error) {
	err := value.Format(
		jsontext.ReorderRawObjects(true),
		jsontext.CanonicalizeRawInts(false),
		jsontext.CanonicalizeRawFloats(false),
		jsontext.PreserveRawStrings(false),
	)
	return value, err
}
