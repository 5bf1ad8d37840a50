// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

func subjectOf(t testing.TB, name protoreflect.FullName) subject {
	t.Helper()
	files := shapes(t)
	return newSubject(t, files, shape(t, files, name))
}

// Texts of the alphabet of a value are most often almost right.
func TestPlanJudgesTextsOfValues(t *testing.T) {
	t.Parallel()
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,3}|[0-9]{15,25})(\.[0-9]{0,5}|\.0{1,22})?([eE][-+]?[0-9]{0,3})?`)
	subjects := map[protoreflect.FullName]*rapid.Generator[string]{
		"google.protobuf.Timestamp": rapid.OneOf(
			rapid.StringMatching(`[0-9]{4}-[01][0-9]-[0-3][0-9][Tt ][0-2][0-9]:[0-6][0-9]:[0-6][0-9]([.,][0-9]{0,10})?(Z|z|[-+][0-2][0-9]:?[0-6][0-9])?`),
			rapid.StringMatching(`(0001-01-01|9999-12-31|1900-02-29|2000-02-29|2023-02-29|2024-02-29|0000-12-31)T(00:00:00|23:59:59|24:00:00|1:02:03)(\.[0-9]{1,10})?(Z|[-+](00:01|23:59|24:00))`)),
		"google.protobuf.Duration":    rapid.OneOf(rapid.StringMatching(`[-+]?[0-9]{0,13}(\.[0-9]{0,10})?s?`), rapid.StringMatching(`[-+]?31557600000[01](\.[0-9]{0,10})?s`)),
		"google.protobuf.FieldMask":   rapid.OneOf(rapid.StringMatching(`[ ]?[aA1_.,é]{0,9}[ ]?`), rapid.StringMatching(`[a-z]{1,3}([A-Z][a-z]|\.[a-z0-9]{1,2}|,[a-z]){0,3}`)),
		"google.protobuf.BytesValue":  rapid.StringMatching(`[AQZaz09+/_\-=\n\r ]{0,9}`),
		"google.protobuf.Int64Value":  number,
		"google.protobuf.FloatValue":  number,
		"google.protobuf.StringValue": rapid.String(),
		"google.protobuf.Value":       rapid.String(),
	}
	for name, texts := range subjects {
		s := subjectOf(t, name)
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				text, err := json.Marshal(texts.Draw(t, "text"))
				if err != nil {
					t.Fatal(err)
				}
				agreeOnDocument(t, s, text)
				agreeOnDocument(t, s, []byte(`{"value":`+string(text)+`}`))
			})
		})
	}
}

// Each kind of number, in each place, plain and in quotes.
func TestPlanJudgesNumbers(t *testing.T) {
	t.Parallel()
	scalars := subjectOf(t, "shapes.v1.Scalars")
	others := []struct {
		s      subject
		format string
	}{
		{subjectOf(t, "shapes.v1.Lists"), `{"int32List":[1,%s],"doubleList":[%[1]s]}`},
		{subjectOf(t, "shapes.v1.Enums"), `{"manyGrades":[%s]}`},
		{subjectOf(t, "google.protobuf.Struct"), `{"a":%s}`},
	}
	text := rapid.OneOf(
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,3}|[0-9]{1,2}|[0-9]{8,11}|[0-9]{15,22})(\.[0-9]{0,5}|\.0{1,22})?([eE][-+]?[0-9]{0,3})?`),
		rapid.SampledFrom([]string{
			"2147483647", "2147483648", "-2147483648", "-2147483649", "4294967295", "4294967296", "9223372036854775807", "9223372036854775808",
			"-9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616", "-0", "-0.0", "0e9999", "0e99999999999",
			"1e2001", "1e-2001", "1e-400", "0.1e1", "100e-2", "1.5e1", "0.000000000000000000001e21", "1e19", "1e20", "1.0e19", "340282346638528859811704183484516925440",
			"3.4028235677973366e38", "1.7976931348623157e308", "1.7976931348623159e308", "0.5000000000000000000000000001", "9007199254740993", "4.35", "0.1", "16777217", "33554435",
			strings.Repeat("1", 300), strings.Repeat("1", 310), "0." + strings.Repeat("1", 1100), "NaN", "Infinity", "-Infinity", "+1", ".5", "1.", "1e", "00", "01", "0x1", "1_0",
		}))
	rapid.Check(t, func(t *rapid.T) {
		value := text.Draw(t, "number")
		if rapid.Bool().Draw(t, "quoted") {
			value = `"` + rapid.SampledFrom([]string{"", "", "", " ", `\n`, `\u0031`}).Draw(t, "before") + value + rapid.SampledFrom([]string{"", "", "", " ", ","}).Draw(t, "after") + `"`
		}
		fd := scalars.md.Fields().Get(rapid.IntRange(0, 11).Draw(t, "field"))
		agreeOnDocument(t, scalars, []byte(`{"`+fd.JSONName()+`":`+value+`}`))
		agreeOnDocument(t, scalars, []byte(`{"maybeInt32":`+value+`,"aDouble":`+value+`,"aFloat" : `+value+` }`))
		for _, o := range others {
			agreeOnDocument(t, o.s, fmt.Appendf(nil, o.format, value))
		}
	})
}

