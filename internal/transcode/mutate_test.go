// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"bytes"
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"
)

// fragments are what a mutation puts in place of a value: the forms that ProtoJSON takes and those close to them.
func fragments() []string {
	return []string{
		`null`, `true`, `false`, `{}`, `[]`, `[null]`, `[1]`, `[{}]`, `{"name":"x"}`, `{"a":null}`, `{"1":"x"}`, `{"+1":"x"}`,
		`{"007":"x"}`, `{"true":"x"}`, `{"-0":"x"}`, `{" 1":"x"}`, `{"value":1}`, `{"value":"1s"}`,
		`0`, `-0`, `1`, `-1`, `1.0`, `1.5`, `1e2`, `1e-1`, `10e-1`, `0.1e1`, `2147483647`, `2147483648`, `-2147483649`, `4294967296`,
		`9223372036854775807`, `9223372036854775808`, `18446744073709551615`, `18446744073709551616`, `3.5e38`, `1e39`, `1.7e308`, `1e-400`,
		`100000000000000000000e-20`, `0e99`,
		`""`, `"0"`, `"-0"`, `"1"`, `"-1"`, `"+1"`, `"01"`, `" 1"`, `"1 "`, `"1,2"`, `"1.0"`, `"1.5"`, `"1e2"`, `".5"`, `"1."`, `"1e"`, `"0x1"`,
		`"2147483648"`, `"4294967295"`, `"9223372036854775808"`, `"18446744073709551615"`, `"99999999999999999999"`, `"1e400"`, `"3.5e38"`, `"1e39"`,
		`"NaN"`, `"Infinity"`, `"-Infinity"`, `"nan"`, `"+Infinity"`, `"inf"`, `"null"`, `"true"`, `"[1]"`, `"{}"`, `"\"1\""`,
		`"AQ=="`, `"AQ"`, `"AQ="`, `"A"`, `"-_8="`, `"+/8"`, `"+_8="`, `"AQ\n=="`, `"A Q="`, `"===="`,
		`"GRADE_GOOD"`, `"grade_good"`, `"ALIASED_UNO"`, `"CLOSED_ONE"`, `"NULL_VALUE"`, `"SHUT_ENUM_A"`,
		`"2024-02-29T12:00:00Z"`, `"2023-02-29T12:00:00Z"`, `"2024-02-29T12:00:00.123456789+01:00"`, `"2024-02-29T12:00:00.1234567890Z"`,
		`"2024-02-29t12:00:00z"`, `"2024-02-29T12:00:00"`, `"0001-01-01T00:00:00+01:00"`, `"9999-12-31T23:59:59-01:00"`, `"0000-12-31T23:59:59Z"`,
		`"2024-02-29T1:00:00Z"`, `"2024-02-29T12:00:00,5Z"`, `"2024-02-29T23:59:60Z"`, `"2024-02-29T24:00:00Z"`,
		`"1s"`, `"-1.5s"`, `"+1s"`, `".5s"`, `"1.s"`, `".s"`, `"s"`, `"-s"`, `"01s"`, `"315576000000s"`, `"315576000001s"`, `"315576000000.9s"`,
		`"1.0000000001s"`, `"99999999999999999999s"`, `"1S"`, `"1e2s"`,
		`"a"`, `"a,b"`, `" a,fooBar "`, `"a,,b"`, `"foo_bar"`, `"a.b"`, `"A"`, `"1a"`, `"a b"`, `","`, `"ä"`,
		`{"@type":"type.googleapis.com/shapes.v1.Leaf","name":"x"}`, `{"fields":{}}`, `{"seconds":1}`, `[[1]]`, `"\ud83d\ude00"`,
	}
}

// mutate changes a document in a few places and returns its text; numbers keep their digits.
func mutate(t *rapid.T, md protoreflect.MessageDescriptor, doc []byte) []byte {
	var root any
	if err := decodeNumbers(doc, &root); err != nil {
		t.Fatal(err)
	}
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		root = mutateValue(t, md, root)
	}
	out, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func decodeNumbers(doc []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	return d.Decode(into)
}

// mutateValue goes down a random way and changes what it finds at its end.
func mutateValue(t *rapid.T, md protoreflect.MessageDescriptor, v any) any {
	switch v := v.(type) {
	case map[string]any:
		return mutateObject(t, md, v)
	case []any:
		if len(v) > 0 && rapid.IntRange(0, 3).Draw(t, "into array") > 0 {
			i := rapid.IntRange(0, len(v)-1).Draw(t, "index")
			v[i] = mutateValue(t, md, v[i])
			return v
		}
		return append(v, fragment(t))
	default:
		return fragment(t)
	}
}

func mutateObject(t *rapid.T, md protoreflect.MessageDescriptor, v map[string]any) any {
	names := make([]string, 0, len(v))
	for name := range v {
		names = append(names, name)
	}
	slices.Sort(names)
	switch rapid.IntRange(0, 9).Draw(t, "change") {
	case 0:
		return fragment(t)
	case 1:
		v[rapid.SampledFrom([]string{"unknown", "name", "Name", "", "@type", "[shapes.v1.nick_name]", "[shapes.v1.none]"}).Draw(t, "new")] = fragment(t)
		return v
	case 2, 3, 4:
		// A field of the root message, under one of its names, wherever we are.
		if md.Fields().Len() > 0 {
			fd := md.Fields().Get(rapid.IntRange(0, md.Fields().Len()-1).Draw(t, "field"))
			name := rapid.SampledFrom([]string{fd.JSONName(), string(fd.Name()), fd.TextName()}).Draw(t, "name")
			v[name] = fragment(t)
		}
		return v
	}
	if len(names) == 0 {
		return v
	}
	name := rapid.SampledFrom(names).Draw(t, "member")
	if rapid.IntRange(0, 5).Draw(t, "drop") == 0 {
		delete(v, name)
		return v
	}
	v[name] = mutateValue(t, md, v[name])
	return v
}

func fragment(t *rapid.T) any {
	var v any
	if err := decodeNumbers([]byte(rapid.SampledFrom(fragments()).Draw(t, "fragment")), &v); err != nil {
		t.Fatal(err)
	}
	return v
}
