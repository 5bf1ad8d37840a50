// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

func TestFieldsSay(t *testing.T) {
	t.Parallel()
	files := relations(t)
	three := 3.0
	for name, want := range map[protoreflect.FullName]schema.FieldAnnotations{
		"Relation.object":           {Description: "The object, as type:id.", Examples: []string{`"document:budget"`}},
		"Relation.relation":         {Examples: []string{"reader"}},
		"CheckRequest.trace":        {Default: "false", ReadOnly: true},
		"ExpandRequest.depth":       {MultipleOf: &three},
		"WriteRequest.store_id":     {Title: "The store.", Examples: []string{"01ABC"}},
		"WriteRequest.writes":       {Examples: []string{`{"object":"document:budget","relation":"reader","user":"user:anne"}`}},
		"WriteRequest.deletes":      {Examples: []string{`{"object":"document:plan","relation":"reader","user":"user:bob"}`}},
		"WriteRequest.on_conflict":  {Default: `"fail"`},
		"WriteRequest.weight":       {Default: "0.5"},
		"WriteRequest.comment":      {Required: true},
		"Store.id":                  {Format: "uuid"},
		"Store.address":             {Format: schema.FormatIP},
		"Store.owner":               {Format: "email", Pattern: "(?=x)y", Default: "a@b.c"},
		"CreateStoreRequest.parent": {ChildResource: "relations.example.com/Store"},
		"GetStoreRequest.name":      {Resource: "relations.example.com/Store"},
		"GetStoreRequest.none":      {},
	} {
		if name.Name() == "none" {
			name = "ListStoresRequest.page_size"
		}
		got, problems := schema.AnnotationsOfField(find[protoreflect.FieldDescriptor](t, files, name))
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
		said, problems := schema.AnnotationsOfField(find[protoreflect.FieldDescriptor](t, files, name))
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
		if got := schema.IsOneofRequiredByAnnotation(find[protoreflect.OneofDescriptor](t, files, name)); got != want {
			t.Errorf("%s is required: %v", name, got)
		}
	}
}

func TestMessagesSay(t *testing.T) {
	t.Parallel()
	files := relations(t)
	for name, want := range map[protoreflect.FullName]schema.MessageAnnotations{
		"Relation": {
			Description: "One user, one relation, one object.", Required: []string{"object"},
			Examples: []string{`{"object": "document:budget", "relation": "reader", "user": "user:anne"}`},
		},
		"WriteRequest": {Title: "A transaction", Required: []string{"storeId"}},
		"Store": {Resource: &schema.ResourceAnnotation{
			Type: "relations.example.com/Store", NameField: "name", Patterns: []string{"tenants/{tenant}/stores/{store}", "stores/{store}"},
		}},
		"WriteResponse": {Examples: []string{`{"version":"8"}`}},
		"CheckResponse": {},
	} {
		got, problems := schema.AnnotationsOfMessage(find[protoreflect.MessageDescriptor](t, files, name))
		if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
			t.Errorf("%s (-want +got):\n%s%v", name, diff, problems)
		}
	}
	file := find[protoreflect.MessageDescriptor](t, files, "Store").ParentFile()
	want := map[string][]string{
		"relations.example.com/Store":  {"tenants/{tenant}/stores/{store}", "stores/{store}"},
		"relations.example.com/Tenant": {"tenants/{tenant}"},
	}
	if diff := cmp.Diff(want, schema.ResourcePatterns(file)); diff != "" {
		t.Errorf("patterns (-want +got):\n%s", diff)
	}
}

// TestOpenAPISaysThatAMethodIsDeprecated, in either of its annotations.
func TestOpenAPISaysThatAMethodIsDeprecated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		option, flag protowire.Number
		value        uint64
		want         bool
	}{
		"protoc-gen-openapiv2":             {1042, 11, 1, true},
		"protoc-gen-openapiv2, said to be": {1042, 11, 0, false},
		"protoc-gen-openapiv2, another":    {1042, 12, 1, false},
		"gnostic":                          {1143, 10, 1, true},
	} {
		operation := protowire.AppendVarint(protowire.AppendTag(nil, tc.flag, protowire.VarintType), tc.value)
		options := &descriptorpb.MethodOptions{}
		options.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, tc.option, protowire.BytesType), operation))
		fd, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
			Name: new("a.proto"), Package: new("a"), MessageType: []*descriptorpb.DescriptorProto{{Name: new("M")}},
			Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("S"), Method: []*descriptorpb.MethodDescriptorProto{
				{Name: new("Get"), InputType: new(".a.M"), OutputType: new(".a.M"), Options: options},
			}}},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, problems := schema.AnnotationsOfMethod(fd.Services().Get(0).Methods().Get(0)); got.Deprecated != tc.want || len(problems) > 0 {
			t.Errorf("%s: deprecated %v, problems %v", name, got.Deprecated, problems)
		}
	}
}

