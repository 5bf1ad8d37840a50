// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"

	optionsv1 "github.com/outrigger-mcp/outrigger/proto/options"
)

// payment is a message type with secrets at every depth: Request{card_number (debug_redact),
// shop, next (Request), receipts (map of Receipt), list (Receipt)}, Receipt{iban (secret), note}.
func payment(t testing.TB, secret *descriptorpb.FieldOptions) protoreflect.MessageDescriptor {
	t.Helper()
	field := func(name string, number int32, message string, o *descriptorpb.FieldOptions) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{
			Name: proto.String(name), Number: proto.Int32(number), Options: o,
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
		}
		if message != "" {
			f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String(message)
		}
		return f
	}
	repeated := func(f *descriptorpb.FieldDescriptorProto) *descriptorpb.FieldDescriptorProto {
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		return f
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("pay.proto"), Package: proto.String("pay"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{
				Name: proto.String("Request"), Field: []*descriptorpb.FieldDescriptorProto{
					field("card_number", 1, "", &descriptorpb.FieldOptions{DebugRedact: proto.Bool(true)}),
					field("shop", 2, "", nil), field("next", 3, ".pay.Request", nil),
					repeated(field("receipts", 4, ".pay.Request.ReceiptsEntry", nil)), repeated(field("list", 5, ".pay.Receipt", nil)),
				},
				NestedType: []*descriptorpb.DescriptorProto{{
					Name: proto.String("ReceiptsEntry"), Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
					Field: []*descriptorpb.FieldDescriptorProto{field("key", 1, "", nil), field("value", 2, ".pay.Receipt", nil)},
				}},
			},
			{Name: proto.String("Receipt"), Field: []*descriptorpb.FieldDescriptorProto{
				field("iban", 1, "", secret), field("note", 2, "", nil), field("shop", 3, ".pay.Request", nil),
			}},
			{Name: proto.String("Plain"), Field: []*descriptorpb.FieldDescriptorProto{field("iban", 1, "", nil)}},
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().ByName("Request")
}

// typed is the option as code that is linked in has it, untyped as reflection has it.
func typed() *descriptorpb.FieldOptions {
	o := &descriptorpb.FieldOptions{}
	proto.SetExtension(o, optionsv1.E_Field, &optionsv1.FieldOptions{Secret: true})
	return o
}

func untyped() *descriptorpb.FieldOptions {
	o := &descriptorpb.FieldOptions{}
	raw := protowire.AppendTag(nil, optionsv1.E_Field.TypeDescriptor().Number(), protowire.BytesType)
	o.ProtoReflect().SetUnknown(protowire.AppendBytes(raw, []byte{1 << 3, 1}))
	return o
}

func TestFieldsOfMessagesAreRedactedWhereTheyAre(t *testing.T) {
	t.Parallel()
	const gone = `"[redacted]"`
	for name, options := range map[string]*descriptorpb.FieldOptions{"linked in": typed(), "by reflection": untyped()} {
		var types Messages
		m := types.Of(payment(t, options))
		for _, tc := range []struct{ in, want string }{
			{`{"cardNumber":"4","shop":"a"}`, `{"cardNumber":` + gone + `,"shop":"a"}`},
			{`{"card_number":"4"}`, `{"card_number":` + gone + `}`},
			{` { "next" : { "cardNumber" : [ 1 , { } ] } , "shop" : "a" } `, `{"next":{"cardNumber":` + gone + `},"shop":"a"}`},
			{`{"list":[{"iban":"x","note":"n"},{"note":"m"}]}`, `{"list":[{"iban":` + gone + `,"note":"n"},{"note":"m"}]}`},
			{`{"receipts":{"shop":{"iban":"x","note":"n"},"iban":{"iban":"y"}}}`, `{"receipts":{"shop":{"iban":` + gone + `,"note":"n"},"iban":{"iban":` + gone + `}}}`},
			{`{"iban":"is no field here"}`, `{"iban":"is no field here"}`},
			{`{"list":[{"shop":{"next":{"cardNumber":1}}}]}`, `{"list":[{"shop":{"next":{"cardNumber":` + gone + `}}}]}`},
			{`{"unknown":{"cardNumber":1}}`, `{"unknown":{"cardNumber":` + gone + `}}`},
			{`{"shop":"a","api_key":"k","next":{"password":1}}`, `{"shop":"a","api_key":` + gone + `,"next":{"password":` + gone + `}}`},
			{`{"card\u004eumber":1}`, `{"card\u004eumber":` + gone + `}`},
			{`[]`, `[]`},
			{`{}`, `{}`},
			{`{`, `{"dev.outrigger/omitted":{"bytes":1,"reason":"not JSON"}}`},
			{``, `null`},
		} {
			r := Redactor{Base: NewNames(DefaultNames())}
			if got := string(r.AppendMessage(nil, []byte(tc.in), len(tc.in), 1000, m)); got != tc.want {
				t.Errorf("%s: %s: got %s, want %s", name, tc.in, got, tc.want)
			}
		}
		if got := string(Redactor{}.AppendMessage(nil, []byte(`{"items":[{"cardNumber":1}],"truncated":false}`), 46, 1000, Items(m))); got != `{"items":[{"cardNumber":`+gone+`}],"truncated":false}` {
			t.Errorf("%s: %s", name, got)
		}
		if s := m.Secrets(); !s.has([]byte("card_number")) || !s.has([]byte("IBAN")) || s.has([]byte("shop")) {
			t.Errorf("%s: %v", name, s)
		}
	}
}

func TestATypeIsCompiledOnce(t *testing.T) {
	t.Parallel()
	var types Messages
	md := payment(t, typed())
	if a, b := types.Of(md), types.Of(md); a == nil || a != b {
		t.Error("compiled twice")
	}
	if types.Of(md.ParentFile().Messages().ByName("Plain")) != nil || types.Of(nil) != nil {
		t.Error("a type without secrets has some")
	}
}

// The copy is valid JSON of the same shape, whatever comes in, and holds no secret.
func FuzzAppendMessage(f *testing.F) {
	var types Messages
	m := types.Of(payment(f, typed()))
	for _, seed := range []string{`{"cardNumber":"hunter2"}`, `{"receipts":{"a":{"iban":"hunter2"}}}`, `[[{"list":[{}]}]]`, `{"next":{"next":[]}}`, `"x"`, `{`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := Redactor{Base: NewNames(DefaultNames())}.AppendMessage(nil, raw, len(raw), 1<<16, m)
		if !json.Valid(got) {
			t.Fatalf("%q became %q", raw, got)
		}
		again := Redactor{Base: NewNames(DefaultNames())}.AppendMessage(nil, got, len(got), 1<<20, m)
		if string(again) != string(got) {
			t.Fatalf("%q, again %q", got, again)
		}
	})
}

