// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	pvcel "buf.build/go/protovalidate/cel"
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// ErrInvalidSchema is wrapped by every error of Compile.
var ErrInvalidSchema = errors.New("schema: not a usable JSON Schema")

// errCostlySchema is wrapped by the errors of Prepare for schemas that would take too much work.
var errCostlySchema = errors.New("it costs too much")

// Bounds of a schema that is compiled, of which a derived one stays clear.
const (
	maxSchemaDepth  = 512 // a message takes up to six levels
	maxSchemaValues = 1 << 20
)

// resourceURL names the schema inside the compiler; nothing is ever loaded from it.
const resourceURL = "mem:///schema.json"

// maxDeferred is the size of a schema, in bytes, up to which it takes some milliseconds to compile.
const maxDeferred = 16 << 10

// Validator validates documents against one schema. It is deterministic and safe for concurrent use. Make one with
// Compile or Prepare.
type Validator struct {
	machines *machines
	source   any // the schema as a document, to say what was wanted
	work     int // that one check may take
}

// Compile compiles a schema: JSON Schema 2020-12 unless $schema names another draft. References outside the schema are
// refused: nothing is loaded from a file or the network. Formats of Protobuf's types are asserted, others are
// annotations. Every error wraps ErrInvalidSchema.
func Compile(raw json.RawMessage) (*Validator, error) {
	source, err := readSchema(raw)
	if err != nil {
		return nil, err
	}
	return compileNow(source)
}

// Prepare is Compile for a declared schema, which comes from others. It also refuses a schema that costs too much, with an
// error that also wraps errCostlySchema: one that takes seconds to compile, or puts thousands of schemas to one value. If it is certain that a schema compiles, and quickly,
// it defers that to the first use of the validator: a backend may send thousands and call few.
func Prepare(raw json.RawMessage) (*Validator, error) {
	source, err := readSchema(raw)
	if err != nil {
		return nil, err
	}
	if n := countSubschemas(source); n > maxSubschemas {
		return nil, fmt.Errorf("%w: %w: it has %d schemas within it; at most %d are allowed", ErrInvalidSchema, errCostlySchema, n, maxSubschemas)
	}
	if len(raw) <= maxDeferred && isPlain(source) {
		return newValidator(source), nil
	}
	v, err := compileNow(source)
	if err != nil {
		return nil, err
	}
	if err := checkExpansion(graphOf(v.machines.idle[0].root)); err != nil {
		return nil, fmt.Errorf("%w: %w: %w", ErrInvalidSchema, errCostlySchema, err)
	}
	return v, nil
}

// Later is Compile for a schema that is known to compile, such as a derived one: the first check compiles it. The error is
// only that of a text which is no schema at all.
func Later(raw json.RawMessage) (*Validator, error) {
	source, err := readSchema(raw)
	if err != nil {
		return nil, err
	}
	return newValidator(source), nil
}

// Items returns a Validator for the items of the result of a stream, by what the schema says of each; nil where that is nothing, or
// nothing that can be used. The first check compiles it.
func (v *Validator) Items() *Validator {
	if !hasItems(v.source) {
		return nil
	}
	at := resourceURL + itemRef
	return &Validator{machines: newMachines(func() (*machine, error) { return compileAt(v.source, at) }), source: v.source, work: v.work}
}

func hasItems(source any) bool {
	root, _ := source.(map[string]any)
	properties, _ := root["properties"].(map[string]any)
	items, _ := properties[ItemsMember].(map[string]any)
	_, isSchema := items["items"].(map[string]any)
	return isSchema
}

// Document returns the parsed schema: objects are map[string]any, numbers json.Number. Do not modify it.
func (v *Validator) Document() any { return v.source }

func compileNow(source any) (*Validator, error) {
	first, err := compile(source)
	if err != nil {
		return nil, err
	}
	return newValidator(source, first), nil
}

func newValidator(source any, idle ...*machine) *Validator {
	return &Validator{machines: newMachines(func() (*machine, error) { return compile(source) }, idle...), source: source, work: maxWork}
}

