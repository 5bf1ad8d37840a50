// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

func TestInputField(t *testing.T) {
	t.Parallel()
	files := annotated(t, false)
	check := shape(t, files, "relations.v1.CheckRequest")
	text, duration := (&wrapperspb.StringValue{}).ProtoReflect().Descriptor(), (&durationpb.Duration{}).ProtoReflect().Descriptor()
	for _, tc := range []struct {
		md         protoreflect.MessageDescriptor
		path       string
		want, fail string
	}{
		{check, "store_id", "relations.v1.CheckRequest.store_id", ""},
		{check, "storeId", "relations.v1.CheckRequest.store_id", ""},
		{check, "relation.user", "relations.v1.Relation.user", ""},
		{check, "contextual.object", "relations.v1.Relation.object", ""},
		{check, "context", "relations.v1.CheckRequest.context", ""},
		{check, "store", "", `relations.v1.CheckRequest has no "store"; it has storeId, relation, contextual, modelId, trace, context`},
		{check, "", "", `relations.v1.CheckRequest has no ""; it has`},
		{check, "relation.store", "", `relations.v1.Relation has no "store"; it has object, relation, user`}, // writtenAt is OUTPUT_ONLY
		{check, "relation.written_at", "", `has no "written_at"`},
		{check, "storeId.x", "", `there is no "x": relations.v1.CheckRequest.store_id has no members to describe`},
		{check, "context.key", "", `there is no "key": relations.v1.CheckRequest.context has no members to describe`},
		{shape(t, files, "relations.v1.ExpandRequest"), "within.seconds", "", `google.protobuf.Duration has no members to describe`},
		{text, "value", "google.protobuf.StringValue.value", ""},
		{text, "x", "", `google.protobuf.StringValue has no "x"; it has value`},
		{duration, "seconds", "", `it has value`},
	} {
		got, err := schema.InputField(tc.md, tc.path)
		if string(got) != tc.want || (err == nil) != (tc.fail == "") || err != nil && !strings.Contains(err.Error(), tc.fail) {
			t.Errorf("%s: %q, %v", tc.path, got, err)
		}
	}
}

// TestWordsAreShown: they take the place of the comment or the annotation in every place and profile, and what the schema
// says beside it stays. The canonical schema has none of them.
func TestWordsAreShown(t *testing.T) {
	t.Parallel()
	const given = "What the overlay says."
	for _, tc := range []struct {
		message, field, instead, beside string
		comments                        bool
	}{
		{"ExpandRequest", "relations.v1.ExpandRequest.relation", "The relation whose users are wanted.", "", true},
		{"ExpandRequest", "relations.v1.ExpandRequest.relation", "Hidden by the comment.", "", false},
		{"CheckRequest", "relations.v1.Relation.object", "The object, as type:id.", "", false},
		{"GetStoreRequest", "relations.v1.GetStoreRequest.name", "", "Resource name of a relations.example.com/Store", false},
	} {
		md := shape(t, annotated(t, tc.comments), protoreflect.FullName("relations.v1."+tc.message))
		for _, profile := range []schema.Profile{schema.ProfileMCP, schema.ProfileStrict} {
			plain, err := schema.Derive(md, schema.Input, schema.Options{Profile: profile})
			if err != nil {
				t.Fatal(err)
			}
			s, err := schema.Derive(md, schema.Input, schema.Options{Profile: profile, Words: map[protoreflect.FullName]string{protoreflect.FullName(tc.field): given}})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(s.Advertised, []byte(given)) || !bytes.Contains(s.Advertised, []byte(tc.beside)) {
				t.Errorf("%s %s: the schema is %s", tc.field, profile, s.Advertised)
			}
			if tc.instead != "" && (bytes.Contains(s.Advertised, []byte(tc.instead)) || !bytes.Contains(plain.Advertised, []byte(tc.instead))) {
				t.Errorf("%s %s: the schema keeps what it had: %s", tc.field, profile, s.Advertised)
			}
			if !bytes.Equal(s.Canonical, plain.Canonical) {
				t.Errorf("%s %s: the canonical schema is %s", tc.field, profile, s.Canonical)
			}
			if !bytes.Equal(withoutTexts(t, s.Advertised), withoutTexts(t, plain.Advertised)) {
				t.Errorf("%s %s: more than texts changed: %s", tc.field, profile, s.Advertised)
			}
		}
	}
}

// TestWordsOfWrappedInputs describe the one member, in front of what the type says.
func TestWordsOfWrappedInputs(t *testing.T) {
	t.Parallel()
	for _, profile := range []schema.Profile{schema.ProfileMCP, schema.ProfileStrict} {
		for _, md := range []protoreflect.MessageDescriptor{(&wrapperspb.StringValue{}).ProtoReflect().Descriptor(), (&durationpb.Duration{}).ProtoReflect().Descriptor()} {
			name, err := schema.InputField(md, "value")
			if err != nil {
				t.Fatal(err)
			}
			s, err := schema.Derive(md, schema.Input, schema.Options{Profile: profile, Words: map[protoreflect.FullName]string{name: "How long."}})
			if err != nil {
				t.Fatal(err)
			}
			var doc struct {
				Properties map[string]struct{ Description string }
			}
			if err := json.Unmarshal(s.Advertised, &doc); err != nil {
				t.Fatal(err)
			}
			if got := doc.Properties["value"].Description; !strings.HasPrefix(got, "How long.") {
				t.Errorf("%s %s: the description is %q", md.FullName(), profile, got)
			}
			if bytes.Contains(s.Canonical, []byte("How long.")) {
				t.Errorf("the canonical schema is %s", s.Canonical)
			}
		}
	}
}
