// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// refusals runs a document through ToWire and returns "path keyword" of each violation.
func refusals(t *testing.T, m *transcode.Message, doc string) (list []string, structural bool) {
	t.Helper()
	out, err := m.ToWire([]byte("kept"), []byte(doc))
	if string(out[:4]) != "kept" {
		t.Errorf("ToWire changed what was in dst: %q", out)
	}
	if err == nil {
		return nil, false
	}
	if len(out) != 4 {
		t.Errorf("ToWire failed and appended %d bytes", len(out)-4)
	}
	var refused *transcode.InputError
	if !errors.As(err, &refused) {
		t.Fatalf("error is %T: %v", err, err)
	}
	for _, v := range refused.Violations {
		if v.Message == "" {
			t.Errorf("violation at %q says nothing", v.Path)
		}
		list = append(list, v.Path+" "+v.Keyword)
	}
	return list, refused.Structural
}

func TestToWireRefuses(t *testing.T) {
	t.Parallel()
	files := shapes(t)
	tests := []struct {
		name, message, doc string
		want               []string
		rules              bool // broken rules, not structure
	}{
		{"all faults at once", "Scalars", `{"anInt32":2147483648,"aUnit32":1,"maybeInt32":5.5,"someBytes":"A","aBool":"true","odd/na~me%":3}`,
			[]string{"/aBool type", "/aUnit32 additionalProperties", "/anInt32 format", "/maybeInt32 type", "/odd~1na~0me% type", "/someBytes format"}, false},
		{"number over every range", "Scalars", `{"aDouble":1e999}`, []string{"/aDouble range"}, false},
		{"number that kills arithmetic", "Scalars", `{"aDouble":1e1000001}`, []string{"/aDouble range"}, false},
		{"both names", "Scalars", `{"aString":"x","a_string":"y"}`, []string{"/a_string not"}, false},
		{"the same name twice", "Scalars", `{"aString":"x","\u0061String":"y"}`, []string{"/aString duplicate"}, false},
		{"deep inside", "Lists", `{"leafList":[{"name":"x"},{"name":[]}]}`, []string{"/leafList/1/name type"}, false},
		{"two of a oneof", "Payment", `{"cardNumber":"1","account_id":2}`, []string{" oneOf"}, false},
		{"map keys", "Maps", `{"int32Keys":{"x":"a"},"boolKeys":{"yes":"a"}}`, []string{"/boolKeys/yes propertyNames", "/int32Keys/x propertyNames"}, false},
		{"map key twice", "Maps", `{"int32Keys":{"1":"a","+1":"b"}}`, []string{"/int32Keys/+1 protojson"}, false},
		{"inside an any", "Holder", `{"details":[{"@type":"type.googleapis.com/shapes.v1.Leaf","nme":"x"}]}`, []string{"/details/0/nme protojson"}, false},
		{"unknown any", "Holder", `{"detail":{"@type":"type.googleapis.com/shapes.v1.None"}}`, []string{"/detail/@type protojson"}, false},
		{"proto2 required", "Legacy", `{}`, []string{"/mustBytes required", "/mustName required"}, false},
		{"required below", "Legacy", `{"mustName":"x","mustBytes":"","oldgroup":{}}`, []string{"/oldgroup/innerId required"}, false},
		{"closed enum", "Legacy", `{"mustName":"x","mustBytes":"","closed":3}`, []string{"/closed enum"}, false},
		{"unlisted extension", "Legacy", `{"mustName":"x","mustBytes":"","[shapes.v1.none]":1}`, []string{"/[shapes.v1.none] additionalProperties"}, false},
		{"not an object", "Leaf", `[1]`, []string{" type"}, false},
		{"null", "Leaf", `null`, []string{" type"}, false},
		{"cut off", "Leaf", `{"name":"x"`, []string{"/name syntax"}, false},
		{"byte order mark", "Leaf", "\ufeff{}", []string{" syntax"}, false},
		{"lone surrogate", "Leaf", `{"name":"\ud800"}`, []string{"/name syntax"}, false},
		{"invalid UTF-8", "Leaf", "{\"name\":\"\xff\"}", []string{"/name syntax"}, false},
		{"trailing data", "Leaf", `{} {}`, []string{" syntax"}, false},
		{"output-only field", "Account", `{"id":"x","displayName":"x","password":"12345678","state":1}`, []string{"/id additionalProperties"}, false},
		{"required by behavior", "Account", `{"displayName":null,"password":"12345678"}`, []string{"/displayName type", "/state required"}, false},
		{"in a wrapped root", "Timestamp", `{"value":"yesterday"}`, []string{"/value format"}, false},
		{"a wrapped root with more", "Timestamp", `{"value":"2024-01-01T00:00:00Z","a":1}`, []string{"/a additionalProperties"}, false},
		{"rules", "Inner", `{"code":"x","deeper":{"code":"abc"}}`, []string{"/code string.len", "/deeper/code string.len"}, true},
		{"rules in lists and maps", "Choices", `{"level":1,"agreed":true,"tags":["ab","c"],"inner":{"code":"ab"},"inners":[{"code":"ab"},{"code":""}],"innerMap":{"a/b":{"code":""}},"mail":""}`,
			[]string{"/innerMap/a~1b/code string.len", "/inners/1/code string.len", "/tags/1 string.min_len"}, true},
		{"rule of a map key", "Choices", `{"level":1,"agreed":true,"tags":["ab"],"inner":{"code":"ab"},"scores":{"A":1},"mail":""}`, []string{"/scores/A string.pattern"}, true},
		{"required oneof", "Choices", `{"level":1,"agreed":true,"tags":["ab"],"inner":{"code":"ab"}}`, []string{" required"}, true},
		{"CEL", "Spans", `{"from":"2025-01-01T00:00:00Z","to":"2024-01-01T00:00:00Z","even":3}`, []string{" spans.order", "/even even"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			name := protoreflect.FullName("shapes.v1." + tt.message)
			if tt.message == "Timestamp" {
				name = "google.protobuf.Timestamp"
			}
			m, err := transcode.Compile(shape(t, files, name), transcode.Options{Resolver: newListed(files)})
			if err != nil {
				t.Fatal(err)
			}
			got, structural := refusals(t, m, tt.doc)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
			if structural == tt.rules {
				t.Errorf("structural = %t", structural)
			}
		})
	}
}

