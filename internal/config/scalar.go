// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	durationName  = protoreflect.FullName("google.protobuf.Duration")
	timestampName = protoreflect.FullName("google.protobuf.Timestamp")
	structName    = protoreflect.FullName("google.protobuf.Struct")
)

// scalarError says in words what a value should look like.
type scalarError string

func (e scalarError) Error() string { return string(e) }

// isSize reports whether a field holds a number of bytes, which may be written
// with a unit.
func isSize(fd protoreflect.FieldDescriptor) bool {
	return strings.HasSuffix(string(fd.Name()), "_bytes") &&
		(fd.Kind() == protoreflect.Int32Kind || fd.Kind() == protoreflect.Int64Kind)
}

func isDuration(fd protoreflect.FieldDescriptor) bool { return isNamed(fd, durationName) }

func isTimestamp(fd protoreflect.FieldDescriptor) bool { return isNamed(fd, timestampName) }

// isStruct reports whether a field holds free-form YAML.
func isStruct(fd protoreflect.FieldDescriptor) bool { return isNamed(fd, structName) }

func isNamed(fd protoreflect.FieldDescriptor, name protoreflect.FullName) bool {
	return fd.Kind() == protoreflect.MessageKind && fd.Message().FullName() == name
}

// scalarFromText reads one value of a field (one item, if it is a list). All
// three sources use it, so that a value is written the same way everywhere. The
// error is a scalarError.
func scalarFromText(fd protoreflect.FieldDescriptor, text string) (protoreflect.Value, error) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text), nil
	case protoreflect.BoolKind:
		return boolFromText(text)
	case protoreflect.Int32Kind:
		n, err := integerFromText(fd, text, math.MinInt32, math.MaxInt32)
		return protoreflect.ValueOfInt32(int32(n)), err
	case protoreflect.Int64Kind:
		n, err := integerFromText(fd, text, math.MinInt64, math.MaxInt64)
		return protoreflect.ValueOfInt64(n), err
	case protoreflect.DoubleKind:
		return doubleFromText(text)
	case protoreflect.EnumKind:
		return enumFromText(fd.Enum(), text)
	}
	switch {
	case isDuration(fd):
		return durationFromText(text)
	case isTimestamp(fd):
		return timestampFromText(text)
	}
	return protoreflect.Value{}, scalarError("cannot be written as one value")
}

func boolFromText(text string) (protoreflect.Value, error) {
	switch strings.ToLower(text) {
	case "true", "1":
		return protoreflect.ValueOfBool(true), nil
	case "false", "0":
		return protoreflect.ValueOfBool(false), nil
	}
	return protoreflect.Value{}, scalarError("must be true or false, is " + quote(text))
}

func integerFromText(fd protoreflect.FieldDescriptor, text string, least, most int64) (int64, error) {
	form := "must be a whole number in decimal digits"
	digits, unit := text, int64(1)
	if isSize(fd) {
		form = `must be a number of bytes, or a size such as "4MiB"`
		digits, unit = cutUnit(text)
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case !isDecimal(digits):
		return 0, scalarError(form + ", is " + quote(text))
	case err != nil, n > most/unit, n < least/unit:
		return 0, scalarError("is out of range: " + quote(text))
	}
	return n * unit, nil
}

// isDecimal refuses what readers could take for different numbers: signs other
// than a minus, underscores, leading zeros (octal to some), other bases.
func isDecimal(s string) bool {
	s = strings.TrimPrefix(s, "-")
	if s == "" || (s[0] == '0' && len(s) > 1) {
		return false
	}
	return strings.Trim(s, "0123456789") == ""
}

// cutUnit splits "4MiB" or "4 MiB" into "4" and 1<<20. Decimal units are
// powers of 1000, as in the SI.
func cutUnit(text string) (digits string, unit int64) {
	units := [...]struct {
		name  string
		bytes int64
	}{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
		{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1},
	}
	for _, u := range units {
		if digits, ok := strings.CutSuffix(text, u.name); ok {
			return strings.TrimRight(digits, " "), u.bytes
		}
	}
	return text, 1
}

func doubleFromText(text string) (protoreflect.Value, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return protoreflect.Value{}, scalarError("must be a number, is " + quote(text))
	}
	return protoreflect.ValueOfFloat64(f), nil
}

func enumFromText(ed protoreflect.EnumDescriptor, text string) (protoreflect.Value, error) {
	if v := ed.Values().ByName(protoreflect.Name(text)); v != nil {
		return protoreflect.ValueOfEnum(v.Number()), nil
	}
	names := make([]string, ed.Values().Len())
	for i := range names {
		names[i] = string(ed.Values().Get(i).Name())
	}
	return protoreflect.Value{}, scalarError("must be one of " + strings.Join(names, ", ") + ", is " + quote(text))
}

func durationFromText(text string) (protoreflect.Value, error) {
	d, err := time.ParseDuration(text)
	// "0" is the one duration that Go accepts without a unit.
	if err != nil || text == "0" {
		return protoreflect.Value{}, scalarError(`must be a duration with its unit, such as "30s" or "1m30s", is ` + quote(text))
	}
	return protoreflect.ValueOfMessage(durationpb.New(d).ProtoReflect()), nil
}

func timestampFromText(text string) (protoreflect.Value, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return protoreflect.Value{}, scalarError(`must be a time such as "2026-07-28T00:00:00Z", is ` + quote(text))
	}
	return protoreflect.ValueOfMessage(timestamppb.New(at).ProtoReflect()), nil
}

// quote shows a value in a message: on one line, and not too much of it.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most] + "..."
	}
	return fmt.Sprintf("%q", s)
}