func readSchema(raw json.RawMessage) (any, error) {
	if faults := Inspect(raw, Bounds{MaxDepth: maxSchemaDepth, MaxValues: maxSchemaValues}); len(faults) > 0 {
		return nil, fmt.Errorf("%w: at %q: %s", ErrInvalidSchema, faults[0].Path, faults[0].Message)
	}
	source, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("%w: read: %w", ErrInvalidSchema, err)
	}
	return source, nil
}

func compile(source any) (*machine, error) { return compileAt(source, resourceURL) }

// compileAt compiles the part of a schema that has an address.
func compileAt(source any, at string) (made *machine, err error) {
	defer func() {
		if r := recover(); r != nil {
			made, err = nil, fmt.Errorf("%w: compile: %v", ErrInvalidSchema, r)
		}
	}()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(jsonschema.SchemeURLLoader{})
	c.AssertFormat()
	registerFormats(c)
	m, size := &machine{}, 0
	c.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) {
		p, err := compileECMA(text)
		if err != nil {
			return nil, err
		}
		if size += p.size; size > maxPatternSize {
			return nil, errors.New("the patterns of the schema are too large together; use smaller repetitions")
		}
		return &meteredPattern{Pattern: p, in: m}, nil
	})
	if err := c.AddResource(resourceURL, source); err != nil {
		return nil, fmt.Errorf("%w: add: %w", ErrInvalidSchema, err)
	}
	if m.root, err = c.Compile(at); err != nil {
		return nil, fmt.Errorf("%w: compile: %w", ErrInvalidSchema, err)
	}
	for _, s := range graphOf(m.root) {
		m.meter(s)
	}
	return m, nil
}

// Validate is ValidateContext for a check that nothing ends early.
func (v *Validator) Validate(doc []byte) ([]Violation, error) {
	return v.ValidateContext(context.Background(), doc)
}

// ValidateContext returns the violations of a document, sorted by path and at most DefaultMaxViolations; nil means that the
// document is valid. The document is inspected first (see Inspect), so text that is not strict JSON gets violations too. So
// does a document whose check takes too much work; a text that is too long for its schema is not matched with a pattern.
//
// An error means that the check itself failed, and says nothing about the document. It wraps the context's error if the
// check ended with the context.
func (v *Validator) ValidateContext(ctx context.Context, doc []byte) ([]Violation, error) {
	if found := Inspect(doc, Bounds{}); len(found) > 0 {
		return found, nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return nil, fmt.Errorf("schema: read document: %w", err)
	}
	m, err := v.machines.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("schema: validate: %w", err)
	}
	defer v.machines.release(m)
	failure := m.run(ctx, v.work, value)
	if failure == nil {
		return nil, nil
	}
	if errors.Is(failure, ErrTooMuchWork) {
		return []Violation{TooMuchWork("")}, nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(failure, &invalid) {
		return nil, fmt.Errorf("schema: validate: %w", failure)
	}
	r := reporter{source: v.source, doc: value, budget: NewBudget(ctx)}
	found := SortViolations(r.flatten(invalid), DefaultMaxViolations)
	switch err := r.budget.Err(); {
	case errors.Is(err, ErrTooMuchWork) && len(found) == 0:
		return []Violation{TooMuchWork("")}, nil
	case err != nil && !errors.Is(err, ErrTooMuchWork):
		return nil, err
	}
	return found, nil
}

// TooMuchWork is the violation of a document that takes too much work to check.
func TooMuchWork(path string) Violation {
	return Violation{Path: path, Keyword: "maxWork", Message: "takes too much work to check against the schema: send shorter texts, fewer items, or less in one call"}
}

// Bounds of what a schema costs, however few bytes it has.
const (
	// maxSubschemas bounds the time to compile a schema, which grows with the square of their number: a second.
	maxSubschemas = 10000
	// maxExpansion bounds how many schemas are put to one value, counting each as often as references lead to it.
	maxExpansion = 1 << 14
	// maxPatternSize bounds the memory of all patterns of a schema, in instructions of 40 bytes.
	maxPatternSize = 1 << 18
)

