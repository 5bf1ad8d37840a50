// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

func TestFreeFormText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ raw, want string }{
		{`{}`, `{}`}, {` [ 1 , 2 ] `, `[1,2]`}, {"\r\n\t null\n", `null`},
		{`"a b \" c \\"`, `"a b \" c \\"`}, {`{"a b":" "}`, `{"a b":" "}`}, {`{"a b" :" "}`, `{"a b":" "}`},
		{`-0`, `-0`}, {`1.50E+05`, `1.50E+05`}, {`1e1000001`, `1e1000001`}, {`123456789012345678901234567890`, `123456789012345678901234567890`},
		{`"\u0041\ud83d\ude00\/"`, `"\u0041\ud83d\ude00\/"`}, {`"é😀"`, `"é😀"`},
		{strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 64) + strings.Repeat("]", 64)},
	} {
		got, err := FreeForm([]byte(c.raw), nil)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v", c.raw, got, err)
		}
	}
}

func TestFreeFormAbsent(t *testing.T) {
	t.Parallel()
	for _, m := range []proto.Message{nil, (*structpb.Struct)(nil), (*structpb.Value)(nil), (*structpb.ListValue)(nil)} {
		if got, err := FreeForm(nil, m); got != nil || err != nil {
			t.Errorf("%T: %s, %v", m, got, err)
		}
	}
}

func TestFreeFormRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ raw, path string }{
		{``, ""}, {` `, ""}, {`{`, ""}, {`{} {}`, ""}, {"\ufeff{}", ""}, {`{"a":1,"a":2}`, "/a"}, {`{"b":{"a":1,"\u0061":2}}`, "/b/a"},
		{"\"\xff\"", ""}, {`["\ud800"]`, "/0"}, {"\"\n\"", ""}, {`[01]`, "/0"}, {`[.5]`, "/0"}, {`NaN`, ""}, {`'a'`, ""}, {`{"a/b":[true,nope]}`, "/a~1b/1"},
		{strings.Repeat("[", 65) + strings.Repeat("]", 65), strings.Repeat("/0", 64)},
	} {
		got, err := FreeForm([]byte(c.raw), nil)
		var invalid *InvalidError
		if !errors.As(err, &invalid) || got != nil || invalid.Path != c.path {
			t.Errorf("%q: %s, %v", c.raw, got, err)
		}
	}
	large := bytes.Repeat([]byte("1"), maxFreeFormBytes+1)
	if _, err := FreeForm(large, nil); err == nil {
		t.Error("a text above the bound is taken")
	}
}

func TestFreeFormStruct(t *testing.T) {
	t.Parallel()
	list := func(values ...*structpb.Value) *structpb.Value {
		return structpb.NewListValue(&structpb.ListValue{Values: values})
	}
	number := structpb.NewNumberValue
	for _, c := range []struct {
		m    proto.Message
		want string
	}{
		{&structpb.Struct{}, `{}`},
		{&structpb.ListValue{Values: []*structpb.Value{number(1)}}, `[1]`},
		{structpb.NewNullValue(), `null`},
		{&structpb.Value{Kind: &structpb.Value_StructValue{}}, `{}`},
		{&structpb.Value{Kind: &structpb.Value_ListValue{}}, `[]`},
		{structpb.NewStringValue("a\"\\\n\x00\x7f<&>"), `"a\"\\\n\u0000` + "\x7f" + `<&>"`},
		{&structpb.Struct{Fields: map[string]*structpb.Value{"b": structpb.NewBoolValue(true), "": structpb.NewBoolValue(false), "a": list()}}, `{"":false,"a":[],"b":true}`},
		{list(number(0), number(math.Copysign(0, -1)), number(1e20), number(123456789), number(0.1), number(1e-6), number(1e-7), number(-1e21), number(math.MaxFloat64), number(5e-324)),
			`[0,-0,100000000000000000000,123456789,0.1,0.000001,1e-07,-1e+21,1.7976931348623157e+308,5e-324]`},
	} {
		got, err := FreeForm(nil, c.m)
		if err != nil || string(got) != c.want {
			t.Errorf("%v: %s, %v; want %s", c.m, got, err, c.want)
		}
	}
}

