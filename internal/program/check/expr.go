// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/syntax"

	"github.com/outrigger-mcp/outrigger/internal/program/types"
)

// expr finds out what is known of an expression.
func (c *checker) expr(e syntax.Expr) *value {
	if c.work--; c.work < 0 {
		return only(kAny)
	}
	switch e := e.(type) {
	case *syntax.Literal:
		return literal(e)
	case *syntax.Ident:
		return c.used(c.name(e), e.NamePos)
	case *syntax.ParenExpr:
		return c.expr(e.X)
	case *syntax.DotExpr:
		v := c.used(c.dot(e), e.Name.NamePos)
		if storing(e.Name.Name) && (v.isAny() || v.is(kMethod)) {
			c.now.isWild = true // it may be called anywhere
		}
		return v
	case *syntax.CallExpr:
		return c.call(e)
	case *syntax.ListExpr:
		return c.made(c.written(kList, e.List))
	case *syntax.TupleExpr:
		return c.written(kTuple, e.List)
	case *syntax.DictExpr:
		return c.dict(e)
	case *syntax.Comprehension:
		return c.comprehension(e, func() *value { return c.entry(e.Body) })
	case *syntax.CondExpr:
		return c.conditional(e, func(branch syntax.Expr) *value { return c.expr(branch) })
	case *syntax.UnaryExpr:
		return c.unary(e)
	case *syntax.BinaryExpr:
		return c.operation(e)
	case *syntax.IndexExpr:
		return c.used(c.index(e), e.Lbrack)
	case *syntax.SliceExpr:
		return c.slice(e)
	case *syntax.LambdaExpr:
		return c.lambda(e, nil)
	}
	return only(kAny)
}

// used notes a function or a tool that is a value: its calls are not all seen.
func (c *checker) used(v *value, at syntax.Position) *value {
	switch {
	case v.is(kFunction):
		v.def.escapes = true
	case v.is(kTool):
		c.planCall(v.tool, at, -1)
	}
	return v
}

// callee is expr for what is called.
func (c *checker) callee(e syntax.Expr) *value {
	if c.work--; c.work < 0 {
		return only(kAny)
	}
	switch e := unparen(e).(type) {
	case *syntax.Ident:
		return c.name(e)
	case *syntax.DotExpr:
		return c.dot(e)
	case *syntax.IndexExpr:
		return c.index(e)
	}
	return c.expr(e)
}

func literal(e *syntax.Literal) *value {
	switch v := e.Value.(type) {
	case string:
		if e.Token == syntax.BYTES {
			return only(kBytes)
		}
		return &value{kind: kString, text: &v, isWritten: true}
	case int64:
		return &value{kind: kInt, num: big.NewInt(v)}
	case *big.Int:
		return &value{kind: kInt, num: v}
	case float64:
		return &value{kind: kFloat, real: &v}
	}
	return only(kAny)
}

// isConstant reports whether a name is that of a value that each program has.
func isConstant(name string) bool { return name == "None" || name == "True" || name == "False" }

func (c *checker) name(id *syntax.Ident) *value {
	switch scopeOf(id) { //nolint:exhaustive // the others are variables
	case resolve.Universal:
		switch id.Name {
		case "None":
			return only(kNone)
		case "True", "False":
			return &value{kind: kBool, num: big.NewInt(int64(strings.Index("FT", id.Name[:1])))}
		}
		return &value{kind: kBuiltin, name: id.Name}
	case resolve.Predeclared:
		switch id.Name {
		case inputsName:
			return c.inputs
		case toolsName:
			return only(kTools)
		case jsonName:
			return only(kJSON)
		}
		return c.module(id.Name).orAny()
	case resolve.Undefined:
		return only(kAny)
	}
	return c.get(id)
}

// module is what a name of tools means.
func (c *checker) module(name string) *value {
	tool, ok := c.world.Catalog.Lookup(name)
	switch {
	case c.world.index().modules[name]:
		return &value{kind: kModule, name: name, tool: tool}
	case ok:
		return &value{kind: kTool, tool: tool}
	}
	return nil
}

