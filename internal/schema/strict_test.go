// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Every schema of the strict profile has no keyword but those that OpenAI, Anthropic and Gemini all accept, in the form in
// which all accept them.
func TestStrictKeywords(t *testing.T) {
	t.Parallel()
	for _, md := range goldens(t) {
		root := strictInput(t, md, schema.Options{})
		if root["type"] != "object" {
			t.Errorf("%s: the root is of type %v", md.FullName(), root["type"])
		}
		for _, fault := range strictFaults("", root) {
			t.Errorf("%s%s", md.FullName(), fault)
		}
	}
}

func strictInput(t *testing.T, md protoreflect.MessageDescriptor, opts schema.Options) map[string]any {
	t.Helper()
	opts.Profile = schema.ProfileStrict
	s, err := schema.Derive(md, schema.Input, opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := schema.Compile(s.Advertised); err != nil {
		t.Fatalf("%s: %v", md.FullName(), err)
	}
	var root map[string]any
	if err := json.Unmarshal(s.Advertised, &root); err != nil {
		t.Fatal(err)
	}
	return root
}

// strictFaults lists what a provider would refuse. It is written from their documents, not from the code.
func strictFaults(at string, node map[string]any) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, at+": "+fmt.Sprintf(format, args...)) }
	for keyword := range node {
		switch keyword {
		case "type", "properties", "required", "additionalProperties", "items", "enum", "anyOf", "description":
		default:
			fault("keyword %s", keyword)
		}
	}
	if choices, ok := node["anyOf"].([]any); ok {
		if node["type"] != nil || at == "" {
			fault("anyOf beside a type, or at the root")
		}
		for i, choice := range choices {
			faults = append(faults, strictFaults(fmt.Sprintf("%s/anyOf/%d", at, i), choice.(map[string]any))...)
		}
		return faults
	}
	kind, _ := node["type"].(string)
	switch kind {
	case "string", "number", "integer", "boolean", "null":
	case "array":
		items, ok := node["items"].(map[string]any)
		if !ok {
			fault("an array without items")
		}
		faults = append(faults, strictFaults(at+"/items", items)...)
	case "object":
		properties, _ := node["properties"].(map[string]any)
		if len(properties) == 0 && at != "" {
			fault("an object without properties")
		}
		if node["additionalProperties"] != false {
			fault("additionalProperties %v", node["additionalProperties"])
		}
		required, _ := node["required"].([]any)
		for name, below := range properties {
			if !slices.Contains(required, any(name)) {
				fault("property %s is not required", name)
			}
			faults = append(faults, strictFaults(at+"/"+name, below.(map[string]any))...)
		}
		if len(required) != len(properties) {
			fault("%d required of %d properties", len(required), len(properties))
		}
	default:
		fault("type %v", node["type"])
	}
	if values, ok := node["enum"].([]any); ok {
		for _, v := range values {
			if _, isText := v.(string); !isText || kind != "string" {
				fault("enum value %v of type %s", v, kind)
			}
		}
	}
	return faults
}

// What the strict profile cannot show is named.
func TestStrictWarnings(t *testing.T) {
	t.Parallel()
	files := shapes(t)
	for name, want := range map[protoreflect.FullName]string{
		"shapes.v1.Payment":      "field shapes.v1.Payment.other omitted",
		"shapes.v1.Scalars":      "omitted: not all providers accept its JSON name",
		"google.protobuf.Struct": "accepts any object, which this profile cannot express",
	} {
		s, err := schema.Derive(shape(t, files, name), schema.Input, schema.Options{Profile: schema.ProfileStrict})
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(s.Warnings, "\n"); !strings.Contains(text, want) {
			t.Errorf("%s: warnings %q, want one that says %q", name, text, want)
		}
	}
}

// The profile changes what is shown, and nothing else.
func TestStrictKeepsCanonicalSchemas(t *testing.T) {
	t.Parallel()
	for _, md := range goldens(t) {
		for _, dir := range []schema.Direction{schema.Input, schema.Output} {
			mcp, err := schema.Derive(md, dir, schema.Options{})
			if err != nil {
				t.Fatal(err)
			}
			strict, err := schema.Derive(md, dir, schema.Options{Profile: schema.ProfileStrict})
			if err != nil {
				t.Fatal(err)
			}
			if string(mcp.Canonical) != string(strict.Canonical) || mcp.Wrapped != strict.Wrapped {
				t.Errorf("%s: the canonical schema depends on the profile", md.FullName())
			}
		}
	}
}

// A message that is too large is shown with less and less below the root, and then with text alone.
func TestStrictStaysWithinBounds(t *testing.T) {
	t.Parallel()
	md := shape(t, shapes(t), "google.protobuf.FileDescriptorProto")
	root := strictInput(t, md, schema.Options{})
	raw, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 32<<10 {
		t.Errorf("%d bytes", len(raw))
	}
	small := strictInput(t, md, schema.Options{MaxBytes: 12 << 10})
	properties, _ := small["properties"].(map[string]any)
	if len(properties) != md.Fields().Len() {
		t.Errorf("%d properties of %d fields", len(properties), md.Fields().Len())
	}
	if none := strictInput(t, md, schema.Options{MaxBytes: 100}); len(none["properties"].(map[string]any)) != 0 {
		t.Errorf("got %v, want an empty schema", none)
	}
}

func TestProfileNames(t *testing.T) {
	t.Parallel()
	for _, p := range []schema.Profile{schema.ProfileMCP, schema.ProfileStrict} {
		if got, err := schema.ParseProfile(p.String()); got != p || err != nil {
			t.Errorf("%s: got %v, %v", p, got, err)
		}
	}
	if _, err := schema.ParseProfile("loose"); err == nil || !strings.Contains(err.Error(), "use mcp or strict") {
		t.Errorf("got %v", err)
	}
}
