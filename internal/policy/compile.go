// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/pb"
	"cel.dev/cel-go/common/types/ref"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/glob"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// variables are those of a rule's expression.
const (
	varArgs   = "args"
	varCaller = "caller"
	varTool   = "tool"
	varResult = "result"
	varField  = "field"
)

// compiled is a rule whose expression has been parsed.
type compiled struct {
	Rule
	index int
	// parsed is the expression without types, for rules with args.
	parsed *cel.Ast
	// program is the rule's program, for rules without args.
	program cel.Program
	// args, caller, tool, result and field tell which variables the rule may read.
	args, caller, tool, result, field bool
}

// matches reports whether a rule is about a tool. A registered tool is a second name for
// an RPC: what is said of the RPC's own tool is said of it too.
func (r *compiled) matches(t *catalog.Tool) bool {
	for ; t != nil; t = t.Base {
		if r.isOf(t) && (glob.MatchAny(r.Tools, t.Name) || t.Alias != "" && glob.MatchAny(r.Tools, t.Alias)) {
			return true
		}
	}
	return false
}

// isOf reports whether a tool is of the rule's backend.
func (r *compiled) isOf(t *catalog.Tool) bool {
	return r.Backend == "" || r.Backend == t.Method.Backend
}

// ruleName is what a name may be; config/v1.PolicyRule says the same.
var ruleName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$`)

// newEnv returns the environment of rules without args, and its types.
func newEnv(o Limits) (*cel.Env, *provider, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, nil, err
	}
	known := &provider{Registry: registry, objects: map[string]*object{callerName: callerObject(), toolName: toolObject(), fieldName: fieldObject()}}
	env, err := cel.NewEnv(
		cel.CustomTypeProvider(known), cel.CustomTypeAdapter(known),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(o.MaxExpressionBytes), cel.ParserRecursionLimit(maxNesting),
		cel.Variable(varCaller, cel.ObjectType(callerName)), cel.Variable(varTool, cel.ObjectType(toolName)),
	)
	return env, known, err
}

// Compile makes a set of rules. The faults are all that is wrong with them; there is a
// set only if there are none. Rules with args are checked as far as that goes without a
// tool.
func Compile(rules []Rule, o Limits) (*Set, []Fault) {
	o = o.withDefaults()
	if len(rules) > o.MaxRules {
		return nil, []Fault{{Index: -1, Message: fmt.Sprintf("has %d rules; the limit is %d", len(rules), o.MaxRules)}}
	}
	env, known, err := newEnv(o)
	if err != nil {
		return nil, []Fault{{Index: -1, Message: err.Error()}}
	}
	s := &Set{limits: o, env: env, known: known, inputs: map[any]*input{}, programs: map[programKey]programOrFault{}}
	if s.results, err = env.Extend(fieldVariable()); err != nil {
		return nil, []Fault{{Index: -1, Message: err.Error()}}
	}
	var faults []Fault
	names := map[string]int{}
	for i, rule := range rules {
		r := &compiled{Rule: rule, index: i}
		found := r.check(names)
		if len(found) == 0 {
			found = s.read(r)
		}
		faults = append(faults, found...)
		s.rules = append(s.rules, r)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	s.sortListing()
	return s, nil
}

// check looks at everything but the expression.
func (r *compiled) check(names map[string]int) []Fault {
	var out []Fault
	fault := func(field, format string, args ...any) {
		out = append(out, Fault{Index: r.index, Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if !ruleName.MatchString(r.Name) {
		fault("name", "must be 1 to 64 lower-case letters, digits, dots, dashes and underscores")
	} else if first, ok := names[r.Name]; ok {
		fault("name", "is the name of rule %d too", first+1)
	}
	names[r.Name] = r.index
	if r.OnResult {
		if r.treatment().Action == transcode.Show {
			fault("effect", "must be hide, mask, hash or deny for a rule about results")
		}
		return out
	}
	if r.Effect != Allow && r.Effect != Deny {
		fault("effect", "must be allow or deny")
	}
	return out
}

// read parses the expression, and compiles it where it has no args.
func (s *Set) read(r *compiled) []Fault {
	if len(r.When) > s.limits.MaxExpressionBytes {
		return []Fault{{Index: r.index, Field: "when", Message: fmt.Sprintf("has %d bytes; the limit is %d", len(r.When), s.limits.MaxExpressionBytes)}}
	}
	parsed, issues := s.env.Parse(r.When)
	if issues.Err() != nil {
		return r.faults(issues, "")
	}
	r.parsed = parsed
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.IdentKind {
			return
		}
		// A variable of a macro may have such a name too. Then the rule counts as one that
		// reads it, which is only less than it could be.
		switch strings.TrimPrefix(e.AsIdent(), ".") {
		case varArgs:
			r.args = true
		case varCaller:
			r.caller = true
		case varTool:
			r.tool = true
		case varResult:
			r.result = r.OnResult
		case varField:
			r.field = r.OnResult
		}
	}))
	env, variable, isOpen := s.env, varArgs, r.args
	if r.OnResult {
		env, variable, isOpen = s.results, varResult, r.result
	}
	if isOpen {
		return checkOpen(env, r, variable)
	}
	var faults []Fault
	r.program, faults = s.program(env, r, "")
	return faults
}

// checkOpen checks a rule with args, or a result, of any type. Names that are unknown may be those of
// the tool's messages and enums.
func checkOpen(env *cel.Env, r *compiled, variable string) []Fault {
	env, err := env.Extend(cel.Variable(variable, cel.DynType))
	if err != nil {
		return []Fault{{Index: r.index, Field: "when", Message: err.Error()}}
	}
	_, issues := env.Check(r.parsed)
	if issues.Err() == nil {
		return nil
	}
	return slices.DeleteFunc(r.faults(issues, ""), func(f Fault) bool { return strings.HasPrefix(f.Message, "undeclared reference") })
}

// program checks a rule in an environment and makes its program.
func (s *Set) program(env *cel.Env, r *compiled, tool string) (cel.Program, []Fault) {
	checked, issues := env.Check(r.parsed)
	if issues.Err() != nil {
		return nil, r.faults(issues, tool)
	}
	if kind := checked.OutputType(); kind != cel.BoolType && kind != cel.DynType {
		return nil, []Fault{{Index: r.index, Field: "when", Tool: tool, Message: "must be of type bool, is of type " + kind.String()}}
	}
	program, err := env.Program(checked, cel.CostLimit(uint64(s.limits.MaxCost)), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, []Fault{{Index: r.index, Field: "when", Tool: tool, Message: err.Error()}}
	}
	return program, nil
}

// maxFaults bounds the faults of one expression.
const maxFaults = 5

// faults are what CEL found, each with its place.
func (r *compiled) faults(issues *cel.Issues, tool string) []Fault {
	var out []Fault
	for _, e := range issues.Errors() {
		if len(out) == maxFaults {
			break
		}
		text := e.Message
		if container, ok := strings.CutSuffix(text, " (in container '')"); ok {
			text = container
		}
		out = append(out, Fault{Index: r.index, Field: "when", Line: e.Location.Line(), Column: max(e.Location.Column()+1, 1), Tool: tool, Message: text})
	}
	return out
}

// readFields returns the fields of args, or another variable, that an expression reads; all is set if it may
// read any.
func readFields(e ast.Expr, variable string) (fields map[string]bool, all bool) {
	fields = map[string]bool{}
	isArgs := func(e ast.Expr) bool {
		return e.Kind() == ast.IdentKind && (e.AsIdent() == variable || e.AsIdent() == "."+variable)
	}
	uses, selected := 0, 0
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		switch {
		case isArgs(e):
			uses++
		case e.Kind() == ast.SelectKind && isArgs(e.AsSelect().Operand()):
			selected++
			fields[e.AsSelect().FieldName()] = true
		}
	}))
	return fields, uses != selected
}

// reads are the fields of a message that rules read: numbers, unless they may read everything. A large message of which
// rules read little costs little.
type reads struct {
	numbers    map[protowire.Number]bool
	everything bool
}

// add adds the fields that a rule reads.
func (d *reads) add(message protoreflect.MessageDescriptor, r *compiled, variable string) {
	if message == nil || d.everything {
		return
	}
	names, all := readFields(r.parsed.NativeRep().Expr(), variable)
	if d.numbers == nil {
		d.numbers = map[protowire.Number]bool{}
	}
	for name := range names {
		if fd := message.Fields().ByName(protoreflect.Name(name)); fd != nil {
			d.numbers[fd.Number()] = true
			if group := fd.ContainingOneof(); group != nil {
				for i := range group.Fields().Len() {
					d.numbers[group.Fields().Get(i).Number()] = true // the last one clears the others
				}
			}
			continue
		}
		all = true
	}
	d.everything = all
}

// decode reads a message, as far as rules need it.
func (d *reads) decode(message protoreflect.MessageDescriptor, wire []byte) (proto.Message, error) {
	m := dynamicpb.NewMessage(message)
	if !d.everything {
		wire = keepFields(wire, d.numbers)
	}
	return m, proto.UnmarshalOptions{AllowPartial: true}.Unmarshal(wire, m)
}

// keepFields returns the fields with the given numbers. What is malformed is kept, for the
// decoder to refuse.
func keepFields(wire []byte, numbers map[protowire.Number]bool) []byte {
	kept := make([]byte, 0, min(len(wire), maxKeptGuess))
	for len(wire) > 0 {
		number, _, n := protowire.ConsumeField(wire)
		if n < 0 {
			return append(kept, wire...)
		}
		if numbers[number] {
			kept = append(kept, wire[:n]...)
		}
		wire = wire[n:]
	}
	return kept
}

// maxKeptGuess is how much is reserved for the fields of a message that are kept.
const maxKeptGuess = 256

// provider tells CEL about types. Beside the messages of its registry, it knows
// objects: types whose fields are read by functions.
type provider struct {
	*types.Registry
	objects map[string]*object
}

// object is a type of CEL that is no message. Its name begins with '#', which no
// expression can write, so that nothing in an expression can be taken for it.
type object struct {
	fields map[string]*types.FieldType
	// other is the type of fields that are not declared; nil if there are none.
	other func(name string) *types.FieldType
}

// with returns a provider that knows more objects.
func (p *provider) with(objects map[string]*object) *provider {
	all := maps.Clone(p.objects)
	maps.Copy(all, objects)
	return &provider{Registry: p.Registry, objects: all}
}

// FindStructType implements [types.Provider].
func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if _, ok := p.objects[name]; ok {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Registry.FindStructType(name)
}

// FindStructFieldNames implements [types.Provider].
func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	if o, ok := p.objects[name]; ok {
		return slices.Sorted(maps.Keys(o.fields)), true
	}
	return p.Registry.FindStructFieldNames(name)
}

// FindStructFieldType implements [types.Provider].
func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	o, ok := p.objects[name]
	if !ok {
		return p.Registry.FindStructFieldType(name, field)
	}
	if f := o.fields[field]; f != nil {
		return f, true
	}
	if o.other != nil {
		return o.other(field), true
	}
	return nil, false
}

// NewValue implements [types.Provider].
func (p *provider) NewValue(name string, fields map[string]ref.Val) ref.Val {
	if _, ok := p.objects[name]; ok {
		return types.NewErr("%s cannot be created", name)
	}
	return p.Registry.NewValue(name, fields)
}

// opaque wraps a Go value as a CEL value; only functions of objects look inside.
type opaque struct {
	kind *types.Type
	self any
}

// ConvertToNative implements [ref.Val].
func (o *opaque) ConvertToNative(reflect.Type) (any, error) {
	return nil, errors.New("cannot be converted")
}

// ConvertToType implements [ref.Val].
func (o *opaque) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return o.kind
	}
	return types.NewErr("cannot be converted to %s", t.TypeName())
}

// Equal implements [ref.Val].
func (o *opaque) Equal(other ref.Val) ref.Val { return types.Bool(other == ref.Val(o)) }

// Type implements [ref.Val].
func (o *opaque) Type() ref.Type { return o.kind }

// Value implements [ref.Val].
func (o *opaque) Value() any { return o.self }

// getter is a field of an object whose values are of type T. It reads values that
// were made before, so that an evaluation allocates nothing for them.
func getter[T any](kind *types.Type, get func(of T) (ref.Val, error)) *types.FieldType {
	return &types.FieldType{
		Type:  kind,
		IsSet: func(any) bool { return true },
		GetFrom: func(of any) (any, error) {
			self, ok := of.(T)
			if !ok {
				return nil, fmt.Errorf("unexpected value of type %T", of)
			}
			return get(self)
		},
	}
}

// registryOf returns a registry of the types of a file and of everything that it
// imports.
func registryOf(file protoreflect.FileDescriptor) (*types.Registry, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	return registry, register(registry, file, map[string]bool{})
}

func register(registry *types.Registry, file protoreflect.FileDescriptor, seen map[string]bool) error {
	if seen[file.Path()] {
		return nil
	}
	seen[file.Path()] = true
	imports := file.Imports()
	for i := range imports.Len() {
		if err := register(registry, imports.Get(i).FileDescriptor, seen); err != nil {
			return err
		}
	}
	if isKnown(file) || file.IsPlaceholder() {
		return nil
	}
	if err := registry.RegisterDescriptor(backendFile{file}); err != nil {
		return fmt.Errorf("types of %s: %w", file.Path(), err)
	}
	return nil
}

// isKnown holds for the well-known types, which every registry has.
func isKnown(file protoreflect.FileDescriptor) bool {
	messages := file.Messages()
	if file.Package() != "google.protobuf" || messages.Len() == 0 {
		return false
	}
	_, known := pb.DefaultDb.DescribeType(string(messages.Get(0).FullName()))
	return known
}

// backendFile is a file of the backend. A registry takes a file that is linked into
// the process in place of one with the same path, and the backend's may be another
// version of it; so the path is one that no linked file has.
type backendFile struct{ protoreflect.FileDescriptor }

// Path implements [protoreflect.FileDescriptor].
func (f backendFile) Path() string { return "backend:" + f.FileDescriptor.Path() }

const (
	// maxSchemaDepth bounds how deep a schema is read; below, everything is dyn.
	maxSchemaDepth = 16
	// maxSchemaObjects bounds the object types of one schema.
	maxSchemaObjects = 1000
)

// jsonSchema is the part of a JSON schema that says what type a value has.
type jsonSchema struct {
	Type                 json.RawMessage            `json:"type"`
	Properties           map[string]json.RawMessage `json:"properties"`
	AdditionalProperties json.RawMessage            `json:"additionalProperties"`
	Items                json.RawMessage            `json:"items"`
	Ref                  *string                    `json:"$ref"`
	AnyOf                json.RawMessage            `json:"anyOf"`
	OneOf                json.RawMessage            `json:"oneOf"`
}

// schemaTypes turns a JSON schema into types of CEL.
type schemaTypes struct{ objects map[string]*object }

// argumentsType is the type of the arguments of a native tool: as far as its schema
// says what they are. Where it leaves that open, the type is dyn.
func argumentsType(raw []byte) (*types.Type, map[string]*object) {
	s := &schemaTypes{objects: map[string]*object{}}
	kind := s.typeOf(raw, "#args", 0)
	if kind == types.DynType {
		kind = types.NewMapType(types.StringType, types.DynType) // arguments are always an object
	}
	return kind, s.objects
}

func (s *schemaTypes) typeOf(raw []byte, name string, depth int) *types.Type {
	var of jsonSchema
	if depth > maxSchemaDepth || json.Unmarshal(raw, &of) != nil || of.Ref != nil || of.AnyOf != nil || of.OneOf != nil {
		return types.DynType
	}
	var kind string
	if json.Unmarshal(of.Type, &kind) != nil {
		return types.DynType // none, or several
	}
	switch kind {
	case "boolean":
		return types.BoolType
	case "string":
		return types.StringType
	case "integer":
		return types.IntType
	case "array":
		return types.NewListType(s.typeOf(of.Items, name+"[]", depth+1))
	case "object":
		return s.objectType(&of, name, depth)
	}
	// A "number" may be an int, a uint or a double: as dyn they can be compared with each
	// other, whatever a caller writes.
	return types.DynType
}

// identifier is a name that can follow a dot in an expression.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (s *schemaTypes) objectType(of *jsonSchema, name string, depth int) *types.Type {
	open := string(of.AdditionalProperties) != "false"
	if len(of.Properties) == 0 && open || len(s.objects) >= maxSchemaObjects {
		return types.NewMapType(types.StringType, types.DynType)
	}
	for property := range of.Properties {
		if !identifier.MatchString(property) {
			return types.NewMapType(types.StringType, types.DynType) // it can only be reached by its index
		}
	}
	o := &object{fields: make(map[string]*types.FieldType, len(of.Properties))}
	if open {
		o.other = func(field string) *types.FieldType { return member(types.DynType, field) }
	}
	s.objects[name] = o
	for property, raw := range of.Properties {
		o.fields[property] = member(s.typeOf(raw, name+"."+property, depth+1), property)
	}
	return types.NewObjectType(name)
}

// member is a member of a JSON object.
func member(kind *types.Type, name string) *types.FieldType {
	return &types.FieldType{
		Type: kind,
		IsSet: func(of any) bool {
			m, _ := of.(map[string]any)
			_, ok := m[name]
			return ok
		},
		GetFrom: func(of any) (any, error) {
			m, _ := of.(map[string]any)
			v, ok := m[name]
			if !ok {
				return nil, fmt.Errorf("no such key: %s", name)
			}
			if kind == types.IntType {
				return whole(v)
			}
			return v, nil
		},
	}
}

var errNotInt = errors.New("not an integer of 64 bits")

// whole is an integer as an int, however a caller wrote it: 5.0 and 5e0 are integers of
// JSON Schema.
func whole(v any) (any, error) {
	switch v := v.(type) {
	case int64:
		return v, nil
	case float64:
		if n := int64(v); float64(n) == v && v >= -maxWhole && v <= maxWhole {
			return n, nil
		}
	}
	return nil, errNotInt
}

// maxWhole is the range in which a double is exact.
const maxWhole = 1 << 53

// decodeJSON reads the arguments of a native tool.
func decodeJSON(raw []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var out map[string]any
	if err := d.Decode(&out); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	out, _ = plainNumbers(out).(map[string]any)
	return out, nil
}

// number is a JSON number as CEL has it: an int or a uint where it is a whole number
// in their range, so that no digit is lost, else a double.
func number(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return types.NewErr("number out of range")
	}
	return f
}

// callerName and toolName are the types of the variables caller and tool.
const (
	callerName = "#caller"
	toolName   = "#tool"
)

// caller is the variable "caller" of rules.
type caller struct {
	opaque
	name, issuer, subject, clientID, source, groups, scopes, claims ref.Val
	// groupsUnknown is set where the token says that the caller has groups that are not in
	// it.
	groupsUnknown bool
}

// newCaller makes the caller of an identity. A nil identity is a caller without
// authentication, whose fields are empty.
func newCaller(who *identity.Identity, adapter types.Adapter) *caller {
	facts := who.Facts()
	c := &caller{
		name: types.String(who.Name()), issuer: types.String(facts.Issuer), subject: types.String(facts.Subject),
		clientID: types.String(facts.ClientID), source: types.String(facts.Source),
		groups: types.NewStringList(adapter, facts.Groups), scopes: types.NewStringList(adapter, facts.Scopes),
		claims:        types.NewStringInterfaceMap(adapter, claimsOf(facts.Claims)),
		groupsUnknown: len(facts.Groups) == 0 && hasOverage(facts.Claims),
	}
	c.opaque = opaque{kind: types.NewObjectType(callerName), self: c}
	return c
}

// claimsOf are claims with numbers of the types that CEL has.
func claimsOf(claims map[string]any) map[string]any {
	if claims == nil {
		return map[string]any{}
	}
	plain, _ := plainNumbers(claims).(map[string]any)
	return plain
}

// plainNumbers replaces the numbers of package json, and keeps everything else.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		return number(string(v))
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[name] = plainNumbers(member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = plainNumbers(item)
		}
		return out
	}
	return v
}

// hasOverage holds for tokens of callers with more groups than fit into a token
// (OpenID Connect Core, section 5.6.2: distributed claims).
func hasOverage(claims map[string]any) bool {
	names, _ := claims["_claim_names"].(map[string]any)
	_, isElsewhere := names["groups"]
	return isElsewhere
}

var errGroupsUnknown = errors.New("the token does not have the caller's groups")

// callerObject is the type of the variable caller.
func callerObject() *object {
	text := func(get func(c *caller) ref.Val) *types.FieldType {
		return getter(types.StringType, func(c *caller) (ref.Val, error) { return get(c), nil })
	}
	texts := types.NewListType(types.StringType)
	return &object{fields: map[string]*types.FieldType{
		"name":      text(func(c *caller) ref.Val { return c.name }),
		"issuer":    text(func(c *caller) ref.Val { return c.issuer }),
		"subject":   text(func(c *caller) ref.Val { return c.subject }),
		"client_id": text(func(c *caller) ref.Val { return c.clientID }),
		"source":    text(func(c *caller) ref.Val { return c.source }),
		"groups": getter(texts, func(c *caller) (ref.Val, error) {
			if c.groupsUnknown {
				return nil, errGroupsUnknown
			}
			return c.groups, nil
		}),
		"scopes": getter(texts, func(c *caller) (ref.Val, error) { return c.scopes, nil }),
		"claims": getter(types.NewMapType(types.StringType, types.DynType), func(c *caller) (ref.Val, error) { return c.claims, nil }),
	}}
}
