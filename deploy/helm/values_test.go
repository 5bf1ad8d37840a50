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
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

// effects are values of a chart by which all that the chart has are set. What each of them changes is in a golden.
type effects struct {
	// folder is the chart that is rendered, below is where its own values begin, and of are the folders whose values they are.
	folder, below string
	of            map[string]string
	// with are values that hold in all cases.
	with   string
	values []string
}

func allEffects() map[string]effects {
	return map[string]effects{
		"outrigger": {folder: "outrigger", of: map[string]string{"outrigger": ""}, values: []string{
			`image: {registry: "registry.example:5000/ours"}`,
			`image: {tag: 0.2.0}`,
			`image: {pullSecrets: [registry]}`,
			`injector: {enabled: false}`,
			`injector: {image: "registry.example/injector@sha256:0", sidecarImage: "registry.example/sidecar:1"}`,
			`injector: {replicas: 3, podDisruptionBudget: {minAvailable: 2}}`,
			`injector: {neverNamespaces: [payments, kube-system]}`,
			`injector: {failurePolicy: Fail, timeoutSeconds: 10}`,
			`injector: {sweepInterval: 5m, restartsPerMinute: 0, logLevel: debug}`,
			`injector: {resources: {requests: {cpu: 100m, memory: 96Mi}, limits: {memory: 256Mi}}}`,
			`injector: {nodeSelector: {kubernetes.io/arch: arm64}, tolerations: [{key: system, operator: Exists}], priorityClassName: system-cluster-critical}`,
			`injector: {certManager: {enabled: true, issuer: {kind: ClusterIssuer, name: ours}}}`,
			`injector: {networkPolicy: {enabled: false}}`,
			`injector: {networkPolicy: {monitoringNamespace: observability}}`,
			`injector: {podDisruptionBudget: {enabled: false}}`,
			`injector: {serviceMonitor: {enabled: true, interval: 1m, labels: {release: prometheus}}}`,
			`podMonitor: {enabled: true, interval: 30s, labels: {release: prometheus}}`,
			`alerts: {enabled: true, labels: {release: prometheus}}`,
			`dashboards: {enabled: true, labels: {grafana_dashboard: null, team: agents}, annotations: {grafana_folder: Agents}}`,
			`nats: {enabled: true}`,
		}},
		"nats": {folder: "outrigger", with: `nats: {enabled: true}`, of: map[string]string{"outrigger/charts/nats": "nats."}, values: []string{
			`nats: {image: "registry.example/nats:2.12", secret: nkeys, storage: 10Gi, storageClass: fast, resources: {requests: {cpu: 1, memory: 512Mi}, limits: {memory: 1Gi}}, antiAffinity: preferred}`,
			`nats: {networkPolicy: {clientNamespaces: [shop, billing], monitoringNamespace: observability}}`,
			`nats: {networkPolicy: {enabled: false}, podDisruptionBudget: {enabled: false}}`,
		}},
		"outrigger-sidecar": {folder: "examples/fleet", below: "outrigger-sidecar", of: map[string]string{"outrigger-sidecar": ""}, values: []string{
			`image: registry.example/sidecar:1`,
			`port: 9090`,
			`protocol: grpcs`,
			`{port: "", unixSocket: {enabled: true}}`,
			`config: {backend: {url: "grpc://127.0.0.1:1"}, timeout: 5s}`,
			`configMap: ours/file.yaml`,
			`{auth: config, configMap: ours}`,
			`auth: none`,
			`callersSecret: ours`,
			`{listenPort: 18080, adminPort: 19901, healthPort: 19902, networkPolicy: {enabled: true}, telemetry: {enabled: true}, grpcRoute: {enabled: true}}`,
			`resources: {requests: {cpu: 1, memory: 128Mi}, limits: {cpu: 1, memory: 256Mi}}`,
			`runAsUser: namespace`,
			`{identity: token, identityAudience: "https://shop.example"}`,
			`identity: spiffe`,
			`appSleepSeconds: 0`,
			`descriptorsConfigMap: ours`,
			`records: {enabled: true}`,
			`stateKeySecret: ours`,
			`{stateKeySecret: ours, nats: {address: "nats://nats.example:4222", nkeySecret: nkeys, copies: 1}}`,
			`telemetry: {enabled: true, endpoint: "http://collector.example:4318"}`,
			`service: {enabled: false}`,
			`{service: {name: fleet-mcp}, httpRoute: {enabled: true}, grpcRoute: {enabled: true}}`,
			`networkPolicy: {enabled: true, monitoringNamespace: observability}`,
			`{auth: none, networkPolicy: {ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: gateways}}}], ports: [{protocol: TCP, port: 8080}]}]}}`,
			`podDisruptionBudget: {enabled: true}`,
			`podMonitor: {enabled: true, interval: 1m}`,
			`httpRoute: {enabled: true, gateway: front, hostnames: [fleet.example.com]}`,
			`grpcRoute: {enabled: true, gateway: front, hostnames: ["*.example.com"]}`,
		}},
	}
}

