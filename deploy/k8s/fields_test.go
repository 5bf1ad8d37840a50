// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// ofOthers are the groups whose resource definitions a cluster has from elsewhere.
func ofOthers() []string {
	return []string{"monitoring.coreos.com/", "gateway.networking.k8s.io/", "cert-manager.io/"}
}

// newer are fields that Kubernetes has and kustomize's schema, which is older, has not.
func newer() []string {
	return []string{"lifecycle.preStop.sleep", "initContainers[0].restartPolicy", "spec.unhealthyPodEvictionPolicy"}
}

// TestFieldsAreKnown compares the fields of every object with Kubernetes' own schema, as kustomize has it: an API server drops
// a field that it does not know.
func TestFieldsAreKnown(t *testing.T) {
	t.Parallel()
	for _, name := range examples(t) {
		text, err := Render(filepath.Join("examples", name))
		if err != nil {
			t.Fatal(err)
		}
		checked := 0
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			node, err := yaml.Parse(document)
			if err != nil {
				t.Fatal(err)
			}
			meta := yaml.TypeMeta{APIVersion: node.GetApiVersion(), Kind: node.GetKind()}
			if slices.ContainsFunc(ofOthers(), func(group string) bool { return strings.HasPrefix(meta.APIVersion, group) }) {
				continue
			}
			schema := openapi.SchemaForResourceType(meta)
			if schema == nil {
				t.Errorf("%s: no schema of %v", name, meta)
				continue
			}
			for _, unknown := range unknownFields(node, schema, meta.Kind) {
				t.Errorf("%s: %s", name, unknown)
			}
			checked++
		}
		if checked == 0 {
			t.Errorf("%s: nothing was checked", name)
		}
	}
	node := yaml.MustParse("apiVersion: apps/v1\nkind: StatefulSet\nspec: {template: {spec: {containers: [{name: a, redinessProbe: {}}]}}}\n")
	got := unknownFields(node, openapi.SchemaForResourceType(yaml.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}), "StatefulSet")
	if want := []string{"StatefulSet.spec.template.spec.containers[0].redinessProbe is unknown"}; !slices.Equal(got, want) {
		t.Errorf("a field that is misspelled: %q, want %q", got, want)
	}
}

// unknownFields lists the fields that the schema does not have.
func unknownFields(node *yaml.RNode, schema *openapi.ResourceSchema, path string) []string {
	var out []string
	switch node.YNode().Kind {
	case yaml.MappingNode:
		_ = node.VisitFields(func(f *yaml.MapNode) error {
			name := f.Key.YNode().Value
			inner := schema.Field(name)
			if inner == nil {
				field := path + "." + name
				if !slices.ContainsFunc(newer(), func(one string) bool { return strings.HasSuffix(field, one) }) {
					out = append(out, field+" is unknown")
				}
				return nil
			}
			out = append(out, unknownFields(f.Value, inner, path+"."+name)...)
			return nil
		})
	case yaml.SequenceNode:
		elements, err := node.Elements()
		inner := schema.Elements()
		if err != nil || inner == nil {
			return out
		}
		for n, element := range elements {
			out = append(out, unknownFields(element, inner, fmt.Sprintf("%s[%d]", path, n))...)
		}
	case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
	}
	return out
}
