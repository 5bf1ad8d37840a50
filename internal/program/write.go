// SPDX-License-Identifier: Apache-2.0

package program

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"

	"go.starlark.net/starlark"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// maxExact is the largest integer that every reader of JSON has exactly.
const maxExact = 1<<53 - 1

// writer writes values as JSON.
type writer struct {
	run *run
	// limit bounds the bytes that are written.
	limit int64
	// texts: integers that are not exact in a float are texts, as those of 64 bits in results of tools.
	texts bool
	// over is set where the limit was met.
	over bool
	out  []byte
}

// json is a value as JSON.
func (r *run) json(v starlark.Value, limit int64, texts bool) (out []byte, isOver bool, err error) {
	w := writer{run: r, limit: limit, texts: texts}
	err = w.value(v, 0)
	return w.out, w.over, err
}

func (w *writer) tooLong() error {
	w.over = true
	return fmt.Errorf("the JSON of a value has more than %d bytes", w.limit)
}

func (w *writer) value(v starlark.Value, depth int) error {
	if depth > maxNesting {
		return nested()
	}
	before := len(w.out)
	if err := w.part(v, depth); err != nil {
		return err
	}
	if int64(len(w.out)) > w.limit {
		return w.tooLong()
	}
	if depth == 0 || len(w.out)-before > textStep {
		return w.run.spend(1+int64((len(w.out)-before)/textStep), 0)
	}
	return w.run.spend(1, 0)
}

func (w *writer) part(v starlark.Value, depth int) error {
	switch v := v.(type) {
	case starlark.NoneType:
		w.out = append(w.out, "null"...)
	case starlark.Bool:
		w.out = strconv.AppendBool(w.out, bool(v))
	case starlark.Int:
		w.integer(v)
	case starlark.Float:
		w.float(float64(v))
	case starlark.String:
		return w.text(string(v))
	case starlark.Bytes:
		if err := w.room(2 * len(v)); err != nil {
			return err
		}
		w.out = append(base64.StdEncoding.AppendEncode(append(w.out, '"'), []byte(v)), '"')
	case timestamp:
		return w.text(v.String())
	case duration:
		return w.text(v.String())
	case *message:
		return w.raw(v.raw)
	case *object:
		return w.raw(v.raw)
	case failure:
		w.out = append(w.out, `{"code":`...)
		w.out = jsontext.AppendString(w.out, string(v.failed.Code))
		w.out = append(w.out, `,"message":`...)
		w.out = append(jsontext.AppendString(w.out, v.text()), '}')
	case *starlark.Dict:
		return w.dict(v, depth)
	case starlark.Iterable:
		return w.list(v, depth)
	default:
		return fmt.Errorf("%s cannot be written as JSON; call it, or name one of its fields", v.Type())
	}
	return nil
}

func (w *writer) room(n int) error {
	if int64(len(w.out)+n) > w.limit {
		return w.tooLong()
	}
	return nil
}

func (w *writer) raw(raw []byte) error {
	if err := w.room(len(raw)); err != nil {
		return err
	}
	w.out = append(w.out, raw...)
	return nil
}

func (w *writer) text(s string) error {
	if err := w.room(len(s) + 2); err != nil {
		return err
	}
	w.out = jsontext.AppendString(w.out, s)
	return nil
}

func (w *writer) integer(v starlark.Int) {
	n, isSmall := v.Int64()
	asText := w.texts && (!isSmall || n > maxExact || n < -maxExact)
	if asText {
		w.out = append(w.out, '"')
	}
	w.out = append(w.out, v.String()...)
	if asText {
		w.out = append(w.out, '"')
	}
}

func (w *writer) float(f float64) {
	switch {
	case math.IsNaN(f):
		w.out = append(w.out, `"NaN"`...)
	case math.IsInf(f, 0):
		name := `"Infinity"`
		if f < 0 {
			name = `"-Infinity"`
		}
		w.out = append(w.out, name...)
	case math.Abs(f) >= 1e21 || f != 0 && math.Abs(f) < 1e-6:
		w.out = strconv.AppendFloat(w.out, f, 'e', -1, 64)
	default:
		w.out = strconv.AppendFloat(w.out, f, 'f', -1, 64)
	}
}

func (w *writer) dict(d *starlark.Dict, depth int) error {
	w.out = append(w.out, '{')
	first := true
	for k, v := range d.Entries() {
		if !first {
			w.out = append(w.out, ',')
		}
		first = false
		var name string
		switch k := k.(type) {
		case starlark.String:
			name = string(k)
		case starlark.Int:
			name = k.String()
		case starlark.Bool:
			name = strconv.FormatBool(bool(k))
		case timestamp:
			name = k.String()
		default:
			return fmt.Errorf("a key of JSON is a string, a number or a bool, not %s; write str(key)", k.Type())
		}
		if _, isText := k.(starlark.String); !isText {
			if _, found, err := d.Get(starlark.String(name)); found || err != nil {
				return fmt.Errorf("the dict has two keys that are %q in JSON: %s and a string", name, k.Type())
			}
		}
		if err := w.text(name); err != nil {
			return err
		}
		w.out = append(w.out, ':')
		if err := w.value(v, depth+1); err != nil {
			return err
		}
	}
	w.out = append(w.out, '}')
	return nil
}

func (w *writer) list(list starlark.Iterable, depth int) error {
	if _, err := length(list); err != nil {
		return err
	}
	w.out = append(w.out, '[')
	it := list.Iterate()
	defer it.Done()
	var one starlark.Value
	for i := 0; it.Next(&one); i++ {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.value(one, depth+1); err != nil {
			return err
		}
	}
	w.out = append(w.out, ']')
	return nil
}