func (e effects) set(t testing.TB, text string) values {
	t.Helper()
	v := parse(t, text)
	if e.below != "" {
		v = values{e.below: v}
	}
	return chartutil.CoalesceTables(v, parse(t, e.with))
}

// TestEffects compares what each value changes with a golden.
func TestEffects(t *testing.T) {
	for name, e := range allEffects() {
		t.Run(name, func(t *testing.T) {
			before := flat(t, render(t, load(t, e.folder), e.set(t, "{}"), release))
			got := "# What values change in what the chart renders. `make helm-generate` writes this file.\n"
			for _, text := range e.values {
				changed := shortened(changes(before, flat(t, render(t, load(t, e.folder), e.set(t, text), release))))
				if len(changed) == 0 {
					t.Errorf("%s changes nothing", text)
				}
				got += "\n" + text + "\n  " + strings.Join(changed, "\n  ") + "\n"
			}
			golden := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s is not what it was (-golden +rendered); `make helm-generate` accepts it:\n%s", golden, diff)
			}
		})
	}
}

// shortened leaves out the fields of rules, and what texts say: they are those of deploy/observability. Of an object that is
// gone, it leaves the name.
func shortened(lines []string) []string {
	gone := map[string]bool{}
	for _, line := range lines {
		if object, ok := strings.CutSuffix(line[2:], " kind: "+strings.Split(line[2:], "/")[0]); ok && line[0] == '-' {
			gone[object] = true
		}
	}
	var out []string
	for _, line := range lines {
		if object, _, _ := strings.Cut(line[2:], " "); gone[object] {
			line = "- " + object
		}
		if kind, path, _ := strings.Cut(line, " spec.groups."); path != "" {
			line = kind + " spec.groups: (rules)"
		}
		if path, text, ok := strings.Cut(line, ": "); ok && len(text) > 300 {
			line = path + ": (a text)"
		}
		if len(out) == 0 || out[len(out)-1] != line {
			out = append(out, line)
		}
	}
	return out
}

// TestEveryValueHasAnEffect finds values that no case of TestEffects sets, and those without a rule in the schema.
func TestEveryValueHasAnEffect(t *testing.T) {
	for name, e := range allEffects() {
		set := map[string]bool{}
		for _, text := range e.values {
			for _, path := range leaves("", parse(t, text)) {
				set[path] = true
			}
		}
		for folder, prefix := range e.of {
			c := load(t, folder)
			for _, path := range leaves(prefix, c.Values) {
				if !slices.ContainsFunc(slices.Collect(maps.Keys(set)), func(s string) bool { return s == path || strings.HasPrefix(s, path+".") }) {
					t.Errorf("%s: no case sets %s", name, path)
				}
			}
			for _, path := range leaves("", c.Values) {
				if !ruled(parse(t, string(c.Schema)), parse(t, string(c.Schema)), strings.Split(path, ".")) {
					t.Errorf("%s: values.schema.json does not know %s", folder, path)
				}
			}
		}
	}
}

// leaves are the paths of values that are no maps, or empty ones.
func leaves(prefix string, v map[string]any) []string {
	var out []string
	for key, value := range v {
		if m, ok := value.(map[string]any); ok && len(m) > 0 {
			out = append(out, leaves(prefix+key+".", m)...)
		} else {
			out = append(out, prefix+key)
		}
	}
	slices.Sort(out)
	return out
}