// inPlace lists the schemas that are put to the same value as a schema itself.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	out := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, slices.Collect(maps.Values(s.DependentSchemas)))
	out = append(out, s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else)
	if s.DynamicRef != nil {
		out = append(out, s.DynamicRef.Ref)
	}
	for _, d := range s.Dependencies {
		below, _ := d.(*jsonschema.Schema)
		out = append(out, below)
	}
	return slices.DeleteFunc(out, isNil)
}

// ofMembers and ofItems list the schemas that are put to each member of an object, or item of an array. Those of single
// members are in Properties.
func ofMembers(s *jsonschema.Schema) []*jsonschema.Schema {
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	out := append(slices.Collect(maps.Values(s.PatternProperties)), s.PropertyNames, s.UnevaluatedProperties, additional)
	return slices.DeleteFunc(out, isNil)
}

func ofItems(s *jsonschema.Schema) []*jsonschema.Schema {
	out := append(slices.Clone(s.PrefixItems), s.Items2020, s.Contains, s.UnevaluatedItems)
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		out = append(out, items)
	case []*jsonschema.Schema:
		out = append(out, items...)
	}
	additional, _ := s.AdditionalItems.(*jsonschema.Schema)
	return slices.DeleteFunc(append(out, additional), isNil)
}

func isNil(s *jsonschema.Schema) bool { return s == nil }

// graphOf lists a schema and all that it leads to, each once.
func graphOf(root *jsonschema.Schema) []*jsonschema.Schema {
	seen := map[*jsonschema.Schema]bool{root: true}
	all := []*jsonschema.Schema{root}
	for i := 0; i < len(all); i++ {
		s := all[i]
		for _, below := range slices.Concat(inPlace(s), ofMembers(s), ofItems(s), slices.Collect(maps.Values(s.Properties))) {
			if !seen[below] {
				seen[below] = true
				all = append(all, below)
			}
		}
	}
	return all
}

// checkExpansion refuses schemas that put too many schemas to one value, or one to it without end.
func checkExpansion(all []*jsonschema.Schema) error {
	sizes := map[*jsonschema.Schema]int{} // 0 while a schema is being looked at
	var size func(s *jsonschema.Schema) (int, error)
	size = func(s *jsonschema.Schema) (int, error) {
		if n, ok := sizes[s]; ok {
			if n == 0 {
				return 0, fmt.Errorf("%s refers to itself without a property or an item between", place(s))
			}
			return n, nil
		}
		sizes[s] = 0
		n := 1
		for _, below := range inPlace(s) {
			more, err := size(below)
			if err != nil {
				return 0, err
			}
			if n += more; n > maxExpansion {
				return 0, fmt.Errorf("%s puts more than %d schemas to one value, counting each as often as references lead to it; "+
					"use fewer nested references, allOf, anyOf or oneOf", place(s), maxExpansion)
			}
		}
		sizes[s] = n
		return n, nil
	}
	for _, s := range all {
		if _, err := size(s); err != nil {
			return err
		}
	}
	return nil
}

func place(s *jsonschema.Schema) string {
	if at := s.Location[len(resourceURL):]; at != "#" {
		return at
	}
	return "the root"
}

// countSubschemas counts what may be schemas in a document: objects, and true and false.
func countSubschemas(document any) int {
	n := 0
	switch v := document.(type) {
	case bool:
		return 1
	case map[string]any:
		n = 1
		for name, member := range v {
			switch name {
			case "enum", "const", "default", "examples":
				if _, isSchema := member.(map[string]any); !isSchema || name == "const" || name == "default" {
					continue
				}
			}
			n += countSubschemas(member)
		}
	case []any:
		for _, item := range v {
			n += countSubschemas(item)
		}
	}
	return n
}

// cost is what it takes to put one schema to a value, without what the schemas below take for themselves.
type cost struct {
	any               int
	object, perMember int
	perItem           int
	members           map[string]int // more for these
}

func costOf(s *jsonschema.Schema) cost {
	// A branch that fails leaves an error behind until the others have failed too.
	branches := headsOf(s.AnyOf) + headsOf(s.OneOf)
	c := cost{any: 1 + headsOf(inPlace(s)) + branches, object: len(s.Required), perMember: 1 + headsOf(ofMembers(s)), perItem: 1 + headsOf(ofItems(s))}
	for _, names := range s.DependentRequired {
		c.object += 1 + len(names)
	}
	for name, below := range s.Properties {
		if n := headOf(below); n > 1 {
			if c.members == nil {
				c.members = map[string]int{}
			}
			c.members[name] = n
		}
	}
	if s.UniqueItems {
		c.perItem += 2
	}
	return c
}

