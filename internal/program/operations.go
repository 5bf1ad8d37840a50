// SPDX-License-Identifier: Apache-2.0

package program

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// function is a function of the run, in Go.
type function func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error)

func builtin(name string, fn function) *starlark.Builtin {
	return starlark.NewBuiltin(name, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		return fn(thread, args, kwargs)
	})
}

// operations are the functions that rewritten programs call.
func (r *run) operations() map[string]function {
	out := map[string]function{
		fnAttr: func(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			name, _ := starlark.AsString(args[1])
			return r.attr(args[0], name)
		},
		fnIndex: func(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			return r.index(args[0], args[1])
		},
		fnSlice: func(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			return r.slice(args[0], args[1], args[2], args[3])
		},
		fnKey: func(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			return args[0], r.weigh(args[0])
		},
		fnTarget: func(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			if err := r.spend(0, entryBytes); err != nil {
				return nil, err
			}
			return args[0], r.weigh(args[0])
		},
		fnDict: func(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			return args[0], r.spend(0, dictBytes+times(int64(starlark.Len(args[0])), entryBytes))
		},
		fnArgs: func(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			n, err := length(args[0])
			if err != nil {
				return nil, err
			}
			return args[0], r.spend(int64(n), times(int64(n), 3*elementBytes))
		},
		fnKwargs: func(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			return args[0], r.spend(int64(max(0, starlark.Len(args[0]))), times(int64(starlark.Len(args[0])), entryBytes))
		},
		fnAugment: func(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			return r.augment(args[0], args[1], args[2])
		},
		fnSetIndex: func(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			return starlark.None, r.augmentIndex(args[0], args[1], args[2], args[3])
		},
		fnEnter: func(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			n, err := starlark.AsInt32(args[0])
			if err != nil {
				return nil, err
			}
			return starlark.True, r.spend(int64(n), 0)
		},
		fnLater: r.later,
	}
	for op := syntax.PLUS; op <= syntax.NOT_IN; op++ {
		if op == syntax.EQL || op == syntax.NEQ || op == syntax.LT || op == syntax.GT || op == syntax.LE || op == syntax.GE {
			out[operator(op)] = func(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
				ok, err := r.compare(op, args[0], args[1])
				return starlark.Bool(ok), err
			}
			continue
		}
		out[operator(op)] = func(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			return r.binary(op, args[0], args[1])
		}
	}
	return out
}

// isPlain holds for values whose comparison costs one step.
func isPlain(v starlark.Value) bool {
	switch v := v.(type) {
	case starlark.NoneType, starlark.Bool, starlark.Int, starlark.Float, timestamp, duration:
		return true
	case starlark.String:
		return len(v) <= textStep
	}
	return false
}

func (r *run) compare(op syntax.Token, x, y starlark.Value) (bool, error) {
	var err error
	if x, y, err = sameKind(x, y); err != nil {
		return false, err
	}
	if !isPlain(x) && !isPlain(y) {
		if err := r.weigh(x); err != nil {
			return false, err
		}
		if err := r.weigh(y); err != nil {
			return false, err
		}
	}
	if op == syntax.EQL || op == syntax.NEQ {
		same, err := equal(x, y)
		return same == (op == syntax.EQL), err
	}
	ok, err := starlark.Compare(op, x, y)
	if err != nil && (x == starlark.None || y == starlark.None) {
		err = fmt.Errorf("%w; a field that is not set is None", err)
	}
	return ok, err
}

// equal compares values that were weighed. An object equals a dict with the same entries, also inside other values.
func equal(x, y starlark.Value) (bool, error) {
	if _, ok := y.(*starlark.Dict); ok {
		x, y = y, x
	}
	switch x := x.(type) {
	case *starlark.Dict:
		return equalDicts(x, y)
	case *starlark.List, starlark.Tuple:
		list := x.(starlark.Indexable)
		elements, ok := y.(starlark.Indexable)
		if !ok || x.Type() != y.Type() || list.Len() != elements.Len() {
			return false, nil
		}
		for i := range list.Len() {
			if same, err := equal(list.Index(i), elements.Index(i)); !same || err != nil {
				return false, err
			}
		}
		return true, nil
	}
	return starlark.EqualDepth(x, y, maxNesting)
}