// ruled reports whether a schema has a rule for a path.
func ruled(root, schema values, path []string) bool {
	if ref, ok := schema["$ref"].(string); ok {
		schema = root["definitions"].(map[string]any)[strings.TrimPrefix(ref, "#/definitions/")].(map[string]any)
	}
	if len(path) == 0 {
		return schema["type"] != nil || schema["enum"] != nil
	}
	properties, _ := schema["properties"].(map[string]any)
	next, ok := properties[path[0]].(map[string]any)
	if !ok { // a map, such as labels, or what a subchart rules
		return schema["additionalProperties"] != false && schema["type"] == "object"
	}
	return ruled(root, next, path[1:])
}

// TestBadValues are refused with the value's name and what to do.
func TestBadValues(t *testing.T) {
	for name, cases := range map[string]map[string][]string{
		"outrigger": {
			`injector: {replica: 3}`:                                     {"/injector", "additional properties 'replica' not allowed"},
			`injector: {replicas: two}`:                                  {"/injector/replicas", "got string, want integer"},
			`injector: {replicas: 0}`:                                    {"/injector/replicas", "minimum: got 0, want 1"},
			`injector: {replicas: 1}`:                                    {"injector.podDisruptionBudget.minAvailable is 1 and injector.replicas is 1", "raise replicas"},
			`injector: {failurePolicy: ignore}`:                          {"/injector/failurePolicy", "value must be one of 'Ignore', 'Fail'"},
			`injector: {timeoutSeconds: 60}`:                             {"/injector/timeoutSeconds", "maximum: got 60, want 30"},
			`injector: {sweepInterval: 30}`:                              {"/injector/sweepInterval", "got number, want string"},
			`injector: {sweepInterval: soon}`:                            {"/injector/sweepInterval", "'soon' does not match pattern"},
			`injector: {neverNamespaces: shop}`:                          {"/injector/neverNamespaces", "got string, want array"},
			`injector: {neverNamespaces: [Shop]}`:                        {"/injector/neverNamespaces/0", "'Shop' does not match pattern"},
			`injector: {image: outrigger}`:                               {"/injector/image", "'outrigger' does not match pattern"},
			`injector: {certManager: {enabled: true}}`:                   {"injector.certManager.issuer.name is empty; name the Issuer"},
			`image: {tag: "0.1.0 latest"}`:                               {"/image/tag", "does not match pattern"},
			`alerts: {enabled: "yes"}`:                                   {"/alerts/enabled", "got string, want boolean"},
			`nats: `:                                                     {"/nats", "missing property 'enabled'"},
			`nats: {enabled: true, storage: 1Gi}`:                        {"/storage", "'1Gi' does not match pattern"},
			`injector: {sweepInterval: 2h}`:                              {"/injector/sweepInterval", "'2h' does not match pattern"},
			`{image: {registry: "a\nb"}}`:                                {"/image/registry", "does not match pattern"},
			`injector: {image: "a:1\nb"}`:                                {"/injector/image", "does not match pattern"},
			`nats: {enabled: true, image: "a:1\nb"}`:                     {"/image", "does not match pattern"},
			`nats: {enabled: true, resources: {limits: {memory: much}}}`: {"/resources/limits/memory", "'much' does not match pattern"},
			`nats: {enabled: true, antiAffinity: none}`:                  {"/antiAffinity", "value must be one of 'required', 'preferred'"},
			`dashboard: {enabled: true}`:                                 {"additional properties 'dashboard' not allowed"},
			`injector: {resources: {limits: {memory: much}}}`:            {"/injector/resources/limits/memory", "'much' does not match pattern"},
			`injector: {resources: {limits: {memory: 128000K}}}`:         {"/injector/resources/limits/memory", "'128000K' does not match pattern"},
		},
		"outrigger-sidecar": {
			`portt: 1`:                             {"additional properties 'portt' not allowed"},
			`port: 70000`:                          {"/port", "maximum: got 70,000, want 65,535"},
			`port: grpc`:                           {`outrigger-sidecar.port is "grpc": set it to the port of the app's gRPC or Connect server; the pod declares no TCP port`},
			`port: ""`:                             {`outrigger-sidecar.port is ""`, "the pod declares no TCP port"},
			`port: 8080`:                           {"outrigger-sidecar.listenPort is 8080", "set it to a free port"},
			`listenPort: 80`:                       {"/listenPort", "minimum: got 80, want 1,024"},
			`listenPort: 9901`:                     {"outrigger-sidecar.listenPort, adminPort and healthPort are 9901, 9901 and 9902; choose three different ports"},
			`auth: null`:                           {"missing property 'auth'"},
			`protocol: http2`:                      {"/protocol", "value must be one of 'auto', 'grpc'"},
			`auth: config`:                         {`outrigger-sidecar.auth is "config"`, "set outrigger-sidecar.config or"},
			`{config: {a: 1}, configMap: ours}`:    {"outrigger-sidecar.config and outrigger-sidecar.configMap are both set; remove one"},
			`identity: token`:                      {"set outrigger-sidecar.identityAudience"},
			`identityAudience: shop`:               {"outrigger-sidecar.identityAudience is of no use without"},
			`nats: {address: "nats://a:4222"}`:     {"outrigger-sidecar.nats.address needs a sealing key; set outrigger-sidecar.stateKeySecret"},
			`nats: {address: "nats://u:p@a:4222"}`: {"/nats/address", "does not match pattern"},
			`{stateKeySecret: ours, configMap: ours, nats: {address: "nats://a:4222"}}`: {"write state.url into that file"},
			`unixSocket: {enabled: true}`:                            {"outrigger-sidecar.port is of no use with outrigger-sidecar.unixSocket.enabled"},
			`runAsUser: root`:                                        {"/runAsUser", "'root' does not match pattern '^namespace$'"},
			`runAsUser: 0`:                                           {"/runAsUser", "minimum: got 0, want 1"},
			`service: {name: "0"}`:                                   {"/service/name", "'0' does not match pattern"},
			`networkPolicy: {ingress: {}}`:                           {"/networkPolicy/ingress", "got object, want array"},
			`image: "a:1\nb"`:                                        {"/image", "does not match pattern"},
			`{telemetry: {endpoint: "http://a\nb"}}`:                 {"/telemetry/endpoint", "does not match pattern"},
			`{stateKeySecret: ours, nats: {address: "nats://a\nb"}}`: {"/nats/address", "does not match pattern"},
			`appSleepSeconds: 10s`:                                   {"/appSleepSeconds", "got string, want integer"},
		},
	} {
		e := allEffects()[name]
		for text, want := range cases {
			t.Run(text, func(t *testing.T) {
				_, err := rendered(load(t, e.folder), e.set(t, text), release)
				for _, part := range want {
					if err == nil || !strings.Contains(err.Error(), part) {
						t.Errorf("got %v, want %q", err, part)
					}
				}
			})
		}
	}
}

