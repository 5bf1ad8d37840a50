// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

func strictOutput(t *testing.T, md protoreflect.MessageDescriptor, opts schema.Options) (map[string]any, *schema.Validator, []byte) {
	t.Helper()
	opts.Profile = schema.ProfileStrict
	s, err := schema.Derive(md, schema.Output, opts)
	if err != nil {
		t.Fatal(err)
	}
	v, err := schema.Compile(s.Advertised)
	if err != nil {
		t.Fatalf("%s: %v", md.FullName(), err)
	}
	var root map[string]any
	if err := json.Unmarshal(s.Advertised, &root); err != nil {
		t.Fatal(err)
	}
	return root, v, s.Advertised
}

// Strict outputs have no references and no lists of types, and no keyword that a provider refuses.
func TestStrictOutputKeywords(t *testing.T) {
	t.Parallel()
	for _, md := range goldens(t) {
		root, _, _ := strictOutput(t, md, schema.Options{})
		if root["type"] != "object" {
			t.Errorf("%s: the root is of type %v", md.FullName(), root["type"])
		}
		for _, fault := range strictOutputFaults("", root) {
			t.Errorf("%s%s", md.FullName(), fault)
		}
	}
}

func strictOutputFaults(at string, node map[string]any) (faults []string) {
	for keyword, value := range node {
		switch keyword {
		case "type":
			if _, ok := value.(string); !ok {
				faults = append(faults, fmt.Sprintf("%s: type %v", at, value))
			}
		case "description", "required":
		case "enum":
			for _, v := range value.([]any) {
				if _, ok := v.(string); !ok || node["type"] != "string" {
					faults = append(faults, fmt.Sprintf("%s: enum value %v of type %v", at, v, node["type"]))
				}
			}
		case "properties":
			for name, below := range value.(map[string]any) {
				faults = append(faults, strictOutputFaults(at+"/"+name, below.(map[string]any))...)
			}
		case "items", "additionalProperties":
			if below, ok := value.(map[string]any); ok {
				faults = append(faults, strictOutputFaults(at+"/"+keyword, below)...)
			}
		case "anyOf":
			for i, below := range value.([]any) {
				faults = append(faults, strictOutputFaults(fmt.Sprintf("%s/anyOf/%d", at, i), below.(map[string]any))...)
			}
		default:
			faults = append(faults, at+": keyword "+keyword)
		}
	}
	slices.Sort(faults)
	return faults
}

// What the transcoder writes matches the strict schema, also where that leaves out what contains itself.
func TestStrictOutputsAdmitResults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		message protoreflect.FullName
		doc     string
		isValid bool
	}{
		{"google.protobuf.Timestamp", `{"value":"2026-01-01T00:00:00Z"}`, true},
		{"google.protobuf.Timestamp", `{"value":5}`, false},
		{"google.protobuf.Value", `{"value":[1,"a",null]}`, true},
		{"google.protobuf.Struct", `{"a":{"b":1}}`, true},
		{"google.protobuf.Empty", `{}`, true},
	} {
		_, v, raw := strictOutput(t, shape(t, shapes(t), tt.message), schema.Options{})
		found, err := v.Validate([]byte(tt.doc))
		if err != nil || (len(found) == 0) != tt.isValid {
			t.Errorf("%s: %s: %v %v\n%s", tt.message, tt.doc, found, err, raw)
		}
	}
}

// A message within itself is shown twice, and then as an open object; one that is too large is shown with less.
func TestStrictOutputsEnd(t *testing.T) {
	t.Parallel()
	md := shape(t, shapes(t), "google.protobuf.FileDescriptorProto")
	_, _, raw := strictOutput(t, md, schema.Options{})
	if len(raw) > 32<<10 || bytes.Contains(raw, []byte("$ref")) {
		t.Errorf("%d bytes", len(raw))
	}
	_, v, node := strictOutput(t, shape(t, shapes(t), "shapes.v1.Node"), schema.Options{})
	if strings.Count(string(node), `"parent":`) < 2 {
		t.Errorf("a node is shown once:\n%s", node)
	}
	mcp, err := schema.Derive(shape(t, shapes(t), "shapes.v1.Node"), schema.Output, schema.Options{})
	if err != nil {
		t.Fatal(err)
	}
	full, err := schema.Compile(mcp.Advertised)
	if err != nil {
		t.Fatal(err)
	}
	doc := `{}`
	if root, ok := full.Document().(map[string]any); ok {
		doc = emptyOf(root)
	}
	bare := strings.TrimSuffix(doc, "}")
	if len(bare) > 1 {
		bare += ","
	}
	for range 8 {
		doc = bare + `"parent":` + doc + "}"
		for which, one := range map[string]*schema.Validator{"mcp": full, "strict": v} {
			if found, err := one.Validate([]byte(doc)); err != nil || len(found) > 0 {
				t.Fatalf("%s: %v %v", which, found, err)
			}
		}
	}
}

// emptyOf is the smallest object that has the required members of a schema: lists, maps and texts.
func emptyOf(root map[string]any) string {
	properties, _ := root["properties"].(map[string]any)
	var members []string
	required, _ := root["required"].([]any)
	for _, name := range required {
		below, _ := properties[name.(string)].(map[string]any)
		value := map[any]string{"string": `""`, "array": "[]", "object": "{}", "boolean": "false", "integer": "0", "number": "0"}[below["type"]]
		members = append(members, fmt.Sprintf("%q:%s", name, value))
	}
	return "{" + strings.Join(members, ",") + "}"
}