func (c *cost) of(value any) int {
	switch v := value.(type) {
	case map[string]any:
		n := c.any + c.object + len(v)*c.perMember
		for name, more := range c.members {
			if _, ok := v[name]; ok {
				n += more
			}
		}
		return n
	case []any:
		return c.any + len(v)*c.perItem
	case string:
		return c.any + len(v)/(64*bytesPerStep) // its length is counted
	}
	return c.any
}

// headOf is what the type and the fixed values of a schema take, which the library looks at first.
func headOf(s *jsonschema.Schema) int {
	n := 0
	if s.Enum != nil {
		n += valuesOf(s.Enum.Values)
	}
	if s.Const != nil {
		n += valuesOf(*s.Const)
	}
	return 1 + n/valuesPerStep
}

func headsOf(list []*jsonschema.Schema) int {
	n := 0
	for _, s := range list {
		n += headOf(s)
	}
	return n
}

// valuesPerStep is how many fixed values are compared in the time of a step; a number takes the time of that many others.
const valuesPerStep = 8

func valuesOf(value any) int {
	n := 1
	switch v := value.(type) {
	case json.Number:
		return valuesPerStep
	case map[string]any:
		for _, member := range v {
			n += valuesOf(member)
		}
	case []any:
		for _, item := range v {
			n += valuesOf(item)
		}
	}
	return n
}

// maxWork bounds what checking one document may cost, in steps. A step is what the validator takes to put one schema to one
// value, some hundred nanoseconds. A document of DefaultMaxValues values may have each of them checked sixteen times.
const maxWork = 1 << 22

const (
	workBetweenLooks = 1 << 12 // steps between two looks at the context
	longText         = 1 << 16 // bytes above which a pattern is matched piece by piece
	bytesPerStep     = 16      // of a text that a small pattern reads
	longMatch        = 1 << 16 // instructions times bytes above which the context is looked at after a match
)

// ErrTooMuchWork means that a check was ended because it takes more work than one check may.
var ErrTooMuchWork = errors.New("schema: the check takes too much work")

// Budget is the work that one check has left. It also hears the context: whatever spends from a budget ends soon after the
// context does. It belongs to one goroutine.
type Budget struct {
	ctx           context.Context //nolint:containedctx // a budget lives as long as one check
	left, unheard int
	err           error
}

// NewBudget returns the budget of one check.
func NewBudget(ctx context.Context) *Budget { return &Budget{ctx: ctx, left: maxWork} }

// Err returns why the check has to end: ErrTooMuchWork, or an error that wraps that of the context. It is nil otherwise.
func (b *Budget) Err() error { return b.err }

// Spend takes steps from the budget. It returns false if the check has to end.
func (b *Budget) Spend(steps int) bool {
	if b.err != nil {
		return false
	}
	b.left -= steps
	b.unheard += steps
	if b.left < 0 {
		b.err = ErrTooMuchWork
		return false
	}
	return b.unheard < workBetweenLooks || b.look()
}

// look looks at the context.
func (b *Budget) look() bool {
	b.unheard = 0
	if err := b.ctx.Err(); err != nil {
		b.err = fmt.Errorf("schema: check: %w", err)
		return false
	}
	return true
}

// Pattern is a compiled pattern that spends from a budget. It is safe for concurrent use.
type Pattern struct {
	*regexp.Regexp
	size int // instructions
}

// CompilePattern compiles a pattern of RE2.
func CompilePattern(text string) (*Pattern, error) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what and where
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err //nolint:wrapcheck // likewise
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, err //nolint:wrapcheck // likewise
	}
	return &Pattern{Regexp: compiled, size: len(program.Inst)}, nil
}

// Size returns the number of instructions of the pattern.
func (p *Pattern) Size() int { return p.size }

// IsLong reports whether a match takes long enough to need a budget.
func (p *Pattern) IsLong(bytes int) bool { return bytes > longText || bytes*p.size > 16*longMatch }