func TestMethodsSay(t *testing.T) {
	t.Parallel()
	files := relations(t)
	for name, want := range map[protoreflect.FullName]schema.MethodAnnotations{
		"Check": {
			Summary:     "Ask whether a user may act on an object",
			Description: "Evaluates the relations of the store, and the contextual ones of the request.",
			Responses:   []string{`{"allowed": true, "resolution": "own"}`, `{"resolution": "longer than the service ever sends"}`},
		},
		"Write": {
			Description: "Adds and deletes relations in one transaction.",
			Responses:   []string{`{"none":1}`, `{"version":7,"written":[{"object":"document:budget","writtenAt":"2026-11-26T10:00:00Z"}]}`},
		},
		"GetStore":   {Signatures: [][]string{{"name"}}}, // and a routing rule, which says nothing to callers
		"ListStores": {Signatures: [][]string{{"parent", "page_size"}}},
		"Ping":       {},
	} {
		got, problems := schema.AnnotationsOfMethod(find[protoreflect.MethodDescriptor](t, files, "RelationsService."+name))
		if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
			t.Errorf("%s (-want +got):\n%s%v", name, diff, problems)
		}
	}
	service := find[protoreflect.ServiceDescriptor](t, files, "RelationsService")
	if got := schema.ServiceDescription(service); got != "Stores relations between objects and users. Answers who may do what." {
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
		want       schema.EnumAnnotations
		about      string
		problems   int
	}{
		"nothing": {},
		"everything": {
			enum: option(1042, text(1, "How fresh."), text(2, "FAST"), text(3, "Consistency"), text(7, "FULL")),
			file: option(1042, text(1, "2.0"), text(2, string(slices.Concat(text(1, "Relations"), text(2, "Who may do what."), text(6, "1.0"))))),
			want: schema.EnumAnnotations{Title: "Consistency", Description: "How fresh."}, about: "Who may do what.",
		},
		"titles": {
			enum: option(1042, text(3, "Consistency")), file: option(1143, text(1, "3.0"), text(2, string(text(1, "Relations")))),
			want: schema.EnumAnnotations{Title: "Consistency"}, about: "Relations",
		},
		"both documents": {
			file: slices.Concat(option(1143, text(2, string(text(2, "gnostic's")))), option(1042, text(2, string(text(2, "openapiv2's"))))), about: "openapiv2's",
		},
		"unreadable": {enum: option(1042, text(3, "T"), []byte{0x0a, 9, 'x'}), file: option(1042, []byte{0x12, 9, 'x'}), want: schema.EnumAnnotations{Title: "T"}, problems: 1},
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
		got, problems := schema.AnnotationsOfEnum(file.Enums().Get(0))
		if got != tc.want || len(problems) != tc.problems {
			t.Errorf("%s: %+v %v, want %+v", name, got, problems, tc.want)
		}
		if about := schema.FileDescription(file); about != tc.about {
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
		said, problems := schema.AnnotationsOfField(withOption(t, descriptorpb.FieldDescriptorProto_TYPE_STRING, slices.Concat(tc.raw, good)))
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
		said, problems := schema.AnnotationsOfField(withOption(t, tc.kind, bound(11, tc.bits)))
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
		said, problems := schema.AnnotationsOfField(fd)
		again, more := schema.AnnotationsOfField(fd)
		if diff := cmp.Diff(said.Examples, again.Examples); diff != "" || len(problems) != len(more) {
			t.Fatalf("a second reading differs: %s", diff)
		}
		schema.ResourcePatterns(fd.ParentFile())
	})
}