// Other fields are left out as secret ones are, until others are named; paths of a tool's result are too, and every Any.
func TestOtherFieldsAreLeftOut(t *testing.T) {
	t.Parallel()
	md := payment(t, nil)
	var now *Others
	types := Messages{Others: func() *Others { return now }}
	doc := []byte(`{"shop":"s","receipts":{"a":{"iban":"i","note":"n"}},"list":[{"iban":"i","note":"n"}]}`)
	redacted := func(m *Message) string { return string(Redactor{}.AppendMessage(nil, doc, len(doc), 1000, m)) }
	named := func(name protoreflect.FullName) *Others {
		return &Others{Field: func(fd protoreflect.FieldDescriptor) bool { return fd.FullName() == name }}
	}
	for _, tc := range []struct {
		others *Others
		paths  []string
		want   string
	}{
		{nil, nil, string(doc)},
		{named("pay.Receipt.note"), nil, `{"shop":"s","receipts":{"a":{"iban":"i","note":"[redacted]"}},"list":[{"iban":"i","note":"[redacted]"}]}`},
		{named("pay.Request.shop"), []string{"list.iban"}, `{"shop":"[redacted]","receipts":{"a":{"iban":"i","note":"n"}},"list":[{"iban":"[redacted]","note":"n"}]}`},
		{nil, []string{"receipts.*.note"}, `{"shop":"s","receipts":{"a":{"iban":"i","note":"[redacted]"}},"list":[{"iban":"i","note":"n"}]}`},
		{nil, []string{"receipts.*"}, `{"shop":"s","receipts":"[redacted]","list":[{"iban":"i","note":"n"}]}`},
		{nil, nil, string(doc)},
	} {
		now = tc.others
		if got := redacted(types.Of(md).With(tc.paths...)); got != tc.want {
			t.Errorf("%v: got %s, want %s", tc.paths, got, tc.want)
		}
	}
	var untyped *Message
	if got, want := redacted(untyped.With("list.note")), `{"shop":"s","receipts":{"a":{"iban":"i","note":"n"}},"list":[{"iban":"i","note":"[redacted]"}]}`; got != want {
		t.Errorf("without a type: got %s, want %s", got, want)
	}
	now = named("pay.Receipt.note")
	held := (&anypb.Any{}).ProtoReflect().Descriptor()
	if got := redacted(types.Of(held)); got != `"[redacted]"` {
		t.Errorf("an Any: %s", got)
	}
}
