// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLookup(t *testing.T) {
	t.Parallel()
	const object = "\n{ \"a\" : 1 , \"b\":{\"a\":[2,\"]}\",{}]} ,\"\\u0063\\ud83d\\ude00\":\"x\\\"y\", \"\":null,\"d\":-1.5e3 }\n"
	tests := []struct {
		name, object, want string
		ok                 bool
	}{
		{"a", object, `1`, true},
		{"b", object, `{"a":[2,"]}",{}]}`, true},
		{"c😀", object, `"x\"y"`, true},
		{"", object, `null`, true},
		{"d", object, `-1.5e3`, true},
		{"e", object, ``, false},
		{"A", object, ``, false},
		{`\u0063\ud83d\ude00`, object, ``, false},
		{"a", `{}`, ``, false},
		{"a", `["a",1]`, ``, false},
		{"a", `"a"`, ``, false},
		{"a", `null`, ``, false},
		{"a", ``, ``, false},
		{"a", `{"\u0061":{}}`, `{}`, true},
		{"a\n", `{"a\n":true}`, `true`, true},
	}
	for _, test := range tests {
		got, ok := Lookup([]byte(test.object), test.name)
		if cap(got) != len(got) {
			t.Errorf("Lookup(%s, %q): appending would write into the object", test.object, test.name)
		}
		if string(got) != test.want || ok != test.ok {
			t.Errorf("Lookup(%s, %q) = %s, %v, want %s, %v", test.object, test.name, got, ok, test.want, test.ok)
		}
	}
}

func TestMembersAndElements(t *testing.T) {
	t.Parallel()
	var got []string
	for name, value := range Members([]byte(` { "a":1, "\u0062" : [ 1, 2 ] , "":{} } `)) {
		got = append(got, name+"="+string(value))
	}
	for element := range Elements([]byte(` [ 1 , [ 2 ] ,"]" , {"a":[]}, null ] `)) {
		got = append(got, string(element))
	}
	for name := range Members([]byte(`[1]`)) {
		got = append(got, "not an object: "+name)
	}
	for element := range Elements([]byte(`{"a":1}`)) {
		got = append(got, "not an array: "+string(element))
	}
	for range Elements([]byte(`[ ]`)) {
		got = append(got, "an element of nothing")
	}
	for name := range Members([]byte(`{"x":1,"y":2}`)) {
		got = append(got, name)
		break
	}
	want := []string{"a=1", "b=[ 1, 2 ]", "={}", "1", "[ 2 ]", `"]"`, `{"a":[]}`, "null", "x"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestScalars(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{`""`: "", `"a"`: "a", `"\u00e9\ud83d\ude00\n\/"`: "é😀\n/", `"é"`: "é"} {
		if got, ok := Text([]byte(raw)); !ok || got != want {
			t.Errorf("Text(%s) = %q, %v", raw, got, ok)
		}
	}
	for _, raw := range []string{``, `1`, `null`, `{}`, `"`} {
		if got, ok := Text([]byte(raw)); ok || got != "" {
			t.Errorf("Text(%s) = %q, %v", raw, got, ok)
		}
	}
	for raw, want := range map[string]int64{`0`: 0, `-0`: 0, `-32600`: -32600, `9223372036854775807`: 1<<63 - 1} {
		if got, ok := Int64([]byte(raw)); !ok || got != want {
			t.Errorf("Int64(%s) = %d, %v", raw, got, ok)
		}
	}
	for _, raw := range []string{``, `-`, `1.0`, `1e0`, `"1"`, `null`, `9223372036854775808`} {
		if _, ok := Int64([]byte(raw)); ok {
			t.Errorf("Int64(%s) is accepted", raw)
		}
	}
	if !IsNull([]byte("null")) || IsNull(nil) || IsNull([]byte(`"null"`)) || !IsObject([]byte("{}")) || IsObject(nil) {
		t.Error("IsNull or IsObject is wrong")
	}
}

// TestLookupAllocates nothing, however large the arguments beside it are.
func TestLookupAllocates(t *testing.T) {
	params := []byte(`{"name":"x","arguments":{"rows":[` + strings.Repeat(`{"a":"b"},`, 8<<10) + `0]},"_meta":{}}`)
	if n := testing.AllocsPerRun(20, func() {
		arguments, ok := Lookup(params, "arguments")
		if !ok || !IsObject(arguments) {
			t.Error("no arguments")
		}
		Lookup(params, "_meta")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestCheckAllocates nothing either, whatever it is asked to note.
func TestCheckAllocates(t *testing.T) {
	doc := []byte(`{"name":"a long name","params":{"name":"x","arguments":{"rows":[1,2.5,true,null,{"é":"\n"}]}}}`)
	for name, check := range map[string]func() *Error{
		"Check": func() *Error { return Check(doc, 64) },
		"Outline": func() *Error {
			noted, e := Outline(doc, 64, "params")
			if _, ok := noted.Inner.Lookup(doc[len(doc):], "name"); ok {
				t.Error("a member of nothing")
			}
			return e
		},
	} {
		if n := testing.AllocsPerRun(20, func() {
			if e := check(); e != nil {
				t.Error(e)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