// TestExamplesOfGnostic are those of its Any: YAML, or a message.
func TestExamplesOfGnostic(t *testing.T) {
	t.Parallel()
	text := func(number protowire.Number, body string) string {
		return string(protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), body))
	}
	packed := func(name, body string) string { return text(1, text(1, "type.googleapis.com/"+name)+text(2, body)) }
	for name, tc := range map[string]struct {
		any, want, problem string
	}{
		"plain":                    {any: text(2, "01ABC\n"), want: "01ABC"},
		"plain number":             {any: text(2, "0x10"), want: "0x10"},
		"JSON":                     {any: text(2, `{"a": 9007199254740993}`), want: `{"a": 9007199254740993}`},
		"single quotes":            {any: text(2, "'it''s 7'"), want: `"it's 7"`},
		"block text":               {any: text(2, "|\n  one\n  two\n"), want: `"one\ntwo"`},
		"mapping":                  {any: text(2, "a: 1\nb: [yes, true, 0x10, 1.5, .inf, ~, 2026-11-26]"), want: `{"a":1,"b":["yes",true,16,1.5,".inf",null,"2026-11-26"]}`},
		"large integer":            {any: text(2, "- 9007199254740993\n"), want: "[9007199254740993]"},
		"alias":                    {any: text(2, "a: &x 1\nb: *x"), want: "a: &x 1\nb: *x"},
		"key that is no text":      {any: text(2, "? [1]\n: 2"), want: "? [1]\n: 2"},
		"too deep":                 {any: text(2, strings.Repeat("- ", 18)+"1"), want: strings.Repeat("- ", 18) + "1"},
		"too large":                {any: text(2, "- "+strings.Repeat("x", 4<<10)), want: "- " + strings.Repeat("x", 4<<10)},
		"wrapper":                  {any: packed("google.protobuf.StringValue", text(1, "a")), want: `"a"`},
		"own message":              {any: packed("google.protobuf.Duration", "\x08\x05"), want: `"5s"`},
		"value without a number":   {any: packed("google.protobuf.Value", "\x11\x00\x00\x00\x00\x00\x00\xf8\x7f"), problem: `its type "type.googleapis.com/google.protobuf.Value" cannot be read`},
		"bytes of another message": {any: packed("google.protobuf.StringValue", "\x0a\x09x"), problem: "cannot be read"},
		"unknown message":          {any: packed("other.v1.Thing", ""), problem: `its type "type.googleapis.com/other.v1.Thing" cannot be read`},
		"unknown own message":      {any: packed("google.protobuf.Thing", ""), problem: "cannot be read"},
		"no bytes of an Any":       {any: text(1, "\xff"), problem: "option (gnostic.openapi.v3.property) ignored"},
	} {
		fd := withOption(t, descriptorpb.FieldDescriptorProto_TYPE_STRING, []byte(text(1143, text(7, tc.any))))
		said, problems := schema.AnnotationsOfField(fd)
		if got := strings.Join(said.Examples, "|"); got != tc.want {
			t.Errorf("%s: examples %s, want %s", name, got, tc.want)
		}
		if got := strings.Join(problems, "|"); (got == "") != (tc.problem == "") || !strings.Contains(got, tc.problem) {
			t.Errorf("%s: problems %q, want %q", name, got, tc.problem)
		}
	}
}

// TestUnreadableResponsesAreProblems: those that can be read count all the same.
func TestUnreadableResponsesAreProblems(t *testing.T) {
	t.Parallel()
	text := func(number protowire.Number, body string) string {
		return string(protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), body))
	}
	json := text(4, text(1, "application/json")+text(2, "{}"))
	named := func(value string) string { return text(8, text(2, text(1, "200")+text(2, text(1, text(3, value))))) }
	media := func(value string) string { return named(text(1, text(1, "application/json")+text(2, value))) }
	for name, tc := range map[string]struct {
		option, problem string
		want            []string
	}{
		"in order":          {text(1042, text(9, text(1, "201")+text(2, text(4, text(1, "application/json")+text(2, "[]"))))+text(9, text(1, "200")+text(2, json))), "", []string{"{}", "[]"}},
		"of errors":         {text(1042, text(9, text(1, "404")+text(2, json))+text(9, text(1, "default")+text(2, json))), "", nil},
		"any success":       {text(1042, text(9, text(1, "2XX")+text(2, json))), "", []string{"{}"}},
		"openapiv2 first":   {text(1143, media(text(2, text(2, "[1]")))) + text(1042, text(9, text(1, "200")+text(2, json))), "", []string{"{}", "[1]"}},
		"named examples":    {text(1143, media(text(3, text(1, text(1, "one")+text(2, text(1, text(1, "A summary")+text(3, text(2, "[2]")))))))), "", []string{"[2]"}},
		"gnostic's default": {text(1143, text(8, text(1, text(1, "x")))), "", nil},
		"half a response":   {text(1042, text(9, text(1, "200")+text(2, json+"\xff"))), "openapiv2_operation", []string{"{}"}},
		"half an entry":     {text(1042, text(9, text(1, "200")+"\xff")), "openapiv2_operation", nil},
		"half an example":   {text(1143, media(text(2, "\xff"))), "gnostic.openapi.v3.operation", nil},
		"half of examples":  {text(1143, media(text(3, text(1, "\xff")))), "gnostic.openapi.v3.operation", nil},
		"unknown message":   {text(1143, media(text(2, text(1, text(1, "x.Y"))))), `type "x.Y"`, nil},
	} {
		options := &descriptorpb.MethodOptions{}
		options.ProtoReflect().SetUnknown([]byte(tc.option))
		empty := new(".Empty")
		file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
			Name: new("one.proto"), Syntax: new("proto3"), MessageType: []*descriptorpb.DescriptorProto{{Name: new("Empty")}},
			Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("S"), Method: []*descriptorpb.MethodDescriptorProto{
				{Name: new("M"), InputType: empty, OutputType: empty, Options: options},
			}}},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, problems := schema.AnnotationsOfMethod(file.Services().Get(0).Methods().Get(0))
		if diff := cmp.Diff(tc.want, got.Responses); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if text := strings.Join(problems, "|"); (text == "") != (tc.problem == "") || !strings.Contains(text, tc.problem) {
			t.Errorf("%s: problems %q, want %q", name, text, tc.problem)
		}
	}
}
