// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source/shown"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Declared holds the validators of declared schemas: those that an overlay entry or a registration substitutes for
// derived ones, and those of a native tool. A nil validator means that the schema was not declared.
// They run in addition to the transcoder, which knows only the RPC's own messages, or alone if there is no transcoder.
type Declared struct {
	// Input checks the arguments before the transcoder. Output checks the result as callers get it.
	Input, Output *schema.Validator
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

// checkSchema returns the problems of a schema to be declared, without knowledge of the RPC. Paths are JSON
// Pointers into the schema. Build and Register accept a schema that passes.
func checkSchema(raw json.RawMessage) []schema.Violation {
	_, faults := compileDeclared(raw)
	return faults
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
	if len(raw) > MaxSchemaBytes() {
		return declaration{}, schemaFault("maxLength", fmt.Sprintf("the schema has %d bytes; the limit is %d", len(raw), MaxSchemaBytes()))
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

// declare puts declared schemas in the place of the derived ones, and takes a fingerprint of what is there now. The zero
// declaration leaves a schema as it is.
func (t *Tool) declare(input, output declaration, types *Types) error {
	declared := Declared{types: types}
	if t.Declared != nil {
		declared = *t.Declared
	}
	if input.validator != nil {
		declared.Input, t.HeaderParams = input.validator, input.headers
		t.Input = schema.Fixed(&schema.Schema{Canonical: input.text, Advertised: input.text, Wrapped: t.Input.Wrapped})
	}
	if output.validator != nil {
		declared.Output = output.validator
		t.Output = schema.Fixed(&schema.Schema{Canonical: output.text, Advertised: output.text, Wrapped: t.Output.Wrapped})
	}
	if declared.Input == nil && declared.Output == nil {
		return nil
	}
	t.Declared, t.print = &declared, newFingerprint(t.Input, t.Output)
	return nil
}

// CheckArguments validates the JSON arguments of a call against the declared input schema. It returns nil if they are
// valid or no schema was declared. An error means that the check itself failed; it wraps the context's if that ended.
func (t *Tool) CheckArguments(ctx context.Context, arguments []byte) ([]schema.Violation, error) {
	if t.Declared == nil || t.Declared.Input == nil {
		return nil, nil
	}
	if t.Input.Wrapped && !isWrappedValue(arguments) {
		arguments = wrapValue(arguments)
	}
	return t.Declared.Input.ValidateContext(ctx, arguments)
}

// CheckResult validates a result against the declared output schema. It returns nil if the result is valid or no schema
// was declared. The schema describes results as callers of the tool get them. Set isBare if the result still lacks the
// wrapper object that a message gets whose ProtoJSON is not an object. An error means that the check itself failed.
func (t *Tool) CheckResult(ctx context.Context, result []byte, isBare bool) ([]schema.Violation, error) {
	if t.Declared == nil || t.Declared.Output == nil {
		return nil, nil
	}
	if t.OutputNotObject && isBare {
		result = wrapValue(result)
	}
	return t.Declared.Output.ValidateContext(ctx, result)
}

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

// checkExample says why the tool would refuse an example's arguments.
func (t *Tool) checkExample(arguments []byte) error {
	found, err := t.CheckArguments(context.Background(), arguments)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return errors.New(found[0].Path + ": " + found[0].Message)
	}
	if t.Native {
		return nil
	}
	if t.TakesStream() {
		return t.Stream.Check(arguments, defaults.MaxInputItems)
	}
	_, err = t.In.ToWire(nil, arguments)
	return err
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

// CheckRequest validates the request of a typed caller, in wire bytes that the transcoder has checked, against the
// declared input schema. It accepts the request if the schema accepts any of its JSON spellings, because a JSON caller
// could have sent that one. Otherwise the violations are those of the plain form. An error means that the check itself
// failed.
func (t *Tool) CheckRequest(ctx context.Context, wire []byte) ([]schema.Violation, error) {
	if t.Declared == nil || t.Declared.Input == nil {
		return nil, nil
	}
	if t.Native {
		return nil, errors.New("a native tool takes no request but the arguments")
	}
	message := dynamicpb.NewMessage(t.Method.Descriptor.Input())
	if err := (proto.UnmarshalOptions{Resolver: t.Declared.types}).Unmarshal(wire, message); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	var plain []schema.Violation
	for i, s := range spellings() {
		text, err := s.write(message, t.Declared.types)
		if err != nil {
			return nil, err
		}
		if t.Input.Wrapped {
			text = wrapValue(text)
		}
		found, err := t.Declared.Input.ValidateContext(ctx, text)
		if err != nil || len(found) == 0 {
			return nil, err
		}
		if i == 0 {
			plain = found
		}
	}
	return plain, nil
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