// maxParts is how long a list or tuple may be whose elements are known one by one.
const maxParts = 16

// written is a list or tuple whose elements are expressions.
func (c *checker) written(k kind, list []syntax.Expr) *value {
	if len(list) > maxParts {
		v := &value{kind: k, most: len(list) + 1}
		for _, one := range list {
			v.elem = c.join(v.elem, c.expr(one).plain().orAny())
		}
		return v
	}
	parts := make([]*value, 0, len(list))
	for _, one := range list {
		parts = append(parts, c.expr(one).orAny())
	}
	return c.of(k, parts)
}

// of is a list or tuple with these elements. It knows nothing of them one by one if there are too many, or none.
func (c *checker) of(k kind, parts []*value) *value {
	v := &value{kind: k, most: len(parts) + 1}
	for _, part := range parts {
		v.elem = c.join(v.elem, part.plain())
	}
	if len(parts) > 0 && len(parts) <= maxParts {
		v.parts = parts
	}
	return v
}

func (c *checker) dict(e *syntax.DictExpr) *value {
	var elem *value
	for _, one := range e.List {
		elem = c.join(elem, c.entry(one).plain())
	}
	return c.made(&value{kind: kDict, elem: elem, most: len(e.List) + 1})
}

// entry is the value of an element or of an entry of a dict.
func (c *checker) entry(e syntax.Expr) *value {
	if entry, ok := e.(*syntax.DictEntry); ok {
		c.expr(entry.Key)
		return c.expr(entry.Value)
	}
	return c.expr(e)
}

// comprehension passes over a comprehension, and over its body by a function.
func (c *checker) comprehension(e *syntax.Comprehension, body func() *value) *value {
	times, unsure := c.times, c.unsure
	most := 2
	for _, clause := range e.Clauses {
		switch clause := clause.(type) {
		case *syntax.ForClause:
			v := c.expr(clause.X)
			c.times, most = product(c.times, v.length()), times2(most, v.length())
			c.unsure = c.unsure || v.length() == 1
			c.unpack(clause.Vars, c.iterated(clause.X, v))
		case *syntax.IfClause:
			isTrue, isKnown := truth(c.expr(clause.Cond))
			c.unsure = c.unsure || c.isTesting || isKnown && !isTrue
		}
	}
	elem := body()
	c.times, c.unsure = times, unsure
	k := kList
	if e.Curly {
		k = kDict
	}
	return c.made(&value{kind: k, elem: elem.plain().orAny(), most: most})
}

// times2 is the length of two loops, one in the other; all of them and one more, 0 for none that is known.
func times2(a, b int) int {
	if a == 0 || b == 0 || (a-1)*(b-1) > maxTimes {
		return 0
	}
	return (a-1)*(b-1) + 1
}

// iterated is what a loop gets from a value.
func (c *checker) iterated(e syntax.Expr, v *value) *value {
	if v.isAny() {
		return only(kAny)
	}
	items := v.items()
	if items == nil {
		instead := ""
		if lists := v.lists(); len(lists) == 1 {
			instead = "." + lists[0]
		}
		c.fault(start(e), ruleNotIterable, v.words()+" has no elements to go through", instead)
		return only(kAny)
	}
	return items.plain()
}

// lists are the names of the lists of a message.
func (v *value) lists() []string {
	var out []string
	if v.is(kMessage) {
		for _, f := range v.typ.Fields() {
			if f.Type != nil && f.Type.Kind == types.List {
				out = append(out, f.Name)
			}
		}
	}
	return out
}

func (c *checker) conditional(e *syntax.CondExpr, eval func(syntax.Expr) *value) *value {
	isTrue, isKnown := truth(c.expr(e.Cond))
	unsure := c.unsure
	c.unsure = unsure || c.isTesting || isKnown && !isTrue
	a := eval(e.True)
	c.unsure = unsure || c.isTesting || isKnown && isTrue
	b := eval(e.False)
	c.unsure = unsure
	return c.join(a, b).plain()
}

