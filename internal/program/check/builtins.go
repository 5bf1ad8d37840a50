// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.starlark.net/syntax"
)

// toolsName is the global by which tools are reached by their names, jsonName the one with encode and decode.
const toolsName, jsonName = "tools", "json"

// many is the largest number of arguments of a builtin that takes any number.
const many = 1 << 30

// builtin is a function that each program has.
type builtin struct {
	least, most int      // positional arguments
	named       []string // those that may be named too; nil for none
	takesNames  bool     // any
	// isFresh is set where the result is a new value.
	isFresh bool
	// wants is what the first argument is to be: "items" or "length"; empty for anything.
	wants  string
	result func(c *checker, args []*value) *value
}

// builtins are the functions that each program has, by their names.
var builtins = sync.OnceValue(func() map[string]*builtin {
	result := func(k kind) func(*checker, []*value) *value {
		return func(*checker, []*value) *value { return only(k) }
	}
	unknown := result(kAny)
	newList := func(k kind) func(c *checker, args []*value) *value {
		return func(c *checker, args []*value) *value {
			if len(args) == 0 {
				return c.made(&value{kind: k, most: 1})
			}
			return c.made(&value{kind: k, elem: itemsOf(args[0]), most: args[0].length()})
		}
	}
	// sameItems is a list or tuple with the items of another one, in their order or the other way round.
	sameItems := func(k kind, isReversed bool) func(c *checker, args []*value) *value {
		return func(c *checker, args []*value) *value {
			if len(args) == 0 || args[0].isAny() || args[0].parts == nil {
				return newList(k)(c, args)
			}
			parts := slices.Clone(args[0].parts)
			if isReversed {
				slices.Reverse(parts)
			}
			return c.made(c.of(k, parts))
		}
	}
	return map[string]*builtin{
		"abs":       {least: 1, most: 1, result: unknown, isFresh: true},
		"any":       {least: 1, most: 1, wants: "items", result: result(kBool), isFresh: true},
		"all":       {least: 1, most: 1, wants: "items", result: result(kBool), isFresh: true},
		"bool":      {most: 1, result: result(kBool), isFresh: true},
		"bytes":     {least: 1, most: 1, result: result(kBytes), isFresh: true},
		"chr":       {least: 1, most: 1, result: result(kString), isFresh: true},
		"dict":      {most: 1, takesNames: true, result: newDict, isFresh: true},
		"duration":  {least: 1, most: 1, result: result(kDuration), isFresh: true},
		"dir":       {least: 1, most: 1, result: result(kList), isFresh: true},
		"enumerate": {least: 1, most: 2, wants: "items", result: enumerated, isFresh: true},
		"fail":      {most: many, named: []string{"sep"}, result: unknown},
		"float":     {most: 1, result: result(kFloat), isFresh: true},
		"getattr":   {least: 2, most: 3, result: unknown},
		"hasattr":   {least: 2, most: 2, result: result(kBool), isFresh: true},
		"int":       {least: 1, most: 2, named: []string{"x", "base"}, result: result(kInt), isFresh: true},
		"len":       {least: 1, most: 1, wants: "length", result: result(kInt), isFresh: true},
		"list":      {most: 1, wants: "items", result: sameItems(kList, false), isFresh: true},
		"max":       {least: 1, most: many, named: []string{"key", "default"}, result: unknown},
		"min":       {least: 1, most: many, named: []string{"key", "default"}, result: unknown},
		"ord":       {least: 1, most: 1, result: result(kInt), isFresh: true},
		"paginate":  {most: many, takesNames: true, isFresh: true},
		"parallel":  {most: many, takesNames: true, isFresh: true},
		"range":     {least: 1, most: 3, result: ranged, isFresh: true},
		"repr":      {least: 1, most: 1, result: result(kString), isFresh: true},
		"reversed":  {least: 1, most: 1, wants: "items", result: sameItems(kList, true), isFresh: true},
		"round":     {least: 1, most: 2, named: []string{"number", "ndigits"}, result: unknown, isFresh: true},
		"set":       {most: 1, wants: "items", result: newList(kSet), isFresh: true},
		"sorted":    {least: 1, most: 3, named: []string{"iterable", "key", "reverse"}, wants: "items", result: newList(kList), isFresh: true},
		"str":       {least: 1, most: 1, result: result(kString), isFresh: true},
		"sum":       {least: 1, most: 2, named: []string{"iterable", "start"}, wants: "items", result: unknown},
		"timestamp": {least: 1, most: 1, result: result(kTimestamp), isFresh: true},
		"tuple":     {most: 1, wants: "items", result: sameItems(kTuple, false), isFresh: true},
		"type":      {least: 1, most: 1, result: result(kString), isFresh: true},
		"zip":       {most: many, result: zipped, isFresh: true},
	}
})

