// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"strconv"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// mapOf encodes a google.protobuf.Struct whose entries stand in the given order.
func mapOf(keys []string, value func(i int) []byte) []byte {
	var out []byte
	for i, key := range keys {
		entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), key)
		entry = protowire.AppendBytes(protowire.AppendTag(entry, 2, protowire.BytesType), value(i))
		out = protowire.AppendBytes(protowire.AppendTag(out, 1, protowire.BytesType), entry)
	}
	return out
}

// TestMapsWithinMaps writes maps whose keys come in any order. Each level is written once: with one look more for each
// level, forty levels would not end.
func TestMapsWithinMaps(t *testing.T) {
	t.Parallel()
	m := compiled(t, "google.protobuf.Struct")
	number := func(i int) []byte {
		return protowire.AppendFixed64(protowire.AppendTag(nil, 2, protowire.Fixed64Type), 0x3ff0000000000000+uint64(i)<<52)
	}
	tests := []struct {
		name string
		keys []string
		want string // of the innermost map
	}{
		{"in order", []string{"a", "b", "c"}, `{"a":1,"b":2,"c":4}`},
		{"out of order", []string{"c", "b", "a"}, `{"a":4,"b":2,"c":1}`},
		{"out of order at the end", []string{"b", "c", "a"}, `{"a":4,"b":1,"c":2}`},
		{"one", []string{"x"}, `{"x":1}`},
		{"an empty key", []string{"", "x"}, `{"":1,"x":2}`},
		{"a key with escapes", []string{"\"\n", "é"}, `{"\"\n":1,"é":2}`},
		{"none", nil, `{}`},
	}
	for _, test := range tests {
		for _, levels := range []int{0, 1, 30} {
			t.Run(test.name+", "+strconv.Itoa(levels), func(t *testing.T) {
				t.Parallel()
				wire, want := mapOf(test.keys, number), test.want
				for range levels {
					below := protowire.AppendBytes(protowire.AppendTag(nil, 5, protowire.BytesType), wire)
					wire = mapOf([]string{"z", "k"}, func(i int) []byte {
						if i == 0 {
							return below
						}
						return number(0)
					})
					want = `{"k":1,"z":` + want + `}`
				}
				got, err := m.ToJSON(nil, wire)
				if err != nil || string(got) != want {
					t.Errorf("%s, %v; want %s", got, err, want)
				}
			})
		}
	}
}

// TestMapsThatAreWrong are refused, or read as the wire decoder reads them, whatever the first look at them says.
func TestMapsThatAreWrong(t *testing.T) {
	t.Parallel()
	m := compiled(t, "google.protobuf.Struct")
	null := func(int) []byte { return []byte{1 << 3, 0} }
	tests := []struct {
		name string
		wire []byte
		want string // "" for an error
	}{
		{"cut off in an entry", mapOf([]string{"a"}, null)[:5], ""},
		{"a key twice", mapOf([]string{"a", "a"}, null), `{"a":null}`},
		{"a key that is no text", mapOf([]string{"\xff"}, null), ""},
		{"an entry that is empty", []byte{1<<3 | 2, 0}, `{"":null}`}, // a Value without a kind
		{"a key without its length", []byte{1<<3 | 2, 1, 1<<3 | 2}, ""},
		{"a key longer than its entry", []byte{1<<3 | 2, 3, 1<<3 | 2, 9, 'a'}, ""},
		{"a key and nothing behind it", []byte{1<<3 | 2, 3, 1<<3 | 2, 1, 'a'}, `{"a":null}`},
		{"a value longer than its entry", []byte{1<<3 | 2, 5, 1<<3 | 2, 1, 'a', 2<<3 | 2, 7}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := m.ToJSON(nil, test.wire)
			if (err != nil) != (test.want == "") || string(got) != test.want {
				t.Errorf("%s, %v; want %q", got, err, test.want)
			}
		})
	}
}
