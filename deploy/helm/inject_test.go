// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"maps"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/outrigger-mcp/outrigger/deploy/inject"
)

// TestAsInjected compares the library chart with the injector: annotations and values of the same meaning give the same pod.
func TestAsInjected(t *testing.T) {
	const (
		image = "registry.example/outrigger/sidecar:0.1.0-dev"
		plain = "{metadata: {labels: {app: shop}}, spec: {containers: [{name: shop, image: shop, ports: [{name: grpc, containerPort: 9090}]}]}}"
		full  = `{metadata: {labels: {app: shop}, annotations: {a: b}}, spec: {terminationGracePeriodSeconds: 600, initContainers: [{name: migrate, image: m}],
  securityContext: {runAsUser: 1000720000}, volumes: [{name: data, emptyDir: {}}], containers: [
  {name: shop, image: shop, lifecycle: {preStop: {exec: {command: [stop]}}}, ports: [{containerPort: 9090}, {name: web, containerPort: 80}, {name: dns, containerPort: 53, protocol: UDP}]},
  {name: proxy, image: p, lifecycle: {postStart: {exec: {command: [start]}}}}]}}`
	)
	tried := map[string]bool{"restart-missed": true} // a pod of a chart is never missed
	for name, tc := range map[string]struct {
		pod, annotations, values string
	}{
		"nothing set":        {plain, `{}`, `{}`},
		"everything there":   {full, `{port: "9090"}`, `{port: 9090}`},
		"a named port":       {full, `{port: web}`, `{port: web}`},
		"protocol":           {plain, `{protocol: grpcweb}`, `{protocol: grpcweb}`},
		"config map":         {plain, `{config-map: ours}`, `{configMap: ours}`},
		"config map and key": {plain, `{config-map: ours/file.yaml, port: "9090"}`, `{configMap: ours/file.yaml, port: 9090}`},
		"auth config":        {plain, `{config-map: ours, auth: config}`, `{configMap: ours, auth: config}`},
		"auth none":          {plain, `{auth: none}`, `{auth: none}`},
		"callers":            {plain, `{callers-secret: ours}`, `{callersSecret: ours}`},
		"image":              {plain, `{image: "registry.example/ours:1"}`, `{image: "registry.example/ours:1"}`},
		"resources": {
			plain, `{cpu-request: 100m, cpu-limit: "1", memory-request: 128Mi, memory-limit: 1Gi}`,
			`{resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {cpu: 1, memory: 1Gi}}}`,
		},
		"ports":        {plain, `{listen-port: "18080", admin-port: "19901", health-port: "19902"}`, `{listenPort: 18080, adminPort: 19901, healthPort: 19902}`},
		"token":        {plain, `{identity: token, identity-audience: "https://shop.example"}`, `{identity: token, identityAudience: "https://shop.example"}`},
		"spiffe":       {plain, `{identity: spiffe}`, `{identity: spiffe}`},
		"user":         {plain, `{run-as-user: "1000720000"}`, `{runAsUser: 1000720000}`},
		"user of none": {plain, `{run-as-user: namespace}`, `{runAsUser: namespace}`},
		"sleep":        {full, `{port: "9090", app-sleep: 10s}`, `{port: 9090, appSleepSeconds: 10}`},
	} {
		t.Run(name, func(t *testing.T) {
			v := values{"image": image, "appSleepSeconds": 0}
			maps.Copy(v, parse(t, tc.values))
			got := render(t, team(t, tc.pod, podTemplate), values{"outrigger-sidecar": v}, release)

			pod := parse(t, tc.pod)
			annotations := map[string]any{}
			for key, value := range parse(t, tc.annotations) {
				tried[key] = true
				annotations[inject.Prefix+key] = value
			}
			meta := pod["metadata"].(map[string]any)
			if old, ok := meta["annotations"].(map[string]any); ok {
				maps.Copy(annotations, old)
			}
			meta["annotations"] = annotations
			text, err := yaml.Marshal(values{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": values{"name": "shop"}, "spec": values{"template": pod}})
			if err != nil {
				t.Fatal(err)
			}
			injector, err := inject.New(inject.Options{Image: image})
			if err != nil {
				t.Fatal(err)
			}
			out, results, err := injector.Documents(text, inject.Manifest{All: true})
			if err != nil || len(results) != 1 || results[0].Decision.Outcome != inject.Injected {
				t.Fatalf("%v %v", results, err)
			}
			injected := parse(t, string(out))["spec"].(map[string]any)["template"].(map[string]any)
			left := injected["metadata"].(map[string]any)["annotations"].(map[string]any)
			maps.DeleteFunc(left, func(key string, _ any) bool { return strings.HasPrefix(key, inject.Prefix) })
			if len(left) == 0 {
				delete(injected["metadata"].(map[string]any), "annotations")
			}
			for _, line := range changes(fieldsOf(injected), fieldsOf(parse(t, got))) {
				t.Error(line)
			}
		})
	}
	for _, a := range inject.Annotations() {
		if !tried[a.Name] {
			t.Errorf("no case has the annotation %s; give the library chart a value for it", a.Name)
		}
	}
}