// Floats are written as protojson writes them, those with few decimals above all.
func TestPlanWritesFloats(t *testing.T) {
	t.Parallel()
	double, float := subjectOf(t, "google.protobuf.DoubleValue"), subjectOf(t, "google.protobuf.FloatValue")
	rapid.Check(t, func(t *rapid.T) {
		var f float64
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			f = math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
		case 1:
			f = float64(rapid.Int64().Draw(t, "integer"))
		default:
			digits := rapid.Int64Range(-99_999_999_999_999_999, 99_999_999_999_999_999).Draw(t, "digits") / int64(math.Pow10(rapid.IntRange(0, 16).Draw(t, "shorter")))
			f, _ = strconv.ParseFloat(fmt.Sprintf("%de-%d", digits, rapid.IntRange(0, 12).Draw(t, "places")), 64)
			if rapid.IntRange(0, 3).Draw(t, "neighbour") == 0 {
				f = math.Nextafter(f, 0)
			}
		}
		wire, err := proto.Marshal(wrapperspb.Double(f))
		if err != nil {
			t.Fatal(err)
		}
		agreeOnWire(t, double, wire)
		if _, ok := double.message.WriteByPlan(nil, wire); !ok {
			t.Fatalf("refuses %v", f)
		}
		if wire, err = proto.Marshal(wrapperspb.Float(float32(f))); err != nil {
			t.Fatal(err)
		}
		agreeOnWire(t, float, wire)
	})
}

// Every day that a Timestamp can hold, in both directions.
func TestPlanKnowsTheCalendar(t *testing.T) {
	t.Parallel()
	m := subjectOf(t, "google.protobuf.Timestamp").message
	day := time.Date(1, 1, 1, 23, 59, 58, 120_000_000, time.UTC)
	var text, wire, got, want, back []byte // 3.6 million days share their buffers
	for day.Year() < 10000 {
		text = day.AppendFormat(text[:0], `"2006-01-02T15:04:05.999999999Z"`)
		var err error
		if wire, err = (proto.MarshalOptions{Deterministic: true}).MarshalAppend(wire[:0], timestamppb.New(day)); err != nil {
			t.Fatal(err)
		}
		var ok bool
		if got, ok = m.ReadByPlan(got[:0], text); !ok || !bytes.Equal(got, wire) {
			t.Fatalf("%s: %x, want %x", text, got, wire)
		}
		want = day.AppendFormat(want[:0], `"2006-01-02T15:04:05.000Z"`)
		if back, ok = m.WriteByPlan(back[:0], wire); !ok || !bytes.Equal(back, want) {
			t.Fatalf("%s, want %s", back, want)
		}
		day = day.AddDate(0, 0, 1)
	}
}

