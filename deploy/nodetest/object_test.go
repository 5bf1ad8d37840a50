// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/outrigger-mcp/outrigger/deploy/k8s"
	"github.com/outrigger-mcp/outrigger/deploy/node"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// namespace is where everything is put. Pod Security is enforced there.
const namespace = "fleet"

// object is one of Kubernetes, as YAML has it.
type object map[string]any

func (o object) kind() string { return fmt.Sprint(o["kind"]) }

func (o object) meta() map[string]any {
	meta, _ := o["metadata"].(map[string]any)
	return meta
}

func (o object) name() string { return fmt.Sprint(o.meta()["name"]) }

// at returns what is at a path of maps.
func (o object) at(path ...string) any {
	var here any = map[string]any(o)
	for _, key := range path {
		m, ok := here.(map[string]any)
		if !ok {
			return nil
		}
		here = m[key]
	}
	return here
}

// plurals are the resources of kinds, by the last part of their path.
func plurals() map[string]string {
	return map[string]string{
		"Namespace": "namespaces", "ServiceAccount": "serviceaccounts", "ConfigMap": "configmaps", "Secret": "secrets", "Service": "services",
		"Pod": "pods", "Deployment": "deployments", "StatefulSet": "statefulsets", "PodDisruptionBudget": "poddisruptionbudgets", "NetworkPolicy": "networkpolicies",
		"PodMonitor": "podmonitors", "HTTPRoute": "httproutes", "GRPCRoute": "grpcroutes", "CustomResourceDefinition": "customresourcedefinitions",
		"DaemonSet": "daemonsets", "Job": "jobs", "CronJob": "cronjobs", "Role": "roles", "RoleBinding": "rolebindings", "ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings",
		"MutatingWebhookConfiguration": "mutatingwebhookconfigurations", "Issuer": "issuers", "Certificate": "certificates",
	}
}

// namespaced reports whether objects of a kind are in a namespace.
func namespaced(kind string) bool {
	return !slices.Contains([]string{"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "MutatingWebhookConfiguration"}, kind)
}

// path is where the API server has the object.
func (o object) path() (string, error) {
	plural, ok := plurals()[o.kind()]
	if !ok {
		return "", fmt.Errorf("the test does not know where objects of kind %s are", o.kind())
	}
	version := fmt.Sprint(o["apiVersion"])
	root := "/apis/" + version
	if !strings.Contains(version, "/") {
		root = "/api/" + version
	}
	if namespaced(o.kind()) {
		in, ok := o.meta()["namespace"].(string)
		if !ok {
			in = namespace
		}
		root += "/namespaces/" + in
	}
	return root + "/" + plural + "/" + o.name(), nil
}

// objects reads YAML documents.
func objects(t *testing.T, text []byte) []object {
	t.Helper()
	var out []object
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var o map[string]any // and not object, or the decoder would make every map in it one
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if o != nil {
			out = append(out, o)
		}
	}
}

// render returns the objects of an example, in the namespace of the tests.
func render(t *testing.T, example string) []object {
	t.Helper()
	return renderIn(t, example, namespace, func(text string) string { return text })
}

// renderIn returns the objects of an example in a namespace, after a change of their text.
func renderIn(t *testing.T, example, namespace string, change func(text string) string) []object {
	t.Helper()
	text, err := k8s.Render(filepath.Join("..", "k8s", "examples", example))
	if err != nil {
		t.Fatal(err)
	}
	all := objects(t, []byte(change(string(text))))
	for _, o := range all {
		if namespaced(o.kind()) {
			o.meta()["namespace"] = namespace
		}
	}
	return all
}

// apply applies an object, and wants neither error nor warning.
func apply(t *testing.T, n *node.Node, o object, dryRun bool) {
	t.Helper()
	path, err := o.path()
	if err != nil {
		t.Fatal(err)
	}
	warnings, err := n.API().Apply(t.Context(), path, o, dryRun)
	if err != nil {
		t.Fatalf("%s %s: %v", o.kind(), o.name(), err)
	}
	for _, warning := range warnings {
		t.Errorf("%s %s: warning: %s", o.kind(), o.name(), warning)
	}
}

// podOf makes the pod that a Deployment's controller would make, on the node.
func podOf(t *testing.T, deployment object, name string) object {
	t.Helper()
	template, ok := deployment.at("spec", "template").(map[string]any)
	if !ok {
		t.Fatalf("the Deployment %s has no template", deployment.name())
	}
	spec := maps.Clone(template["spec"].(map[string]any))
	spec["nodeName"] = node.Name
	return object{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": name, "namespace": namespace, "labels": template["metadata"].(map[string]any)["labels"]},
		"spec":     spec,
	}
}

// container returns a container of a pod by its name, for changing it.
func (o object) container(t *testing.T, name string) map[string]any {
	t.Helper()
	for _, list := range []string{"initContainers", "containers"} {
		all, _ := o.at("spec", list).([]any)
		for _, c := range all {
			if m, ok := c.(map[string]any); ok && m["name"] == name {
				return m
			}
		}
	}
	t.Fatalf("pod %s has no container %s", o.name(), name)
	return nil
}

// copyOf is a deep copy.
func copyOf(t *testing.T, o object) object {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var out object
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// installDefinitions installs the custom resource definitions in folders, and
// waits until the API server serves them.
func installDefinitions(t *testing.T, n *node.Node, folders []string) {
	t.Helper()
	wanted := map[string]bool{"PodMonitor": true, "HTTPRoute": true, "GRPCRoute": true, "Issuer": true, "Certificate": true}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range objects(t, text) {
				kind := fmt.Sprint(o.at("spec", "names", "kind"))
				if o.kind() != "CustomResourceDefinition" || !wanted[kind] {
					continue
				}
				delete(o.meta(), "labels") // cert-manager's are templates of its chart
				apply(t, n, o, false)
				delete(wanted, kind)
				path, err := o.path()
				if err != nil {
					t.Fatal(err)
				}
				testkit.Try(t, kind+" is served", func() error { return established(t, n, path) })
			}
		}
	}
	if len(wanted) > 0 {
		t.Fatalf("there is no definition of %v", wanted)
	}
}

func established(t *testing.T, n *node.Node, path string) error {
	t.Helper()
	var definition struct {
		Status struct{ Conditions []node.Condition }
	}
	if err := n.API().Get(t.Context(), path, &definition); err != nil {
		return err
	}
	for _, c := range definition.Status.Conditions {
		if c.Type == "Established" && c.Status == "True" {
			return nil
		}
	}
	return errors.New("not yet")
}
