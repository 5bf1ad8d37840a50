// SPDX-License-Identifier: Apache-2.0

package program

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"
)

const (
	// maxWidth bounds the width of a value in a text, maxPrecision the digits behind the point.
	maxWidth, maxPrecision = 1000, 100
)

// layout is how a value is written in a text: [[fill]align][sign][0][width][,][.precision][type], as Python has it.
type layout struct {
	fill             string
	align, sign      byte
	separator        string
	width, precision int // precision is -1 for none
	kind             byte
}

// digits are those at the beginning of a text, as a number of at most a bound.
func digits(s string, most int) (n int, rest string, err error) {
	size := len(s) - len(strings.TrimLeft(s, "0123456789"))
	if size == 0 {
		return 0, s, nil
	}
	if n, err = strconv.Atoi(s[:size]); err != nil || n > most {
		return 0, s, fmt.Errorf("a width in a format is at most %d, a precision %d", maxWidth, maxPrecision)
	}
	return n, s[size:], nil
}

func layoutOf(spec string) (layout, error) {
	l := layout{fill: " ", precision: -1}
	rest := spec
	if _, size := utf8.DecodeRuneInString(rest); len(rest) > size && strings.IndexByte("<>=^", rest[size]) >= 0 {
		l.fill, l.align, rest = rest[:size], rest[size], rest[size+1:]
	} else if rest != "" && strings.IndexByte("<>=^", rest[0]) >= 0 {
		l.align, rest = rest[0], rest[1:]
	}
	if rest != "" && strings.IndexByte("+- ", rest[0]) >= 0 {
		l.sign, rest = rest[0], rest[1:]
	}
	if strings.HasPrefix(rest, "0") && l.align == 0 {
		l.fill, l.align = "0", '='
	}
	err := l.sizes(&rest)
	if err != nil {
		return l, err
	}
	if rest != "" {
		l.kind, rest = rest[0], rest[1:]
	}
	if rest != "" || l.kind != 0 && strings.IndexByte("sdifFeEgGxXob%n", l.kind) < 0 {
		return l, fmt.Errorf(`there is no format %q; write one such as "{:.2f}", "{:>10}" or "{:,}"`, short(spec))
	}
	return l, nil
}

// sizes reads width, separator and precision.
func (l *layout) sizes(rest *string) (err error) {
	if l.width, *rest, err = digits(*rest, maxWidth); err != nil {
		return err
	}
	if *rest != "" && strings.IndexByte(",_", (*rest)[0]) >= 0 {
		l.separator, *rest = (*rest)[:1], (*rest)[1:]
	}
	if after, ok := strings.CutPrefix(*rest, "."); ok {
		l.precision, *rest, err = digits(after, maxPrecision)
	}
	return err
}

// write is a value in its layout.
func (l layout) write(v starlark.Value) (string, error) {
	var sign, text string
	switch n := v.(type) {
	case starlark.Int:
		if n.Sign() < 0 {
			sign = "-"
		}
		text = strings.TrimPrefix(n.String(), "-")
		switch l.kind {
		case 0, 'd', 'i', 'n':
		case 'x', 'X', 'o', 'b':
			text = strings.TrimPrefix(n.BigInt().Text(map[byte]int{'x': 16, 'X': 16, 'o': 8, 'b': 2}[l.kind]), "-")
			if l.kind == 'X' {
				text = strings.ToUpper(text)
			}
		case 's':
			return l.fit("", text, '<'), nil
		default:
			text = l.float(math.Abs(float64(n.Float())))
		}
	case starlark.Float:
		if math.Signbit(float64(n)) && !math.IsNaN(float64(n)) {
			sign = "-"
		}
		switch l.kind {
		case 'd', 'i', 'x', 'X', 'o', 'b':
			return "", fmt.Errorf("the format %c wants a whole number, found a float; write int(x), or {:.0f}", l.kind)
		case 's':
			return l.fit("", n.String(), '<'), nil
		}
		text = l.float(math.Abs(float64(n)))
	default:
		return l.text(v)
	}
	if sign == "" && l.sign != '-' && l.sign != 0 {
		sign = string(l.sign)
	}
	return l.fit(sign, l.separated(text), '>'), nil
}

// text is a value that is no number.
func (l layout) text(v starlark.Value) (string, error) {
	if l.kind != 0 && l.kind != 's' || l.separator != "" {
		return "", fmt.Errorf("a format of numbers is for numbers, found %s%s", v.Type(), noneHint(v))
	}
	s, ok := starlark.AsString(v)
	if !ok {
		s = v.String()
	}
	if l.precision >= 0 {
		at := 0
		for i := range s {
			if at == l.precision {
				s = s[:i]
				break
			}
			at++
		}
	}
	return l.fit("", s, '<'), nil
}

