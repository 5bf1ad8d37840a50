// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// overlaidShop is the shop with schemas for Get.
func overlaidShop(t *testing.T, input, output string) *Tool {
	t.Helper()
	entry := Override{Match: "shop.v1.Shop/Get", Options: &configv1.ToolOptions{Name: "desk.lookup"}}
	if input != "" {
		entry.InputSchema = json.RawMessage(input)
	}
	if output != "" {
		entry.OutputSchema = json.RawMessage(output)
	}
	return toolOf(t, mustBuild(t, BuildOptions{Overlay: []Override{entry}}, filesOf(shopFile("Shop/Get"))), "desk.lookup")
}

func TestAnOverlaidSchemaIsShownAndHolds(t *testing.T) {
	t.Parallel()
	plain := toolOf(t, mustBuild(t, BuildOptions{}, filesOf(shopFile("Shop/Get"))), "shop.get")
	tool := overlaidShop(t, takesNumber, "")
	if strings.Contains(string(tool.Input.Advertised()), " ") || !strings.Contains(string(tool.Input.Advertised()), `"maximum":3`) {
		t.Errorf("input schema %s", tool.Input.Advertised())
	}
	if string(tool.Output.Canonical()) != string(plain.Output.Canonical()) || tool.Fingerprint() == plain.Fingerprint() {
		t.Error("the output schema has changed, or the fingerprint has not")
	}
	if tool.Declared.Input == nil || tool.Declared.Output != nil || plain.Declared != nil {
		t.Errorf("declared: %+v", tool.Declared)
	}
	for arguments, want := range map[string]string{`{"n":3}`: "", `{"n":4}`: "/n", `{}`: "/n", `[]`: "", `{"n":1,"n":1}`: "/n"} {
		found, err := tool.CheckArguments(t.Context(), []byte(arguments))
		if isBad := arguments != `{"n":3}`; err != nil || isBad != (len(found) > 0) || isBad && found[0].Path != want {
			t.Errorf("%s: %v, error %v", arguments, found, err)
		}
	}
	if found, err := plain.CheckArguments(t.Context(), []byte(`{"n":4}`)); found != nil || err != nil {
		t.Errorf("without a declared schema: %v, %v", found, err)
	}
	other := overlaidShop(t, strings.Replace(takesNumber, "3", "4", 1), "")
	if other.Fingerprint() == tool.Fingerprint() {
		t.Error("the fingerprint does not cover the declared schema")
	}
}