// TestNull gives null for each value, which takes the chart's default away: it is refused, or the chart renders as before. Only
// what is below resources, labels and annotations may be left out in this way.
func TestNull(t *testing.T) {
	for name, e := range allEffects() {
		before := flat(t, render(t, load(t, e.folder), e.set(t, "{}"), release))
		for folder, prefix := range e.of {
			all := map[string]bool{}
			for _, path := range leaves(prefix, load(t, folder).Values) {
				for all[path] = true; strings.Contains(path[len(prefix):], "."); all[path] = true {
					path = path[:strings.LastIndex(path, ".")]
				}
			}
			for path := range all {
				parts := strings.Split(path, ".")
				v := e.set(t, "{"+strings.Join(parts, ": {")+": null"+strings.Repeat("}", len(parts)))
				if _, err := rendered(load(t, e.folder), v, release); err != nil {
					if !strings.Contains(err.Error(), "missing propert") && !strings.Contains(err.Error(), "got null, want boolean") {
						t.Errorf("%s: %s: null is refused with %v", name, path, err)
					}
					continue
				}
				for _, line := range changes(before, flat(t, render(t, load(t, e.folder), v, release))) {
					if line[0] != '-' && !strings.HasSuffix(line, ": {}") || !regexp.MustCompile(`resources\.|[lL]abels\.|annotations\.`).MatchString(path) {
						t.Errorf("%s: %s: null renders %s", name, path, line)
					}
				}
			}
		}
	}
}

