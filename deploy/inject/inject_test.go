// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/outrigger-mcp/outrigger/deploy/k8s"
)

var update = flag.Bool("update", false, "write the goldens")

func injector(t testing.TB) *Injector {
	t.Helper()
	i, err := New(Options{Never: []string{"outrigger-system"}})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestSameAsKustomize injects into the Deployment that the component is shown with:
// the pod is the one that Kustomize renders.
func TestSameAsKustomize(t *testing.T) {
	t.Parallel()
	manifest, err := os.ReadFile("../k8s/examples/existing/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(manifest), "        app: shop\n    spec:", "        app: shop\n      annotations:\n"+
		"        outrigger.dev/port: \"9090\"\n        outrigger.dev/protocol: grpc\n    spec:", 1)
	injected, results, err := injector(t).Documents([]byte(text), Manifest{All: true})
	if err != nil || len(results) != 1 || results[0].Decision.Outcome != Injected {
		t.Fatalf("%+v, %v", results, err)
	}
	rendered, err := k8s.Render("../k8s/examples/existing")
	if err != nil {
		t.Fatal(err)
	}
	want, got := tree(t, rendered), tree(t, injected)
	template := got["spec"].(map[string]any)["template"].(map[string]any)
	delete(template["metadata"].(map[string]any), "annotations")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the injected pod is not that of the component (-component +injected):\n%s", diff)
	}
}

func tree(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestGolden injects into manifests of every kind. Injecting again changes nothing,
// and taking out gives the original: byte for byte, except where flow style makes
// it the same content.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.[yj]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			original, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			i := injector(t)
			got, results, err := i.Documents(original, Manifest{})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				if r.Decision.Outcome == Refused {
					t.Errorf("%s: %s", r.Name, r.Decision.Message)
				}
			}
			golden := filepath.Join("testdata", "golden", name)
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-golden +injected); `go test ./inject -run TestGolden -update` accepts it:\n%s", diff)
			}
			again, results, err := i.Documents(got, Manifest{})
			if err != nil || !bytes.Equal(again, got) {
				t.Errorf("injecting twice: %v, %+v\n%s", err, results, cmp.Diff(string(got), string(again)))
			}
			back, _, err := i.Documents(got, Manifest{Remove: true})
			if err != nil {
				t.Fatal(err)
			}
			if name == "list.yaml" || name == "pod.json" {
				if diff := cmp.Diff(tree(t, original), tree(t, back)); diff != "" {
					t.Errorf("taken out (-original +now):\n%s", diff)
				}
			} else if diff := cmp.Diff(string(original), string(back)); diff != "" {
				t.Errorf("taken out (-original +now):\n%s", diff)
			}
		})
	}
}