// truth is whether a value counts as true, where that is known.
func truth(v *value) (isTrue, isKnown bool) {
	switch {
	case v == nil || v.isNullable || v.isOrError:
	case v.kind == kNone:
		return false, true
	case v.num != nil:
		return v.num.Sign() != 0, true
	case v.text != nil && v.isWritten:
		return *v.text != "", true
	case v.most == 1 && v.is(kList, kDict, kTuple, kRange):
		return false, true
	}
	return false, false
}

func (c *checker) lambda(e *syntax.LambdaExpr, given []*value) *value {
	f := c.functions[e]
	c.body(f, e.Params, func() { c.returned = c.expr(e.Body).plain() }, given)
	return &value{kind: kFunction, def: f}
}

// index passes over x[y].
func (c *checker) index(e *syntax.IndexExpr) *value {
	v, key := c.expr(e.X), c.expr(e.Y)
	if v.isAny() {
		return only(kAny)
	}
	switch v.kind {
	case kTools:
		return c.toolByName(e, key)
	case kRecord:
		if key.is(kString) && key.text != nil {
			return c.attribute(v, *key.text, e.Lbrack)
		}
		return only(kAny)
	case kDict:
		c.compareKey(v, e.Y)
		return v.element()
	case kMessage:
		if key.is(kString) && key.text != nil {
			return c.attribute(v, *key.text, e.Lbrack)
		}
		return only(kAny)
	case kList, kTuple, kRange, kString, kBytes:
		if key.is(kString, kFloat, kNone, kList, kDict, kMessage) && !key.isOrError {
			c.fault(e.Lbrack, ruleOperands, "an index of "+v.words()+" is an int, found "+key.words(), "")
		}
		if v.is(kString, kBytes) {
			return only(v.kind)
		}
		if v.parts != nil && key.is(kInt) && key.num != nil {
			return c.part(e, v, key)
		}
		return v.element().plain()
	case kInt, kFloat, kBool, kNone, kFunction, kBuiltin, kMethod, kTool, kTimestamp, kDuration:
		c.fault(e.Lbrack, ruleOperands, v.words()+" has no elements", "")
	}
	return only(kAny)
}

// part is an element of a list or tuple whose length is known, by its index.
func (c *checker) part(e *syntax.IndexExpr, v, key *value) *value {
	i, n := int64(-1), int64(len(v.parts))
	if key.num.IsInt64() {
		if i = key.num.Int64(); i < 0 {
			i += n
		}
	}
	if i < 0 || i >= n {
		c.fault(e.Lbrack, ruleOutOfRange, fmt.Sprintf("%s is no index of %s of %s", shownInt(key.num), v.words(), counted(int(n), "element")), "")
		return only(kAny)
	}
	return v.parts[i]
}

// counted is a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// toolByName is tools["name"].
func (c *checker) toolByName(e *syntax.IndexExpr, key *value) *value {
	if !key.is(kString) || key.text == nil {
		if len(c.anyTool) == 0 {
			for _, t := range c.world.Catalog.Tools() { // it may be any
				c.planCall(t, e.Lbrack, -1)
			}
		}
		if len(c.anyTool) < maxPlaces {
			c.anyTool = append(c.anyTool, e.Lbrack)
		}
		return only(kAny)
	}
	tool, ok := c.world.Catalog.Lookup(*key.text)
	if !ok {
		c.unknownTool(start(e.Y), *key.text)
		return only(kAny)
	}
	return &value{kind: kTool, tool: tool}
}

func (c *checker) unknownTool(at syntax.Position, name string) {
	c.report(at, ruleUnknownTool, "there is no tool "+name, c.hint(func() string { return c.nearestTool(name) }))
}

// hint computes what to write, for findings that are shown.
func (c *checker) hint(compute func() string) string {
	if c.round < rounds-1 || len(c.findings) >= maxFindings {
		return ""
	}
	return compute()
}