// TestTexts wants names that look like numbers, booleans and null to stay texts: the API server takes no others.
func TestTexts(t *testing.T) {
	o := release
	o.Namespace = "7000001"
	text := render(t, load(t, "outrigger"), parse(t, `
image: {pullSecrets: ["7000002"]}
injector:
  neverNamespaces: ["7000003", "null", "on", "1e9"]
  priorityClassName: "7000004"
  certManager: {enabled: true, issuer: {name: "7000005"}}
  networkPolicy: {monitoringNamespace: "1e7"}
  serviceMonitor: {enabled: true}
podMonitor: {enabled: true}
alerts: {enabled: true}
dashboards: {enabled: true}
nats:
  enabled: true
  image: "7000006:10"
  secret: "7000007"
  storageClass: "1e8"
  networkPolicy: {monitoringNamespace: "1e9", clientNamespaces: ["7000008", "off"]}
`), o)
	text += render(t, load(t, "examples/fleet"), parse(t, `outrigger-sidecar: {callersSecret: "7000009", descriptorsConfigMap: "1e9", image: "7000010:10", networkPolicy: {enabled: true, monitoringNamespace: "7000011"}, httpRoute: {enabled: true, gateway: "7000012"}}`), o)
	var look func(path string, v any)
	look = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, one := range v {
				look(path+"."+key, one)
			}
		case []any:
			for _, one := range v {
				if _, isBool := one.(bool); isBool || one == nil {
					t.Errorf("%s has %v", path, one)
				}
				look(path, one)
			}
		case float64:
			if v > 1e6 {
				t.Errorf("%s is the number %v", path, v)
			}
		}
	}
	for key, one := range objects(t, text) {
		look(key, map[string]any(one))
	}
}

// TestNotes wants notes that say what to do with these values.
func TestNotes(t *testing.T) {
	files, err := rendered(load(t, "outrigger"), parse(t, "nats: {enabled: true, secret: ours}"), release)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"kubectl get events --all-namespaces --field-selector", "NATS needs the Secret ours (key user.pub)",
		"nats://outrigger-nats-2.outrigger-nats.outrigger-system:4222",
	} {
		if !strings.Contains(files["outrigger/templates/NOTES.txt"], want) {
			t.Errorf("the notes have no %q:\n%s", want, files["outrigger/templates/NOTES.txt"])
		}
	}
}

// TestLint has no complaint of Helm's linter, with any of the values.
func TestLint(t *testing.T) {
	check := func(t *testing.T, folder string, v values) {
		t.Helper()
		for _, m := range lint.All(folder, v, release.Namespace, true).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s %v: %s", folder, v, m)
			}
		}
	}
	check(t, "outrigger/charts/nats", nil)
	check(t, "outrigger-sidecar", nil)
	for _, e := range allEffects() {
		check(t, e.folder, nil)
		for _, text := range e.values {
			check(t, e.folder, e.set(t, text))
		}
	}
}

// TestOldCluster renders no hook for a Kubernetes that does not have it: the API server would refuse the pod.
func TestOldCluster(t *testing.T) {
	for version, want := range map[string]bool{"v1.29.9": false, "v1.30.0": true, "v1.30.0-gke.1": true} {
		files, err := renderedFor(version, load(t, "examples/fleet"), nil, release)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(files["fleet/templates/fleet.yaml"], "sleep:"); got != want {
			t.Errorf("%s: the hook is there: %v", version, got)
		}
	}
}