// TestChangedSince: what people changed after an injection stays when it is undone or made
// anew, and is listed.
func TestChangedSince(t *testing.T) {
	t.Parallel()
	const (
		head = "kind: Pod\nmetadata:\n  annotations:\n    outrigger.dev/app-sleep: 10s\nspec:\n"
		tail = "  containers:\n    - name: app\n      image: a\n      ports:\n        - containerPort: 7000\n"
		hook = "sleep:\n            seconds: 10"
		was  = "  terminationGracePeriodSeconds: "
	)
	for name, tc := range map[string]struct {
		grace, old, new string // before the injection, and the change after it
		keeps           string // is in the pod without the sidecar
		says            string
	}{
		"a longer grace period":          {was + "20\n", was + "45", was + "90", was + "90\n", "spec.terminationGracePeriodSeconds is no longer the 45"},
		"where there was none":           {"", was + "45", was + "90", was + "90\n", "spec.terminationGracePeriodSeconds is no longer the 45"},
		"a shorter grace period":         {was + "20\n", was + "45", was + "25", was + "25\n", "spec.terminationGracePeriodSeconds is no longer the 45"},
		"no grace period":                {was + "20\n", was + "45\n", "", "containers:", "spec.terminationGracePeriodSeconds is no longer the 45"},
		"another sleep":                  {"", hook, strings.Replace(hook, "10", "20", 1), "seconds: 20\n", "spec.containers[0].lifecycle.preStop of app is no longer the sleep of 10s"},
		"a command":                      {"", hook, "exec:\n            command: [/stop]", "command: [/stop]\n", "spec.containers[0].lifecycle.preStop of app is no longer the sleep of 10s"},
		"another name":                   {"", "name: app\n", "name: shop\n", "seconds: 10\n", "spec.containers: app is gone"},
		"an image, which is not of ours": {was + "20\n", "image: a\n", "image: b\n", was + "20\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := injector(t)
			injected, _, err := i.Documents([]byte(head+tc.grace+tail), Manifest{All: true})
			if err != nil || !strings.Contains(string(injected), tc.old) {
				t.Fatalf("%v\n%s", err, injected)
			}
			edited := []byte(strings.Replace(string(injected), tc.old, tc.new, 1))
			anew, results, err := i.Documents(edited, Manifest{})
			if err != nil || results[0].Decision.Outcome != Injected {
				t.Fatalf("%+v, %v", results, err)
			}
			for from, text := range map[string][]byte{"at once": edited, "after injecting anew": anew} {
				back, results, err := i.Documents(text, Manifest{Remove: true})
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(string(back), tc.keeps) || strings.Contains(string(back), "name: sidecar") || tc.new == "" && strings.Contains(string(back), was) {
					t.Errorf("%s: %q is not kept:\n%s", from, tc.keeps, back)
				}
				// Injecting anew has said it, and made the mark anew.
				if says := strings.Join(results[0].Kept, "\n"); from == "at once" && (!strings.HasPrefix(says, tc.says) || (says == "") != (tc.says == "")) {
					t.Errorf("it says %q, want %q", says, tc.says)
				}
			}
			if says := strings.Join(results[0].Kept, "\n"); !strings.HasPrefix(says, tc.says) {
				t.Errorf("injecting anew says %q, want %q", says, tc.says)
			}
		})
	}
}

