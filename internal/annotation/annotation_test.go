// SPDX-License-Identifier: Apache-2.0

package annotation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/annotation"
)

func TestFieldsSay(t *testing.T) {
	t.Parallel()
	files := relations(t)
	three := 3.0
	for name, want := range map[protoreflect.FullName]annotation.Field{
		"Relation.object":           {Description: "The object, as type:id.", Examples: []string{`"document:budget"`}},
		"Relation.relation":         {Examples: []string{"reader"}},
		"CheckRequest.trace":        {Default: "false", ReadOnly: true},
		"ExpandRequest.depth":       {MultipleOf: &three},
		"WriteRequest.store_id":     {Title: "The store.", Examples: []string{"01ABC"}},
		"WriteRequest.on_conflict":  {Default: `"fail"`},
		"WriteRequest.weight":       {Default: "0.5"},
		"WriteRequest.comment":      {Required: true},
		"Store.id":                  {Format: "uuid"},
		"Store.address":             {Format: annotation.FormatIP},
		"Store.owner":               {Format: "email", Pattern: "(?=x)y", Default: "a@b.c"},
		"CreateStoreRequest.parent": {ChildResource: "relations.example.com/Store"},
		"GetStoreRequest.name":      {Resource: "relations.example.com/Store"},
		"GetStoreRequest.none":      {},
	} {
		if name.Name() == "none" {
			name = "ListStoresRequest.page_size"
		}
		got, problems := annotation.OfField(find[protoreflect.FieldDescriptor](t, files, name))
		got.Rules = nil // see TestRules
		if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
			t.Errorf("%s (-want +got):\n%s%v", name, diff, problems)
		}
	}
}

// TestRules has the rules of protoc-gen-validate and the limits of OpenAPI in the terms of protovalidate.
func TestRules(t *testing.T) {
	t.Parallel()
	files := relations(t)
	for name, want := range map[protoreflect.FullName]string{
		"Relation.object":               `{"string":{"pattern":"^[^\\s]{2,256}$"}}`,
		"Relation.user":                 `{"string":{"minLen":"1","maxBytes":"512"}}`,
		"CheckRequest.relation":         `{"required":true}`,
		"CheckRequest.contextual":       `{"repeated":{"maxItems":"20","unique":true}}`,
		"CheckRequest.model_id":         `{"ignore":"IGNORE_IF_ZERO_VALUE","string":{"len":"26"}}`,
		"CheckRequest.context":          `{"map":{"minPairs":"1","maxPairs":"8","keys":{"string":{"maxLen":"32"}},"values":{"string":{"uri":true}}}}`,
		"ExpandRequest.depth":           `{"ignore":"IGNORE_IF_ZERO_VALUE","int32":{"lt":10,"gte":1}}`,
		"ExpandRequest.after":           `{"int64":{"gt":"0"}}`,
		"ExpandRequest.consistency":     `{"enum":{"definedOnly":true,"notIn":[0]}}`,
		"ExpandRequest.within":          `{"required":true, "duration":{}}`,
		"ExpandRequest.note":            `{"string":{"maxLen":"9"}}`,
		"WriteRequest.store_id":         `{"ignore":"IGNORE_IF_ZERO_VALUE","string":{"maxLen":"26"}}`,
		"WriteRequest.writes":           `{"ignore":"IGNORE_IF_ZERO_VALUE","repeated":{"maxItems":"40"}}`,
		"WriteRequest.on_conflict":      `{"ignore":"IGNORE_IF_ZERO_VALUE","string":{"in":["fail","skip"]}}`,
		"WriteRequest.weight":           `{"ignore":"IGNORE_IF_ZERO_VALUE","double":{"lte":1}}`, // proto3 does not tell a minimum of 0 from none
		"Store.owner":                   "",                                                     // its pattern is no RE2
		"CreateStoreRequest.request_id": "",                                                     // the message is not validated
	} {
		said, problems := annotation.OfField(find[protoreflect.FieldDescriptor](t, files, name))
		if len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
		if said.Rules == nil {
			if want != "" {
				t.Errorf("%s has no rules, want %s", name, want)
			}
			continue
		}
		got, err := protojson.Marshal(said.Rules)
		if err != nil {
			t.Fatal(err)
		}
		if plain := strings.ReplaceAll(string(got), " ", ""); plain != strings.ReplaceAll(want, " ", "") {
			t.Errorf("%s has rules %s, want %s", name, plain, want)
		}
	}
	for name, want := range map[protoreflect.FullName]bool{"WriteRequest.reason": true} {
		if got := annotation.IsOneofRequired(find[protoreflect.OneofDescriptor](t, files, name)); got != want {
			t.Errorf("%s is required: %v", name, got)
		}
	}
}