// Keys that look different and are the same are found however many there are, also in maps within maps.
func TestPlanFindsRepeatedKeys(t *testing.T) {
	t.Parallel()
	maps, tree := subjectOf(t, "shapes.v1.Maps"), subjectOf(t, "shapes.v1.MapTree")
	for _, n := range []int{1, 2, 15, 16, 17, 31, 32, 33, 34, 100, 1000} {
		var texts, numbers, below []string
		for i := range n {
			texts = append(texts, fmt.Sprintf(`"key %d":"x"`, i))
			numbers = append(numbers, fmt.Sprintf(`"%d":"x"`, i-n/2))
			below = append(below, fmt.Sprintf(`"%d":{"subTrees":{"0":{},"1":{}}}`, i))
		}
		for _, tt := range []struct {
			s           subject
			field, more string
			members     []string
		}{
			{maps, "stringKeys", `"key 0":"x"`, texts}, {maps, "stringKeys", `"\u006bey 0":"x"`, texts}, {maps, "stringKeys", `"key":"x"`, texts},
			{maps, "int32Keys", `"+0":"x"`, numbers}, {maps, "sint64Keys", `"-00":"x"`, numbers}, {maps, "sfixed32Keys", `"999999":"x"`, numbers},
			{tree, "subTrees", `"0":{}`, below}, {tree, "subTrees", `"x":{"subTrees":{"a":{},"a":{}}}`, below},
		} {
			doc := `{"` + tt.field + `":{` + strings.Join(tt.members, ",")
			if _, ok := tt.s.message.ReadByPlan(nil, []byte(doc+"}}")); !ok {
				t.Errorf("%d of %s refused", n, tt.field)
			}
			agreeOnDocument(t, tt.s, []byte(doc+`,`+tt.more+`}}`))
		}
	}
}

// Fields and oneofs beyond the first 64, and numbers that only a hash finds.
func TestPlanOfManyFields(t *testing.T) {
	t.Parallel()
	label := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
	message := &descriptorpb.DescriptorProto{Name: proto.String("Wide"), OneofDecl: []*descriptorpb.OneofDescriptorProto{{Name: proto.String("early")}, {Name: proto.String("late")}}}
	for i := range 200 {
		f := &descriptorpb.FieldDescriptorProto{
			Name: proto.String(fmt.Sprintf("field_%d", i)), Number: proto.Int32(int32(1 + i*7)), Label: label.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum(),
		}
		switch i {
		case 63, 64:
			f.OneofIndex = proto.Int32(0)
		case 198, 199:
			f.OneofIndex = proto.Int32(1)
		case 10, 150:
			f.Label = descriptorpb.FieldDescriptorProto_LABEL_REQUIRED.Enum()
		}
		message.Field = append(message.Field, f)
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{Name: proto.String("wide.proto"), Package: proto.String("wide"), MessageType: []*descriptorpb.DescriptorProto{message}}, &protoregistry.Files{})
	if err != nil {
		t.Fatal(err)
	}
	md := file.Messages().Get(0)
	s := subject{md: md, resolver: newListed(&protoregistry.Files{})}
	if s.message, err = transcode.Compile(md, transcode.Options{Resolver: s.resolver}); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		var members []string
		for _, i := range rapid.SliceOfN(rapid.SampledFrom([]int{0, 3, 10, 10, 62, 63, 64, 65, 100, 127, 128, 150, 150, 150, 198, 199}), 1, 6).Draw(t, "fields") {
			members = append(members, fmt.Sprintf(`"field%d":%s`, i, rapid.SampledFrom([]string{"1", "0", "null"}).Draw(t, "value")))
		}
		if rapid.Bool().Draw(t, "whole") {
			members = append(members, `"field_10":1`, `"field_150":1`)
		}
		doc := []byte("{" + strings.Join(members, ",") + "}")
		agreeOnDocument(t, s, doc)
		m := dynamicpb.NewMessage(md)
		if (protojson.UnmarshalOptions{AllowPartial: true}).Unmarshal(doc, m) != nil {
			return
		}
		wire, err := proto.MarshalOptions{AllowPartial: true, Deterministic: rapid.Bool().Draw(t, "in order")}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		agreeOnWire(t, s, wire)
	})
}

