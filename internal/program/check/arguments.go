// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.starlark.net/syntax"

	"github.com/outrigger-mcp/outrigger/internal/program/types"
)

// given are the members that a message is given: the arguments of a call, or the entries of a dict.
type given struct {
	c    *checker
	typ  *types.Type
	what string // the tool or the message
	// kind is what a member is called, rule the finding for one that does not exist.
	kind, rule string
	isWhole    bool // there are no other members
	seen       map[*types.Field]bool
	oneofs     map[string]*types.Field
}

func (c *checker) given(t *types.Type, what, kind, rule string) *given {
	return &given{c: c, typ: t, what: what, kind: kind, rule: rule, isWhole: true, seen: map[*types.Field]bool{}, oneofs: map[string]*types.Field{}}
}

// member passes over one member and its value.
func (g *given) member(name string, at syntax.Position, e syntax.Expr) {
	f := g.typ.Field(name)
	if f == nil {
		g.c.expr(e)
		if !g.typ.Open && !strings.HasPrefix(name, "[") {
			g.unknown(name, at)
		}
		return
	}
	if g.seen[f] {
		g.c.report(at, ruleRepeated, fmt.Sprintf("%s has the %s %s twice", g.what, g.kind, f.Name), "")
	}
	if isNone(e) {
		g.c.expr(e)
		return // as if it were not there
	}
	g.seen[f] = true
	if f.Oneof != "" {
		if other := g.oneofs[f.Oneof]; other != nil && other != f {
			g.c.report(at, ruleOneOf, fmt.Sprintf("%s takes one of %s and %s, not both", g.what, other.Name, f.Name), "")
		}
		g.oneofs[f.Oneof] = f
	}
	g.c.want(e, f.Type, f.Name)
}

func isNone(e syntax.Expr) bool {
	id, ok := unparen(e).(*syntax.Ident)
	return ok && id.Name == "None" && isUniversal(id)
}

func (g *given) unknown(name string, at syntax.Position) {
	g.c.report(at, g.rule, fmt.Sprintf("%s has no %s %s", g.what, g.kind, name)+g.c.hint(func() string { return has(namesOf(g.typ)) }),
		g.c.hint(func() string { return g.c.meantMember(g.typ, name) }))
}

// close reports what is missing.
func (g *given) close(at syntax.Position) {
	if !g.isWhole {
		return
	}
	var missing []string
	g.c.work -= len(g.typ.Fields())
	for _, f := range g.typ.Fields() {
		if f.Required && !g.seen[f] {
			missing = append(missing, f.Name)
		}
	}
	if len(missing) > 0 {
		g.c.report(at, ruleMissingArgument, fmt.Sprintf("%s needs %s", g.what, strings.Join(missing, ", ")), missing[0]+"=…")
	}
}

// want passes over an expression whose value is to be of a type.
func (c *checker) want(e syntax.Expr, t *types.Type, name string) {
	e = unparen(e)
	if t == nil {
		c.expr(e)
		return
	}
	switch e := e.(type) {
	case *syntax.CondExpr:
		c.conditional(e, func(branch syntax.Expr) *value { c.want(branch, t, name); return nil })
		return
	case *syntax.ListExpr:
		if t.Kind == types.List {
			for _, one := range e.List {
				c.want(one, t.Elem(), name)
			}
			return
		}
	case *syntax.TupleExpr:
		if t.Kind == types.List {
			for _, one := range e.List {
				c.want(one, t.Elem(), name)
			}
			return
		}
	case *syntax.Comprehension:
		if t.Kind == types.List && !e.Curly {
			c.comprehension(e, func() *value { c.want(e.Body, t.Elem(), name); return nil })
			return
		}
	case *syntax.DictExpr:
		if t.Kind == types.Message {
			c.message(e, t, "")
			return
		}
		if t.Kind == types.Map {
			c.mapping(e, t, name)
			return
		}
	}
	v := c.expr(e)
	if rule, found := misfit(v, t); rule != "" {
		if rule == ruleUnknownValue {
			c.enumName(t.Values, string(t.Name), *v.text, e)
			return
		}
		report := c.fault
		if isWritten(e) {
			report = c.report
		}
		report(start(e), rule, fmt.Sprintf("%s wants %s, found %s", name, c.hint(func() string { return wanted(t) }), found), "")
	}
}

