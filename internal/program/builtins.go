// SPDX-License-Identifier: Apache-2.0

package program

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// builtins are the functions that a program has beside the tools.
func (r *run) builtins() map[string]function {
	out := map[string]function{
		"fail":       r.fail,
		parallelName: r.parallel,
		"paginate":   r.paginate,
		"getattr":    r.getattr,
		"hasattr":    r.hasattr,
		"type":       typeOf,
		"sorted":     r.sorted,
		"min": func(t *starlark.Thread, a starlark.Tuple, k []starlark.Tuple) (starlark.Value, error) {
			return r.extreme("min", syntax.LT, t, a, k)
		},
		"max": func(t *starlark.Thread, a starlark.Tuple, k []starlark.Tuple) (starlark.Value, error) {
			return r.extreme("max", syntax.GT, t, a, k)
		},
		"sum":       r.sum,
		"round":     round,
		"timestamp": ofText("timestamp", parseTimestamp),
		"duration":  ofText("duration", parseDuration),
	}
	for name, c := range universe() {
		out[name] = r.guarded(name, c)
	}
	return out
}

// guarded is a function of the interpreter's universe that is counted before it is called.
func (r *run) guarded(name string, c cost) function {
	plain := starlark.Universe[name]
	return func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		for _, kw := range kwargs {
			if err := r.weigh(kw[1]); err != nil {
				return nil, err
			}
		}
		if err := c(r, nil, args); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		v, err := starlark.Call(thread, plain, args, kwargs)
		return bounded(v, plainError(err))
	}
}

// plainError is an error without the frame of a builtin.
func plainError(err error) error {
	var in *starlark.EvalError
	if errors.As(err, &in) {
		return errors.New(in.Msg)
	}
	return err
}

// elements counts a number of bytes for each element of the arguments.
func elements(each int64) cost {
	return func(r *run, _ starlark.Value, args starlark.Tuple) error {
		total := int64(0)
		for _, a := range args {
			if _, ok := a.(starlark.Int); ok { // enumerate's start
				continue
			}
			n, err := length(a)
			if err != nil {
				return err
			}
			total += int64(n)
		}
		return r.spend(total, dictBytes/4+times(total, each))
	}
}

// keys counts the entries of a dict or a set, whose keys are hashed.
func keys(r *run, _ starlark.Value, args starlark.Tuple) error {
	for _, a := range args {
		n, err := length(a)
		if err != nil {
			return err
		}
		if err := r.spend(int64(n), times(int64(n), entryBytes)); err != nil {
			return err
		}
		if err := r.weigh(a); err != nil {
			return err
		}
	}
	return r.spend(0, dictBytes+entryBytes)
}

func writes(r *run, _ starlark.Value, args starlark.Tuple) error {
	for _, a := range args {
		if err := r.spendWriting(a); err != nil {
			return err
		}
	}
	return nil
}

// readsNumber bounds the texts that are read as numbers.
func readsNumber(_ *run, _ starlark.Value, args starlark.Tuple) error {
	if len(args) == 0 {
		return nil
	}
	if s, ok := args[0].(starlark.String); ok && len(s) > maxDigits {
		return fmt.Errorf("a number has at most %d digits", maxDigits)
	}
	return nil
}

func takesBytes(r *run, _ starlark.Value, args starlark.Tuple) error {
	if len(args) != 1 {
		return nil
	}
	n := int64(max(0, starlark.Len(args[0])))
	return r.spend(n, times(n, 3))
}

// universe are the functions of the interpreter that a program has, with their costs.
func universe() map[string]cost {
	lists := elements(2 * elementBytes)
	return map[string]cost{
		"abs": free, "bool": free, "chr": free, "ord": free, "len": free, "range": free, "float": readsNumber, "int": readsNumber,
		"str": writes, "repr": writes, "bytes": takesBytes,
		"all": elements(0), "any": elements(0), "list": lists, "tuple": lists, "reversed": lists,
		"enumerate": elements(7 * elementBytes), "zip": elements(6 * elementBytes), "dict": keys, "set": keys,
		"dir": func(r *run, _ starlark.Value, _ starlark.Tuple) error {
			return r.spend(maxKnown/10, maxKnown*2*elementBytes)
		},
	}
}

func ofText(name string, parse func(string) (starlark.Value, error)) function {
	return func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var s string
		if err := starlark.UnpackPositionalArgs(name, args, kwargs, 1, &s); err != nil {
			return nil, err
		}
		return parse(s)
	}
}