// MatchWithin is MatchString that spends from a budget. If the budget has ended, the result means nothing.
func (p *Pattern) MatchWithin(b *Budget, text string) bool {
	if len(text) > longText {
		return p.MatchReader(&pieces{budget: b, rest: text, size: p.size}) && b.err == nil
	}
	matches := b.Spend(1+len(text)/bytesPerStep) && p.MatchString(text)
	return matches && (len(text)*p.size <= longMatch || b.look())
}

// pieces reads a text, and ends early where the budget does.
type pieces struct {
	budget *Budget
	rest   string
	size   int // instructions of the pattern: each may have to be followed for each character
	read   int // bytes that are not paid for
}

// ReadRune implements io.RuneReader.
func (p *pieces) ReadRune() (r rune, size int, err error) {
	if p.rest == "" {
		return 0, 0, io.EOF
	}
	r, size = utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[size:]
	if p.read += size; p.read*p.size >= workBetweenLooks*bytesPerStep {
		steps := p.read * p.size / bytesPerStep
		p.read = 0
		if !p.budget.Spend(steps) {
			p.rest = ""
			return 0, 0, io.EOF
		}
	}
	return r, size, nil
}

// Bounds of the rules in CEL that are evaluated for a schema.
const (
	maxNeedExpression = 4 << 10
	maxNeedCost       = 10_000
	maxKnownNeeds     = 4096
)

// zeroBreaks reports whether a rule in CEL of a field without presence is broken by its zero, which the rule sees where the
// field is absent.
func (n *Needs) zeroBreaks(fd protoreflect.FieldDescriptor, rules *validate.FieldRules) bool {
	for expression := range expressionsOf(rules.GetCel(), rules.GetCelExpression()) {
		if n.ask(needKey{shapeOf(fd), "", expression}, func() bool { return fieldBreaks(fd, expression) }) {
			return true
		}
	}
	return false
}

// absenceBreaks reports whether a rule in CEL of a message is broken where a field is absent, whatever the other fields are:
// the rule, or a part of it that has to hold, reads that field alone.
func (n *Needs) absenceBreaks(fd protoreflect.FieldDescriptor) bool {
	md := fd.ContainingMessage()
	if od := fd.ContainingOneof(); fd.IsExtension() || od != nil && !od.IsSynthetic() || !hasOptions(md) {
		return false
	}
	rules := messageRules(md)
	for expression := range expressionsOf(rules.GetCel(), rules.GetCelExpression()) {
		if !strings.Contains(expression, string(fd.Name())) {
			continue
		}
		if n.ask(needKey{shapeOf(fd), string(fd.Name()), expression}, func() bool { return messageBreaks(fd, expression) }) {
			return true
		}
	}
	return false
}

func expressionsOf(rules []*validate.Rule, plain []string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, r := range rules {
			if len(r.GetExpression()) <= maxNeedExpression && !yield(r.GetExpression()) {
				return
			}
		}
		for _, e := range plain {
			if len(e) <= maxNeedExpression && !yield(e) {
				return
			}
		}
	}
}

// Needs keeps what rules in CEL say of fields that are absent, for derivations with the same Options: schemas are derived
// often, and to evaluate a rule takes long. The zero value is ready for use, and safe for concurrent use.
type Needs struct {
	known sync.Map // needKey to bool
	count atomic.Int64
}

// needKey is all that the outcome depends on: what the field is, its name where the rule is of the message, and the rule.
type needKey struct{ shape, name, expression string }

// shapeOf is what an absent field is to a rule.
func shapeOf(fd protoreflect.FieldDescriptor) string {
	shape := []string{fmt.Sprint(fd.Kind(), fd.Cardinality(), fd.HasPresence(), fd.IsMap()), fd.Default().String()}
	for _, part := range []protoreflect.FieldDescriptor{fd, fd.MapKey(), fd.MapValue()} {
		if part != nil && part.Message() != nil {
			shape = append(shape, string(part.Message().FullName()))
		} else if part != nil {
			shape = append(shape, part.Kind().String())
		}
	}
	return strings.Join(shape, " ")
}