func TestOverlaidSchemasAreProblemsWhereTheyAreWrong(t *testing.T) {
	t.Parallel()
	_, err := Build([]*source.Loaded{filesOf(shopFile("Shop/Get", "Shop/Drop"))}, BuildOptions{Overlay: []Override{
		{Match: "shop.v1.Shop/Get", InputSchema: json.RawMessage(`{"type":"array"}`), OutputSchema: json.RawMessage(`{`)},
		{Match: "shop.v1.Shop/Drop", OutputSchema: json.RawMessage(`{"type":"object","minimum":"x"}`)},
	}})
	broken := asError[*BuildError](t, err)
	for _, part := range []string{"overlay entry shop.v1.Shop/Get: input_schema/type:", "overlay entry shop.v1.Shop/Get: output_schema:",
		"overlay entry shop.v1.Shop/Drop: output_schema:"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
	if len(broken.Problems) != 3 {
		t.Errorf("problems %v", broken.Problems)
	}
}

func TestTheLaterEntryWinsSchemaBySchema(t *testing.T) {
	t.Parallel()
	tool := toolOf(t, mustBuild(t, BuildOptions{Overlay: []Override{
		{Match: "shop.v1.Shop/Get", InputSchema: json.RawMessage(`{"type":"object","title":"1"}`), OutputSchema: json.RawMessage(`{"type":"object","title":"2"}`)},
		{Match: "shop.v1.Shop/*", Options: &configv1.ToolOptions{Title: "T"}},
		{Match: "shop.v1.Shop/Get", InputSchema: json.RawMessage(`{"type":"object","title":"3"}`)},
	}}, filesOf(shopFile("Shop/Get"))), "shop.get")
	if !strings.Contains(string(tool.Input.Canonical()), "3") || !strings.Contains(string(tool.Output.Canonical()), "2") || tool.Title != "T" {
		t.Errorf("tool %s, %s, %s", tool.Input.Canonical(), tool.Output.Canonical(), tool.Title)
	}
}

func TestExamplesKeepToTheDeclaredSchema(t *testing.T) {
	t.Parallel()
	c := mustBuild(t, BuildOptions{Overlay: []Override{{
		Match: "shop.v1.Shop/Get", InputSchema: json.RawMessage(takesNumber),
		Options: &configv1.ToolOptions{Examples: []*outriggerv1.ToolExample{
			{Name: "good", ArgumentsJson: `{"n":1}`}, {Name: "bad", ArgumentsJson: `{"n":9}`},
		}},
	}}}, filesOf(shopFile("Shop/Get")))
	if tool := toolOf(t, c, "shop.get"); len(tool.Examples) != 1 || tool.Examples[0].Name != "good" || !hasWarning(c, "example 2 (bad) omitted") {
		t.Errorf("examples %v, warnings %v", tool.Examples, c.Warnings())
	}
}

// TestTypedRequestsKeepToTheDeclaredSchema holds that a typed caller gets in exactly where some JSON caller could.
func TestTypedRequestsKeepToTheDeclaredSchema(t *testing.T) {
	t.Parallel()
	const closed = `{"type":"object","additionalProperties":false,"properties":`
	for name, tt := range map[string]struct {
		schema, document string
		want             string // path of the first violation; "" for none
	}{
		"a number as people write it":      {closed + `{"n":{"type":"integer","maximum":3}}}`, `{"n":3}`, ""},
		"a number as ProtoJSON writes it":  {closed + `{"n":{"type":"string","pattern":"^[0-3]$"}}}`, `{"n":3}`, ""},
		"a number over the limit":          {closed + `{"n":{"type":["integer","string"],"maximum":3,"pattern":"^[0-3]$"}}}`, `{"n":4}`, "/n"},
		"a name in camel case":             {closed + `{"longName":{"maxLength":1}}}`, `{"longName":"a"}`, ""},
		"a name in snake case":             {closed + `{"long_name":{"maxLength":1}}}`, `{"longName":"a"}`, ""},
		"a name in snake case, too long":   {closed + `{"long_name":{"maxLength":1}}}`, `{"longName":"ab"}`, "/longName"},
		"a member that must be there":      {`{"type":"object","required":["n"]}`, `{"n":1}`, ""},
		"zero is there":                    {`{"type":"object","required":["n"],"properties":{"n":{"const":0}}}`, `{"n":0}`, ""},
		"a member that must not be there":  {`{"type":"object","properties":{"longName":false}}`, `{"n":1}`, ""},
		"a member that may not be there":   {closed + `{"n":true}}`, `{"n":1,"longName":"a"}`, "/longName"},
		"snake case, a number and nothing": {closed + `{"long_name":{"type":"string"},"n":{"type":"integer"}},"required":["n","long_name"]}`, `{}`, ""},
	} {
		tool := overlaidShop(t, tt.schema, "")
		wire, err := tool.In.ToWire(nil, []byte(tt.document))
		if err != nil {
			t.Fatal(err)
		}
		found, err := tool.CheckRequest(t.Context(), wire)
		if err != nil || (tt.want == "") != (len(found) == 0) || len(found) > 0 && found[0].Path != tt.want {
			t.Errorf("%s: %v, error %v", name, found, err)
		}
	}
	plain := overlaidShop(t, "", `{"type":"object"}`)
	if found, err := plain.CheckRequest(t.Context(), []byte("\xff")); found != nil || err != nil {
		t.Errorf("without a declared input schema: %v, %v", found, err)
	}
}

// TestPlainIntegersAreFoundEverywhere takes quotes off where a field has 64 bits, and nowhere else.
func TestPlainIntegersAreFoundEverywhere(t *testing.T) {
	t.Parallel()
	f := shopFile("Shop/Get")
	f.Dependency = []string{"google/protobuf/wrappers.proto", "google/protobuf/timestamp.proto"}
	in := f.GetMessageType()[0]
	field := func(name string, n int32, kind descriptorpb.FieldDescriptorProto_Type, label descriptorpb.FieldDescriptorProto_Label, of string) {
		fd := &descriptorpb.FieldDescriptorProto{Name: new(name), Number: new(n), Type: kind.Enum(), Label: label.Enum()}
		if of != "" {
			fd.TypeName = new(of)
		}
		in.Field = append(in.Field, fd)
	}
	const optional, repeated = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL, descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	field("list", 3, descriptorpb.FieldDescriptorProto_TYPE_UINT64, repeated, "")
	field("inner", 4, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, optional, ".shop.v1.In")
	field("wrapped", 5, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, optional, ".google.protobuf.Int64Value")
	field("when", 6, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, optional, ".google.protobuf.Timestamp")
	field("map", 7, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, repeated, ".shop.v1.In.MapEntry")
	in.NestedType = []*descriptorpb.DescriptorProto{{
		Name: new("MapEntry"), Options: &descriptorpb.MessageOptions{MapEntry: new(true)},
		Field: []*descriptorpb.FieldDescriptorProto{
			{Name: new("key"), Number: new(int32(1)), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: optional.Enum()},
			{Name: new("value"), Number: new(int32(2)), Type: descriptorpb.FieldDescriptorProto_TYPE_SINT64.Enum(), Label: optional.Enum()},
		},
	}}
	timestamps := protodesc.ToFileDescriptorProto(timestamppb.File_google_protobuf_timestamp_proto)
	want := `{"type":"object","properties":{"n":{"const":1},"list":{"const":[2,18446744073709551615]},"inner":{"const":{"n":3}},"wrapped":{"const":4},` +
		`"when":{"const":"1970-01-01T00:00:05Z"},"map":{"const":{"n":-6}},"longName":{"const":"7"}},"required":["n","list","inner","wrapped","when","map","longName"]}`
	c := mustBuild(t, BuildOptions{Overlay: []Override{{Match: "shop.v1.Shop/Get", InputSchema: json.RawMessage(want)}}}, filesOf(f, timestamps))
	tool := toolOf(t, c, "shop.get")
	wire, err := tool.In.ToWire(nil, []byte(`{"n":1,"list":[2,"18446744073709551615"],"inner":{"n":3},"wrapped":4,"when":"1970-01-01T00:00:05Z","map":{"n":-6},"longName":"7"}`))
	if err != nil {
		t.Fatal(err)
	}
	if found, err := tool.CheckRequest(t.Context(), wire); err != nil || len(found) > 0 {
		t.Errorf("%v, error %v", found, err)
	}
}

// TestWrappedMessagesAreCheckedAsObjects has messages whose ProtoJSON is no object, in both directions.
func TestWrappedMessagesAreCheckedAsObjects(t *testing.T) {
	t.Parallel()
	f := shopFile("Shop/Get")
	f.Dependency = []string{"google/protobuf/timestamp.proto"}
	f.GetService()[0].GetMethod()[0].InputType = new(".google.protobuf.Timestamp")
	f.GetService()[0].GetMethod()[0].OutputType = new(".google.protobuf.Timestamp")
	timestamps := protodesc.ToFileDescriptorProto(timestamppb.File_google_protobuf_timestamp_proto)
	const year = `{"type":"object","required":["value"],"properties":{"value":{"type":"string","pattern":"^2020"}}}`
	c := mustBuild(t, BuildOptions{Overlay: []Override{{Match: "shop.v1.Shop/Get", InputSchema: json.RawMessage(year), OutputSchema: json.RawMessage(year)}}},
		filesOf(f, timestamps))
	tool := toolOf(t, c, "shop.get")
	is := func(what string, want bool, found []schema.Violation, err error) {
		t.Helper()
		if err != nil || want != (len(found) == 0) {
			t.Errorf("%s: %v, error %v", what, found, err)
		}
	}
	for text, want := range map[string]bool{`"2020-01-01T00:00:00Z"`: true, `"2021-01-01T00:00:00Z"`: false} {
		found, err := tool.CheckArguments(t.Context(), []byte(text))
		is("bare arguments", want, found, err)
		found, err = tool.CheckArguments(t.Context(), []byte(`{"value":`+text+`}`))
		is("arguments", want, found, err)
		found, err = tool.CheckResult(t.Context(), []byte(text), true)
		is("bare result", want, found, err)
		found, err = tool.CheckResult(t.Context(), []byte(`{"value":`+text+`}`), false)
		is("result", want, found, err)
		wire, err := tool.In.ToWire(nil, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		found, err = tool.CheckRequest(t.Context(), wire)
		is("typed request", want, found, err)
	}
}

// FuzzDeclaredSchemas holds that a schema is refused or usable, whatever it is.
func FuzzDeclaredSchemas(f *testing.F) {
	for _, seed := range []string{takesNumber, `{"type":"object","$ref":"#"}`, `{"type":"object","$schema":"http://json-schema.org/draft-07/schema#"}`,
		`{"type":"object","properties":{"n":{"$dynamicRef":"#x"}}}`, `{"type":"object","$id":"mem:///schema.json"}`, `{"type":"object","multipleOf":1e-999}`,
		`{"type":"object","x-mcp-header":"N"}`, `true`, `{"type":"object","unevaluatedProperties":false}`, `{"type":"object","patternProperties":{"(":1}}`} {
		f.Add([]byte(seed), []byte(`{"n":1}`))
	}
	f.Fuzz(func(t *testing.T, raw, document []byte) {
		d, faults := compileDeclared(raw)
		if (d.validator == nil) != (len(faults) > 0) {
			t.Fatalf("validator %v, faults %v", d.validator, faults)
		}
		if len(faults) > 0 {
			return
		}
		if !json.Valid(d.text) || bytes.ContainsAny(d.text, "\n\r") {
			t.Errorf("text %q", d.text)
		}
		again, faults := compileDeclared(d.text)
		if len(faults) > 0 || string(again.canonical) != string(d.canonical) {
			t.Errorf("what was taken is refused as it is shown: %v", faults)
		}
		_, _ = d.validator.Validate(document)
	})
}