func (c *checker) slice(e *syntax.SliceExpr) *value {
	v := c.expr(e.X)
	var bound [3]*value
	for i, one := range [...]syntax.Expr{e.Lo, e.Hi, e.Step} {
		if one != nil {
			bound[i] = c.expr(one)
		}
	}
	switch {
	case v.isAny():
		return only(kAny)
	case v.is(kString, kBytes):
		return only(v.kind)
	case v.is(kList, kTuple, kRange):
		if parts, ok := slicedParts(v, e, bound); ok {
			out := c.of(v.kind, parts)
			if v.kind == kTuple {
				return out
			}
			return c.made(out)
		}
		out := &value{kind: v.kind, elem: v.element().plain(), most: v.most}
		if hi := bound[1]; hi.is(kInt) && hi.num != nil && hi.num.IsInt64() && hi.num.Sign() >= 0 && hi.num.Int64() < maxTimes {
			if most := int(hi.num.Int64()) + 1; out.most == 0 || most < out.most {
				out.most = most
			}
		}
		if v.kind == kRange {
			out.kind = kList
		}
		if v.kind == kTuple {
			return out
		}
		return c.made(out)
	case v.is(kInt, kFloat, kBool, kNone, kMessage, kDict, kRecord, kTool):
		c.fault(e.Lbrack, ruleOperands, v.words()+" cannot be sliced", "")
	}
	return only(kAny)
}

// slicedParts are the elements of a slice, of a list or tuple and by bounds that are known; ok is false where they are not.
func slicedParts(v *value, e *syntax.SliceExpr, bound [3]*value) (parts []*value, ok bool) {
	n := int64(len(v.parts))
	if n == 0 || e.Step != nil {
		return nil, false
	}
	at := [2]int64{0, n}
	for i, one := range [...]syntax.Expr{e.Lo, e.Hi} {
		if one == nil {
			continue
		}
		known := bound[i]
		if !known.is(kInt) || known.num == nil || !known.num.IsInt64() {
			return nil, false
		}
		if at[i] = known.num.Int64(); at[i] < 0 {
			at[i] += n
		}
		at[i] = min(max(at[i], 0), n)
	}
	return v.parts[at[0]:max(at[0], at[1])], true
}

// dot passes over x.name.
func (c *checker) dot(e *syntax.DotExpr) *value {
	v := c.callee(e.X)
	if v.is(kFunction) {
		c.used(v, e.Name.NamePos)
	}
	return c.attribute(v, e.Name.Name, e.Name.NamePos)
}

// attribute is an attribute of a value.
func (c *checker) attribute(v *value, name string, at syntax.Position) *value {
	if v == nil || v.kind == kAny {
		return only(kAny)
	}
	switch v.kind {
	case kModule:
		full := v.name + "." + name
		if found := c.module(full); found != nil {
			return found
		}
		c.unknownTool(at, full)
		return only(kAny)
	case kTools:
		found := c.module(name)
		if found == nil {
			c.unknownTool(at, name)
		}
		return found.orAny()
	case kJSON:
		if name != "encode" && name != "decode" {
			c.report(at, ruleUnknownField, "json has no "+name+"; it has encode, decode", cmp.Or(map[string]string{"dumps": "json.encode(x)", "loads": "json.decode(text)"}[name], nearest(name, []string{"encode", "decode"})))
			return only(kAny)
		}
		return &value{kind: kMethod, name: name, of: v}
	case kMessage:
		return c.field(v, name, at)
	case kRecord:
		if found := v.attrs[name]; found != nil {
			return found
		}
		if method, ok := objectMethods()[name]; ok {
			return &value{kind: kMethod, name: method, of: v}
		}
		c.unknownField(at, v, name)
		return only(kAny)
	}
	return c.method(v, name, at)
}

// field is a field of a message.
func (c *checker) field(v *value, name string, at syntax.Position) *value {
	if f := v.typ.Field(name); f != nil {
		return ofType(f.Type)
	}
	if method, ok := objectMethods()[name]; ok && (v.typ.Schema || v.typ.Open || name == "get") {
		return &value{kind: kMethod, name: method, of: v}
	}
	if v.typ.Open || v.isOrError && (name == "code" || name == "message" || name == "status") {
		return only(kAny)
	}
	c.unknownField(at, v, name)
	return only(kAny)
}