// typeOf is the name of a type. What is both a message and a dict is a dict.
func typeOf(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	if err := starlark.UnpackPositionalArgs("type", args, kwargs, 1, &v); err != nil {
		return nil, err
	}
	if _, ok := v.(*object); ok {
		return starlark.String("dict"), nil
	}
	return starlark.String(strings.TrimPrefix(v.Type(), "message ")), nil
}

// fail ends the program with an error.
func (r *run) fail(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	var parts []string
	for _, a := range args {
		if err := r.spendWriting(a); err != nil {
			return nil, err
		}
		s, ok := starlark.AsString(a)
		if !ok {
			s = a.String()
		}
		parts = append(parts, s)
	}
	text := strings.Join(parts, " ")
	if text == "" {
		text = "the program failed"
	}
	const most = 4096
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return nil, r.stop(errmap.New(errmap.ToolExecutionFailed, errmap.BackendCode("failed_precondition"), errmap.Message(text), errmap.Retryable(false)))
}

func (r *run) getattr(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v, otherwise starlark.Value
	var name string
	if err := starlark.UnpackPositionalArgs("getattr", args, kwargs, 2, &v, &name, &otherwise); err != nil {
		return nil, err
	}
	found, err := r.attr(v, name)
	if err != nil && otherwise != nil && r.stopped == nil {
		return otherwise, nil
	}
	return found, err
}

func (r *run) hasattr(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	var name string
	if err := starlark.UnpackPositionalArgs("hasattr", args, kwargs, 2, &v, &name); err != nil {
		return nil, err
	}
	_, err := r.attr(v, name)
	if r.stopped != nil {
		return nil, err
	}
	return starlark.Bool(err == nil), nil
}

// keyed is an element with what it is ordered by.
type keyed struct{ value, key starlark.Value }

// keyedBy are the elements of a value, with their keys. Each key is counted as if it was looked at for a number of times.
func (r *run) keyedBy(thread *starlark.Thread, list starlark.Value, key starlark.Value, looks func(n int) int64) ([]keyed, error) {
	n, err := length(list)
	if err != nil {
		return nil, err
	}
	if err := r.spend(times(int64(n), looks(n)), times(int64(n), 5*elementBytes)); err != nil {
		return nil, err
	}
	out := make([]keyed, 0, n)
	it := starlark.Iterate(list)
	defer it.Done()
	var one starlark.Value
	for it.Next(&one) {
		k := one
		if key != nil && key != starlark.None {
			if k, err = starlark.Call(thread, key, starlark.Tuple{one}, nil); err != nil {
				return nil, err
			}
		}
		if !isPlain(k) {
			before := r.thread.Steps
			if err := r.weigh(k); err != nil {
				return nil, err
			}
			if err := r.spend(times(int64(r.thread.Steps-before), looks(n)), 0); err != nil {
				return nil, err
			}
		}
		out = append(out, keyed{one, k})
	}
	return out, nil
}

func (r *run) sorted(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var list, key starlark.Value
	var reverse bool
	if err := starlark.UnpackArgs("sorted", args, kwargs, "iterable", &list, "key?", &key, "reverse?", &reverse); err != nil {
		return nil, err
	}
	elements, err := r.keyedBy(thread, list, key, logOf)
	if err != nil {
		return nil, err
	}
	var failed error
	slices.SortStableFunc(elements, func(a, b keyed) int {
		if failed != nil {
			return 0
		}
		if reverse {
			a, b = b, a
		}
		less, err := starlark.Compare(syntax.LT, a.key, b.key)
		if err == nil && less {
			return -1
		}
		var more bool
		if err == nil {
			more, err = starlark.Compare(syntax.GT, a.key, b.key)
		}
		if err != nil {
			failed = fmt.Errorf("sorted: %w", err)
		}
		if more {
			return 1
		}
		return 0
	})
	if failed != nil {
		return nil, failed
	}
	out := make([]starlark.Value, len(elements))
	for i, e := range elements {
		out[i] = e.value
	}
	return starlark.NewList(out), nil
}