func builtinNames() []string { return append(sortedNames(builtins()), "None", "True", "False") }

// itemsOf is what a loop gets from a value; Any where that is not known.
func itemsOf(v *value) *value {
	if v.isAny() {
		return only(kAny)
	}
	return v.items().plain().orAny()
}

func newDict(c *checker, args []*value) *value {
	return c.made(&value{kind: kDict, elem: only(kAny)})
}

func enumerated(c *checker, args []*value) *value {
	return c.made(&value{kind: kList, most: args[0].length(), elem: c.of(kTuple, []*value{only(kInt), itemsOf(args[0])})})
}

func zipped(c *checker, args []*value) *value {
	if len(args) > maxParts || len(args) == 0 {
		return c.made(listOf(only(kAny)))
	}
	var parts []*value
	most := 0
	for _, v := range args {
		parts = append(parts, itemsOf(v))
		if n := v.length(); n > 0 && (most == 0 || n < most) {
			most = n
		}
	}
	return c.made(&value{kind: kList, elem: c.of(kTuple, parts), most: most})
}

// ranged is range(stop), range(start, stop) or one with steps.
func ranged(_ *checker, args []*value) *value {
	v := only(kRange)
	var n [3]int64
	for i, arg := range args {
		if !arg.is(kInt) || arg.num == nil || arg.num.BitLen() > 40 {
			return v
		}
		n[i] = arg.num.Int64()
	}
	from, to, step := int64(0), n[0], int64(1)
	if len(args) > 1 {
		from, to = n[0], n[1]
	}
	if len(args) > 2 {
		step = n[2]
	}
	if step == 0 {
		return v
	}
	if step < 0 {
		from, to, step = to, from, -step
	}
	if most := (max(to-from, 0) + step - 1) / step; most <= maxTimes {
		v.most = int(most) + 1
	}
	return v
}

// callBuiltin passes over the call of a builtin.
func (c *checker) callBuiltin(name string, a arguments, at syntax.Position) *value {
	b := builtins()[name]
	switch {
	case name == "parallel":
		return c.callParallel(a, at)
	case name == "paginate":
		return c.callPaginate(a, at)
	case b == nil:
		c.pass(a)
		return only(kAny)
	}
	args := c.builtinArguments(b, name, a)
	if a.rest != nil || a.more != nil {
		return only(kAny)
	}
	if n := len(args); n+c.namedArguments(b, a) < b.least || n > b.most {
		c.report(at, ruleArity, fmt.Sprintf("%s takes %s, found %d", name, b.count(), n), "")
		return only(kAny)
	}
	if len(args) < b.least || !c.takes(b, name, args, at) {
		return only(kAny)
	}
	switch name {
	case "getattr":
		return c.getattr(a, args)
	case "min", "max":
		if len(args) == 1 && !slices.ContainsFunc(a.named, func(n namedArgument) bool { return n.name.Name == "default" }) {
			return itemsOf(args[0])
		}
	case "range":
		for i, v := range args {
			if v.is(kString, kFloat, kNone, kList, kTuple, kDict, kMessage) && !v.isOrError && !v.isNullable {
				c.fault(start(a.positional[i]), ruleWrongType, "range takes ints, found "+v.words(), "")
			}
		}
	}
	return b.result(c, args)
}

// namedArguments counts those that are given by name.
func (c *checker) namedArguments(b *builtin, a arguments) (n int) {
	for _, one := range a.named {
		if slices.Contains(b.named, one.name.Name) {
			n++
		}
	}
	return n
}

