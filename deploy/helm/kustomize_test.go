// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/outrigger-mcp/outrigger/deploy/k8s"
)

// mayDiffer is all in which the charts and Kustomize's manifests differ. Each is
// found by some case of TestAsKustomize, or the test fails.
func mayDiffer() map[string]*regexp.Regexp {
	all := map[string]*regexp.Regexp{}
	for why, pattern := range map[string]string{
		"Helm's labels":                                   `^\S+ metadata\.labels\.(helm\.sh/chart|app\.kubernetes\.io/(instance|version|managed-by)): `,
		"labels on all objects":                           `^\S+ metadata\.labels\.app\.kubernetes\.io/name: `,
		"the release's namespace":                         `^\S+ metadata\.namespace: `,
		"--create-namespace makes the namespace":          `^Namespace/`,
		"the chart names the sidecar's image":             `^Deployment/outrigger-injector spec\.template\.spec\.containers\.0\.args\.1: --image=`,
		"the configuration is named after its Deployment": `^ConfigMap/fleet-outrigger metadata\.name: |^Deployment/fleet .*\.configMap\.name: (fleet-)?outrigger$`,
		"the ConfigMap of descriptors is the user's":      `^ConfigMap/outrigger-descriptors `,
		"the example's rollout strategy":                  `^Deployment/fleet spec\.strategy\.`,
	} {
		all[why] = regexp.MustCompile(pattern)
	}
	return all
}

// TestAsKustomize renders every example of deploy/k8s that the charts can be, and
// compares the objects.
func TestAsKustomize(t *testing.T) {
	configuration := func(component string) values {
		text, err := os.ReadFile(filepath.Join("../k8s/components", component, "sidecar.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		config := parse(t, string(text))
		delete(config, "state") // the chart writes it
		return config
	}
	found := map[string]bool{}
	for example, tc := range map[string]struct {
		chart, values string
		config        values
		nats          bool
	}{
		"injector": {"outrigger", "injector: {image: registry.example/outrigger/injector:0.1.0-dev, sidecarImage: registry.example/outrigger/sidecar:0.1.0-dev}", nil, false},
		"minimal":  {"examples/fleet", "{}", nil, false},
		"records":  {"examples/fleet", "outrigger-sidecar: {auth: none, records: {enabled: true}}", nil, false},
		"unix-socket": {
			"examples/fleet", `outrigger-sidecar: {port: "", unixSocket: {enabled: true}}`, nil, false,
		},
		"descriptors": {"examples/fleet", "outrigger-sidecar: {descriptorsConfigMap: outrigger-descriptors}", nil, false},
		"production": {"examples/fleet", `
replicas: 2
outrigger-sidecar:
  port: ""
  stateKeySecret: outrigger-state
  podDisruptionBudget: {enabled: true}
  networkPolicy: {enabled: true}
  podMonitor: {enabled: true}
  telemetry: {enabled: true}
  httpRoute: {enabled: true, hostnames: [fleet.example.com]}
  grpcRoute: {enabled: true, hostnames: [fleet.example.com]}
`, configuration("configuration"), false},
		"shared-state": {"examples/fleet", `
replicas: 2
outrigger-sidecar:
  port: ""
  stateKeySecret: outrigger-state
  podDisruptionBudget: {enabled: true}
  networkPolicy: {enabled: true}
  nats:
    address: nats://outrigger-nats-0.outrigger-nats:4222,nats://outrigger-nats-1.outrigger-nats:4222,nats://outrigger-nats-2.outrigger-nats:4222
`, configuration("shared-state"), true},
	} {
		t.Run(example, func(t *testing.T) {
			v := parse(t, tc.values)
			if tc.config != nil {
				v["outrigger-sidecar"].(map[string]any)["config"] = tc.config
			}
			o := release
			text := render(t, load(t, tc.chart), v, o)
			if tc.nats {
				text += render(t, load(t, "outrigger"), parse(t, "injector: {enabled: false}\nnats: {enabled: true}"), o)
			}
			want, err := k8s.Render(filepath.Join("../k8s/examples", example))
			if err != nil {
				t.Fatal(err)
			}
			got, expected := flat(t, text), flat(t, string(want))
			for n, line := range expected {
				expected[n] = strings.Replace(line, "ConfigMap/outrigger ", "ConfigMap/fleet-outrigger ", 1)
			}
			slices.Sort(expected)
			for _, line := range changes(expected, got) {
				why := ""
				for reason, pattern := range mayDiffer() {
					if pattern.MatchString(line[2:]) {
						why = reason
					}
				}
				if found[why] = true; why == "" {
					t.Error(line)
				}
			}
		})
	}
	for why := range mayDiffer() {
		if !found[why] {
			t.Errorf("nothing differs because %s; remove it", why)
		}
	}
}

// hashed is a name with the hash that Kustomize and the charts put behind it.
func hashed() *regexp.Regexp { return regexp.MustCompile(`^(.*outrigger.*)-[a-z0-9]{10}$`) }

// flat is every field of the objects, as "Kind/name path: value". Lists with names are sorted, texts in YAML are parsed.
func flat(t testing.TB, text string) []string {
	t.Helper()
	var out []string
	for _, o := range objects(t, text) {
		out = append(out, fields(hashed().ReplaceAllString(o.key(), "$1")+" ", map[string]any(o))...)
	}
	slices.Sort(out)
	return out
}

// fieldsOf are the fields of one value, sorted.
func fieldsOf(v values) []string {
	out := fields("", v)
	slices.Sort(out)
	return out
}

func fields(path string, v any) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if text, ok := v[key].(string); ok && (key == "sidecar.yaml" || key == "nats.conf") {
				var file any
				if yaml.Unmarshal([]byte(text), &file) == nil && key == "sidecar.yaml" {
					out = append(out, fields(path+key+".", file)...)
					continue
				}
			}
			out = append(out, fields(path+key+".", v[key])...)
		}
		if len(v) == 0 {
			out = append(out, strings.TrimSuffix(path, ".")+": {}")
		}
	case []any:
		for n, item := range v {
			name := fmt.Sprint(n)
			if m, ok := item.(map[string]any); ok && !strings.Contains(path, "ontainers.") || ok && strings.HasSuffix(path, ".env.") || ok && strings.HasSuffix(path, ".volumeMounts.") {
				for _, key := range []string{"mountPath", "name"} {
					if s, ok := m[key].(string); ok {
						name = s
						break
					}
				}
			}
			out = append(out, fields(path+name+".", item)...)
		}
		if len(v) == 0 {
			out = append(out, strings.TrimSuffix(path, ".")+": []")
		}
	default:
		text := fmt.Sprint(v)
		if strings.HasSuffix(path, ".name.") {
			text = hashed().ReplaceAllString(text, "$1")
		}
		out = append(out, strings.TrimSuffix(path, ".")+": "+text)
	}
	return out
}