func TestMessagesSay(t *testing.T) {
	t.Parallel()
	files := relations(t)
	for name, want := range map[protoreflect.FullName]annotation.Message{
		"Relation": {
			Description: "One user, one relation, one object.", Required: []string{"object"},
			Examples: []string{`{"object": "document:budget", "relation": "reader", "user": "user:anne"}`},
		},
		"WriteRequest": {Title: "A transaction", Required: []string{"storeId"}},
		"Store": {Resource: &annotation.Resource{
			Type: "relations.example.com/Store", NameField: "name", Patterns: []string{"tenants/{tenant}/stores/{store}", "stores/{store}"},
		}},
		"CheckResponse": {},
	} {
		got, problems := annotation.OfMessage(find[protoreflect.MessageDescriptor](t, files, name))
		if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
			t.Errorf("%s (-want +got):\n%s%v", name, diff, problems)
		}
	}
	file := find[protoreflect.MessageDescriptor](t, files, "Store").ParentFile()
	want := map[string][]string{
		"relations.example.com/Store":  {"tenants/{tenant}/stores/{store}", "stores/{store}"},
		"relations.example.com/Tenant": {"tenants/{tenant}"},
	}
	if diff := cmp.Diff(want, annotation.Patterns(file)); diff != "" {
		t.Errorf("patterns (-want +got):\n%s", diff)
	}
}

func TestMethodsSay(t *testing.T) {
	t.Parallel()
	files := relations(t)
	for name, want := range map[protoreflect.FullName]annotation.Method{
		"Check": {
			Summary:     "Ask whether a user may act on an object",
			Description: "Evaluates the relations of the store, and the contextual ones of the request.",
		},
		"Write":      {Description: "Adds and deletes relations in one transaction."},
		"ListStores": {Signatures: [][]string{{"parent", "page_size"}}},
		"Ping":       {},
	} {
		got, problems := annotation.OfMethod(find[protoreflect.MethodDescriptor](t, files, "RelationsService."+name))
		if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
			t.Errorf("%s (-want +got):\n%s%v", name, diff, problems)
		}
	}
	service := find[protoreflect.ServiceDescriptor](t, files, "RelationsService")
	if got := annotation.ServiceDescription(service); got != "Stores relations between objects and users. Answers who may do what." {
		t.Errorf("the service is %q", got)
	}
}

// TestEnumsAndFilesSay: what they have no field for is skipped, and what cannot be read is a problem of the enum.
func TestEnumsAndFilesSay(t *testing.T) {
	t.Parallel()
	text := func(number protowire.Number, body string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), body)
	}
	option := func(number protowire.Number, parts ...[]byte) []byte {
		return text(number, string(slices.Concat(parts...)))
	}
	for name, tc := range map[string]struct {
		enum, file []byte
		want       annotation.Enum
		about      string
		problems   int
	}{
		"nothing": {},
		"everything": {
			enum: option(1042, text(1, "How fresh."), text(2, "FAST"), text(3, "Consistency"), text(7, "FULL")),
			file: option(1042, text(1, "2.0"), text(2, string(slices.Concat(text(1, "Relations"), text(2, "Who may do what."), text(6, "1.0"))))),
			want: annotation.Enum{Title: "Consistency", Description: "How fresh."}, about: "Who may do what.",
		},
		"titles": {
			enum: option(1042, text(3, "Consistency")), file: option(1143, text(1, "3.0"), text(2, string(text(1, "Relations")))),
			want: annotation.Enum{Title: "Consistency"}, about: "Relations",
		},
		"both documents": {
			file: slices.Concat(option(1143, text(2, string(text(2, "gnostic's")))), option(1042, text(2, string(text(2, "openapiv2's"))))), about: "openapiv2's",
		},
		"unreadable": {enum: option(1042, text(3, "T"), []byte{0x0a, 9, 'x'}), file: option(1042, []byte{0x12, 9, 'x'}), want: annotation.Enum{Title: "T"}, problems: 1},
	} {
		options, of := &descriptorpb.EnumOptions{}, &descriptorpb.FileOptions{}
		options.ProtoReflect().SetUnknown(tc.enum)
		of.ProtoReflect().SetUnknown(tc.file)
		file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
			Name: new("one.proto"), Syntax: new("proto3"), Options: of,
			EnumType: []*descriptorpb.EnumDescriptorProto{{
				Name: new("E"), Options: options, Value: []*descriptorpb.EnumValueDescriptorProto{{Name: new("ZERO"), Number: new(int32(0))}},
			}},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, problems := annotation.OfEnum(file.Enums().Get(0))
		if got != tc.want || len(problems) != tc.problems {
			t.Errorf("%s: %+v %v, want %+v", name, got, problems, tc.want)
		}
		if about := annotation.FileDescription(file); about != tc.about {
			t.Errorf("%s: the file is %q, want %q", name, about, tc.about)
		}
	}
}

