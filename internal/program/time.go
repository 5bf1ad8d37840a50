// SPDX-License-Identifier: Apache-2.0

package program

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

const (
	// minSecond and maxSecond are the years 1 and 9999, the bounds of google.protobuf.Timestamp; maxSpan is that of Duration.
	minSecond = -62135596800
	maxSecond = 253402300799
	maxSpan   = 315576000000
	second    = int64(time.Second)
)

// instant is a number of seconds and nanoseconds, which have values from 0 to 999,999,999 also before the epoch.
type instant struct {
	seconds int64
	nanos   int64
}

func (i instant) normal() instant {
	i.seconds += i.nanos / second
	if i.nanos %= second; i.nanos < 0 {
		i.seconds, i.nanos = i.seconds-1, i.nanos+second
	}
	return i
}

func (i instant) plus(o instant) instant {
	return instant{i.seconds + o.seconds, i.nanos + o.nanos}.normal()
}

func (i instant) minus(o instant) instant {
	return instant{i.seconds - o.seconds, i.nanos - o.nanos}.normal()
}

func (i instant) compare(o instant) int {
	switch {
	case i.seconds != o.seconds && i.seconds < o.seconds, i.seconds == o.seconds && i.nanos < o.nanos:
		return -1
	case i == o:
		return 0
	}
	return 1
}

func (i instant) float() float64 { return float64(i.seconds) + float64(i.nanos)/float64(second) }

func (i instant) hash() uint32 {
	return uint32(i.seconds) ^ uint32(i.nanos)
}

func (i instant) attr(name string) (starlark.Value, error) {
	switch name {
	case "seconds":
		return starlark.MakeInt64(i.seconds), nil
	case "nanos":
		return starlark.MakeInt64(i.nanos), nil
	}
	return nil, nil //nolint:nilnil // as the interpreter has it
}

// timestamp is a google.protobuf.Timestamp.
type timestamp struct{ instant }

// duration is a google.protobuf.Duration.
type duration struct{ instant }

func (t timestamp) Type() string          { return "timestamp" }
func (t timestamp) Freeze()               {}
func (t timestamp) Truth() starlark.Bool  { return true }
func (t timestamp) Hash() (uint32, error) { return t.hash(), nil }
func (t timestamp) AttrNames() []string   { return []string{"nanos", "seconds"} }
func (t timestamp) String() string {
	return time.Unix(t.seconds, t.nanos).UTC().Format(time.RFC3339Nano)
}
func (t timestamp) Attr(name string) (starlark.Value, error) { return t.attr(name) }

func (d duration) Type() string                             { return "duration" }
func (d duration) Freeze()                                  {}
func (d duration) Truth() starlark.Bool                     { return d.instant != instant{} }
func (d duration) Hash() (uint32, error)                    { return d.hash(), nil }
func (d duration) AttrNames() []string                      { return []string{"nanos", "seconds"} }
func (d duration) Attr(name string) (starlark.Value, error) { return d.attr(name) }

func (d duration) String() string {
	sign, i := "", d.instant
	if i.seconds < 0 {
		sign, i = "-", instant{-i.seconds, -i.nanos}.normal()
	}
	s := sign + strconv.FormatInt(i.seconds, 10)
	if i.nanos != 0 {
		s += "." + strings.TrimRight(fmt.Sprintf("%09d", i.nanos), "0")
	}
	return s + "s"
}

// Cmp orders times.
func (t timestamp) Cmp(y starlark.Value, _ int) (int, error) {
	return t.compare(y.(timestamp).instant), nil
}

// Cmp orders durations.
func (d duration) Cmp(y starlark.Value, _ int) (int, error) {
	return d.compare(y.(duration).instant), nil
}

func newTimestamp(i instant) (starlark.Value, error) {
	if i.seconds < minSecond || i.seconds > maxSecond {
		return nil, errors.New("a timestamp is in the years 1 to 9999")
	}
	return timestamp{i}, nil
}

func newDuration(i instant) (starlark.Value, error) {
	if i.seconds < -maxSpan-1 || i.seconds > maxSpan {
		return nil, errors.New("a duration is at most 10000 years")
	}
	return duration{i}, nil
}

// Binary is a time plus or minus a duration, or the duration between two times.
func (t timestamp) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	switch y := y.(type) {
	case duration:
		switch {
		case op == syntax.PLUS:
			return newTimestamp(t.plus(y.instant))
		case op == syntax.MINUS && side == starlark.Left:
			return newTimestamp(t.minus(y.instant))
		}
	case timestamp:
		if op == syntax.MINUS {
			return newDuration(t.minus(y.instant))
		}
	}
	return nil, nil //nolint:nilnil // as the interpreter has it
}

// Binary is the sum or the difference of durations, a multiple of one, or how often one is in another.
func (d duration) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	if y, ok := y.(duration); ok {
		switch op { //nolint:exhaustive // the others are not defined
		case syntax.PLUS:
			return newDuration(d.plus(y.instant))
		case syntax.MINUS:
			return newDuration(d.minus(y.instant))
		case syntax.SLASH:
			if y.float() == 0 {
				return nil, errors.New("division by a duration of zero")
			}
			return starlark.Float(d.float() / y.float()), nil
		}
		return nil, nil //nolint:nilnil // as the interpreter has it
	}
	by, ok := starlark.AsFloat(y)
	switch {
	case !ok:
	case op == syntax.STAR:
		return scaled(d.instant, by)
	case op == syntax.SLASH && side == starlark.Left:
		if by == 0 {
			return nil, errors.New("division by zero")
		}
		return scaled(d.instant, 1/by)
	}
	return nil, nil //nolint:nilnil // as the interpreter has it
}

// scaled is a multiple of a duration, exact for whole factors.
func scaled(i instant, by float64) (starlark.Value, error) {
	if math.Abs(i.float()*by) > maxSpan || math.IsNaN(by) {
		return nil, errors.New("a duration is at most 10000 years")
	}
	if by == math.Trunc(by) && math.Abs(by) < 1<<31 {
		n := int64(by)
		whole := instant{i.seconds * n, 0}
		return newDuration(whole.plus(instant{0, i.nanos * n}))
	}
	whole, part := math.Modf(i.float() * by)
	return newDuration(instant{int64(whole), int64(math.Round(part * float64(second)))}.normal())
}

// Unary is the sign of a duration.
func (d duration) Unary(op syntax.Token) (starlark.Value, error) {
	switch op { //nolint:exhaustive // the others are not defined
	case syntax.MINUS:
		return duration{instant{}.minus(d.instant)}, nil
	case syntax.PLUS:
		return d, nil
	}
	return nil, nil //nolint:nilnil // as the interpreter has it
}

func parseTimestamp(s string) (starlark.Value, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return nil, fmt.Errorf(`%s is not a time such as "2026-01-31T12:00:00Z"`, strconv.Quote(short(s)))
	}
	return newTimestamp(instant{t.Unix(), int64(t.Nanosecond())})
}

func parseDuration(s string) (starlark.Value, error) {
	fail := fmt.Errorf(`%s is not a duration in seconds such as "3.5s"`, strconv.Quote(short(s)))
	number, ok := strings.CutSuffix(s, "s")
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(number, "-"), ".")
	if !ok || len(fraction) > 9 || strings.Trim(whole+fraction, "0123456789") != "" || whole == "" || len(whole) > 12 {
		return nil, fail
	}
	seconds, _ := strconv.ParseInt(whole, 10, 64)
	nanos, _ := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	i := instant{seconds, nanos}
	if strings.HasPrefix(number, "-") {
		i = instant{-seconds, -nanos}
	}
	return newDuration(i.normal())
}