func (c *checker) unknownField(at syntax.Position, v *value, name string) {
	if c.guarded[name] {
		return
	}
	known := func() []string {
		if v.is(kMessage) {
			return namesOf(v.typ)
		}
		return sortedNames(v.attrs)
	}
	what := v.words()
	if v == c.inputs {
		what = inputsName
	}
	message := fmt.Sprintf("%s has no field %s", what, name)
	c.report(at, ruleUnknownField, message+c.hint(func() string { return has(known()) }), c.hint(func() string { return c.meantField(v.typ, name, known()) }))
}

// namesOf are the names of the fields of a message.
func namesOf(t *types.Type) []string {
	var names []string
	for _, f := range t.Fields() {
		names = append(names, f.Name)
	}
	return names
}

// maxListed is how many names a message shows.
const maxListed = 12

func has(known []string) string {
	switch {
	case len(known) == 0:
		return "; it has none"
	case len(known) > maxListed:
		return fmt.Sprintf("; it has %s and %d more", strings.Join(known[:maxListed], ", "), len(known)-maxListed)
	}
	return "; it has " + strings.Join(known, ", ")
}

// method is an attribute of a value that no tool returned as a message.
func (c *checker) method(v *value, name string, at syntax.Position) *value {
	if v.isOrError {
		return only(kAny)
	}
	if v.is(kTimestamp, kDuration) {
		if name == "seconds" || name == "nanos" {
			return only(kInt)
		}
		c.faultOrName(v, at, name, "str(x) for its text, such as str(x)[:10] for the day, or .seconds")
		return only(kAny)
	}
	known := methodsOf(v.kind)
	if known == nil {
		return only(kAny)
	}
	if slices.Contains(known, name) {
		return &value{kind: kMethod, name: name, of: v}
	}
	instead := c.hint(func() string {
		if other := python(v.kind, name); other != "" {
			return other
		}
		if v.kind == kDict {
			return fmt.Sprintf("[%q]", name)
		}
		return nearest(name, known)
	})
	c.faultOrName(v, at, name, instead)
	return only(kAny)
}

// faultOrName reports an attribute that the kind of a value never has.
func (c *checker) faultOrName(v *value, at syntax.Position, name, instead string) {
	if !c.guarded[name] {
		c.fault(at, ruleUnknownField, fmt.Sprintf("%s has no attribute %s", v.words(), name), instead)
	}
}

// maxStart is how far start looks.
const maxStart = 64

// start is where an expression begins, or a place in one that is very deep. It looks no farther than needed: the span of an expression
// takes as long as it is deep.
func start(e syntax.Expr) syntax.Position {
	var at syntax.Position
	for range maxStart {
		switch x := e.(type) {
		case *syntax.BinaryExpr:
			e, at = x.X, x.OpPos
		case *syntax.CallExpr:
			e, at = x.Fn, x.Lparen
		case *syntax.DotExpr:
			e, at = x.X, x.Name.NamePos
		case *syntax.IndexExpr:
			e, at = x.X, x.Lbrack
		case *syntax.SliceExpr:
			e, at = x.X, x.Lbrack
		case *syntax.CondExpr:
			e, at = x.True, x.If
		case *syntax.DictEntry:
			e, at = x.Key, x.Colon
		case *syntax.TupleExpr:
			if x.Lparen.IsValid() || len(x.List) == 0 {
				return x.Lparen
			}
			e, at = x.List[0], startOf(x.List[0], at)
		default:
			return startOf(e, at)
		}
	}
	return at
}

// startOf is the place of an expression whose first token is known at once.
func startOf(e syntax.Expr, otherwise syntax.Position) syntax.Position {
	switch x := e.(type) {
	case *syntax.Ident:
		return x.NamePos
	case *syntax.Literal:
		return x.TokenPos
	case *syntax.ParenExpr:
		return x.Lparen
	case *syntax.ListExpr:
		return x.Lbrack
	case *syntax.DictExpr:
		return x.Lbrace
	case *syntax.Comprehension:
		return x.Lbrack
	case *syntax.LambdaExpr:
		return x.Lambda
	case *syntax.UnaryExpr:
		return x.OpPos
	}
	return otherwise
}