func (n *Needs) ask(key needKey, evaluate func() bool) bool {
	if known, ok := n.known.Load(key); ok {
		return known == true
	}
	breaks := evaluate()
	if n.count.Add(1) <= maxKnownNeeds {
		n.known.Store(key, breaks)
	}
	return breaks
}

// needEnv is the environment of protovalidate's rules, without "this" and without types of messages: the library would keep
// those of all files in the program.
var needEnv = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(cel.CustomTypeProvider(noFiles{types.NewEmptyRegistry()}), cel.Lib(pvcel.NewLibrary()), cel.EnableMacroCallTracking())
})

// noFiles is a registry that ignores files.
type noFiles struct{ *types.Registry }

// RegisterDescriptor does nothing.
func (noFiles) RegisterDescriptor(protoreflect.FileDescriptor) error { return nil }

// needEnvWith is needEnv with the well-known types and what the options add.
func needEnvWith(options ...cel.EnvOption) (*cel.Env, error) {
	base, err := needEnv()
	if err != nil {
		return nil, err
	}
	known, err := types.NewRegistry()
	if err != nil {
		return nil, err //nolint:wrapcheck // likewise
	}
	return base.Extend(append([]cel.EnvOption{cel.CustomTypeProvider(known), cel.CustomTypeAdapter(known)}, options...)...)
}

func fieldBreaks(fd protoreflect.FieldDescriptor, expression string) bool {
	env, err := needEnvWith(append(pvcel.RequiredEnvOptions(fd), cel.Variable("this", pvcel.ProtoFieldToType(fd, false, false)))...)
	if err != nil {
		return false
	}
	zero := dynamicpb.NewMessage(fd.ContainingMessage()).Get(fd)
	if fd.IsMap() {
		return isBroken(env, expression, map[string]string{})
	}
	return isBroken(env, expression, pvcel.ProtoFieldToValue(fd, zero, false))
}

func messageBreaks(fd protoreflect.FieldDescriptor, expression string) bool {
	empty := dynamicpb.NewMessage(fd.ContainingMessage())
	env, err := needEnvWith(cel.Types(empty), cel.Variable("this", cel.ObjectType(string(fd.ContainingMessage().FullName()))))
	if err != nil {
		return false
	}
	parsed, issues := env.Parse(expression)
	if issues.Err() != nil {
		return false
	}
	tree := parsed.NativeRep()
	for _, part := range conjuncts(tree.Expr()) {
		if !readsOnly(tree, part, string(fd.Name())) {
			continue
		}
		text, err := cel.ExprToString(part, tree.SourceInfo())
		if err == nil && isBroken(env, text, empty) {
			return true
		}
	}
	return false
}

// conjuncts are the parts of a rule that have to hold, all of them.
func conjuncts(e ast.Expr) []ast.Expr {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != "_&&_" {
		return []ast.Expr{e}
	}
	var out []ast.Expr
	for _, arg := range e.AsCall().Args() {
		out = append(out, conjuncts(arg)...)
	}
	return out
}

// readsOnly reports whether an expression reads nothing of "this" but a field, and nothing in that field.
func readsOnly(tree *ast.AST, e ast.Expr, field string) bool {
	found := false
	for _, node := range ast.MatchDescendants(ast.NavigateAST(ast.NewAST(e, tree.SourceInfo())), ast.KindMatcher(ast.IdentKind)) {
		if node.AsIdent() != "this" {
			continue
		}
		read, ok := node.Parent()
		if !ok || read.Kind() != ast.SelectKind || read.AsSelect().FieldName() != field {
			return false
		}
		if within, ok := read.Parent(); ok && within.Kind() == ast.SelectKind {
			return false
		}
		found = true
	}
	return found
}

// isBroken evaluates a rule. One that cannot be evaluated, as with the time, is not known to be broken.
func isBroken(env *cel.Env, expression string, this any) bool {
	checked, issues := env.Compile(expression)
	if issues.Err() != nil {
		return false
	}
	program, err := env.Program(checked, cel.CostLimit(maxNeedCost))
	if err != nil {
		return false
	}
	out, _, err := program.Eval(map[string]any{"this": this})
	if err != nil {
		return false
	}
	switch verdict := out.Value().(type) {
	case bool:
		return !verdict
	case string:
		return verdict != ""
	}
	return false
}