// TestSidecarArguments refuses templates that are not called as they must be.
func TestSidecarArguments(t *testing.T) {
	for text, want := range map[string]string{
		`{{ include "outrigger-sidecar.pod" (dict "name" "shop" "pod" "shop.pod") }}`:                                                "root is missing in the arguments",
		`{{ include "outrigger-sidecar.pod" (dict "root" $ "pod" "shop.pod") }}`:                                                     "name is missing in the arguments",
		`{{ include "outrigger-sidecar.pod" (dict "root" $ "name" "shop" "pod" "shop.none") }}`:                                      "the template shop.none must give metadata and spec of a pod: spec is missing",
		`{{ include "outrigger-sidecar.pod" (dict "root" $ "name" "shop" "pod" "shop.pod" "values" (dict "prt" 1)) }}`:               "outrigger-sidecar.prt is unknown; known are adminPort,",
		`{{ include "outrigger-sidecar.objects" (dict "root" $ "name" "shop") }}`:                                                    "selector is missing",
		`{{ include "outrigger-sidecar.pod" (dict "root" $ "name" "shop" "pod" "shop.pod" "values" (dict "callersSecret" "a b")) }}`: "",
	} {
		c := team(t, "{metadata: {}, spec: {containers: [{name: shop, ports: [{containerPort: 9090}]}]}}", text+`{{ define "shop.none" }}a: b{{ end }}`)
		if _, err := rendered(c, nil, release); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	// No schema looks at the values of one Deployment.
	for override, want := range map[string]string{
		`"auth" "token"`:                          `outrigger-sidecar.auth is "token"; set it to one of tokens, config, none`,
		`"auth" nil`:                              "outrigger-sidecar.auth is a null in the argument values; give a string",
		`"identity" "jwt"`:                        `outrigger-sidecar.identity is "jwt"; set it to one of none, token, spiffe`,
		`"protocol" "http"`:                       `outrigger-sidecar.protocol is "http"; set it to one of auto, grpc,`,
		`"listenPort" "9000"`:                     "outrigger-sidecar.listenPort is a string in the argument values; give a number",
		`"networkPolicy" true`:                    "outrigger-sidecar.networkPolicy is a bool in the argument values; give a map",
		`"networkPolicy" (dict "enabled" "true")`: "outrigger-sidecar.networkPolicy.enabled is a string in the argument values; give a bool",
		`"nats" (dict "adress" "nats://a")`:       "outrigger-sidecar.nats.adress is unknown; known are address,",
		`"port" true`:                             "outrigger-sidecar.port is a bool in the argument values; give a number or string",
		`"listenPort" 9000 "port" "" "runAsUser" "namespace" "config" (dict "timeout" "5s") "service" (dict "enabled" false)`: "",
	} {
		c := team(t, "{metadata: {}, spec: {containers: [{name: shop, ports: [{containerPort: 9090}]}]}}", strings.Replace(podTemplate, `"pod" "shop.pod"`, `"pod" "shop.pod" "values" (dict `+override+`)`, 1))
		if _, err := rendered(c, nil, release); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", override, err, want)
		}
	}
	for pod, want := range map[string]string{
		"{spec: {containers: [{name: sidecar}]}}":                                                              "a container of shop.pod is named sidecar; rename it",
		"{spec: {containers: [{name: a, ports: [{containerPort: 1}]}], volumes: [{name: outrigger-callers}]}}": "a volume of shop.pod is named outrigger-callers",
		"{spec: {containers: [{name: a, ports: [{containerPort: 8080}]}]}}":                                    "outrigger-sidecar.listenPort is 8080, which a container of the pod uses",
	} {
		if _, err := rendered(team(t, pod, podTemplate), nil, release); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", pod, err, want)
		}
	}
}

const podTemplate = `{{ include "outrigger-sidecar.pod" (dict "root" $ "name" "shop" "pod" "shop.pod") }}`

// team is a team's chart, with a template and the text of a pod.
func team(t testing.TB, pod, template string) *chart.Chart {
	t.Helper()
	c := &chart.Chart{
		Metadata: &chart.Metadata{APIVersion: "v2", Name: "shop", Version: "1.0.0", Dependencies: []*chart.Dependency{{Name: "outrigger-sidecar", Version: ">=0.1.0-0"}}},
		Templates: []*chart.File{
			{Name: "templates/pod.yaml", Data: []byte(template)},
			{Name: "templates/_shop.tpl", Data: []byte(fmt.Sprintf("{{ define \"shop.pod\" }}%s{{ end }}", pod))},
		},
	}
	c.AddDependency(load(t, "outrigger-sidecar"))
	return c
}