// count says how many arguments a builtin takes.
func (b *builtin) count() string {
	switch {
	case b.most == many:
		return fmt.Sprintf("%d or more arguments", b.least)
	case b.least < b.most:
		return fmt.Sprintf("%d to %d arguments", b.least, b.most)
	case b.most == 1:
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", b.most)
}

// builtinArguments passes over the arguments of a builtin. A function that is to be called with the elements of the first one knows them.
func (c *checker) builtinArguments(b *builtin, name string, a arguments) []*value {
	out := make([]*value, 0, len(a.positional))
	for _, e := range a.positional {
		out = append(out, c.expr(e))
	}
	for _, n := range a.named {
		f, isLambda := unparen(n.value).(*syntax.LambdaExpr)
		switch {
		case isLambda && n.name.Name == "key" && len(out) == 1 && !c.before.isWild:
			c.lambda(f, []*value{itemsOf(out[0])})
		case isLambda && n.name.Name == "key" && len(out) == 1 && out[0].is(kList) && out[0].isResult:
			c.lambda(f, []*value{itemsOf(out[0])})
		default:
			c.expr(n.value)
		}
		if !b.takesNames && !slices.Contains(b.named, n.name.Name) {
			c.report(n.name.NamePos, ruleUnknownArgument, fmt.Sprintf("%s has no argument %s", name, n.name.Name)+has(b.named), nearest(n.name.Name, b.named))
		}
	}
	if a.rest != nil {
		c.expr(a.rest)
	}
	if a.more != nil {
		c.expr(a.more)
	}
	return out
}

// takes reports whether a builtin may take its first argument.
func (c *checker) takes(b *builtin, name string, args []*value, at syntax.Position) bool {
	if b.wants == "" || len(args) == 0 || args[0].isAny() {
		return true
	}
	v := args[0]
	if b.wants == "length" && v.is(kString, kBytes, kMessage, kEnum) || v.items() != nil {
		return true
	}
	instead := ""
	if lists := v.lists(); len(lists) == 1 {
		instead = "." + lists[0]
	}
	c.fault(at, ruleNotIterable, fmt.Sprintf("%s takes a list or the like, found %s", name, v.words()), instead)
	return false
}

func (c *checker) getattr(a arguments, args []*value) *value {
	name := args[1]
	if !name.is(kString) || name.text == nil || storing(*name.text) {
		c.now.isWild = true
		return only(kAny)
	}
	v := args[0]
	if len(args) == 3 {
		if v.is(kMessage) && v.typ.Field(*name.text) != nil {
			return c.join(c.attribute(v, *name.text, start(a.positional[1])), args[2]).plain()
		}
		return only(kAny)
	}
	return c.used(c.attribute(v, *name.text, start(a.positional[1])), start(a.positional[1]))
}

// dictMethods are the methods of dicts.
var dictMethods = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	for name := range strings.FieldsSeq("clear get items keys pop popitem setdefault update values") {
		out[name] = name
	}
	return out
})

// objectMethods are those of results and inputs that are dicts too.
var objectMethods = sync.OnceValue(func() map[string]string {
	return map[string]string{"get": "get", "items": "items", "keys": "keys", "values": "values"}
})