// What is wrong and large is refused at once by the plan, in a time that a look at the text takes.
func TestPlanIsFastToRefuse(t *testing.T) {
	t.Parallel()
	scalars, holder, maps := subjectOf(t, "shapes.v1.Scalars"), subjectOf(t, "shapes.v1.Holder"), subjectOf(t, "shapes.v1.Maps")
	const size = 1 << 20
	unknown := strings.Builder{}
	for i := range size / 10 {
		fmt.Fprintf(&unknown, `"x%d":1,`, i)
	}
	for _, tt := range []struct {
		name string
		s    subject
		doc  string
	}{
		{"nested arrays", scalars, `{"aString":` + strings.Repeat("[", size)},
		{"nested arrays in an any", holder, `{"detail":{"a":` + strings.Repeat("[", size)},
		{"nested anys", holder, strings.Repeat(`{"detail":{"@type":"type.googleapis.com/shapes.v1.Holder","detail":`, size/64)},
		{"digits", scalars, `{"anInt64":` + strings.Repeat("9", size) + `}`},
		{"digits in a string", scalars, `{"anInt64":"` + strings.Repeat("9", size) + `"}`},
		{"zeros behind a point", scalars, `{"anInt64":1.` + strings.Repeat("0", size) + `}`},
		{"unknown fields", scalars, `{` + unknown.String() + `"a":1}`},
		{"unknown fields before a type", holder, `{"detail":{` + unknown.String() + `"a":1}}`},
		{"a string without an end", scalars, `{"aString":"` + strings.Repeat("a", size)},
		{"escapes without an end", scalars, `{"aString":"` + strings.Repeat(`\u0041`, size/6)},
		{"base64 that is none", scalars, `{"someBytes":"` + strings.Repeat("A", size) + `*"}`},
		{"one key again and again", maps, `{"stringKeys":{` + strings.Repeat(`"a":"",`, size/7) + `"a":""}}`},
		{"white space", scalars, strings.Repeat(" ", size)},
	} {
		fastest := time.Hour
		for range 5 {
			start := time.Now()
			if _, ok := tt.s.message.ReadByPlan(nil, []byte(tt.doc)); ok {
				t.Errorf("%s: taken", tt.name)
			}
			fastest = min(fastest, time.Since(start))
		}
		// It takes about a millisecond; whatever is not linear takes minutes. In between are the race detector and a busy
		// machine.
		if fastest > time.Second {
			t.Errorf("%s: %s", tt.name, fastest)
		}
	}
}

// One huge string is no fault.
func TestPlanReadsOneHugeString(t *testing.T) {
	t.Parallel()
	s := subjectOf(t, "shapes.v1.Scalars")
	text := strings.Repeat("ä\\n\"", 1<<18)
	doc, err := json.Marshal(map[string]string{"aString": text})
	if err != nil {
		t.Fatal(err)
	}
	wire, ok := s.message.ReadByPlan(nil, doc)
	if !ok {
		t.Fatal("refused")
	}
	agreeOnWire(t, s, wire)
	agreeOnDocument(t, s, doc)
}

// The good path allocates nothing but what it returns, whichever way it goes.
func TestPlanAllocatesNothing(t *testing.T) {
	if raced {
		t.Skip("pools drop things under the race detector")
	}
	m := subjectOf(t, "shapes.v1.WellKnownMany").message
	doc := []byte(`{"times":["2024-02-29T12:00:00.5Z"],"durations":["1.5s"],"masks":["a.bC,d"],"structs":[{"a":{"b":[1,null,"x\n"]}}],"timesByName":{"b":"2024-02-29T12:00:00Z","a":"2024-02-29T12:00:00Z"},"longs":["1",2]}`)
	wire, err := m.ToWire(nil, doc)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 0, 4096)
	var failed error
	for name, f := range map[string]func(){
		"ToWire": func() { _, failed = m.ToWire(out, doc) },
		"ToJSON": func() { _, failed = m.ToJSON(out, wire) },
	} {
		// A collection may empty the pools in between, so a rare allocation is no failure.
		if n := testing.AllocsPerRun(200, f); n >= 1 || failed != nil {
			t.Errorf("%s: %v allocations, %v", name, n, failed)
		}
	}
}