// TestForms: YAML that people write in other ways keeps all that it has, or is refused with what to do.
func TestForms(t *testing.T) {
	t.Parallel()
	const (
		head = "kind: Pod\nmetadata:\n  name: shop\n"
		spec = "spec:\n"
		app  = "  containers:\n  - name: app\n    image: shop\n    ports:\n    - containerPort: 7000\n"
		flow = "  volumes: [{name: data, emptyDir: {}}]\n"
	)
	for name, tc := range map[string]struct {
		text string
		// keeps is in the injected text, and in that without the sidecar; fault is in the error.
		keeps, fault string
		// anew: the document has a list in flow style, so that it is rendered anew.
		anew bool
	}{
		"lines with CR":                       {text: strings.ReplaceAll(head+spec+app, "\n", "\r\n"), keeps: "kind: Pod\r\n"},
		"lines with CR, flow style":           {text: strings.ReplaceAll("---\n"+head+spec+flow+app, "\n", "\r\n"), keeps: "---\r\nkind: Pod\r\n", anew: true},
		"a document behind an end":            {text: head + spec + flow + app + "...\nkind: ConfigMap\nmetadata: {name: shop}\n", keeps: "...\nkind: ConfigMap\nmetadata: {name: shop}\n", anew: true},
		"a directive":                         {text: "%YAML 1.1\n---\n" + head + spec + flow + app, keeps: "%YAML 1.1\n---\nkind: Pod\n", anew: true},
		"an explicit key":                     {text: head + spec + strings.Replace(app, "containers:", "? containers\n  :", 1), keeps: "containers:", anew: true},
		"a tag of a list":                     {text: head + spec + "  volumes: !!seq\n  - name: data\n    emptyDir: {}\n" + app, keeps: "- name: data", anew: true},
		"yes, and a number as a key":          {text: head + "  labels:\n    8080: \"yes\"\n" + spec + "  shareProcessNamespace: yes\n" + app, keeps: "8080: \"yes\"\n"},
		"a merge key for what is not changed": {text: "base: &base {restartPolicy: Always}\n" + head + spec + "  <<: *base\n" + app, keeps: "<<: *base\n"},
		"a merge key for volumes":             {text: "base: &base\n  volumes: [{name: data, emptyDir: {}}]\n" + head + spec + "  <<: *base\n" + app, fault: "spec.volumes is from a YAML merge key (<<); write it out"},
		"an annotation without quotes":        {text: head + "  annotations: {outrigger.dev/port: 7000}\n" + spec + app, fault: "metadata.annotations: a number where a string is needed; write it in quotes"},
		"a map in place of a list":            {text: head + spec + "  containers: {name: app}\n", fault: "spec.containers: a map where a list is needed"},
		"a Job of another API":                {text: "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec: {tasks: []}\n---\n" + head + spec + app, keeps: "spec: {tasks: []}\n---\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := injector(t)
			got, results, err := i.Documents([]byte(tc.text), Manifest{All: true})
			if tc.fault != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fault) {
					t.Errorf("%v, want %q\n%s", err, tc.fault, got)
				}
				return
			}
			if err != nil || len(results) != 1 || results[0].Decision.Outcome != Injected {
				t.Fatalf("%+v, %v", results, err)
			}
			if strings.Contains(tc.text, "\r") && bytes.Count(got, []byte("\n")) != bytes.Count(got, []byte("\r\n")) {
				t.Errorf("some lines end without CR:\n%q", got)
			}
			back, _, err := i.Documents(got, Manifest{Remove: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range [][]byte{got, back} {
				if !bytes.Contains(text, []byte(tc.keeps)) {
					t.Errorf("%q is lost:\n%s", tc.keeps, text)
				}
			}
			if diff := cmp.Diff(tc.text, string(back)); diff != "" && !tc.anew {
				t.Errorf("taken out (-original +now):\n%s", diff)
			}
			if before, after := content([]byte(tc.text)), content(back); before != after {
				t.Errorf("taken out (-original +now):\n%s", cmp.Diff(before, after))
			}
		})
	}
}