// isWritten holds for literals, whose value is known wherever they are.
func isWritten(e syntax.Expr) bool {
	switch e := unparen(e).(type) {
	case *syntax.Literal, *syntax.ListExpr, *syntax.DictExpr, *syntax.TupleExpr, *syntax.Comprehension, *syntax.LambdaExpr:
		return true
	case *syntax.UnaryExpr:
		return e.X != nil && isWritten(e.X)
	case *syntax.Ident:
		return isUniversal(e)
	}
	return false
}

// message passes over a dict that is to be a message, or the arguments of what is named.
func (c *checker) message(e *syntax.DictExpr, t *types.Type, what string) {
	member, rule := "argument", ruleUnknownArgument
	if what == "" {
		what, member, rule = shortName(string(t.Name), "the dict"), "field", ruleUnknownField
	}
	if t.Open && len(t.Fields()) == 0 {
		c.expr(e)
		return
	}
	g := c.given(t, what, member, rule)
	for _, one := range e.List {
		entry, ok := one.(*syntax.DictEntry)
		if !ok {
			continue
		}
		key := c.expr(entry.Key)
		switch {
		case key.is(kString) && key.text != nil && !c.isGeneric(t):
			g.member(*key.text, start(entry.Key), entry.Value)
		case key.is(kInt, kFloat, kBool, kNone, kList, kDict) && !key.isOrError:
			c.fault(start(entry.Key), ruleWrongType, "a field of "+what+" has a name, found "+key.words(), "")
			c.expr(entry.Value)
		default:
			g.isWhole = false
			c.expr(entry.Value)
		}
	}
	g.close(e.Lbrace)
}

// isGeneric holds for messages whose members are not their fields.
func (c *checker) isGeneric(t *types.Type) bool { return t.Name == "google.protobuf.Any" }

func (c *checker) mapping(e *syntax.DictExpr, t *types.Type, name string) {
	for _, one := range e.List {
		entry, ok := one.(*syntax.DictEntry)
		if !ok {
			continue
		}
		key := c.expr(entry.Key)
		if k := t.Key(); k != nil && k.Kind == types.Int && key.is(kString, kInt) {
			if rule, found := misfit(key, k); rule != "" {
				c.fault(start(entry.Key), rule, fmt.Sprintf("a key of %s is %s, found %s", name, wanted(k), found), "")
			}
		}
		c.want(entry.Value, t.Elem(), name)
	}
}

// fits lists the kinds of values that may do for each kind of type. What a text means is looked at beside.
var fits = sync.OnceValue(func() map[types.Kind][]kind {
	return map[types.Kind][]kind{
		types.Bool:      {kBool},
		types.Int:       {kInt, kFloat, kString},
		types.Float:     {kInt, kFloat, kString},
		types.String:    {kString, kEnum, kBytes, kTimestamp, kDuration},
		types.Bytes:     {kBytes, kString},
		types.Timestamp: {kTimestamp, kString, kEnum},
		types.Duration:  {kDuration, kString, kEnum},
		types.Enum:      {kEnum, kString, kInt, kFloat},
		types.Message:   {kMessage, kDict, kRecord},
		types.List:      {kList, kTuple, kSet, kRange},
		types.Map:       {kDict, kRecord, kMessage},
	}
})