func TestToWireTakes(t *testing.T) {
	t.Parallel()
	files := shapes(t)
	tests := []struct{ name, message, doc, want string }{
		{"largest numbers as strings", "shapes.v1.Scalars", `{"aUint64":"18446744073709551615","anInt64":"-9223372036854775808"}`, `{"anInt64":"-9223372036854775808","aUint64":"18446744073709551615"}`},
		{"largest numbers as numbers", "shapes.v1.Scalars", `{"a_uint64":18446744073709551615,"an_int64":9223372036854775807}`, `{"anInt64":"9223372036854775807","aUint64":"18446744073709551615"}`},
		{"2^53+1", "shapes.v1.Lists", `{"int64List":[9007199254740993,"9007199254740993",9007199254740993.0]}`, `{"int64List":["9007199254740993","9007199254740993","9007199254740993"]}`},
		{"numbers in strings", "shapes.v1.Scalars", `{"anInt32":"1e2","aDouble":"-Infinity","aFloat":"1.5"}`, `{"aDouble":"-Infinity","aFloat":1.5,"anInt32":100}`},
		{"nulls", "shapes.v1.Scalars", `{"anInt32":null,"maybeString":null,"someBytes":null}`, `{}`},
		{"both alphabets", "shapes.v1.Lists", `{"bytesList":["+/8=","-_8","-_8="]}`, `{"bytesList":["+/8=","+/8=","+/8="]}`},
		{"enum forms", "shapes.v1.Enums", `{"manyGrades":["GRADE_BAD",1,-7],"aliased":"ALIASED_UNO"}`, `{"manyGrades":["GRADE_BAD","GRADE_GOOD",-7],"aliased":"ALIASED_ONE"}`},
		{"null in a oneof", "shapes.v1.Payment", `{"cardNumber":null,"accountId":5}`, `{"accountId":"5"}`},
		{"null as a value", "shapes.v1.Payment", `{"noCharge":null}`, `{"noCharge":null}`},
		{"null for lists of values", "shapes.v1.WellKnownMany", `{"values":null, "nulls" : null,"valuesByNumber":{"1":null},"structs":null}`, `{"valuesByNumber":{"1":null}}`},
		{"null in lists of values", "shapes.v1.WellKnownMany", `{"values":[null],"nulls":[null,"NULL_VALUE"]}`, `{"values":[null],"nulls":[null,null]}`},
		{"null for a list in an Any", "shapes.v1.Holder", `{"detail":{"@type":"a/google.protobuf.Any","value":{"nulls":null,"@type":"type.googleapis.com/shapes.v1.WellKnownMany"}}}`,
			`{"detail":{"@type":"a/google.protobuf.Any","value":{"@type":"type.googleapis.com/shapes.v1.WellKnownMany"}}}`},
		{"any of a type in the catalog", "shapes.v1.Holder", `{"detail":{"@type":"type.googleapis.com/shapes.v1.Leaf","name":"x"}}`, `{"detail":{"@type":"type.googleapis.com/shapes.v1.Leaf","name":"x"}}`},
		{"any of a well-known type", "shapes.v1.Holder", `{"detail":{"@type":"type.googleapis.com/google.protobuf.Duration","value":"1.50s"}}`, `{"detail":{"@type":"type.googleapis.com/google.protobuf.Duration","value":"1.500s"}}`},
		{"extensions", "shapes.v1.Legacy", `{"mustName":"x","mustBytes":"","[shapes.v1.nick_name]":"n","[shapes.v1.lucky_numbers]":[7]}`, `{"mustName":"x","mustBytes":"","[shapes.v1.nick_name]":"n","[shapes.v1.lucky_numbers]":["7"]}`},
		{"groups under each name", "shapes.v1.Legacy", `{"mustName":"x","mustBytes":"","OldGroup":{"inner_id":1},"rows":[{"cell":"c"}]}`, `{"mustName":"x","oldgroup":{"innerId":"1"},"rows":[{"cell":"c"}],"mustBytes":""}`},
		{"editions", "shapes.v1.Modern", `{"requiredName":"","explicitName":"","implicitName":"","delimitedChild":{"requiredName":"y"},"open":9}`, `{"explicitName":"","requiredName":"","delimitedChild":{"requiredName":"y"},"open":9}`},
		{"recursion", "shapes.v1.Ping", `{"pong":{"ping":{"count":1},"others":{"a":{"ping":{}}}}}`, `{"pong":{"ping":{"count":1},"others":{"a":{"ping":{}}}}}`},
		{"a root that is no object", "google.protobuf.Timestamp", `"2024-01-01T00:00:00+01:00"`, `"2023-12-31T23:00:00Z"`},
		{"the same in an object", "google.protobuf.Timestamp", `{"value":"2024-01-01T00:00:00Z"}`, `"2024-01-01T00:00:00Z"`},
		{"a wrapper as root", "google.protobuf.Int64Value", `{"value":18}`, `"18"`},
		{"a value as root keeps its members", "google.protobuf.Value", `{"value":18}`, `{"value":18}`},
		{"behavior", "shapes.v1.Account", `{"displayName":"","password":"12345678","state":"STATE_ON"}`, `{"password":"12345678","state":"STATE_ON"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			resolver := newListed(files)
			md := shape(t, files, protoreflect.FullName(tt.message))
			m, err := transcode.Compile(md, transcode.Options{Resolver: resolver})
			if err != nil {
				t.Fatal(err)
			}
			wire, err := m.ToWire(nil, []byte(tt.doc))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.GeneralToWire(nil, []byte(tt.doc)); err != nil {
				t.Errorf("the general engine: %v", err)
			}
			got, want := dynamicpb.NewMessage(md), dynamicpb.NewMessage(md)
			if err := (proto.UnmarshalOptions{Resolver: resolver}).Unmarshal(wire, got); err != nil {
				t.Fatal(err)
			}
			if err := (protojson.UnmarshalOptions{Resolver: resolver}).Unmarshal([]byte(tt.want), want); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(want, got) {
				t.Errorf("want %v\ngot  %v", want, got)
			}
		})
	}
}

// The faults that cost other readers time: each is refused by name, within the millisecond that the build for users has
// for it. The race detector makes the reading of one byte cost fifty times as much, so `make test` runs this test in both
// builds, each with its limit.
func TestToWireIsFastToRefuse(t *testing.T) {
	files := shapes(t)
	m, err := transcode.Compile(shape(t, files, "shapes.v1.Scalars"), transcode.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limit := time.Millisecond
	if raced {
		limit *= 50
	}
	tests := []struct{ name, doc, path string }{
		{"exponent", `{"anInt64":1e1000001}`, "/anInt64"},
		{"negative exponent", `{"aDouble":1e-99999999999999999999}`, "/aDouble"},
		{"digits", `{"anInt64":` + strings.Repeat("9", 100_000) + `}`, "/anInt64"},
		{"fraction", `{"aDouble":0.` + strings.Repeat("1", 100_000) + `}`, "/aDouble"},
		{"nesting", `{"aString":` + strings.Repeat("[", 1<<20), "/aString" + strings.Repeat("/0", 63)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fastest := time.Hour
			for range 20 { // the machine may be busy; the work is not
				start := time.Now()
				got, structural := refusals(t, m, tt.doc)
				fastest = min(fastest, time.Since(start))
				if len(got) != 1 || !strings.HasPrefix(got[0], tt.path+" ") || !structural {
					t.Fatalf("got %v", got)
				}
			}
			if fastest > limit {
				t.Errorf("took %s, wanted at most %s", fastest, limit)
			}
		})
	}
}

func TestBoundsAreOptions(t *testing.T) {
	t.Parallel()
	files := shapes(t)
	tests := []struct {
		name    string
		opts    transcode.Options
		doc     string
		keyword string
	}{
		{"depth", transcode.Options{MaxDepth: 2}, `{"leafList":[{"name":"x"}]}`, "maxDepth"},
		{"number length", transcode.Options{MaxNumberLength: 3}, `{"int32List":[1234]}`, "maxNumberLength"},
		{"values", transcode.Options{MaxValues: 4}, `{"int32List":[1,2,3]}`, "maxValues"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			md := shape(t, files, "shapes.v1.Lists")
			narrow, err := transcode.Compile(md, tt.opts)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := refusals(t, narrow, tt.doc); len(got) != 1 || !strings.HasSuffix(got[0], tt.keyword) {
				t.Errorf("got %v", got)
			}
			wide, err := transcode.Compile(md, transcode.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := refusals(t, wide, tt.doc); got != nil {
				t.Errorf("default bounds refuse: %v", got)
			}
		})
	}
	few, err := transcode.Compile(shape(t, files, "shapes.v1.Lists"), transcode.Options{MaxViolations: 2})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := refusals(t, few, `{"int32List":["a","b","c","d"]}`); len(got) != 2 {
		t.Errorf("want 2 violations, got %v", got)
	}
	if got, _ := refusals(t, few, `{"a":1,"b":2,"c":3}`); len(got) != 2 {
		t.Errorf("want 2 violations, got %v", got)
	}
}

func TestInputErrorSaysHowMany(t *testing.T) {
	t.Parallel()
	e := &transcode.InputError{Structural: true, Violations: []schema.Violation{{Path: "/a", Message: "wanted x"}, {Path: "/b"}}}
	if got := e.Error(); !strings.Contains(got, `"/a": wanted x`) || !strings.Contains(got, "1 more") {
		t.Errorf("got %s", got)
	}
}