// TestUnreadableOptionsAreProblems: they cost what they say, and nothing else.
func TestUnreadableOptionsAreProblems(t *testing.T) {
	t.Parallel()
	option := func(number protowire.Number, body ...byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), body)
	}
	good := option(1055, append([]byte{0x0a, 3}, "a/b"...)...)
	for name, tc := range map[string]struct {
		raw  []byte
		want string
	}{
		"openapiv2":          {option(1042, 0x4a, 9, 'x'), "grpc.gateway.protoc_gen_openapiv2.options.openapiv2_field"},
		"gnostic":            {option(1143, 0xff), "gnostic.openapi.v3.property"},
		"gnostic's example":  {option(1143, 0x3a, 1, 0xff), "gnostic.openapi.v3.property"},
		"rules":              {option(1071, 0xff), "validate.rules"},
		"rules of a string":  {option(1071, 0x72, 1, 0xff), "validate.rules"},
		"no UTF-8 in rules":  {option(1071, 0x72, 3, 0x32, 1, 0xff), "validate.rules"},
		"items below items":  {option(1071, deep(9)...), "validate.rules"},
		"field_info":         {option(291403980, 0xff), "google.api.field_info"},
		"resource_reference": {option(1055, 0xff), "google.api.resource_reference"},
	} {
		said, problems := annotation.OfField(withOption(t, descriptorpb.FieldDescriptorProto_TYPE_STRING, slices.Concat(tc.raw, good)))
		if len(problems) != 1 || !strings.Contains(problems[0], "("+tc.want+")") {
			t.Errorf("%s: problems %q", name, problems)
		}
		if said.Resource != "a/b" || said.Rules != nil {
			t.Errorf("%s: the rest says %+v", name, said)
		}
	}
}

// deep is a list of lists as rules have it, which no field can be.
func deep(levels int) []byte {
	var out []byte
	for range levels {
		items := protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), out)
		out = protowire.AppendBytes(protowire.AppendTag(nil, 18, protowire.BytesType), items)
	}
	return out
}

// TestBoundsThatATypeCannotHold have no effect: no number that the field can have breaks them, or the option is a mistake.
func TestBoundsThatATypeCannotHold(t *testing.T) {
	t.Parallel()
	bound := func(number protowire.Number, v uint64) []byte {
		body := protowire.AppendFixed64(protowire.AppendTag(nil, number, protowire.Fixed64Type), v)
		return protowire.AppendBytes(protowire.AppendTag(nil, 1042, protowire.BytesType), body)
	}
	const nan, huge, minusOne = 0x7ff8000000000001, 0x43f0000000000000 /* 2^64 */, 0xbff0000000000000
	for name, tc := range map[string]struct {
		kind descriptorpb.FieldDescriptorProto_Type
		bits uint64
	}{
		"not a number":        {descriptorpb.FieldDescriptorProto_TYPE_DOUBLE, nan},
		"above int32":         {descriptorpb.FieldDescriptorProto_TYPE_INT32, huge},
		"above what is exact": {descriptorpb.FieldDescriptorProto_TYPE_UINT64, huge},
		"negative":            {descriptorpb.FieldDescriptorProto_TYPE_UINT32, minusOne},
		"of a bool":           {descriptorpb.FieldDescriptorProto_TYPE_BOOL, minusOne},
		"of bytes":            {descriptorpb.FieldDescriptorProto_TYPE_BYTES, minusOne},
	} {
		said, problems := annotation.OfField(withOption(t, tc.kind, bound(11, tc.bits)))
		if said.Rules != nil || len(problems) > 0 {
			t.Errorf("%s: rules %v, problems %v", name, said.Rules, problems)
		}
	}
}

// FuzzOptions: whatever bytes a backend reflects as options, they are read or they are problems.
func FuzzOptions(f *testing.F) {
	files := relations(f)
	files.RangeFilesByPackage("relations.v1", func(fd protoreflect.FileDescriptor) bool {
		for i := range fd.Messages().Len() {
			fields := fd.Messages().Get(i).Fields()
			for j := range fields.Len() {
				if options, ok := fields.Get(j).Options().(*descriptorpb.FieldOptions); ok && options != nil {
					f.Add([]byte(options.ProtoReflect().GetUnknown()), uint8(9))
				}
			}
		}
		return true
	})
	f.Fuzz(func(t *testing.T, raw []byte, kind uint8) {
		of := descriptorpb.FieldDescriptorProto_Type(kind%18 + 1)
		switch of {
		case descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, descriptorpb.FieldDescriptorProto_TYPE_GROUP, descriptorpb.FieldDescriptorProto_TYPE_ENUM:
			return
		default:
		}
		for rest := raw; len(rest) > 0; { // a descriptor's own options are well-formed up to the values of extensions
			number, typ, n := protowire.ConsumeField(rest)
			if n < 0 || number < 1000 || typ == protowire.StartGroupType {
				return
			}
			rest = rest[n:]
		}
		fd := withOption(t, of, raw)
		said, problems := annotation.OfField(fd)
		again, more := annotation.OfField(fd)
		if diff := cmp.Diff(said.Examples, again.Examples); diff != "" || len(problems) != len(more) {
			t.Fatalf("a second reading differs: %s", diff)
		}
		annotation.Patterns(fd.ParentFile())
	})
}