// misfit says by which rule a value is of no use where a type is wanted, and what was found; empty if it may do.
func misfit(v *value, t *types.Type) (rule, found string) {
	if v.isAny() || v.isNullable || v.kind == kNone || t.Kind == types.Any || t.Kind == types.Null {
		return "", ""
	}
	if t.Kind == types.String && t.Name != "" && v.is(kList, kTuple, kSet) {
		return "", "" // the paths of a mask
	}
	if isNumeric := t.Kind == types.Int || t.Kind == types.Float; !v.is(fits()[t.Kind]...) || isNumeric && t.Schema && v.is(kString) {
		return ruleWrongType, v.words()
	}
	switch {
	case v.text != nil:
		return misfitText(*v.text, t)
	case v.num != nil && t.Kind == types.Int && !inRange(v.num, t):
		return ruleOutOfRange, shownInt(v.num)
	case v.real != nil && t.Kind == types.Int && *v.real != math.Trunc(*v.real):
		return ruleWrongType, "the float " + strconv.FormatFloat(*v.real, 'g', -1, 64)
	case v.kind == kEnum && t.Kind == types.Enum && !overlap(v.typ, t):
		return ruleWrongType, v.words()
	}
	return "", ""
}

func shownInt(n *big.Int) string {
	if n.BitLen() > 128 {
		return "a larger int"
	}
	return n.String()
}

// durationForm is the JSON of a duration.
var durationForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^-?[0-9]+(\.[0-9]{1,9})?s$`) })

// maxText is how long a text may be that is looked at, in bytes: no number, time or duration that anybody writes is longer.
const maxText = 64

func misfitText(text string, t *types.Type) (rule, found string) {
	ok := true
	if len(text) > maxText && t.Kind != types.Enum {
		return "", ""
	}
	switch t.Kind { //nolint:exhaustive // other kinds take any text
	case types.Int:
		r, isNumber := new(big.Float).SetString(text)
		ok = len(text) > maxDigits || isNumber && r != nil
	case types.Float:
		_, err := strconv.ParseFloat(text, 64)
		ok = err == nil || len(text) > maxDigits
	case types.Timestamp:
		_, err := time.Parse(time.RFC3339Nano, text)
		ok = err == nil
	case types.Duration:
		ok = durationForm().MatchString(text)
	case types.Enum:
		if !slices.Contains(t.Values, text) {
			return ruleUnknownValue, text
		}
	}
	if ok {
		return "", ""
	}
	return ruleWrongType, "the string " + strconv.Quote(clipped(text))
}

// clipped is a text that fits into a message.
func clipped(text string) string {
	const most = 40
	if runes := []rune(text[:min(len(text), 4*most)]); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text[:min(len(text), 4*most)]
}

func overlap(a, b *types.Type) bool {
	return a == b || a.Name != "" && a.Name == b.Name || slices.ContainsFunc(a.Values, func(v string) bool { return slices.Contains(b.Values, v) })
}

// inRange reports whether an int has room in a type.
func inRange(n *big.Int, t *types.Type) bool {
	if t.Bits == 0 {
		return true
	}
	if t.Unsigned {
		return n.Sign() >= 0 && n.BitLen() <= t.Bits
	}
	if n.Sign() < 0 {
		n = new(big.Int).Not(n)
	}
	return n.BitLen() < t.Bits
}

// wanted names a type to a reader.
func wanted(t *types.Type) string {
	switch t.Kind { //nolint:exhaustive // the others are not wanted
	case types.Bool:
		return "a bool"
	case types.Int:
		switch {
		case t.Bits == 0:
			return "an int"
		case t.Unsigned:
			return fmt.Sprintf("an int of %d bits from 0", t.Bits)
		}
		return fmt.Sprintf("an int of %d bits", t.Bits)
	case types.Float:
		return "a number"
	case types.String:
		return "a string"
	case types.Bytes:
		return "bytes"
	case types.Timestamp:
		return `a timestamp such as "2026-06-01T06:00:00Z"`
	case types.Duration:
		return `a duration such as "1.5s"`
	case types.Enum:
		return "a value of " + shortName(string(t.Name), "the enum")
	case types.Message:
		return "a dict or message " + shortName(string(t.Name), "")
	case types.List:
		return "a list"
	case types.Map:
		return "a dict"
	}
	return "a value"
}
