// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	pvcel "buf.build/go/protovalidate/cel"
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

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

// needEnv is the environment of protovalidate's rules, without "this".
var needEnv = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(cel.Lib(pvcel.NewLibrary()), cel.EnableMacroCallTracking())
})

func fieldBreaks(fd protoreflect.FieldDescriptor, expression string) bool {
	base, err := needEnv()
	if err != nil {
		return false
	}
	env, err := base.Extend(append(pvcel.RequiredEnvOptions(fd), cel.Variable("this", pvcel.ProtoFieldToType(fd, false, false)))...)
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
	base, err := needEnv()
	if err != nil {
		return false
	}
	empty := dynamicpb.NewMessage(fd.ContainingMessage())
	env, err := base.Extend(cel.Types(empty), cel.Variable("this", cel.ObjectType(string(fd.ContainingMessage().FullName()))))
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
