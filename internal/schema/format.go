// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The formats that a Validator asserts. They say exactly what ProtoJSON says, for numbers and for their string forms;
// int32 to byte are the names of the OpenAPI format registry, google-* those of Google's discovery documents.
// All other formats are annotations, as JSON Schema 2020-12 has it.
const (
	formatInt32     = "int32"
	formatInt64     = "int64"
	formatUint32    = "uint32"
	formatUint64    = "uint64"
	formatFloat     = "float"
	formatDouble    = "double"
	formatByte      = "byte"
	formatDateTime  = "date-time"
	formatDuration  = "google-duration"
	formatFieldMask = "google-fieldmask"
)

var errFormat = errors.New("not of this format")

// isWidelyKnown reports whether ajv-formats 3 knows a format. Validators in JavaScript refuse a whole schema for one
// format that they do not know, so an advertised schema shows no others: ranges that only a format could say are left
// to the description.
func isWidelyKnown(format string) bool {
	switch format {
	case formatUint32, formatUint64, formatDuration, formatFieldMask:
		return false
	}
	return true
}

// mayShow reports whether the schema may name a format. ProfileStrict turns formats into words and shows none.
func (d *deriver) mayShow(format string) bool {
	return !d.shown || isWidelyKnown(format) || d.opts.Profile == ProfileStrict
}

// registerFormats replaces every format that the library asserts: ours by ProtoJSON's reading, the rest by nothing.
func registerFormats(c *jsonschema.Compiler) {
	for _, name := range []string{
		"json-pointer", "relative-json-pointer", "uuid", "duration", "period", "ipv4", "ipv6", "hostname", "email", "date",
		"time", "uri", "iri", "uri-reference", "iri-reference", "uri-template", "semver",
	} {
		c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
	}
	ours := map[string]func(any) bool{
		formatInt32:     func(v any) bool { return isInteger(v, 32, true) },
		formatInt64:     func(v any) bool { return isInteger(v, 64, true) },
		formatUint32:    func(v any) bool { return isInteger(v, 32, false) },
		formatUint64:    func(v any) bool { return isInteger(v, 64, false) },
		formatFloat:     func(v any) bool { return isFloat(v, 32) },
		formatDouble:    func(v any) bool { return isFloat(v, 64) },
		formatByte:      onStrings(isBase64),
		formatDateTime:  onStrings(isTimestamp),
		formatDuration:  onStrings(isDuration),
		formatFieldMask: onStrings(isFieldMask),
	}
	for name, holds := range ours {
		c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(v any) error {
			if holds(v) {
				return nil
			}
			return errFormat
		}})
	}
}

// onStrings lets a format speak about strings only, as JSON Schema asks.
func onStrings(f func(string) bool) func(any) bool {
	return func(v any) bool {
		s, ok := v.(string)
		return !ok || f(s)
	}
}

// isInteger holds for numbers of the type, for the same written as a JSON number in a string, and for the forms that
// a map key may have (a plus sign, leading zeros); the pattern beside the format tells these apart.
func isInteger(v any, bits int, signed bool) bool {
	var s string
	switch v := v.(type) {
	case json.Number:
		s = v.String()
	case string:
		s = v
		if isParsedInteger(s, bits, signed) {
			return true
		}
	default:
		return true
	}
	digits, ok := plainInteger(s)
	return ok && isParsedInteger(digits, bits, signed)
}

func isParsedInteger(s string, bits int, signed bool) bool {
	var err error
	if signed {
		_, err = strconv.ParseInt(s, 10, bits)
	} else {
		_, err = strconv.ParseUint(s, 10, bits)
	}
	return err == nil
}

// plainInteger writes a JSON number of integer value without fraction and exponent. It gives up where that would take
// more than the 20 digits of the largest uint64.
func plainInteger(s string) (string, bool) {
	const maxDigits = 20
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	mantissa, exponent := s, ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent = s[:i], s[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	fraction = strings.TrimRight(fraction, "0")
	if whole == "0" {
		whole = ""
	}
	if whole == "" && fraction == "" {
		return "0", true
	}
	shift := 0
	if exponent != "" {
		e, err := strconv.ParseInt(exponent, 10, 32)
		if err != nil {
			return "", false
		}
		shift = int(e)
	}
	if shift >= 0 {
		if len(fraction) > shift || len(whole)+shift > maxDigits {
			return "", false
		}
		return sign + whole + fraction + strings.Repeat("0", shift-len(fraction)), true
	}
	keep := len(whole) + shift
	if fraction != "" || keep < 0 || strings.Trim(whole[keep:], "0") != "" {
		return "", false
	}
	return sign + whole[:keep], true
}

func isFloat(v any, bits int) bool {
	var s string
	switch v := v.(type) {
	case json.Number:
		s = v.String()
	case string:
		if v == "NaN" || v == "Infinity" || v == "-Infinity" {
			return true
		}
		if !json.Valid([]byte(v)) || strings.TrimLeft(v, "-0123456789") == v || strings.TrimSpace(v) != v {
			return false
		}
		s = v
	default:
		return true
	}
	_, err := strconv.ParseFloat(s, bits)
	return err == nil
}

// isBase64 takes both alphabets, with or without padding, as ProtoJSON does.
func isBase64(s string) bool {
	encoding := base64.StdEncoding
	if strings.ContainsAny(s, "-_") {
		encoding = base64.URLEncoding
	}
	if len(s)%4 != 0 {
		encoding = encoding.WithPadding(base64.NoPadding)
	}
	_, err := encoding.DecodeString(s)
	return err == nil
}

// The range of google.protobuf.Timestamp: the years 1 to 9999.
const (
	minTimestampSeconds = -62135596800
	maxTimestampSeconds = 253402300799
	maxNanosDigits      = 9
)

// isTimestamp reads RFC 3339 as ProtoJSON's Go implementation does.
func isTimestamp(s string) bool {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Unix() < minTimestampSeconds || t.Unix() > maxTimestampSeconds {
		return false
	}
	dot, zone := strings.LastIndexByte(s, '.'), strings.LastIndexAny(s, "Z-+")
	return dot < 0 || zone < dot || zone-dot <= maxNanosDigits+1
}

// maxDurationSeconds is the range of google.protobuf.Duration, about ten thousand years.
const maxDurationSeconds = 315_576_000_000

func isDuration(s string) bool {
	body, ok := strings.CutSuffix(s, "s")
	if !ok || body == "" {
		return false
	}
	if body[0] == '-' || body[0] == '+' {
		body = body[1:]
	}
	whole, fraction, dotted := strings.Cut(body, ".")
	if whole == "" && !dotted || len(fraction) > maxNanosDigits || len(whole) > 1 && whole[0] == '0' {
		return false
	}
	if strings.Trim(whole, "0123456789") != "" || strings.Trim(fraction, "0123456789") != "" {
		return false
	}
	seconds, ok := new(big.Int).SetString("0"+whole[:min(len(whole), 20)], 10)
	return ok && seconds.Cmp(big.NewInt(maxDurationSeconds)) <= 0
}

func isFieldMask(s string) bool {
	s = strings.TrimSpace(s)
	if s == "" {
		return true
	}
	for path := range strings.SplitSeq(s, ",") {
		if strings.Contains(path, "_") {
			return false
		}
		var snake bytes.Buffer
		for i := range len(path) {
			c := path[i]
			if 'A' <= c && c <= 'Z' {
				snake.WriteByte('_')
				c += 'a' - 'A'
			}
			snake.WriteByte(c)
		}
		if !protoreflect.FullName(snake.String()).IsValid() {
			return false
		}
	}
	return true
}
