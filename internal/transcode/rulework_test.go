// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// email is a pattern that is followed in many ways at once, from every character.
const email = `([A-Za-z0-9]+[._%+-]?)+@([A-Za-z0-9]+[.-])+(com|org|net|edu|gov|mil|info|biz|name|museum|aero|coop)`

// withRules compiles a message with one field, which has rules.
func withRules(t *testing.T, field *descriptorpb.FieldDescriptorProto, rules *validate.FieldRules) *transcode.Message {
	t.Helper()
	field.Name, field.JsonName, field.Number = proto.String("value"), proto.String("value"), proto.Int32(1)
	field.Options = &descriptorpb.FieldOptions{}
	proto.SetExtension(field.Options, validate.E_Field, rules)
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("ruled.proto"), Package: proto.String("ruled"), Syntax: proto.String("proto3"), Dependency: []string{"buf/validate/validate.proto"},
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M"), Field: []*descriptorpb.FieldDescriptorProto{field}}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	m, err := transcode.Compile(file.Messages().Get(0), transcode.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func textField() *descriptorpb.FieldDescriptorProto {
	return &descriptorpb.FieldDescriptorProto{Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
}

func numbersField() *descriptorpb.FieldDescriptorProto {
	return &descriptorpb.FieldDescriptorProto{Type: descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()}
}

func matching(pattern string) *validate.StringRules {
	return validate.StringRules_builder{Pattern: &pattern}.Build()
}

func expression(text string) *validate.FieldRules {
	id := "it"
	return validate.FieldRules_builder{Cel: []*validate.Rule{validate.Rule_builder{Id: &id, Expression: &text}.Build()}}.Build()
}

func listOf(n int) string {
	var list strings.Builder
	for i := range n {
		list.WriteString("," + strconv.Itoa(i))
	}
	return `{"value":[` + list.String()[1:] + `]}`
}

func TestRulesHaveABudget(t *testing.T) {
	t.Parallel()
	long := `{"value":"` + strings.Repeat("a", 3900000) + `"}`
	pairs := expression(`this.all(x, this.all(y, x == y || x != y))`)
	short := matching(email)
	short.SetMaxLen(254)
	tests := map[string]struct {
		field *descriptorpb.FieldDescriptorProto
		rules *validate.FieldRules
		doc   string
		want  string // the keyword of the violation
	}{
		"a pattern over megabytes":               {textField(), validate.FieldRules_builder{String: matching(email)}.Build(), long, "maxWork"},
		"length before pattern":                  {textField(), validate.FieldRules_builder{String: short}.Build(), long, "string.max_len"},
		"a long text that does not match":        {textField(), validate.FieldRules_builder{String: matching("^[a-z]*[0-9]$")}.Build(), long, "string.pattern"},
		"a long text that matches":               {textField(), validate.FieldRules_builder{String: matching("^[a-z]*$")}.Build(), long, ""},
		"each of a list with each":               {numbersField(), pairs, listOf(20000), "maxWork"},
		"each of a short list with each":         {numbersField(), pairs, listOf(200), ""},
		"a pattern in an expression":             {textField(), expression(`this.matches(r'` + email + `')`), long, "maxWork"},
		"a pattern in an expression, short text": {textField(), expression(`this.matches(r'` + email + `')`), `{"value":"a@b.com"}`, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := withRules(t, tt.field, tt.rules)
			wire, err := m.ToWire(nil, []byte(tt.doc))
			checkKeyword(t, err, tt.want)
			if err == nil {
				checkKeyword(t, m.CheckWire(t.Context(), wire), tt.want)
			}
		})
	}
}

func checkKeyword(t *testing.T, err error, want string) {
	t.Helper()
	var refused *transcode.InputError
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && (!errors.As(err, &refused) || len(refused.Violations) != 1 || refused.Violations[0].Keyword != want):
		t.Errorf("got %v, want one violation of %s", err, want)
	}
}

func TestRulesHearTheContext(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	long := `{"value":"` + strings.Repeat("a", 3900000) + `"}`
	m := withRules(t, textField(), validate.FieldRules_builder{String: matching(email)}.Build())
	if _, err := m.ToWireWith(over, nil, nil, []byte(long)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestWorkOfExpressions(t *testing.T) {
	t.Parallel()
	p, err := schema.CompilePattern("^a+$")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][2]int{
		`this > 0`: {0, 0},
		`this.all(x, x > 0) && this.exists(y, y < 0)`:        {1, 0},
		`this.all(x, this.filter(y, y > x).size() > 0)`:      {2, 0},
		`this == ').all(' || "\".map(" == this`:              {0, 0},
		`this.matches('^a+$') || this.matches(r"^a+$")`:      {0, 2 * p.Size()},
		`this.matches(rules.pattern)`:                        {0, 1024},
		`(this.all(x, (x.items.exists_one(y, (y) == (x)))))`: {2, 0},
	} {
		if loops, pattern := transcode.WorkOf(text); loops != want[0] || pattern != want[1] {
			t.Errorf("%s: %d loops, patterns of %d; want %v", text, loops, pattern, want)
		}
	}
}