func TestFreeFormStructRefuses(t *testing.T) {
	t.Parallel()
	nested := structpb.NewNullValue()
	for range maxFreeFormDepth {
		nested = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{nested}})
	}
	if _, err := FreeForm(nil, nested); err != nil {
		t.Errorf("%d levels: %v", maxFreeFormDepth, err)
	}
	for name, m := range map[string]proto.Message{
		"deep":            structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{nested}}),
		"deep object":     &structpb.Struct{Fields: map[string]*structpb.Value{"a": nested}},
		"not a number":    structpb.NewNumberValue(math.NaN()),
		"infinite":        structpb.NewNumberValue(math.Inf(1)),
		"no kind":         &structpb.Value{},
		"nil in a list":   &structpb.ListValue{Values: []*structpb.Value{nil}},
		"bad text":        structpb.NewStringValue("\xff"),
		"bad name":        &structpb.Struct{Fields: map[string]*structpb.Value{"\xff": structpb.NewNullValue()}},
		"another message": durationpb.New(1),
	} {
		got, err := FreeForm(nil, m)
		var invalid *InvalidError
		if !errors.As(err, &invalid) || got != nil {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

// FuzzFreeForm: what is accepted comes out as the same value on one line, nothing
// else is accepted, and a Struct made of it comes out as protojson writes it.
func FuzzFreeForm(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,2.50,-0,1e5,"x\u0000\n\"\\"],"b":{"c":null,"d":true}}`, ` [ ] `, `1e1000001`, `{"a":1,"\u0061":1}`, "\"\u2028\x7f\"", `"\ud83d"`, strings.Repeat("[", 65), `12345678901234567890`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := FreeForm(raw, nil)
		fault := jsonrpc.Check(raw, jsonrpc.Limits{MaxBytes: maxFreeFormBytes})
		if raw != nil && (err == nil) != (fault == nil) {
			t.Fatalf("the check says %v, FreeForm %v", fault, err)
		}
		if err != nil || raw == nil {
			return
		}
		checkCompact(t, got)
		if bytes.ContainsAny(got, "\r\n") || !sameJSON(t, raw, got) {
			t.Fatalf("%q became %q", raw, got)
		}
		value := new(structpb.Value)
		if protojson.Unmarshal(raw, value) != nil {
			return // a number beyond a double
		}
		made, err := FreeForm(nil, value)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		checkCompact(t, made)
		want, err := protojson.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if !sameValue(decoded(t, want), decoded(t, made)) {
			t.Fatalf("%s, protojson writes %s", made, want)
		}
	})
}

// sameValue compares decoded documents, numbers by their value as a double.
func sameValue(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, v := range a {
			if w, ok := b[name]; !ok || !sameValue(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !sameValue(a[i], b[i]) {
				return false
			}
		}
		return true
	case interface{ Float64() (float64, error) }:
		b, ok := b.(interface{ Float64() (float64, error) })
		if !ok {
			return false
		}
		x, err1 := a.Float64()
		y, err2 := b.Float64()
		return err1 == nil && err2 == nil && x == y
	default:
		return a == b
	}
}

func TestAppendMeta(t *testing.T) {
	t.Parallel()
	var nothing *outriggerv1.ToolResult
	of := func(text string) MetaHolder {
		return &outriggerv1.ToolResult{MetaForm: &outriggerv1.ToolResult_MetaJson{MetaJson: []byte(text)}}
	}
	for i, c := range []struct {
		from        MetaHolder
		owned, want string
	}{
		{nil, ``, `{}`},
		{nothing, ``, `{}`},
		{of(`{}`), ``, `{}`},
		{nil, `"a":1,"b":{}`, `{"a":1,"b":{}}`},
		{of(`{ }`), `"a":1`, `{"a":1}`},
		{of(`{"x": 1.50 }`), ``, `{"x":1.50}`},
		{of(`{"x":{"a":9007199254740993}, "y\n":"\u0041"}`), `"a":1`, `{"x":{"a":9007199254740993},"y\n":"\u0041","a":1}`},
		{of(`{"a":0,"b":{"a":0}, "\u0063": 0}`), `"a":1,"c":{"d":2}`, `{"b":{"a":0},"a":1,"c":{"d":2}}`},
		{of(`{"d":0}`), `"c":{"d":2}`, `{"d":0,"c":{"d":2}}`},
		{&outriggerv1.ToolResult{MetaForm: &outriggerv1.ToolResult_Meta{Meta: &structpb.Struct{Fields: map[string]*structpb.Value{"z": structpb.NewNumberValue(1), "a": structpb.NewNullValue()}}}}, `"z":2`, `{"a":null,"z":2}`},
	} {
		got, err := AppendMeta([]byte("{"), c.from, []byte(c.owned))
		if err != nil || string(got) != "{"+c.want {
			t.Errorf("%s: %s, %v; want %s", strconv.Itoa(i), got, err, c.want)
		}
	}
}

// FuzzAppendMeta: whatever a backend sends, the owned members win and the outcome
// is one object.
func FuzzAppendMeta(f *testing.F) {
	f.Add([]byte(`{"a":1,"\u0061b":[{}]}`))
	f.Add([]byte(`{"owned":1, "other":{"owned":2}}`))
	f.Add([]byte(`{"owne\u0064":1}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := AppendMeta(nil, &outriggerv1.ToolResult{MetaForm: &outriggerv1.ToolResult_MetaJson{MetaJson: raw}}, []byte(`"owned":{"by":"us"}`))
		if err != nil {
			return
		}
		checkCompact(t, got)
		if v, _ := jsontext.Lookup(got, "owned"); string(v) != `{"by":"us"}` {
			t.Fatalf("%s became %s", raw, got)
		}
		for name, value := range jsontext.Members(raw) {
			if v, _ := jsontext.Lookup(got, name); name != "owned" && string(v) != string(jsontext.Compact(nil, value)) {
				t.Fatalf("%q of %s became %s", name, raw, got)
			}
		}
	})
}
