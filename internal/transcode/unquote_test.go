// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

func TestUnquote(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", defaults.MaxJSONDepth+1) + strings.Repeat("]", defaults.MaxJSONDepth+1)
	for _, tt := range []struct {
		message   protoreflect.FullName
		doc, want string // want: "" for the document as it came
		places    []string
	}{
		{"shapes.v1.Node", `{"parent":"{\"name\":\"a\"}"}`, `{"parent":{"name":"a"}}`, []string{"/parent"}},
		{"shapes.v1.Node", ` { "name" : "{}" , "child_nodes" : [ { } , "{}" , " {\n} " ] } `, `{"name":"{}","child_nodes":[{},{},{` + "\n" + `}]}`, []string{"/child_nodes/1", "/child_nodes/2"}},
		{"shapes.v1.Node", `{"childNodes":"[\"{}\"]"}`, `{"childNodes":["{}"]}`, []string{"/childNodes"}},
		{"shapes.v1.Maps", `{"leaves":"{\"a\":{}}","stringKeys":{"a":"{}"}}`, `{"leaves":{"a":{}},"stringKeys":{"a":"{}"}}`, []string{"/leaves"}},
		{"shapes.v1.Maps", `{"leaves":{"a/b~":"{}"}}`, `{"leaves":{"a/b~":{}}}`, []string{"/leaves/a~1b~0"}},
		{"shapes.v1.WellKnown", `{"aStruct":"{\"a\":\"{}\"}","aList":"[1]","nothing":"{}"}`, `{"aStruct":{"a":"{}"},"aList":[1],"nothing":{}}`, []string{"/aStruct", "/aList", "/nothing"}},
		{"shapes.v1.WellKnown", `{"aValue":"{}","atTime":"{}","stringValue":"[]"}`, "", nil},
		{"shapes.v1.Holder", `{"detail":"{\"@type\":\"type.googleapis.com/shapes.v1.Leaf\"}"}`, `{"detail":{"@type":"type.googleapis.com/shapes.v1.Leaf"}}`, []string{"/detail"}},
		{"shapes.v1.Lists", `{"int32List":"[1]","leafList":"[]"}`, `{"int32List":[1],"leafList":[]}`, []string{"/int32List", "/leafList"}},
		{"shapes.v1.Lists", `{"int32List":"{}","stringList":["[]"],"leafList":[1,null]}`, "", nil},
		{"google.protobuf.ListValue", `{"value":"[1]"}`, `{"value":[1]}`, []string{"/value"}},
		{"shapes.v1.Node", `{"parent":"{\"name\":\"a\",\"name\":\"a\"}"}`, "", nil},
		{"shapes.v1.Node", `{"parent":"{} {}"}`, "", nil},
		{"shapes.v1.Node", `{"parent":"\"{}\""}`, "", nil},
		{"shapes.v1.Node", `{"childNodes":"` + deep + `"}`, "", nil},
		{"shapes.v1.Node", `{"unknown":"{}","parent":5}`, "", nil},
		{"shapes.v1.Node", `{"parent":"{}"`, "", nil},
		{"shapes.v1.Node", `[]`, "", nil},
		{"shapes.v1.Node", ``, "", nil},
	} {
		got, places := compiledShape(t, tt.message).Unquote([]byte(tt.doc))
		want := tt.want
		if want == "" {
			want = tt.doc
		}
		if string(got) != want || !slices.Equal(places, tt.places) {
			t.Errorf("%s: got %s at %q, want %s at %q", tt.doc, got, places, want, tt.places)
		}
	}
}