// TestBounds: a document that would take minutes is refused, and one with other objects is not.
func TestBounds(t *testing.T) {
	t.Parallel()
	item := "- {kind: Pod, metadata: {name: a}, spec: {containers: [{name: a}]}}\n"
	padding := "# " + strings.Repeat("x", maxDocumentBytes) + "\n"
	for name, tc := range map[string]struct{ text, want string }{
		"many workloads":   {"kind: List\nitems:\n" + strings.Repeat(item, maxWorkloads+1), "101 workloads"},
		"a large workload": {padding + "kind: Pod\nspec: {containers: [{name: a}]}\n", "split its List"},
		"a large object":   {padding + "kind: ConfigMap\n", ""},
		"as many as may":   {"kind: List\nitems:\n" + strings.Repeat(item, maxWorkloads), ""},
		"a large manifest": {strings.Repeat(padding, MaxManifestBytes>>20), "the limit is 33554432; split it"},
	} {
		_, _, err := injector(t).Documents([]byte(tc.text), Manifest{})
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

const plainPod = `
metadata:
  labels: {outrigger.dev/inject: enabled}
  annotations: {}
spec:
  containers: [{name: app, image: a, ports: [{containerPort: 7000, name: rpc}]}]
`

func TestDecisions(t *testing.T) {
	t.Parallel()
	enabled := Namespace{Name: "shop", Labels: map[string]string{Label: Enabled}}
	for name, tc := range map[string]struct {
		change  func(*corev1.Pod)
		space   Namespace
		outcome Outcome
		reason  Reason
		say     string
	}{
		"label of the pod":           {nil, Namespace{Name: "shop"}, Injected, Selected, ""},
		"label of the namespace":     {func(p *corev1.Pod) { p.Labels = nil }, enabled, Injected, Selected, ""},
		"no label":                   {func(p *corev1.Pod) { p.Labels = nil }, Namespace{Name: "shop"}, Skipped, NotSelected, ""},
		"disabled pod wins":          {func(p *corev1.Pod) { p.Labels[Label] = Disabled }, enabled, Skipped, OptedOut, "pod's label"},
		"disabled namespace":         {func(p *corev1.Pod) { p.Labels = nil }, Namespace{Labels: map[string]string{Label: Disabled}}, Skipped, OptedOut, "namespace's label"},
		"enabled pod wins":           {nil, Namespace{Labels: map[string]string{Label: Disabled}}, Injected, Selected, ""},
		"bad label":                  {func(p *corev1.Pod) { p.Labels[Label] = "true" }, enabled, Refused, BadLabel, `outrigger.dev/inject: the pod's label says "true"; it must be enabled or disabled`},
		"bad label of the namespace": {func(p *corev1.Pod) { p.Labels = nil }, Namespace{Labels: map[string]string{Label: "yes"}}, Refused, BadLabel, `the namespace's label says "yes"`},
		"kube-system":                {nil, Namespace{Name: "kube-system"}, Skipped, SystemNamespace, ""},
		"the injector's namespace":   {nil, Namespace{Name: "outrigger-system"}, Skipped, SystemNamespace, ""},
		"mirror pod":                 {annotate("kubernetes.io/config.mirror", "x"), enabled, Skipped, Unsupported, ""},
		"from a manifest": {func(p *corev1.Pod) {
			p.Labels[sidecarLabel] = "true"
			p.Spec.InitContainers = []corev1.Container{{Name: "sidecar"}}
		}, enabled, Present, FromManifest, ""},
		"injected before": {func(p *corev1.Pod) {
			p.Annotations[MarkAnnotation] = "{}"
			p.Spec.InitContainers = []corev1.Container{{Name: "sidecar"}}
		}, enabled, Present, AlreadyInjected, ""},
		"a mark that was copied": {annotate(MarkAnnotation, "{}"), enabled, Injected, Selected, ""},
		"another sidecar":        {func(p *corev1.Pod) { p.Spec.Containers[0].Name = "sidecar" }, enabled, Refused, NameTaken, "a container is named sidecar; rename it"},
		"volume": {func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: callersVolume}} }, enabled, Refused, NameTaken,
			"spec.volumes: a volume is named outrigger-callers"},
		"host network": {func(p *corev1.Pod) { p.Spec.HostNetwork = true }, enabled, Refused, Unsupported, "spec.hostNetwork"},
		"windows":      {func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: "windows"} }, enabled, Refused, Unsupported, "spec.os"},
		"windows node": {func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"kubernetes.io/os": "windows"} }, enabled, Refused, Unsupported, "spec.nodeSelector"},
		"resources of the whole pod": {func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}}
		}, enabled, Refused, Unsupported, "spec.resources: the sidecar's share is not in the resources of the whole pod; set resources on the containers instead"},
		"a limit of the whole pod": {func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}}
		}, enabled, Refused, Unsupported, "spec.resources"},
		"no resources of the whole pod": {func(p *corev1.Pod) { p.Spec.Resources = new(corev1.ResourceRequirements) }, enabled, Injected, Selected, ""},
		"no port":                       {func(p *corev1.Pod) { p.Spec.Containers[0].Ports = nil }, enabled, Refused, NoPort, "outrigger.dev/port: set this annotation to the port of the app's gRPC or Connect server; the pod declares no TCP port"},
		"two ports": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 1, Name: "a"}, {ContainerPort: 2}}
		}, enabled, Refused, NoPort, "the pod declares a=1, 2"},
		"udp does not count": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{ContainerPort: 53, Protocol: "UDP"})
		}, enabled, Injected, Selected, ""},
		"port by name":          {annotate("outrigger.dev/port", "rpc"), enabled, Injected, Selected, ""},
		"no such port":          {annotate("outrigger.dev/port", "grpc"), enabled, Refused, BadAnnotation, "outrigger.dev/port: no single container port is named grpc; the pod declares rpc=7000"},
		"port out of range":     {annotate("outrigger.dev/port", "70000"), enabled, Refused, BadAnnotation, `outrigger.dev/port: "70000": must be a port number from 1 to 65535`},
		"port is no port":       {annotate("outrigger.dev/port", "80/tcp"), enabled, Refused, BadAnnotation, `outrigger.dev/port: "80/tcp": must be`},
		"protocol":              {annotate("outrigger.dev/protocol", "GRPC"), enabled, Refused, BadAnnotation, "must be one of auto, connect, grpc, grpcs, grpcweb, https"},
		"port taken":            {func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = 8080 }, enabled, Refused, PortTaken, "outrigger.dev/listen-port: container app uses port 8080, which is the sidecar's; set this annotation to a free port"},
		"port taken by number":  {annotate("outrigger.dev/port", "9901"), enabled, Refused, PortTaken, "outrigger.dev/admin-port: the app uses port 9901"},
		"low port":              {annotate("outrigger.dev/listen-port", "80"), enabled, Refused, BadAnnotation, "from 1024"},
		"same port":             {annotate("outrigger.dev/listen-port", "9902"), enabled, Refused, BadAnnotation, "outrigger.dev/health-port: 9902 is also the listen-port"},
		"misspelt":              {annotate("outrigger.dev/prot", "1"), enabled, Refused, BadAnnotation, "outrigger.dev/prot: annotation is unknown; did you mean outrigger.dev/port?"},
		"a label":               {annotate(Label, "enabled"), enabled, Refused, BadAnnotation, "outrigger.dev/inject: is a label; move it to metadata.labels"},
		"unknown":               {annotate("outrigger.dev/colour-of-logs", "1"), enabled, Refused, BadAnnotation, "annotation is unknown; known are admin-port, app-sleep"},
		"too long":              {annotate("outrigger.dev/image", strings.Repeat("a", 513)), enabled, Refused, BadAnnotation, "outrigger.dev/image: value has 513 bytes; shorten it to 512"},
		"config map":            {annotate("outrigger.dev/config-map", "Shop"), enabled, Refused, BadAnnotation, "outrigger.dev/config-map: \"Shop\": must be the name of a ConfigMap"},
		"config map, key":       {annotate("outrigger.dev/config-map", "shop/../x"), enabled, Refused, BadAnnotation, "outrigger.dev/config-map"},
		"config map, dots":      {annotate("outrigger.dev/config-map", "shop/.."), enabled, Refused, BadAnnotation, "outrigger.dev/config-map"},
		"auth without file":     {annotate("outrigger.dev/auth", "config"), enabled, Refused, BadAnnotation, "set outrigger.dev/config-map"},
		"secret of no use":      {annotate("outrigger.dev/auth", "none", "outrigger.dev/callers-secret", "a"), enabled, Refused, BadAnnotation, "outrigger.dev/callers-secret: is of no use"},
		"image":                 {annotate("outrigger.dev/image", "a b"), enabled, Refused, BadAnnotation, "outrigger.dev/image: \"a b\": must be an image reference"},
		"quantity":              {annotate("outrigger.dev/memory-limit", "128 MB"), enabled, Refused, BadAnnotation, "outrigger.dev/memory-limit: \"128 MB\": must be a positive quantity"},
		"request above limit":   {annotate("outrigger.dev/memory-request", "1Gi"), enabled, Refused, BadAnnotation, "outrigger.dev/memory-request: the request of 1Gi memory is above the limit of 128Mi; set both"},
		"limit below request":   {annotate("outrigger.dev/memory-limit", "32Mi"), enabled, Refused, BadAnnotation, "outrigger.dev/memory-limit: the request of 64Mi memory"},
		"audience missing":      {annotate("outrigger.dev/identity", "token"), enabled, Refused, BadAnnotation, "set outrigger.dev/identity-audience"},
		"audience of no use":    {annotate("outrigger.dev/identity-audience", "a"), enabled, Refused, BadAnnotation, "without outrigger.dev/identity: token"},
		"protocol of no use":    {annotate("outrigger.dev/config-map", "a", "outrigger.dev/protocol", "grpc"), enabled, Refused, BadAnnotation, "outrigger.dev/protocol: has no effect"},
		"root":                  {annotate("outrigger.dev/run-as-user", "0"), enabled, Refused, BadAnnotation, "must be a user id from 1"},
		"sleep":                 {annotate("outrigger.dev/app-sleep", "1500ms"), enabled, Refused, BadAnnotation, "whole seconds from 1s to 60s"},
		"restart":               {annotate("outrigger.dev/restart-missed", "yes"), enabled, Refused, BadAnnotation, "must be one of false, true"},
		"bad namespace default": {nil, Namespace{Annotations: map[string]string{"outrigger.dev/auth": "no"}}, Refused, BadAnnotation, "outrigger.dev/auth"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podOf(t, plainPod)
			if tc.change != nil {
				tc.change(pod)
			}
			d := injector(t).Decide(pod, tc.space)
			if d.Outcome != tc.outcome || d.Reason != tc.reason || !strings.Contains(d.Message, tc.say) {
				t.Errorf("%s %s: %s; want %s %s: %s", d.Outcome, d.Reason, d.Message, tc.outcome, tc.reason, tc.say)
			}
			if (len(d.Edits) > 0) != (tc.outcome == Injected) || d.Message == "" {
				t.Errorf("%d edits, message %q", len(d.Edits), d.Message)
			}
		})
	}
}