// extreme is min or max, of several arguments or the elements of one.
func (r *run) extreme(name string, op syntax.Token, thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var key, otherwise starlark.Value
	if err := starlark.UnpackArgs(name, nil, kwargs, "key?", &key, "default?", &otherwise); err != nil {
		return nil, err
	}
	var list starlark.Value = args
	if len(args) == 1 {
		list = args[0]
	}
	elements, err := r.keyedBy(thread, list, key, func(int) int64 { return 1 })
	if err != nil {
		return nil, err
	}
	if len(elements) == 0 {
		if otherwise != nil {
			return otherwise, nil
		}
		return nil, fmt.Errorf("%s of nothing; write %s(list, default=0)", name, name)
	}
	best := elements[0]
	for _, e := range elements[1:] {
		isBetter, err := starlark.Compare(op, e.key, best.key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if isBetter {
			best = e
		}
	}
	return best.value, nil
}

func (r *run) sum(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var list, total starlark.Value
	if err := starlark.UnpackArgs("sum", args, kwargs, "iterable", &list, "start?", &total); err != nil {
		return nil, err
	}
	n, err := length(list)
	if err != nil {
		return nil, err
	}
	if err := r.spend(int64(n), 0); err != nil {
		return nil, err
	}
	it := starlark.Iterate(list)
	defer it.Done()
	var one starlark.Value
	for it.Next(&one) {
		if total == nil {
			total = one
			if b, ok := one.(starlark.Bool); ok {
				total = intOf(b)
			}
			continue
		}
		if b, ok := one.(starlark.Bool); ok {
			one = intOf(b)
		}
		if total, err = r.binary(syntax.PLUS, total, one); err != nil {
			return nil, fmt.Errorf("sum: %w", err)
		}
	}
	if total == nil {
		return starlark.MakeInt(0), nil
	}
	return total, nil
}

// round is a number with some digits behind the point, or the nearest integer. What is in the middle goes to the even one.
func round(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var number starlark.Value
	var digits starlark.Value = starlark.None
	if err := starlark.UnpackArgs("round", args, kwargs, "number", &number, "ndigits?", &digits); err != nil {
		return nil, err
	}
	f, isNumber := starlark.AsFloat(number)
	_, isWhole := number.(starlark.Int)
	switch {
	case !isNumber:
		return nil, fmt.Errorf("round: %s is not a number", number.Type())
	case isWhole:
		return number, nil
	case digits == starlark.None:
		return starlark.NumberToInt(starlark.Float(math.RoundToEven(f)))
	}
	n, err := starlark.AsInt32(digits)
	if err != nil || n < 0 || n > 15 {
		return nil, errors.New("round: ndigits is from 0 to 15")
	}
	f, err = strconv.ParseFloat(strconv.FormatFloat(f, 'f', n, 64), 64)
	return starlark.Float(f), err
}

func intOf(b starlark.Bool) starlark.Int {
	if b {
		return starlark.MakeInt(1)
	}
	return starlark.MakeInt(0)
}

// jsonModule is the global json.
type jsonModule struct{ run *run }

func (*jsonModule) Type() string          { return "module" }
func (*jsonModule) String() string        { return "module json" }
func (*jsonModule) Freeze()               {}
func (*jsonModule) Truth() starlark.Bool  { return true }
func (*jsonModule) Hash() (uint32, error) { return 0, errors.New("a module cannot be a key") }
func (*jsonModule) AttrNames() []string   { return []string{"decode", "encode"} }

func (j *jsonModule) Attr(name string) (starlark.Value, error) {
	switch name {
	case "encode":
		return builtin(name, j.encode), nil
	case "decode":
		return builtin(name, j.decode), nil
	}
	return nil, nil //nolint:nilnil // as the interpreter has it
}

func (j *jsonModule) encode(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	if err := starlark.UnpackPositionalArgs("encode", args, kwargs, 1, &v); err != nil {
		return nil, err
	}
	out, _, err := j.run.json(v, (j.run.limits.Memory-j.run.memory)/4, true)
	if err != nil {
		return nil, err
	}
	return starlark.String(out), j.run.spend(0, int64(4*len(out)))
}

func (j *jsonModule) decode(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var s string
	if err := starlark.UnpackPositionalArgs("decode", args, kwargs, 1, &s); err != nil {
		return nil, err
	}
	if err := j.run.spend(int64(len(s)/textStep), int64(len(s))); err != nil {
		return nil, err
	}
	raw := jsontext.Trim([]byte(s))
	if fault := jsontext.Check(raw, maxNesting); fault != nil {
		return nil, fmt.Errorf("decode: %s", fault.Reason)
	}
	return j.run.value(nil, raw)
}
