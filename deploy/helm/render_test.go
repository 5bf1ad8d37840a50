// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"slices"
	"strings"
	"testing"

	kyaml "go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

// values are those that a user gives a chart.
type values = map[string]any

// release is what templates know about a release.
var release = chartutil.ReleaseOptions{Name: "outrigger", Namespace: "outrigger-system", Revision: 1, IsInstall: true}

// load loads a chart. Its symbolic links would be logged.
func load(t testing.TB, folder string) *chart.Chart {
	t.Helper()
	log.SetOutput(io.Discard)
	c, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rendered is the text of every template of a chart, by path.
func rendered(c *chart.Chart, v values, o chartutil.ReleaseOptions) (map[string]string, error) {
	return renderedFor("v1.34.4", c, v, o)
}

// renderedFor does so for a version of Kubernetes.
func renderedFor(version string, c *chart.Chart, v values, o chartutil.ReleaseOptions) (map[string]string, error) {
	kube, err := chartutil.ParseKubeVersion(version)
	if err != nil {
		return nil, err
	}
	if v == nil {
		v = values{}
	}
	if err := chartutil.ProcessDependenciesWithMerge(c, v); err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(c, v, o, &chartutil.Capabilities{KubeVersion: *kube, APIVersions: chartutil.DefaultVersionSet})
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

// parse reads values in YAML.
func parse(t testing.TB, text string) values {
	t.Helper()
	var v values
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// object is one of Kubernetes.
type object map[string]any

func (o object) meta() map[string]any { m, _ := o["metadata"].(map[string]any); return m }

func (o object) key() string { return fmt.Sprintf("%s/%s", o["kind"], o.meta()["name"]) }

// objects are those of YAML documents, by kind and name.
func objects(t testing.TB, text string) map[string]object {
	t.Helper()
	all := map[string]object{}
	for d := kyaml.NewDecoder(strings.NewReader(text)); ; {
		var node kyaml.Node
		if err := d.Decode(&node); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		one, err := kyaml.Marshal(&node)
		if err != nil {
			t.Fatal(err)
		}
		var o object
		// The types that JSON has, as the API server gets them.
		if err := yaml.Unmarshal(one, &o); err != nil {
			t.Fatal(err)
		}
		if len(o) == 0 {
			continue
		}
		if _, twice := all[o.key()]; twice {
			t.Errorf("%s is there twice", o.key())
		}
		all[o.key()] = o
	}
}

// render is all that a chart renders, in the order of paths, without notes.
func render(t testing.TB, c *chart.Chart, v values, o chartutil.ReleaseOptions) string {
	t.Helper()
	files, err := rendered(c, v, o)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.TrimSpace(files[name]) != "" && strings.HasSuffix(name, ".yaml") {
			fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", name, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(files[name]), "---")))
		}
	}
	return out.String()
}