func annotate(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for pair := range slices.Chunk(pairs, 2) {
			p.Annotations[pair[0]] = pair[1]
		}
	}
}

func podOf(t testing.TB, text string) *corev1.Pod {
	t.Helper()
	pod := new(corev1.Pod)
	if err := yaml.UnmarshalStrict([]byte(text), pod); err != nil {
		t.Fatal(err)
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	return pod
}

// TestSidecarOf looks at what annotations do to the container.
func TestSidecarOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		space  Namespace
		want   func(c corev1.Container, pod *corev1.Pod) bool
	}{
		"OpenShift": {nil, Namespace{Annotations: map[string]string{openShiftUsers: "1000/1000"}}, func(c corev1.Container, _ *corev1.Pod) bool {
			return c.SecurityContext.RunAsUser == nil && c.SecurityContext.RunAsGroup == nil && *c.SecurityContext.RunAsNonRoot
		}},
		"a user on OpenShift": {annotate("outrigger.dev/run-as-user", "7"), Namespace{Annotations: map[string]string{openShiftUsers: "1000/1000"}},
			func(c corev1.Container, _ *corev1.Pod) bool { return *c.SecurityContext.RunAsUser == 7 }},
		"no callers": {annotate("outrigger.dev/auth", "none"), Namespace{}, func(c corev1.Container, pod *corev1.Pod) bool {
			return len(c.VolumeMounts) == 0 && len(pod.Spec.Volumes) == 0 && variable(c, "OUTRIGGER_TOKENS") == "" && variable(c, "OUTRIGGER_INSECURE_NO_AUTH") == "true"
		}},
		"the file names the backend": {annotate("outrigger.dev/config-map", "tools", "outrigger.dev/auth", "config"), Namespace{}, func(c corev1.Container, pod *corev1.Pod) bool {
			return variable(c, "OUTRIGGER_BACKEND") == "" && variable(c, "OUTRIGGER_CONFIG") == "/etc/outrigger/config/sidecar.yaml" &&
				len(pod.Spec.Volumes) == 1 && pod.Spec.Volumes[0].ConfigMap.Name == "tools"
		}},
		"SPIFFE": {annotate("outrigger.dev/identity", "spiffe"), Namespace{}, func(c corev1.Container, pod *corev1.Pod) bool {
			return variable(c, "SPIFFE_ENDPOINT_SOCKET") == "unix:///run/spiffe/spire-agent.sock" && pod.Spec.Volumes[1].CSI.Driver == "csi.spiffe.io"
		}},
		"defaults of the namespace, the pod wins": {annotate("outrigger.dev/listen-port", "7777"),
			Namespace{Annotations: map[string]string{"outrigger.dev/listen-port": "5555", "outrigger.dev/protocol": "grpc"}},
			func(c corev1.Container, _ *corev1.Pod) bool {
				return variable(c, "OUTRIGGER_LISTEN") == ":7777" && variable(c, "OUTRIGGER_BACKEND") == "grpc://127.0.0.1:7000"
			}},
		// What docs/injection.md says of a Guaranteed pod.
		"Guaranteed": {annotate("outrigger.dev/cpu-limit", "50m", "outrigger.dev/memory-request", "128Mi"), Namespace{}, func(c corev1.Container, _ *corev1.Pod) bool {
			r := c.Resources
			return len(r.Requests) == 2 && r.Requests.Cpu().Cmp(*r.Limits.Cpu()) == 0 && r.Requests.Memory().Cmp(*r.Limits.Memory()) == 0
		}},
		"longer grace stays": {func(p *corev1.Pod) {
			p.Spec.TerminationGracePeriodSeconds = new(int64)
			*p.Spec.TerminationGracePeriodSeconds = 90
		}, Namespace{},
			func(_ corev1.Container, pod *corev1.Pod) bool { return *pod.Spec.TerminationGracePeriodSeconds == 90 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podOf(t, plainPod)
			if tc.change != nil {
				tc.change(pod)
			}
			i := injector(t)
			got := applied(t, i.Decide(pod, tc.space), pod)
			if len(got.Spec.InitContainers) != 1 || !tc.want(got.Spec.InitContainers[0], got) {
				text, _ := yaml.Marshal(got)
				t.Errorf("the pod is\n%s", text)
			}
			if again := i.Decide(got, tc.space); again.Outcome != Present || again.Reason != AlreadyInjected {
				t.Errorf("again: %+v", again)
			}
		})
	}
}

