// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// TestOf reads one field of each kind of rule.
func TestOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		m     proto.Message
		field protoreflect.Name
		holds func(r schema.FieldRules) bool
	}{
		{new(outriggerv1.Icon), "src", func(r schema.FieldRules) bool { return r.URI && r.Required && r.MaxBytes == 262144 }},
		{new(outriggerv1.Icon), "theme", func(r schema.FieldRules) bool { return len(r.In) == 3 && !r.Required }},
		{new(outriggerv1.Icon), "sizes", func(r schema.FieldRules) bool {
			return r.MaxItems == 16 && r.Items.Required && r.Items.Pattern.MatchString("48x48") && !r.Items.Pattern.MatchString("48")
		}},
		{new(outriggerv1.Prompt), "name", func(r schema.FieldRules) bool { return r.Required && r.MinBytes == 1 && r.MaxBytes == 1024 }},
		{new(outriggerv1.Prompt), "title", func(r schema.FieldRules) bool { return !r.Required && r.MaxBytes == 1024 }},
		{new(outriggerv1.Implementation), "website_url", func(r schema.FieldRules) bool { return r.URI && !r.Required }},
		{new(outriggerv1.ImageContent), "data", func(r schema.FieldRules) bool { return r.Required && r.MaxBytes == 64<<20 }},
		{new(outriggerv1.LogMessage), "level", func(r schema.FieldRules) bool { return r.Required }},
		{new(outriggerv1.Sampling), "messages", func(r schema.FieldRules) bool { return r.Required && r.MaxItems == 1024 }},
		{new(outriggerv1.Sampling), "max_tokens", func(r schema.FieldRules) bool { return r.Required && *r.Min == 1 }},
		{new(outriggerv1.Resource), "size", func(r schema.FieldRules) bool { return !r.Required && *r.Min == 0 }},
		{new(outriggerv1.Annotations), "priority", func(r schema.FieldRules) bool { return r.Ranged && r.Low == 0 && r.High == 1 }},
		{new(outriggerv1.Sampling), "temperature", func(r schema.FieldRules) bool { return !r.Ranged }},
		{new(outriggerv1.ErrorObject), "code", func(r schema.FieldRules) bool { return r.Required }},
		{new(outriggerv1.ToolExecution), "timeout", func(r schema.FieldRules) bool { return r.MaxSeconds == 86400 }},
		{new(outriggerv1.Task), "created_at", func(r schema.FieldRules) bool { return r.Required }},
		{new(outriggerv1.Task), "input_requests", func(r schema.FieldRules) bool { return r.MaxItems == 64 && r.Keys.MaxBytes == 256 && r.Keys.Required }},
		{new(outriggerv1.RootsCapability), "list_changed", func(r schema.FieldRules) bool { return !r.Required && r.MaxBytes == 0 }},
		{new(outriggerv1.Icon), "none", func(r schema.FieldRules) bool { return !r.Required && r.MaxBytes == 0 }},
	} {
		if r := schema.FieldRulesOf(c.m, c.field); !c.holds(r) {
			t.Errorf("the rules of %s.%s are %+v", c.m.ProtoReflect().Descriptor().Name(), c.field, r)
		}
	}
	for name, want := range map[protoreflect.Name]bool{"block": true, "meta_form": false} {
		if od := new(outriggerv1.ContentBlock).ProtoReflect().Descriptor().Oneofs().ByName(name); schema.OneofRequired(od) != want {
			t.Errorf("%s is required: %v", name, !want)
		}
	}
}