func storing(name string) bool {
	return slices.Contains([]string{"append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "popitem", "add", "discard"}, name)
}

// methods are those of the kinds that have no other attributes.
var methods = sync.OnceValue(func() map[kind][]string {
	none := []string{}
	return map[kind][]string{
		kNone: none, kBool: none, kInt: none, kFloat: none, kTuple: none, kRange: none, kFunction: none, kBuiltin: none, kMethod: none,
		kDict: sortedNames(dictMethods()),
		kList: strings.Fields("append clear extend index insert pop remove"),
		kSet:  strings.Fields("add clear difference discard intersection issubset issuperset pop remove symmetric_difference union update"),
		kString: strings.Fields("capitalize codepoint_ords codepoints count elem_ords elems endswith find format index isalnum isalpha isdigit islower " +
			"isspace istitle isupper join lower lstrip partition removeprefix removesuffix replace rfind rindex rpartition rsplit rstrip split " +
			"splitlines startswith strip title upper"),
	}
})

// methodsOf are the names of the methods of a kind; nil where they are not known.
func methodsOf(k kind) []string { return methods()[k] }

// methodResult is what a method returns.
func (c *checker) methodResult(f *value, args []*value) *value {
	if f.of.is(kString) {
		return stringResult(c, f.name)
	}
	keyed := f.of.is(kDict, kRecord, kMessage)
	switch {
	case keyed && f.name == "get":
		return c.gotten(f.of, args)
	case keyed && f.name == "items":
		return c.made(&value{kind: kList, most: f.of.most, elem: c.of(kTuple, []*value{itemsOf(f.of), f.of.element().plain().orAny()})})
	case keyed && f.name == "keys":
		return c.made(&value{kind: kList, most: f.of.most, elem: itemsOf(f.of)})
	case keyed && f.name == "values":
		return c.made(&value{kind: kList, most: f.of.most, elem: f.of.element().plain().orAny()})
	case f.of.is(kList) && f.name == "pop":
		return f.of.element().plain()
	case f.of.is(kList) && f.name == "index":
		return only(kInt)
	}
	return only(kAny)
}

// gotten is what get returns.
func (c *checker) gotten(of *value, args []*value) *value {
	otherwise := only(kNone)
	if len(args) > 1 {
		otherwise = args[1].orAny()
	}
	var v *value
	switch {
	case len(args) == 0:
	case of.is(kDict):
		v = of.element()
	case args[0].is(kString) && args[0].text != nil && of.is(kRecord):
		v = of.attrs[*args[0].text]
	case args[0].is(kString) && args[0].text != nil && of.is(kMessage):
		if field := of.typ.Field(*args[0].text); field != nil {
			v = ofType(field.Type)
		}
	}
	if v == nil {
		return only(kAny)
	}
	return c.join(v, otherwise).plain()
}

func stringResult(c *checker, name string) *value {
	switch name {
	case "split", "rsplit", "splitlines":
		return c.made(listOf(only(kString)))
	case "count", "find", "index", "rfind", "rindex":
		return only(kInt)
	case "capitalize", "format", "join", "lower", "lstrip", "removeprefix", "removesuffix", "replace", "rstrip", "strip", "title", "upper":
		return only(kString)
	case "codepoint_ords", "codepoints", "elem_ords", "elems":
		return only(kAny)
	case "partition", "rpartition":
		return c.of(kTuple, []*value{only(kString), only(kString), only(kString)})
	}
	return only(kBool)
}

// python is what to write for a method or, of kAny, a function of Python that is not there; empty for nothing.
func python(of kind, name string) string {
	switch {
	case of == kList && name == "sort":
		return "sorted(list, key=…)"
	case of == kList && name == "reverse":
		return "list[::-1]"
	case of == kList && name == "count":
		return "len([x for x in list if x == value])"
	case name == "copy" && (of == kList || of == kDict):
		return "list(x) or dict(x)"
	case of == kString && name == "encode":
		return "bytes(s)"
	case of == kString && (name == "zfill" || name == "rjust"):
		return "\"{:0>5}\".format(s)"
	case of == kString && name == "ljust":
		return "\"{:<5}\".format(s)"
	case of == kString && name == "center":
		return "\"{:^5}\".format(s)"
	case of == kString && name == "isnumeric", of == kString && name == "isdecimal":
		return "isdigit()"
	case of == kString && name == "casefold":
		return "lower()"
	case of != kAny:
		return ""
	}
	return map[string]string{
		"map":         "[f(x) for x in list]",
		"filter":      "[x for x in list if …]",
		"isinstance":  `type(x) == "string"; types are int, float, string, bool, list, dict, bytes, NoneType`,
		"divmod":      "(a // b, a % b)",
		"pow":         "x * x",
		"exit":        "if … else …: a program ends at its last line, and with fail(\"…\")",
		"quit":        "if … else …: a program ends at its last line, and with fail(\"…\")",
		"defaultdict": "d.setdefault(key, []).append(x), or d[key] = d.get(key, 0) + 1",
		"Counter":     "d[key] = d.get(key, 0) + 1",
		"OrderedDict": "a dict: it keeps its order",
		"frozenset":   "set([…])",
		"format":      "\"{:.2f}\".format(x)",
		"next":        "[x for x in list if …][0]",
		"iter":        "a for loop over the list",
		"vars":        "dir(x), or the fields by their names",
		"datetime":    "timestamp(\"2026-01-31T12:00:00Z\"), str(t)[:10] for a day; there is no clock: pass the time as inputs",
		"date":        "str(t)[:10]",
		"timedelta":   "duration(\"3600s\")",
		"time":        "timestamp(…); there is no clock: pass the time as inputs",
		"now":         "inputs.now; there is no clock: pass the time as inputs",
		"math":        "//, %, abs, min, max, round",
		"Decimal":     "int or float",
		"re":          "split, find, startswith and the other methods of strings",
		"call":        "module.tool(name=value), or tools[\"module.tool\"](name=value)",
		"catalog":     "module.tool(name=value), or tools[\"module.tool\"](name=value)",
		"callTool":    "module.tool(name=value), or tools[\"module.tool\"](name=value)",
		"call_tool":   "module.tool(name=value), or tools[\"module.tool\"](name=value)",
		"gather":      "parallel([…])",
		"asyncio":     "parallel([…])",
		"Exception":   "fail(\"…\")",
		"true":        "True",
		"false":       "False",
		"null":        "None",
		"__name__":    "the statements alone: a program begins at its first line",
		"locals":      "the names alone",
		"globals":     "the names alone",
		"input":       "inputs.name",
		"args":        "inputs.name",
		"params":      "inputs.name",
	}[name]
}
