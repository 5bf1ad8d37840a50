// SPDX-License-Identifier: Apache-2.0

package check

import (
	"math/big"
	"slices"
	"strconv"

	"go.starlark.net/syntax"

	"github.com/outrigger-mcp/outrigger/internal/program/types"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// unary passes over -x, +x, ~x and not x.
func (c *checker) unary(e *syntax.UnaryExpr) *value {
	if e.X == nil {
		return only(kAny)
	}
	v := c.expr(e.X)
	if e.Op == syntax.NOT {
		if isTrue, isKnown := truth(v); isKnown {
			return boolean(!isTrue)
		}
		return only(kBool)
	}
	switch {
	case v.isAny(), v.is(kDuration):
		return only(kAny)
	case v.is(kInt) && v.num != nil && e.Op == syntax.MINUS:
		return &value{kind: kInt, num: new(big.Int).Neg(v.num)}
	case v.is(kFloat) && v.real != nil && e.Op == syntax.MINUS:
		r := -*v.real
		return &value{kind: kFloat, real: &r}
	case v.is(kInt, kFloat):
		return only(v.kind)
	case v.is(kString, kNone, kList, kDict, kTuple, kMessage, kRecord, kBool):
		c.fault(e.OpPos, ruleOperands, e.Op.String()+" wants a number, found "+v.words(), "")
	}
	return only(kAny)
}

func boolean(is bool) *value {
	n := int64(0)
	if is {
		n = 1
	}
	return &value{kind: kBool, num: big.NewInt(n)}
}

// operation passes over an expression with two operands. Long sums are deep on their left, and are gone through from there.
func (c *checker) operation(e *syntax.BinaryExpr) *value {
	if e.Op == syntax.AND || e.Op == syntax.OR {
		left := c.expr(e.X)
		isTrue, isKnown := truth(left)
		unsure := c.unsure
		c.unsure = unsure || c.isTesting || isKnown && isTrue == (e.Op == syntax.OR)
		right := c.expr(e.Y)
		c.unsure = unsure
		if isKnown {
			if isTrue == (e.Op == syntax.OR) {
				return left
			}
			return right
		}
		return c.join(left, right).plain()
	}
	left, right := c.expr(e.X), c.expr(e.Y)
	switch e.Op {
	case syntax.EQL, syntax.NEQ, syntax.LT, syntax.GT, syntax.LE, syntax.GE:
		c.compareTime(e.Op, left, right, e.Y)
		c.compareTime(e.Op, right, left, e.X)
	}
	switch e.Op {
	case syntax.EQL, syntax.NEQ:
		c.compareEnum(left, right, e.Y)
		c.compareEnum(right, left, e.X)
		c.compareLiteral(left, e.Y)
		c.compareLiteral(right, e.X)
		return only(kBool)
	case syntax.IN, syntax.NOT_IN:
		c.within(e, left, right)
		return only(kBool)
	}
	return c.binary(e.OpPos, e.Op, left, right)
}

// compareEnum reports a text in the program that no value of an enum is.
func (c *checker) compareEnum(enum, text *value, at syntax.Expr) {
	if !enum.is(kEnum) || enum.isOrError || !text.is(kString) || text.text == nil || !text.isWritten {
		return
	}
	c.enumName(enum.typ.Values, string(enum.typ.Name), *text.text, at)
}

// compareLiteral reports a literal that is never equal to a field of a result. It would run, and find nothing: ints of 64 bits are strings
// in JSON, and are taken for strings here.
func (c *checker) compareLiteral(v *value, at syntax.Expr) {
	e, ok := unparen(at).(*syntax.Literal)
	if !ok || v.isAny() || !v.isResult {
		return
	}
	other := literal(e)
	switch {
	case v.isNumber() && other.is(kString):
		c.fault(e.TokenPos, ruleWrongType, v.words()+" is never equal to a string", numberIn(e))
	case v.is(kString) && other.isNumber():
		c.fault(e.TokenPos, ruleWrongType, "a string is never equal to "+other.words(), strconv.Quote(e.Raw))
	}
}

// compareKey reports a text that is never a key of a dict of a result, whose keys are ints: they are texts in JSON alone.
func (c *checker) compareKey(dict *value, at syntax.Expr) {
	if !dict.is(kDict) || !dict.isResult || dict.isOrError || dict.typ.Key() == nil || dict.typ.Key().Kind != types.Int {
		return
	}
	if e, ok := unparen(at).(*syntax.Literal); ok && literal(e).is(kString) {
		c.fault(e.TokenPos, ruleWrongType, "the keys of this dict are ints, found the string "+strconv.Quote(clipped(*literal(e).text)), numberIn(e))
	}
}

// numberIn is the number that a literal has as a text; empty for none.
func numberIn(e *syntax.Literal) string {
	text := *literal(e).text
	if _, err := strconv.ParseFloat(text, 64); err != nil {
		return ""
	}
	return text
}

// compareTime reports a text that is compared with a time or a duration and is none.
func (c *checker) compareTime(op syntax.Token, of, text *value, at syntax.Expr) {
	if !of.is(kTimestamp, kDuration) || of.isOrError || of.isNullable && (op == syntax.EQL || op == syntax.NEQ) || !text.is(kString) || text.text == nil {
		return
	}
	t := &types.Type{Kind: types.Timestamp}
	if of.is(kDuration) {
		t.Kind = types.Duration
	}
	if rule, found := misfitText(*text.text, t); rule != "" {
		c.fault(start(at), rule, "this is compared with "+wanted(t)+", found "+found, "")
	}
}

// enumName reports a text that is not among the values of an enum.
func (c *checker) enumName(values []string, name, text string, at syntax.Expr) {
	if !slices.Contains(values, text) {
		c.report(start(at), ruleUnknownValue, shortName(name, "the enum")+" has no value "+text+c.hint(func() string { return has(values) }),
			c.hint(func() string { return schema.NearestValue(text, values) }))
	}
}

func (c *checker) within(e *syntax.BinaryExpr, left, right *value) {
	if list, ok := unparen(e.Y).(*syntax.ListExpr); ok {
		for _, one := range list.List {
			if text, ok := one.(*syntax.Literal); ok {
				c.compareEnum(left, literal(text), one)
				c.compareLiteral(left, one)
			}
		}
	}
	c.compareKey(right, e.X)
	switch {
	case right.isAny() || left.isAny():
	case right.is(kInt, kFloat, kBool, kNone):
		c.fault(e.OpPos, ruleOperands, "nothing is in "+right.words(), "")
	case right.is(kString) && left.is(kInt, kFloat, kBool, kNone, kList, kDict, kTuple, kMessage):
		c.fault(e.OpPos, ruleOperands, "only a string is in a string, found "+left.words(), "")
	}
}

// isPlain holds for the kinds whose operators are those of Starlark alone.
func (v *value) isPlain() bool {
	return !v.isAny() && v.is(kNone, kBool, kInt, kFloat, kString, kList, kDict, kTuple, kSet, kMessage, kRecord, kFunction, kBuiltin, kMethod, kTool, kModule)
}

// isDict holds for dicts, and for messages that are dicts too.
func (v *value) isDict() bool {
	return v.is(kDict, kRecord) || v.is(kMessage) && (v.typ.Schema || v.typ.Open)
}

func (v *value) isNumber() bool { return v.is(kInt, kFloat) }

// binary is the result of an operator, which is a fault if it never has one.
func (c *checker) binary(at syntax.Position, op syntax.Token, a, b *value) *value {
	if !a.isPlain() || !b.isPlain() {
		return only(kAny)
	}
	out := c.result(op, a, b)
	if out == nil {
		instead := ""
		if op == syntax.PLUS && (a.is(kString) || b.is(kString)) {
			instead = "str(…)"
		}
		c.fault(at, ruleOperands, op.String()+" does not take "+a.words()+" and "+b.words(), instead)
		return only(kAny)
	}
	return out
}

// result is the result of an operator on plain values; nil where it has none.
func (c *checker) result(op syntax.Token, a, b *value) *value {
	switch op {
	case syntax.LT, syntax.GT, syntax.LE, syntax.GE:
		if a.isNumber() && b.isNumber() || a.kind == b.kind && !a.is(kNone, kDict, kMessage, kRecord, kFunction, kBuiltin, kMethod, kTool, kModule) {
			return only(kBool)
		}
		return nil
	case syntax.PLUS:
		if joined := c.sum(a, b); joined != nil {
			return joined
		}
	case syntax.STAR:
		if b.is(kInt) && a.is(kString, kList, kTuple) {
			return c.repeated(a)
		}
		if a.is(kInt) && b.is(kString, kList, kTuple) {
			return c.repeated(b)
		}
	case syntax.PERCENT:
		if a.is(kString) {
			return only(kString)
		}
	case syntax.MINUS, syntax.AMP, syntax.CIRCUMFLEX, syntax.PIPE:
		if a.is(kSet) && b.is(kSet) {
			return &value{kind: kSet, elem: only(kAny)}
		}
		if op == syntax.PIPE && a.isDict() && b.isDict() {
			return &value{kind: kDict, elem: only(kAny)}
		}
	}
	return arithmetic(op, a, b)
}

// sum is one text, list or tuple behind another of its kind; nil for other values.
func (c *checker) sum(a, b *value) *value {
	switch {
	case a.is(kList, kTuple) && a.kind == b.kind && a.parts != nil && b.parts != nil:
		sum := c.of(a.kind, slices.Concat(a.parts, b.parts))
		if a.is(kTuple) {
			return sum
		}
		return c.made(sum)
	case a.is(kList) && b.is(kList):
		return c.made(&value{kind: kList, elem: c.join(a.held(), b.held()), most: added(a.most, b.most)})
	case a.is(kTuple) && b.is(kTuple):
		return &value{kind: kTuple, elem: c.join(a.held(), b.held()), most: added(a.most, b.most)}
	case a.is(kString) && b.is(kString):
		return only(kString)
	}
	return nil
}

func added(a, b int) int {
	if a == 0 || b == 0 || a+b > maxTimes {
		return 0
	}
	return a + b - 1
}

func (c *checker) repeated(v *value) *value {
	if v.is(kString) {
		return only(kString)
	}
	return c.made(&value{kind: v.kind, elem: v.element().plain()})
}

// arithmetic is the result of an operator on numbers.
func arithmetic(op syntax.Token, a, b *value) *value {
	if !a.isNumber() || !b.isNumber() {
		return nil
	}
	isInt := a.is(kInt) && b.is(kInt)
	switch op {
	case syntax.PLUS, syntax.MINUS, syntax.STAR, syntax.PERCENT, syntax.SLASHSLASH:
		if isInt {
			return computed(op, a, b)
		}
		return only(kFloat)
	case syntax.SLASH:
		return only(kFloat)
	case syntax.AMP, syntax.PIPE, syntax.CIRCUMFLEX, syntax.LTLT, syntax.GTGT:
		if isInt {
			return only(kInt)
		}
		return nil
	}
	return only(kAny)
}

// computed is a sum, difference or product of ints that are known and small.
func computed(op syntax.Token, a, b *value) *value {
	const maxBits = 64
	if a.num == nil || b.num == nil || a.num.BitLen() > maxBits || b.num.BitLen() > maxBits {
		return only(kInt)
	}
	out := new(big.Int)
	switch op {
	case syntax.PLUS:
		out.Add(a.num, b.num)
	case syntax.MINUS:
		out.Sub(a.num, b.num)
	case syntax.STAR:
		out.Mul(a.num, b.num)
	default:
		return only(kInt)
	}
	return &value{kind: kInt, num: out}
}