func compiledShape(t testing.TB, name protoreflect.FullName) *transcode.Message {
	t.Helper()
	m, err := transcode.Compile(shape(t, shapes(t), name), transcode.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// What the strict profile shows as text is taken beside the plain form, and lists that are fields are not text.
func TestQuotedObjects(t *testing.T) {
	t.Parallel()
	plain := compiledShape(t, "shapes.v1.Node")
	quoted, err := transcode.Compile(shape(t, shapes(t), "shapes.v1.Node"), transcode.Options{QuotedObjects: true})
	if err != nil {
		t.Fatal(err)
	}
	const form, text = `{"parent":{"name":"a"},"childNodes":[{}]}`, `{"name":null,"parent":"{\"name\":\"a\"}","childNodes":["{}"]}`
	want, err := plain.ToWire(nil, []byte(form))
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range []string{form, text} {
		if got, err := quoted.ToWire(nil, []byte(doc)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %x %v, want %x", doc, got, err, want)
		}
	}
	var refused *transcode.InputError
	for _, doc := range []string{`{"childNodes":"[]"}`, `{"parent":"{"}`, `{"parent":"{\"nam\":\"a\"}"}`} {
		if _, err := quoted.ToWire(nil, []byte(doc)); !errors.As(err, &refused) || len(refused.Violations) == 0 {
			t.Errorf("%s: %v", doc, err)
		}
	}
	if refused.Violations[0].Path != "/parent/nam" {
		t.Errorf("the violation inside text points at %q", refused.Violations[0].Path)
	}
	if _, err := plain.ToWire(nil, []byte(text)); err == nil {
		t.Error("text is taken without being asked for")
	}
}

// The strict profile shows a map as a list of entries. It is taken beside the plain form, at every depth, and with objects
// in strings in it. What is no such list is refused as it came.
func TestMapsAsEntries(t *testing.T) {
	t.Parallel()
	plain := compiledShape(t, "shapes.v1.Maps")
	quoted, err := transcode.Compile(shape(t, shapes(t), "shapes.v1.Maps"), transcode.Options{QuotedObjects: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ form, entries string }{
		{`{"leaves":{"a":{},"b/c":{}}}`, `{"leaves": [ {"key":"a","value":{}} , {"value":"{}","key":"b/c"} ] }`},
		{`{"stringKeys":{"a":"{}","":"x"}}`, `{"stringKeys":[{"key":"a","value":"{}"},{"key":"","value":"x"}]}`},
		{`{"leaves":{}}`, `{"leaves":[],"stringKeys":null}`},
	} {
		want, err := plain.ToWire(nil, []byte(tt.form))
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range []string{tt.form, tt.entries} {
			if got, err := quoted.ToWire(nil, []byte(doc)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %x %v, want %x", doc, got, err, want)
			}
		}
		if _, err := plain.ToWire(nil, []byte(tt.entries)); err == nil {
			t.Errorf("%s is taken without being asked for", tt.entries)
		}
	}
	for doc, want := range map[string]string{
		`{"leaves":[{"key":"a","value":{}},{"key":"a","value":{}}]}`: "duplicate",
		`{"leaves":[{"key":"a"}]}`:                                   "/leaves",
		`{"leaves":[{"key":1,"value":{}}]}`:                          "/leaves",
		`{"leaves":[{"key":"a","value":{},"more":1}]}`:               "/leaves",
		`{"leaves":[5]}`:                                             "/leaves",
		`{"leaves":[{"key":"a","value":{"nothing":1}}]}`:             "/leaves/a/nothing",
	} {
		var refused *transcode.InputError
		if _, err := quoted.ToWire(nil, []byte(doc)); !errors.As(err, &refused) || len(refused.Violations) == 0 ||
			!strings.Contains(refused.Violations[0].Path+" "+refused.Violations[0].Keyword, want) {
			t.Errorf("%s: %v, want %s", doc, err, want)
		}
	}
}

// A megabyte of brackets in a string is refused at once.
func TestUnquoteIsFastToRefuse(t *testing.T) {
	t.Parallel()
	m := compiledShape(t, "shapes.v1.Node")
	for _, doc := range []string{
		`{"childNodes":"` + strings.Repeat("[", 1<<20) + `"}`,
		`{"parent":"` + strings.Repeat(`{\"parent\":`, 1<<17) + `"}`,
		`{"childNodes":[` + strings.Repeat(`"{",`, 1<<15) + `"{"]}`,
	} {
		start := time.Now()
		if got, places := m.Unquote([]byte(doc)); len(places) > 0 || len(got) != len(doc) {
			t.Errorf("%.40s: %d places", doc, len(places))
		}
		if took := time.Since(start); took > 30*time.Second { // some milliseconds, but for a busy machine
			t.Errorf("%.40s: %v", doc, took)
		}
	}
}

// FuzzUnquote: whatever comes, the result is JSON where the document was, nothing but strings has changed, and a second
// look changes nothing that the first decoded.
func FuzzUnquote(f *testing.F) {
	names := []protoreflect.FullName{"shapes.v1.Node", "shapes.v1.Maps", "shapes.v1.WellKnown", "shapes.v1.Holder", "google.protobuf.ListValue"}
	var messages []*transcode.Message
	for _, name := range names {
		messages = append(messages, compiledShape(f, name))
	}
	for i := range names {
		for _, doc := range []string{`{"parent":"{\"name\":\"a\"}"}`, `{"leaves":{"a":"{}"}}`, `{"aStruct":"{\"a\":1}","aList":" [ ] "}`, `{"value":"[1]"}`, `{"detail":"{}"}`} {
			f.Add(uint8(i), []byte(doc))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, doc []byte) {
		m := messages[int(which)%len(messages)]
		before := bytes.Clone(doc)
		plain, places := m.Unquote(doc)
		if !bytes.Equal(before, doc) {
			t.Fatal("the document was changed in its place")
		}
		if len(places) == 0 {
			if !bytes.Equal(plain, doc) {
				t.Fatalf("%q became %q without a place", doc, plain)
			}
			return
		}
		if !json.Valid(plain) {
			t.Fatalf("%q became %q", doc, plain)
		}
		if found := schema.Inspect(doc, schema.Bounds{}); len(found) > 0 {
			t.Fatalf("%q is no strict JSON (%v) and was changed", doc, found)
		}
		if len(plain) >= len(doc) {
			t.Fatalf("%q grew to %q", doc, plain)
		}
	})
}

// TestUnquoteAt: a place is decoded where an object or array is in a string, and
// nowhere else.
func TestUnquoteAt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ doc, place, want string }{
		{`{"a":"{\"b\":1}"}`, "/a", `{"a":{"b":1}}`},
		{`{"x":[0,"[1, 2]"],"y":"{}"}`, "/x/1", `{"x":[0,[1, 2]],"y":"{}"}`},
		{`{"a/b~":"{}"}`, "/a~1b~0", `{"a/b~":{}}`},
		{`{"a":"{}"}`, "/b", ""},
		{`{"a":"{}"}`, "/a/b", ""},
		{`{"a":"plain"}`, "/a", ""},
		{`{"a":"{} {}"}`, "/a", ""},
		{`{"a":"{\"b\":1,\"b\":2}"}`, "/a", ""},
		{`{"a":{}}`, "/a", ""},
		{`[]`, "/0", ""},
		{`5`, "/0", ""},
	} {
		if got := string(transcode.UnquoteAt([]byte(tt.doc), tt.place)); got != tt.want {
			t.Errorf("%s at %s: %s, want %q", tt.doc, tt.place, got, tt.want)
		}
	}
	for raw, want := range map[string]string{`"{\"a\":1}"`: `{"a":1}`, `" {} "`: `{}`, `"[]"`: "", `{}`: "", `"{"`: "", `5`: ""} {
		if got := string(transcode.UnquoteObject([]byte(raw))); got != want {
			t.Errorf("%s: %s, want %q", raw, got, want)
		}
	}
}