func equalDicts(x *starlark.Dict, y starlark.Value) (bool, error) {
	other, err := dictOf(y)
	if err != nil || other == nil || x.Len() != other.Len() {
		return false, err
	}
	for key, value := range x.Entries() {
		found, ok, err := other.Get(key)
		if err != nil || !ok {
			return false, err
		}
		if same, err := equal(value, found); !same || err != nil {
			return false, err
		}
	}
	return true, nil
}

// dictOf is a dict, or an object as one; nil for any other value.
func dictOf(v starlark.Value) (*starlark.Dict, error) {
	o, ok := v.(*object)
	if !ok {
		d, _ := v.(*starlark.Dict)
		return d, nil
	}
	items, err := o.list("items")
	if err != nil {
		return nil, err
	}
	n := items.Len()
	if err := o.run.spend(int64(n), dictBytes+times(int64(n), entryBytes)); err != nil {
		return nil, err
	}
	out := starlark.NewDict(n)
	for item := range items.Elements() {
		pair := item.(starlark.Tuple)
		if err := out.SetKey(pair[0], pair[1]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// sameKind makes a time or a duration of a text that is compared with one.
func sameKind(x, y starlark.Value) (starlark.Value, starlark.Value, error) {
	convert := func(like, v starlark.Value) (starlark.Value, error) {
		s, ok := v.(starlark.String)
		if !ok {
			return v, nil
		}
		switch like.(type) {
		case timestamp:
			return parseTimestamp(string(s))
		case duration:
			return parseDuration(string(s))
		}
		return v, nil
	}
	newY, err := convert(x, y)
	if err != nil {
		return nil, nil, err
	}
	newX, err := convert(y, x)
	return newX, newY, err
}

func sizeOf(v starlark.Value) (n, each int64) {
	switch v := v.(type) {
	case starlark.String:
		return int64(len(v)), 1
	case starlark.Bytes:
		return int64(len(v)), 1
	case *starlark.List:
		return int64(v.Len()), elementBytes
	case starlark.Tuple:
		return int64(len(v)), elementBytes
	case *starlark.Dict:
		return int64(v.Len()), entryBytes
	case *starlark.Set:
		return int64(v.Len()), entryBytes
	}
	return 0, 0
}

func (r *run) binary(op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	if op == syntax.IN || op == syntax.NOT_IN {
		found, err := r.in(x, y)
		return starlark.Bool(found == (op == syntax.IN)), err
	}
	if op == syntax.PIPE {
		var err error
		if x, y, err = dicts(x, y); err != nil {
			return nil, err
		}
	}
	if err := r.spendBinary(op, x, y); err != nil {
		return nil, err
	}
	if format, ok := x.(starlark.String); ok && op == syntax.PERCENT {
		text, values, err := r.interpolated(string(format), y)
		if err != nil {
			return nil, err
		}
		x, y = starlark.String(text), values
	}
	v, err := bounded(starlark.Binary(op, x, y))
	if err != nil {
		err = fmt.Errorf("%w%s", err, binaryHint(op, x, y))
	}
	return v, err
}

// dicts makes dicts of objects.
func dicts(x, y starlark.Value) (starlark.Value, starlark.Value, error) {
	for _, v := range [...]*starlark.Value{&x, &y} {
		if d, err := dictOf(*v); err != nil {
			return nil, nil, err
		} else if d != nil {
			*v = d
		}
	}
	return x, y, nil
}

// spendBinary counts what an operator takes before it is used.
func (r *run) spendBinary(op syntax.Token, x, y starlark.Value) error {
	sizeX, each := sizeOf(x)
	sizeY, eachY := sizeOf(y)
	if each == 0 && eachY == 0 {
		return nil
	}
	switch op { //nolint:exhaustive // the others have plain costs
	case syntax.STAR:
		size, times1 := sizeX, y
		if each == 0 {
			size, each, times1 = sizeY, eachY, x
		}
		count, ok := times1.(starlark.Int)
		if !ok {
			return nil
		}
		n, isSmall := count.Int64()
		if !isSmall && count.Sign() > 0 {
			n = 1 << 60
		}
		bytes := times(times(size, n), each)
		return r.spend(bytes/textStep, bytes)
	case syntax.PERCENT:
		if format, ok := x.(starlark.String); ok {
			return r.spendFormat(string(format), '%', y)
		}
	default:
		bytes := times(sizeX, each) + times(sizeY, eachY)
		if err := r.spend(bytes/textStep, bytes+dictBytes/8); err != nil || each != entryBytes {
			return err
		}
		if err := r.weigh(x); err != nil { // the keys are hashed again
			return err
		}
		return r.weigh(y)
	}
	return nil
}

// spendFormat counts a text in which values take the place of marks: each mark may be the largest of them.
func (r *run) spendFormat(format string, mark byte, values ...starlark.Value) error {
	var size int64
	for _, v := range values {
		n, err := r.textSize(v)
		if err != nil {
			return err
		}
		size += n
	}
	bytes := int64(len(format)) + times(int64(strings.Count(format, string(mark))), size)
	return r.spend(bytes/textStep, 2*bytes)
}

func binaryHint(op syntax.Token, x, y starlark.Value) string {
	_, isTextX := x.(starlark.String)
	_, isTextY := y.(starlark.String)
	switch {
	case x == starlark.None || y == starlark.None:
		return "; a field that is not set is None"
	case op == syntax.PLUS && isTextX != isTextY:
		return "; write str(x) for the text of a value"
	}
	return ""
}

func (r *run) in(x, y starlark.Value) (bool, error) {
	switch y := y.(type) {
	case starlark.String:
		s, ok := x.(starlark.String)
		if !ok {
			return false, fmt.Errorf("'in <string>' requires string as left operand, not %s", x.Type())
		}
		if err := r.spendText(len(y)); err != nil {
			return false, err
		}
		return strings.Contains(string(y), string(s)), nil
	case *starlark.List, starlark.Tuple:
		list := y.(starlark.Indexable)
		if err := r.spend(int64(list.Len()/2), 0); err != nil {
			return false, err
		}
		for i := range list.Len() {
			if ok, err := r.compare(syntax.EQL, x, list.Index(i)); ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	}
	if err := r.weigh(x); err != nil {
		return false, err
	}
	if b, ok := y.(starlark.Bytes); ok {
		if err := r.spendText(len(b)); err != nil {
			return false, err
		}
	}
	v, err := starlark.Binary(syntax.IN, x, y)
	if err != nil {
		return false, fmt.Errorf("%w%s", err, binaryHint(syntax.IN, x, y))
	}
	return bool(v.Truth()), nil
}

// augment is x op= y: lists and dicts change in place.
func (r *run) augment(op, x, y starlark.Value) (starlark.Value, error) {
	name, _ := starlark.AsString(op)
	token := operatorOf(name)
	switch x := x.(type) {
	case *starlark.List:
		if token != syntax.PLUS {
			break
		}
		return x, r.extend(x, y)
	case *starlark.Dict:
		if token != syntax.PIPE {
			break
		}
		other, err := dictOf(y)
		if err != nil {
			return nil, err
		}
		if other == nil {
			break
		}
		if err := r.spend(int64(other.Len()), times(int64(other.Len()), entryBytes)); err != nil {
			return nil, err
		}
		if err := r.weigh(other); err != nil {
			return nil, err
		}
		for key, value := range other.Entries() {
			if err := x.SetKey(key, value); err != nil {
				return nil, err
			}
		}
		return x, nil
	}
	return r.binary(token, x, y)
}

// extend appends the elements of a value to a list.
func (r *run) extend(x *starlark.List, y starlark.Value) error {
	n, err := length(y)
	if err != nil {
		return err
	}
	if err := r.spend(int64(n), times(int64(n), 2*elementBytes)); err != nil {
		return err
	}
	elements := make([]starlark.Value, 0, n)
	it := starlark.Iterate(y)
	var one starlark.Value
	for it.Next(&one) {
		elements = append(elements, one)
	}
	it.Done()
	for _, one := range elements {
		if err := x.Append(one); err != nil {
			return err
		}
	}
	return nil
}

func operatorOf(name string) syntax.Token {
	for op := syntax.PLUS; op <= syntax.NOT_IN; op++ {
		if op.String() == name {
			return op
		}
	}
	return syntax.ILLEGAL
}

// augmentIndex is x[k] op= y.
func (r *run) augmentIndex(op, x, k, y starlark.Value) error {
	before, err := r.index(x, k)
	if err != nil {
		return err
	}
	v, err := r.augment(op, before, y)
	if err != nil {
		return err
	}
	switch x := x.(type) {
	case starlark.HasSetKey:
		return x.SetKey(k, v)
	case starlark.HasSetIndex:
		i, err := starlark.AsInt32(k)
		if err != nil {
			return err
		}
		if i < 0 {
			i += x.Len()
		}
		return x.SetIndex(i, v)
	}
	return fmt.Errorf("%s does not support item assignment", x.Type())
}

// maxKnown bounds how many names an error looks through.
const maxKnown = 1000

// suggestion is the end of an error about a name that does not exist.
func suggestion(name string, known []string) string {
	if near := schema.Nearest(name, known[:min(len(known), maxKnown)]); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	const shown = 12
	if len(known) == 0 {
		return ""
	}
	if len(known) > shown {
		return fmt.Sprintf("; it has %s and %d more", strings.Join(known[:shown], ", "), len(known)-shown)
	}
	return "; it has " + strings.Join(known, ", ")
}

// instead is what to write for a method of Python that is not there.
func instead(method string) string {
	switch method {
	case "sort":
		return "; write sorted(list)"
	case "reverse":
		return "; write list[::-1]"
	case "copy":
		return "; write list(x) or dict(x)"
	case "encode":
		return "; write bytes(s)"
	case "codepoints", "codepoint_ords", "elem_ords":
		return "; write s.elems()"
	}
	return ""
}

func (r *run) attr(x starlark.Value, name string) (starlark.Value, error) {
	if methods := r.methods.of(x); methods != nil {
		cost, ok := methods[name]
		if !ok {
			return nil, fmt.Errorf("%s has no method %s%s", x.Type(), name, cmp.Or(instead(name), suggestion(name, slices.Sorted(maps.Keys(methods)))))
		}
		plain, err := x.(starlark.HasAttrs).Attr(name)
		if plain == nil || err != nil {
			return nil, fmt.Errorf("%s has no method %s", x.Type(), name)
		}
		return builtin(name, func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			all := slices.Clip(args)
			for _, kw := range kwargs {
				all = append(all, kw[1])
			}
			if err := cost(r, x, all); err != nil {
				return nil, err
			}
			method, err := r.laidOutMethod(x, name, plain, args, kwargs)
			if err != nil {
				return nil, err
			}
			return starlark.Call(thread, method, args, kwargs)
		}), nil
	}
	has, ok := x.(starlark.HasAttrs)
	if !ok {
		hint := ""
		if x == starlark.None {
			hint = "; a field that is not set is None"
		}
		return nil, fmt.Errorf("%s has no field or method %s%s", x.Type(), name, hint)
	}
	v, err := has.Attr(name)
	if err != nil || v != nil {
		return v, err
	}
	known := has.AttrNames()
	if err := r.spend(int64(len(known)), 0); err != nil {
		return nil, err
	}
	hint := suggestion(name, known)
	switch x.(type) {
	case timestamp, duration:
		hint = "; write str(x) for its text, such as str(x)[:10] for the day, or .seconds"
	}
	return nil, fmt.Errorf("%s has no field %s%s", x.Type(), name, hint)
}

func (r *run) index(x, k starlark.Value) (starlark.Value, error) {
	switch x := x.(type) {
	case starlark.Mapping:
		if err := r.weigh(k); err != nil {
			return nil, err
		}
		v, found, err := x.Get(k)
		if err != nil || found {
			return v, err
		}
		if err := r.spendWriting(k); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%s has no key %s; get(key) gives None then", x.Type(), short(k.String()))
	case starlark.Indexable:
		i, err := starlark.AsInt32(k)
		if err != nil {
			return nil, fmt.Errorf("index of a %s: %w", x.Type(), err)
		}
		at, n := i, x.Len()
		if at < 0 {
			at += n
		}
		if at < 0 || at >= n {
			return nil, fmt.Errorf("index %d of a %s of %d", i, x.Type(), n)
		}
		return x.Index(at), nil
	}
	return nil, fmt.Errorf("%s has no elements%s", x.Type(), noneHint(x))
}

func noneHint(v starlark.Value) string {
	if v == starlark.None {
		return "; a field that is not set is None"
	}
	return ""
}

// maxShown bounds how much of a value an error shows.
const maxShown = 100

func short(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "…"
}

func (r *run) slice(x, lo, hi, step starlark.Value) (starlark.Value, error) {
	s, ok := x.(starlark.Sliceable)
	if !ok {
		return nil, fmt.Errorf("%s has no slices%s", x.Type(), noneHint(x))
	}
	n := s.Len()
	by, err := intOr(step, 1)
	if err != nil || by == 0 {
		return nil, fmt.Errorf("the step of a slice is a number that is not 0")
	}
	start, end, low, high := 0, n, 0, n
	if by < 0 {
		start, end, low, high = n-1, -1, -1, n-1
	}
	if start, err = bound(lo, start, n, low, high); err != nil {
		return nil, err
	}
	if end, err = bound(hi, end, n, low, high); err != nil {
		return nil, err
	}
	if by > 0 {
		end = max(start, end)
	} else {
		start = max(start, end)
	}
	_, each := sizeOf(x)
	count := int64((end-start)/by) + 1
	if by == 1 && each == 1 {
		count = 0 // a part of the same text
	}
	if err := r.spend(count/8, times(count, max(1, each))); err != nil {
		return nil, err
	}
	return s.Slice(start, end, by), nil
}

func intOr(v starlark.Value, otherwise int) (int, error) {
	if v == starlark.None {
		return otherwise, nil
	}
	i, ok := v.(starlark.Int)
	if !ok {
		return 0, fmt.Errorf("%s is not a number", v.Type())
	}
	n, isSmall := i.Int64()
	if !isSmall || n > 1<<31 || n < -1<<31 {
		return i.Sign() << 31, nil
	}
	return int(n), nil
}

// bound is a bound of a slice: counted from the end where it is negative, and not outside.
func bound(v starlark.Value, otherwise, n, low, high int) (int, error) {
	i, err := intOr(v, otherwise)
	if err != nil {
		return 0, fmt.Errorf("the bounds of a slice are numbers: %w", err)
	}
	if v != starlark.None && i < 0 {
		i += n
	}
	return max(low, min(high, i)), nil
}

// cost counts what a method takes before it is called.
type cost func(r *run, recv starlark.Value, args starlark.Tuple) error

// methods are those of values of the interpreter, with their costs.
type methods struct{ texts, bytes, lists, dicts, sets map[string]cost }

func newMethods() methods {
	return methods{texts: stringMethods(), bytes: map[string]cost{"elems": free}, lists: listMethods(), dicts: dictMethods(), sets: setMethods()}
}

// of are the methods of a value; nil for one of the run.
func (m *methods) of(v starlark.Value) map[string]cost {
	switch v.(type) {
	case starlark.String:
		return m.texts
	case starlark.Bytes:
		return m.bytes
	case *starlark.List:
		return m.lists
	case *starlark.Dict:
		return m.dicts
	case *starlark.Set:
		return m.sets
	}
	return nil
}

func free(*run, starlark.Value, starlark.Tuple) error { return nil }

// textBytes is the size of a text and of the texts among the arguments.
func textBytes(recv starlark.Value, args starlark.Tuple) int {
	n := starlark.Len(recv)
	for _, a := range args {
		if s, ok := a.(starlark.String); ok {
			n += len(s)
		}
	}
	return n
}

func looks(r *run, recv starlark.Value, args starlark.Tuple) error {
	return r.spendText(textBytes(recv, args))
}

// strips is looks for methods that look for each character in another text.
func strips(r *run, recv starlark.Value, args starlark.Tuple) error {
	set := 1
	if len(args) > 0 {
		set = max(1, starlark.Len(args[0]))
	}
	return r.spend(times(int64(starlark.Len(recv)), int64(set))/textStep, 0)
}

func copies(r *run, recv starlark.Value, args starlark.Tuple) error {
	n := int64(textBytes(recv, args))
	return r.spend(n/textStep*2, 3*n)
}

// splits counts a list of parts.
func splits(r *run, recv starlark.Value, args starlark.Tuple) error {
	s, _ := starlark.AsString(recv)
	if err := looks(r, recv, args); err != nil {
		return err
	}
	parts := 1
	if len(args) > 0 && args[0] != starlark.None {
		if sep, ok := starlark.AsString(args[0]); ok && sep != "" {
			parts += strings.Count(s, sep)
		}
	} else {
		wasSpace := true
		for _, c := range s {
			isSpace := unicode.IsSpace(c)
			if wasSpace && !isSpace {
				parts++
			}
			wasSpace = isSpace
		}
		parts = max(parts, strings.Count(s, "\n")+1) // splitlines
	}
	return r.spend(int64(parts), times(int64(parts), 4*elementBytes))
}

func replaces(r *run, recv starlark.Value, args starlark.Tuple) error {
	if err := looks(r, recv, args); err != nil || len(args) < 2 {
		return err
	}
	s, _ := starlark.AsString(recv)
	old, ok := starlark.AsString(args[0])
	with, ok2 := starlark.AsString(args[1])
	if !ok || !ok2 {
		return nil
	}
	bytes := int64(len(s)) + times(int64(strings.Count(s, old)), int64(len(with)))
	return r.spend(bytes/textStep, bytes)
}

func joins(r *run, recv starlark.Value, args starlark.Tuple) error {
	if len(args) == 0 {
		return nil
	}
	n, err := length(args[0])
	if err != nil {
		return err
	}
	if err := r.spend(int64(n), 0); err != nil {
		return err
	}
	bytes := times(int64(n), int64(starlark.Len(recv)))
	it := starlark.Iterate(args[0])
	defer it.Done()
	var one starlark.Value
	for i := 0; it.Next(&one); i++ {
		s, ok := one.(starlark.String)
		if !ok {
			return fmt.Errorf("join: element %d is %s, not a string; write str(x)", i, one.Type())
		}
		bytes += int64(len(s))
	}
	return r.spend(bytes/textStep, 2*bytes)
}

func formats(r *run, recv starlark.Value, args starlark.Tuple) error {
	s, _ := starlark.AsString(recv)
	return r.spendFormat(s, '{', args...)
}

// stringMethods are those of strings. Those that give each code point are not there: their length is not known before. elems has the
// characters of ASCII.
func stringMethods() map[string]cost {
	out := map[string]cost{"join": joins, "format": formats, "replace": replaces, "elems": free}
	for _, name := range [...]string{"count", "endswith", "find", "index", "isalnum", "isalpha", "isdigit", "islower", "isspace", "istitle", "isupper", "rfind", "rindex", "startswith", "removeprefix", "removesuffix", "partition", "rpartition"} {
		out[name] = looks
	}
	for _, name := range [...]string{"capitalize", "lower", "title", "upper"} {
		out[name] = copies
	}
	for _, name := range [...]string{"strip", "lstrip", "rstrip"} {
		out[name] = strips
	}
	for _, name := range [...]string{"split", "rsplit", "splitlines"} {
		out[name] = splits
	}
	return out
}

func shifts(r *run, recv starlark.Value, _ starlark.Tuple) error {
	return r.spend(int64(starlark.Len(recv)/8), 2*elementBytes)
}

// finds counts a comparison of each element with an argument.
func finds(r *run, recv starlark.Value, args starlark.Tuple) error {
	if err := r.spend(int64(starlark.Len(recv)), 0); err != nil || len(args) == 0 || isPlain(args[0]) {
		return err
	}
	return r.weigh(recv)
}

func listMethods() map[string]cost {
	return map[string]cost{
		"append": func(r *run, _ starlark.Value, _ starlark.Tuple) error { return r.spend(0, 2*elementBytes) },
		"clear":  free,
		"extend": func(r *run, _ starlark.Value, args starlark.Tuple) error {
			if len(args) == 0 {
				return nil
			}
			n, err := length(args[0])
			if err != nil {
				return err
			}
			return r.spend(int64(n), times(int64(n), 2*elementBytes))
		},
		"index": finds, "insert": shifts, "pop": shifts, "remove": finds,
	}
}

func (r *run) weighFirst(args starlark.Tuple) error {
	if len(args) == 0 {
		return nil
	}
	return r.weigh(args[0])
}

func dictMethods() map[string]cost {
	looksUp := func(r *run, _ starlark.Value, args starlark.Tuple) error { return r.weighFirst(args) }
	lists := func(r *run, recv starlark.Value, _ starlark.Tuple) error {
		n := int64(starlark.Len(recv))
		return r.spend(n, times(n, 5*elementBytes))
	}
	return map[string]cost{
		"clear": free, "get": looksUp, "pop": looksUp, "popitem": free, "keys": lists, "values": lists, "items": lists,
		"setdefault": func(r *run, _ starlark.Value, args starlark.Tuple) error {
			if err := r.spend(0, entryBytes); err != nil {
				return err
			}
			return r.weighFirst(args)
		},
		"update": func(r *run, _ starlark.Value, args starlark.Tuple) error {
			if len(args) == 0 {
				return nil
			}
			if err := r.spend(0, times(int64(starlark.Len(args[0])), entryBytes)); err != nil {
				return err
			}
			return r.weighFirst(args)
		},
	}
}

func setMethods() map[string]cost {
	merges := func(r *run, recv starlark.Value, args starlark.Tuple) error {
		n := int64(starlark.Len(recv))
		if err := r.weigh(recv); err != nil { // its keys are hashed again
			return err
		}
		for _, a := range args {
			if _, err := length(a); err != nil {
				return err
			}
			n += int64(starlark.Len(a))
			if err := r.weigh(a); err != nil {
				return err
			}
		}
		return r.spend(n, times(n, entryBytes)+dictBytes)
	}
	changes := func(r *run, _ starlark.Value, args starlark.Tuple) error {
		if err := r.spend(0, entryBytes); err != nil {
			return err
		}
		return r.weighFirst(args)
	}
	return map[string]cost{
		"add": changes, "discard": changes, "remove": changes, "pop": free, "clear": free, "difference": merges, "intersection": merges,
		"issubset": merges, "issuperset": merges, "symmetric_difference": merges, "union": merges, "update": merges,
	}
}