// TestPatchReplaces: of what a pod has, the patch changes the grace period alone, as
// docs/injection.md says.
func TestPatchReplaces(t *testing.T) {
	t.Parallel()
	pod := podOf(t, plainPod)
	annotate("outrigger.dev/app-sleep", "10s", "outrigger.dev/config-map", "tools", "outrigger.dev/port", "rpc")(pod)
	pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
	text, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := injector(t).Decide(pod, Namespace{}).JSONPatch(text)
	if err != nil {
		t.Fatal(err)
	}
	var steps []operation
	if err := json.Unmarshal(patch, &steps); err != nil {
		t.Fatal(err)
	}
	steps = slices.DeleteFunc(steps, func(o operation) bool { return o.Op == "add" })
	if diff := cmp.Diff([]operation{{"replace", "/spec/terminationGracePeriodSeconds", 45.0}}, steps); diff != "" {
		t.Errorf("besides what it adds (-want +got):\n%s", diff)
	}
}

func variable(c corev1.Container, name string) string {
	for _, v := range c.Env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// applied applies the edits of a decision, and checks that the JSON patch has
// as many steps as changed something.
func applied(t testing.TB, d Decision, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	if d.Outcome != Injected {
		t.Fatalf("%s: %s", d.Outcome, d.Message)
	}
	text, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	for _, e := range d.Edits {
		if _, err := e.apply(tree); err != nil {
			t.Fatal(err)
		}
	}
	if text, err = json.Marshal(tree); err != nil {
		t.Fatal(err)
	}
	out := new(corev1.Pod)
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
	return out
}