// changes are the lines that only one of two sorted lists has, with "- " for the
// first and "+ " for the second.
func changes(before, after []string) []string {
	var out []string
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(after) == 0 || len(before) > 0 && before[0] < after[0]:
			out, before = append(out, "- "+before[0]), before[1:]
		case len(before) == 0 || after[0] < before[0]:
			out, after = append(out, "+ "+after[0]), after[1:]
		default:
			before, after = before[1:], after[1:]
		}
	}
	return out
}

// TestObservability compares what the chart renders with the dashboards and rules of deploy/observability.
func TestObservability(t *testing.T) {
	all := objects(t, render(t, load(t, "outrigger"), parse(t, "{dashboards: {enabled: true}, alerts: {enabled: true}}"), release))
	for _, name := range []string{"outrigger", "outrigger-fleet"} {
		want, err := os.ReadFile("../observability/dashboards/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		data, _ := all["ConfigMap/"+name+"-dashboard"]["data"].(map[string]any)
		if data[name+".json"] != string(want) {
			t.Errorf("the dashboard %s is another one", name)
		}
	}
	var want []any
	for _, name := range []string{"recording", "alerts"} {
		text, err := os.ReadFile("../observability/rules/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, parse(t, string(text))["groups"].([]any)...)
	}
	spec, _ := all["PrometheusRule/outrigger"]["spec"].(map[string]any)
	if diff := cmp.Diff(want, spec["groups"]); diff != "" {
		t.Errorf("the rules are others (-files +rendered):\n%s", diff)
	}
}