// float is a number that is not negative.
func (l layout) float(f float64) string {
	precision := l.precision
	if precision < 0 {
		precision = 6
	}
	switch {
	case math.IsInf(f, 0):
		return "inf"
	case math.IsNaN(f):
		return "nan"
	}
	switch l.kind {
	case 'f', 'F':
		return strconv.FormatFloat(f, 'f', precision, 64)
	case '%':
		return strconv.FormatFloat(f*100, 'f', precision, 64) + "%"
	case 'e', 'E':
		return strconv.FormatFloat(f, l.kind, precision, 64)
	case 'g', 'G', 'n':
		return l.shortest(f, precision)
	}
	if l.precision >= 0 {
		return l.shortest(f, precision)
	}
	return starlark.Float(f).String()
}

// shortest has so many digits, without the zeros at their end.
func (l layout) shortest(f float64, precision int) string {
	verb := byte('g')
	if l.kind == 'G' {
		verb = 'G'
	}
	return strconv.FormatFloat(f, verb, max(1, precision), 64)
}

// separated is a number with a mark between each three digits before the point.
func (l layout) separated(text string) string {
	size := len(text) - len(strings.TrimLeft(text, "0123456789"))
	if l.separator == "" || size <= 3 {
		return text
	}
	var out strings.Builder
	for i := range size {
		if i > 0 && (size-i)%3 == 0 {
			out.WriteString(l.separator)
		}
		out.WriteByte(text[i])
	}
	return out.String() + text[size:]
}

// fit is a text in its width.
func (l layout) fit(sign, text string, align byte) string {
	room := max(0, l.width-utf8.RuneCountInString(sign+text))
	if l.align != 0 {
		align = l.align
	}
	switch align {
	case '<':
		return sign + text + strings.Repeat(l.fill, room)
	case '^':
		return strings.Repeat(l.fill, room/2) + sign + text + strings.Repeat(l.fill, room-room/2)
	case '=':
		return sign + strings.Repeat(l.fill, room) + text
	}
	return strings.Repeat(l.fill, room) + sign + text
}

// written is a value in its layout, counted before it is made: the text of the value is counted already.
func (r *run) written(l layout, v starlark.Value) (string, error) {
	if err := r.spend(int64(1+l.width/textStep), 4*int64(max(l.width, l.precision+maxBits/4))); err != nil {
		return "", err
	}
	return l.write(v)
}

// laidOut is a text for format in which the fields that have a layout are filled in. The interpreter knows none. What it would refuse is
// left to it.
func (r *run) laidOut(format string, args starlark.Tuple, kwargs []starlark.Tuple) (string, error) {
	if !strings.Contains(format, ":") {
		return format, nil
	}
	var out strings.Builder
	next, isManual := 0, false
	for rest := format; ; {
		open := strings.IndexByte(rest, '{')
		if open < 0 {
			out.WriteString(rest)
			return out.String(), nil
		}
		out.WriteString(rest[:open])
		if rest = rest[open+1:]; strings.HasPrefix(rest, "{") {
			out.WriteString("{{")
			rest = rest[1:]
			continue
		}
		size := strings.IndexByte(rest, '}')
		if size < 0 {
			return format, nil
		}
		field, spec, _ := strings.Cut(rest[:size], ":")
		rest = rest[size+1:]
		name, conversion, isConverted := strings.Cut(field, "!")
		if name == "" {
			name = strconv.Itoa(next)
			next++
		} else if name[0] >= '0' && name[0] <= '9' {
			isManual = true
		}
		if isManual && next > 0 {
			return format, nil
		}
		v := fieldOf(name, args, kwargs)
		if spec == "" || v == nil {
			if out.WriteString("{" + name); isConverted {
				out.WriteString("!" + conversion)
			}
			out.WriteString("}")
			continue
		}
		if conversion == "r" {
			v = starlark.String(v.String())
		}
		l, err := layoutOf(spec)
		if err != nil {
			return "", err
		}
		text, err := r.written(l, v)
		if err != nil {
			return "", err
		}
		out.WriteString(strings.NewReplacer("{", "{{", "}", "}}").Replace(text))
	}
}

// laidOutMethod is a method of a value: that of its text with layouts filled in for format, and itself for all others.
func (r *run) laidOutMethod(x starlark.Value, name string, plain starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	s, ok := x.(starlark.String)
	if !ok || name != "format" {
		return plain, nil
	}
	text, err := r.laidOut(string(s), args, kwargs)
	if err != nil {
		return nil, err
	}
	return starlark.String(text).Attr(name)
}