// draft2020 is the only value of $schema that a plain schema may have.
const draft2020 = "https://json-schema.org/draft/2020-12/schema"

// maxPlainDigits is how many digits a count in a plain schema may have, so that it is an int on every machine.
const maxPlainDigits = 9

// maxPlainPattern is the size of a pattern, in instructions, up to which as many of them as a deferred schema has room for
// are not too large together.
const maxPlainPattern = 128

// isPlain reports whether a document is a schema that certainly compiles, as draft 2020-12: it has none but the keywords
// that most schemas are made of, each with a value that the metaschema admits, and refers to nothing. False says nothing:
// the compiler has to be asked. A differential fuzz test holds it to that.
func isPlain(document any) bool {
	root, ok := document.(map[string]any)
	if !ok {
		return false
	}
	if draft, ok := root["$schema"]; ok && draft != draft2020 {
		return false
	}
	return isPlainObject(root, true)
}

func isPlainSchema(value any) bool {
	switch v := value.(type) {
	case bool:
		return true
	case map[string]any:
		return isPlainObject(v, false)
	}
	return false
}

func isPlainObject(object map[string]any, isRoot bool) bool {
	for keyword, value := range object {
		if keyword == "$schema" && isRoot {
			continue
		}
		if !isPlainKeyword(keyword, value) {
			return false
		}
	}
	return true
}

// isPlainKeyword reports whether one member of a schema is known to compile.
func isPlainKeyword(keyword string, value any) bool {
	switch keyword {
	case "type":
		return isPlainType(value)
	case "properties", "$defs":
		return isMapOf(value, isPlainSchema)
	case "additionalProperties", "items", "propertyNames", "not":
		return isPlainSchema(value)
	case "anyOf", "oneOf", "allOf":
		list, ok := value.([]any)
		return ok && len(list) > 0 && isListOf(value, isPlainSchema)
	case "required":
		return isListOf(value, is[string]) && isEachOnce(value)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		return is[json.Number](value)
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		return isCount(value)
	case "pattern":
		text, ok := value.(string)
		if !ok {
			return false
		}
		compiled, err := compileECMA(text)
		return err == nil && compiled.size <= maxPlainPattern
	case "title", "description", "$comment", "format":
		return is[string](value)
	case "uniqueItems", "deprecated", "readOnly", "writeOnly":
		return is[bool](value)
	case "enum", "examples":
		return is[[]any](value)
	case "const", "default":
		return true
	}
	// Extensions are annotations, whatever their value.
	return strings.HasPrefix(keyword, "x-")
}

func isPlainType(value any) bool {
	if is[string](value) {
		return isTypeName(value)
	}
	list, ok := value.([]any)
	return ok && len(list) > 0 && isListOf(value, isTypeName) && isEachOnce(value)
}

func isTypeName(value any) bool {
	switch value {
	case "object", "array", "string", "number", "integer", "boolean", "null":
		return true
	}
	return false
}

func is[T any](value any) bool {
	_, ok := value.(T)
	return ok
}

// isCount holds for whole numbers that are written as digits.
func isCount(value any) bool {
	number, ok := value.(json.Number)
	return ok && len(number) <= maxPlainDigits && strings.Trim(string(number), "0123456789") == ""
}

func isListOf(value any, is func(any) bool) bool {
	list, ok := value.([]any)
	return ok && !slices.ContainsFunc(list, func(v any) bool { return !is(v) })
}

func isMapOf(value any, is func(any) bool) bool {
	object, ok := value.(map[string]any)
	if !ok {
		return false
	}
	for _, v := range object {
		if !is(v) {
			return false
		}
	}
	return true
}

// maxPlainNames is how many texts are compared with each other; lists that are longer are left to the compiler.
const maxPlainNames = 64

// isEachOnce holds for lists in which no text is there twice.
func isEachOnce(value any) bool {
	list, _ := value.([]any)
	if len(list) > maxPlainNames {
		return false
	}
	for i, v := range list {
		if slices.Contains(list[:i], v) {
			return false
		}
	}
	return true
}