// fieldOf is the argument of format that a field names; nil for none.
func fieldOf(name string, args starlark.Tuple, kwargs []starlark.Tuple) starlark.Value {
	if n, err := strconv.Atoi(name); err == nil && n >= 0 && n < len(args) {
		return args[n]
	}
	for _, kw := range kwargs {
		if key, _ := starlark.AsString(kw[0]); key == name {
			return kw[1]
		}
	}
	return nil
}

// interpolated is a text for %, and its values, in which the marks that have flags, a width or a precision are filled in.
func (r *run) interpolated(format string, x starlark.Value) (string, starlark.Value, error) {
	values, isTuple := x.(starlark.Tuple)
	if !isTuple {
		values = starlark.Tuple{x}
	}
	var out strings.Builder
	var left starlark.Tuple
	index, isChanged := 0, false
	for rest := format; ; {
		at := strings.IndexByte(rest, '%')
		if at < 0 || at+1 == len(rest) {
			out.WriteString(rest)
			break
		}
		out.WriteString(rest[:at])
		mark := rest[at:]
		if mark[1] == '%' {
			out.WriteString("%%")
			rest = mark[2:]
			continue
		}
		key, spec, ok := markOf(mark)
		if !ok {
			return format, x, nil
		}
		rest = mark[1+len(key)+len(spec):]
		v, isKnown := starlark.Value(nil), false
		if key != "" {
			v, isKnown = entryOf(x, key[1:len(key)-1])
		} else if index < len(values) {
			v, isKnown = values[index], true
			index++
		}
		if len(spec) == 1 || !isKnown {
			if isKnown && key == "" {
				left = append(left, v)
			}
			out.WriteString("%" + key + spec)
			continue
		}
		isChanged = true
		text, err := r.interpolate(spec, v)
		if err != nil {
			return "", nil, err
		}
		out.WriteString(strings.ReplaceAll(text, "%", "%%"))
	}
	if !isChanged {
		return format, x, nil
	}
	if _, ok := x.(starlark.Mapping); ok && index == 0 {
		return out.String(), x, nil
	}
	return out.String(), append(left, values[index:]...), nil
}

// markOf is the key in brackets of a mark, if it has one, and the rest of it up to its type.
func markOf(mark string) (key, spec string, ok bool) {
	if mark[1] == '(' {
		end := strings.IndexByte(mark, ')')
		if end < 0 {
			return "", "", false
		}
		key = mark[1 : end+1]
	}
	after := mark[1+len(key):]
	size := len(after) - len(strings.TrimLeft(after, "-+ 0123456789."))
	if size == len(after) {
		return "", "", false
	}
	return key, after[:size+1], true
}

// entryOf is what a mapping has for a key.
func entryOf(x starlark.Value, key string) (v starlark.Value, found bool) {
	m, ok := x.(starlark.Mapping)
	if !ok {
		return nil, false
	}
	v, found, err := m.Get(starlark.String(key))
	return v, found && err == nil
}

// interpolate writes a value as a mark of % wants it.
func (r *run) interpolate(spec string, v starlark.Value) (string, error) {
	flags := spec[:len(spec)-len(strings.TrimLeft(spec, "-+ 0"))]
	kind := spec[len(spec)-1]
	if strings.IndexByte("srdifFeEgGxXo", kind) < 0 {
		return "", fmt.Errorf(`there is no format %q; write one such as "%%.2f" or "%%5d"`, "%"+short(spec))
	}
	whole, fraction, hasPoint := strings.Cut(spec[len(flags):len(spec)-1], ".")
	l := layout{fill: " ", align: '>', precision: -1, kind: kind}
	var err error
	if l.width, whole, err = digits(whole, maxWidth); err == nil && hasPoint {
		l.precision, fraction, err = digits(fraction, maxPrecision)
	}
	if err != nil || whole+fraction != "" {
		return "", errors.Join(err, fmt.Errorf("there is no format %q", "%"+short(spec)))
	}
	isNumber := kind != 's' && kind != 'r'
	switch {
	case strings.Contains(flags, "-"):
		l.align = '<'
	case strings.Contains(flags, "0") && isNumber:
		l.fill, l.align = "0", '='
	}
	if strings.Contains(flags, "+") {
		l.sign = '+'
	} else if strings.Contains(flags, " ") {
		l.sign = ' '
	}
	if f, ok := v.(starlark.Float); ok && strings.IndexByte("dixXo", kind) >= 0 {
		if v, err = starlark.NumberToInt(f); err != nil {
			return "", err
		}
	}
	if s, ok := starlark.AsString(v); !isNumber {
		l.kind = 's'
		if kind == 'r' || !ok {
			s = v.String()
		}
		v = starlark.String(s)
	}
	return r.written(l, v)
}
