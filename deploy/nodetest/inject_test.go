// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/deploy/node"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

const (
	// system is the injector's namespace, shop one that is labelled, plain one that is not,
	// and openshift one that assigns users.
	system, shop, plain, openshift = "outrigger-system", "shop", "plain", "openshift"
	// webhookAddress is where the API server finds the webhook.
	webhookAddress = "127.0.0.1:9443"
	// arbitraryUser is one that no image knows.
	arbitraryUser = 1000720000
	toolImage     = "registry.example/outrigger/toolservice:0.1.0-dev"
	sidecarImage  = "registry.example/outrigger/sidecar:0.1.0-dev"
	injectLabel   = "outrigger.dev/inject"
	// injectCallers call while a Deployment is rolled out.
	injectCallers = 8
	// cronLimit is above the time until a CronJob of every minute has run once.
	cronLimit = 4 * time.Minute
)

// buildInjector builds the injector, which runs beside the node: the API server listens on
// loopback only, so no pod reaches it.
func (p *prepared) buildInjector(ctx context.Context, work string) error {
	p.Injector = filepath.Join(work, "injector")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", p.Injector, "./cmd/injector")
	cmd.Dir = ".."
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the injector: %w\n%s", err, text)
	}
	return nil
}

// fixture is the injector in the cluster.
type fixture struct {
	n          *node.Node
	binary     string
	kubeconfig string
	token      string
	replicas   [2]*replica
	// left is the replica that was not killed.
	left int
}

// replica is a process of the injector.
type replica struct {
	cmd  *exec.Cmd
	log  *transcript
	done chan struct{}
}

// transcript is what processes have written.
type transcript struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// testInjection runs two replicas of the injector with the rights of their manifests and
// lets controllers make pods of every kind.
func testInjection(t *testing.T, n *node.Node, p prepared, r *result) {
	f := install(t, n, p)
	t.Run("rights", f.testRights)
	f.start(t, 0)
	f.start(t, 1)
	balanceReplicas(t)
	t.Run("workloads", f.testWorkloads)
	t.Run("left alone", f.testLeftAlone)
	t.Run("offline", f.testOffline)
	t.Run("refusals", f.testRefusals)
	t.Run("arbitrary user", f.testArbitraryUser)
	t.Run("service account", f.testServiceAccount)
	t.Run("one replica killed", f.testKilled)
	t.Run("missed", f.testMissed)
	r.injection = "injected, also when one of two replicas was killed; every Job completed; refused pods started without the sidecar, with an event; " +
		"missed pods were reported, and evicted where they asked for it; no right was missing"
	t.Run("rollout", func(t *testing.T) { f.testRollout(t, r) })
	t.Run("spread", func(t *testing.T) { f.testSpread(t, r) })
	f.clear(t)
	for _, replica := range f.replicas {
		if log := replica.log.String(); strings.Contains(log, "forbidden") || strings.Contains(log, "sweep failed") {
			t.Errorf("a right is missing, or a sweep failed:\n%s", log)
		}
	}
}

// clear ends what the tests have made: there is no garbage collector.
func (f *fixture) clear(t *testing.T) {
	t.Helper()
	for _, path := range []string{
		"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/outrigger-injector", "/apis/apps/v1/namespaces/shop/deployments",
		"/apis/apps/v1/namespaces/shop/replicasets", "/apis/batch/v1/namespaces/shop/jobs", "/api/v1/namespaces/shop/pods", "/api/v1/namespaces/plain/pods",
		"/api/v1/namespaces/openshift/pods",
	} {
		if err := f.n.API().Delete(t.Context(), path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, r := range f.replicas {
		r.end(syscall.SIGTERM)
	}
}

// install applies the injector's manifests, with a webhook by URL instead of a
// Service, and the namespaces of the test.
func install(t *testing.T, n *node.Node, p prepared) *fixture {
	t.Helper()
	f := &fixture{n: n, binary: p.Injector, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	all := render(t, "injector")
	slices.SortStableFunc(all, func(a, b object) int { // the namespace goes first
		return strings.Compare(fmt.Sprint(a.kind() != "Namespace"), fmt.Sprint(b.kind() != "Namespace"))
	})
	for _, o := range all {
		switch o.kind() {
		case "Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy":
			continue // nothing here acts upon them
		case "MutatingWebhookConfiguration":
			for _, w := range o["webhooks"].([]any) {
				w.(map[string]any)["clientConfig"] = map[string]any{"url": "https://" + webhookAddress + "/inject"}
			}
		}
		if namespaced(o.kind()) {
			o.meta()["namespace"] = system
		}
		apply(t, n, o, false)
	}
	for name, meta := range map[string]map[string]any{
		shop:      {"labels": map[string]any{injectLabel: "enabled", "pod-security.kubernetes.io/enforce": "restricted"}},
		plain:     {"labels": map[string]any{"pod-security.kubernetes.io/enforce": "restricted"}},
		openshift: {"labels": map[string]any{injectLabel: "enabled"}, "annotations": map[string]any{"openshift.io/sa.scc.uid-range": "1000720000/10000"}},
	} {
		meta["name"] = name
		apply(t, n, object{"apiVersion": "v1", "kind": "Namespace", "metadata": meta}, false)
		makeAccessIn(t, n, name, "default")
	}
	var answer struct{ Status struct{ Token string } }
	request := object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{"expirationSeconds": 7200}}
	if _, err := n.API().Post(t.Context(), "/api/v1/namespaces/"+system+"/serviceaccounts/outrigger-injector/token", request, &answer); err != nil {
		t.Fatal(err)
	}
	f.token = answer.Status.Token
	url, _ := n.API().Credentials()
	text, err := json.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": "node",
		"clusters": []any{map[string]any{"name": "node", "cluster": map[string]any{"server": url, "insecure-skip-tls-verify": true}}},
		"users":    []any{map[string]any{"name": "injector", "user": map[string]any{"token": f.token}}},
		"contexts": []any{map[string]any{"name": "node", "context": map[string]any{"cluster": "node", "user": "injector"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.kubeconfig, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

// replicaPort is where a replica listens.
func replicaPort(index int) int { return 9543 + index }

// start starts a replica and waits until it is ready.
func (f *fixture) start(t *testing.T, index int) {
	t.Helper()
	port := replicaPort(index)
	health := fmt.Sprintf("127.0.0.1:%d", port+10)
	r := &replica{log: new(transcript), done: make(chan struct{})}
	r.cmd = exec.Command(f.binary, "serve", "--kubeconfig", f.kubeconfig, "--namespace", system, "--listen", fmt.Sprintf("127.0.0.1:%d", port),
		"--metrics", fmt.Sprintf("127.0.0.1:%d", port+20), "--health", health, "--tls-names", "127.0.0.1", "--sweep-interval", "1s", "--restarts-per-minute", "60", "--drain-delay", "1s")
	r.cmd.Stdout, r.cmd.Stderr = r.log, r.log
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = r.cmd.Wait(); close(r.done) }()
	f.replicas[index] = r
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("injector %d: %s", index, r.log)
		}
	})
	testkit.Try(t, fmt.Sprintf("replica %d is ready", index), func() error {
		select {
		case <-r.done:
			t.Fatalf("the injector has ended: %s", r.log)
		default:
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+health+"/readyz", nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
			return fmt.Errorf("HTTP %d (%w)", res.StatusCode, err)
		}
		return nil
	})
}

func (r *replica) end(sig syscall.Signal) {
	_ = r.cmd.Process.Signal(sig)
	<-r.done
}

// balanceReplicas is the Service of the webhook: it connects to the first replica that listens.
func balanceReplicas(t *testing.T) {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", webhookAddress)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	var turn atomic.Int64
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				first := int(turn.Add(1))
				for n := range 2 {
					var d net.Dialer
					out, err := d.DialContext(context.Background(), "tcp", fmt.Sprintf("127.0.0.1:%d", replicaPort((first+n)%2)))
					if err != nil {
						continue
					}
					go func() { _, _ = io.Copy(out, conn); _ = out.Close() }()
					_, _ = io.Copy(conn, out)
					return
				}
			}()
		}
	}()
}

// testRights: the injector may not do what it need not do.
func (f *fixture) testRights(t *testing.T) {
	api := f.n.API().As(f.token)
	for path, allowed := range map[string]bool{
		"/api/v1/namespaces": true, "/api/v1/pods": true, "/api/v1/secrets": false, "/api/v1/configmaps": false,
		"/api/v1/namespaces/shop/secrets/outrigger-callers": true, "/api/v1/namespaces/shop/secrets/other": false,
		"/api/v1/namespaces/outrigger-system/secrets/other": false, "/apis/apps/v1/deployments": false, "/api/v1/nodes": false,
		"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/outrigger-injector": true,
		"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/other":              false,
	} {
		err := api.Get(t.Context(), path, nil)
		var status *node.StatusError
		if forbidden := errors.As(err, &status) && status.Code == http.StatusForbidden; forbidden == allowed {
			t.Errorf("%s: %v, want it allowed: %v", path, err, allowed)
		}
	}
	if err := api.Delete(t.Context(), "/api/v1/namespaces/shop/pods/any"); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("deleting a pod: %v, want it forbidden", err)
	}
}

// template is a pod template with the tool service, as its team would write it.
func template(app string, annotations map[string]any) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": app}, "annotations": annotations},
		"spec": map[string]any{
			"automountServiceAccountToken": false,
			"containers": []any{map[string]any{
				"name": "fleet", "image": toolImage, "args": []any{"-listen", "127.0.0.1:50051"},
				"ports": []any{map[string]any{"name": "rpc", "containerPort": 50051}},
				"resources": map[string]any{
					"requests": map[string]any{"cpu": "5m", "memory": "16Mi"}, "limits": map[string]any{"memory": "96Mi"},
				},
				"securityContext": map[string]any{
					"allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": map[string]any{"drop": []any{"ALL"}},
					"seccompProfile": map[string]any{"type": "RuntimeDefault"},
				},
			}},
		},
	}
}

// once is a template whose only container ends at once.
func once(app, policy string) map[string]any {
	out := template(app, map[string]any{"outrigger.dev/protocol": "grpc"})
	spec := out["spec"].(map[string]any)
	spec["restartPolicy"] = policy
	c := spec["containers"].([]any)[0].(map[string]any)
	c["image"], c["args"] = sidecarImage, []any{"version"}
	return out
}

func deployment(name string, replicas int, template map[string]any) object {
	return object{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": name, "namespace": shop},
		"spec": map[string]any{
			"replicas": replicas, "selector": map[string]any{"matchLabels": map[string]any{"app": name}}, "template": template,
			"strategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxUnavailable": 0, "maxSurge": 1}},
		},
	}
}

func barePod(namespace, name string, labels, annotations map[string]any) object {
	spec := template(name, annotations)["spec"]
	return object{
		"apiVersion": "v1", "kind": "Pod", "spec": spec,
		"metadata": map[string]any{"name": name, "namespace": namespace, "labels": labels, "annotations": annotations},
	}
}

// foundPod is what the test reads of the pods that controllers make.
type foundPod struct {
	Metadata struct {
		Name, UID         string
		Labels            map[string]string
		Annotations       map[string]string
		DeletionTimestamp string
	}
	Spec struct {
		InitContainers, Containers []struct {
			Name, Image, RestartPolicy string
			SecurityContext            struct{ RunAsUser *int64 }
		}
	}
	Status podStatusPart
}

type podStatusPart struct {
	Phase, PodIP          string
	Conditions            []node.Condition
	InitContainerStatuses []containerStatus
}

func (p foundPod) sidecars() int {
	n := 0
	for _, c := range p.Spec.InitContainers {
		if c.Name == "sidecar" && c.RestartPolicy == "Always" {
			n++
		}
	}
	return n
}

func (p foundPod) ready() bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c node.Condition) bool { return c.Type == "Ready" && c.Status == "True" })
}

// pods are those of an app that are not being deleted.
func (f *fixture) pods(t *testing.T, namespace, app string) []foundPod {
	t.Helper()
	var list struct{ Items []foundPod }
	if err := f.n.API().Get(context.WithoutCancel(t.Context()), "/api/v1/namespaces/"+namespace+"/pods?labelSelector=app%3D"+app, &list); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(p foundPod) bool { return p.Metadata.DeletionTimestamp != "" })
}

// await waits until an app has so many ready pods with so many sidecars each.
func (f *fixture) await(t *testing.T, namespace, app string, count, sidecars int) []foundPod {
	t.Helper()
	var found []foundPod
	within(t, 2*time.Minute, fmt.Sprintf("%d ready pods of %s with %d sidecars", count, app, sidecars), func() error {
		found = f.pods(t, namespace, app)
		ready := 0
		for _, p := range found {
			if p.ready() && p.sidecars() == sidecars {
				ready++
			}
		}
		if ready != count || len(found) != count {
			return fmt.Errorf("%d are ready: %+v", ready, found)
		}
		return nil
	})
	return found
}

// within waits longer than testkit.Try does.
func within(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// calls makes a call through the sidecar of a pod, over every edge.
func calls(t *testing.T, p foundPod) {
	t.Helper()
	for _, e := range edges() {
		nonce := p.Metadata.Name + " " + e.name
		if got := e.dial(p.Status.PodIP+":8080")(t.Context(), nonce, time.Millisecond); got.outcome != answered || got.nonce != nonce {
			t.Errorf("%s: %s: %+v", p.Metadata.Name, e.name, got)
		}
	}
}

// testWorkloads: pods of every controller get the sidecar, and Jobs complete with it.
func (f *fixture) testWorkloads(t *testing.T) {
	apply(t, f.n, deployment("web", 2, template("web", map[string]any{"outrigger.dev/protocol": "grpc"})), false)
	apply(t, f.n, object{
		"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": map[string]any{"name": "store", "namespace": shop},
		"spec": map[string]any{
			"replicas": 1, "serviceName": "store", "selector": map[string]any{"matchLabels": map[string]any{"app": "store"}}, "template": template("store", map[string]any{}),
		},
	}, false)
	apply(t, f.n, object{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": "count", "namespace": shop},
		"spec": map[string]any{"backoffLimit": 0, "template": once("count", "Never")},
	}, false)
	apply(t, f.n, object{
		"apiVersion": "batch/v1", "kind": "CronJob", "metadata": map[string]any{"name": "nightly", "namespace": shop},
		"spec": map[string]any{
			"schedule": "* * * * *", "concurrencyPolicy": "Forbid",
			"jobTemplate": map[string]any{"spec": map[string]any{"template": once("nightly", "OnFailure")}},
		},
	}, false)
	apply(t, f.n, barePod(plain, "bare", map[string]any{injectLabel: "enabled", "app": "bare"}, map[string]any{"outrigger.dev/port": "rpc", "outrigger.dev/protocol": "grpc"}), false)
	for app, count := range map[string]int{"web": 2, "store": 1} {
		for _, p := range f.await(t, shop, app, count, 1) {
			calls(t, p)
		}
	}
	calls(t, f.await(t, plain, "bare", 1, 1)[0])
	for _, app := range []string{"count", "nightly"} {
		within(t, cronLimit, app+" completes", func() error {
			for _, p := range f.pods(t, shop, app) {
				if p.sidecars() != 1 {
					t.Fatalf("%s has no sidecar", p.Metadata.Name)
				}
				if p.Status.Phase == "Succeeded" {
					return nil
				}
			}
			return fmt.Errorf("%+v", f.pods(t, shop, app))
		})
	}
	within(t, cronLimit, "the Job is complete", func() error {
		var job struct{ Status struct{ Succeeded int } }
		if err := f.n.API().Get(t.Context(), "/apis/batch/v1/namespaces/shop/jobs/count", &job); err != nil || job.Status.Succeeded != 1 {
			return fmt.Errorf("%+v (%w)", job, err)
		}
		return nil
	})
	for _, path := range []string{"/apis/batch/v1/namespaces/shop/cronjobs/nightly", "/apis/apps/v1/namespaces/shop/statefulsets/store"} {
		if err := f.n.API().Delete(t.Context(), path); err != nil {
			t.Error(err)
		}
	}
	if f.busy() < 0 {
		t.Errorf("no replica has injected anything: %s %s", f.replicas[0].log, f.replicas[1].log)
	}
}

// busy is the replica that the API server has a connection to, or -1.
func (f *fixture) busy() int {
	return slices.IndexFunc(f.replicas[:], func(r *replica) bool { return strings.Contains(r.log.String(), `"outcome":"injected"`) })
}

// dry creates an object in a dry run and returns the pod with the warnings.
func (f *fixture) dry(t *testing.T, o object) (foundPod, []string) {
	t.Helper()
	var p foundPod
	warnings, err := f.n.API().Post(t.Context(), fmt.Sprintf("/api/v1/namespaces/%s/pods?dryRun=All&fieldValidation=Strict", o.meta()["namespace"]), o, &p)
	if err != nil {
		t.Fatal(err)
	}
	return p, warnings
}

// testLeftAlone: what has a sidecar, what opted out and what is in a system namespace stays
// as it is.
func (f *fixture) testLeftAlone(t *testing.T) {
	minimal := deploymentOf(t, render(t, "minimal"))
	kustomized := podOf(t, copyOf(t, minimal), "kustomized")
	kustomized.meta()["namespace"] = shop
	kustomized["spec"].(map[string]any)["serviceAccountName"] = "default"
	makeAccessIn(t, f.n, "kube-system", "default")
	makeAccessIn(t, f.n, system, "default")
	enabled := map[string]any{injectLabel: "enabled"}
	for name, tc := range map[string]struct {
		pod      object
		sidecars int
	}{
		"by Kustomize":           {kustomized, 1},
		"opted out":              {barePod(shop, "out", map[string]any{injectLabel: "disabled"}, map[string]any{}), 0},
		"no label":               {barePod(plain, "none", map[string]any{}, map[string]any{}), 0},
		"kube-system":            {barePod("kube-system", "sys", enabled, map[string]any{}), 0},
		"the injector's own":     {barePod(system, "own", enabled, map[string]any{}), 0},
		"labelled, for contrast": {barePod(plain, "yes", enabled, map[string]any{}), 1},
	} {
		p, warnings := f.dry(t, tc.pod)
		marked := p.Metadata.Annotations["outrigger.dev/injected"] != ""
		if p.sidecars() != tc.sidecars || len(warnings) > 0 || marked != (name == "labelled, for contrast") {
			t.Errorf("%s: %d sidecars, warnings %q, marked %v", name, p.sidecars(), warnings, marked)
		}
	}
	// Creating again what was injected changes nothing.
	var first, second map[string]any
	path := "/api/v1/namespaces/plain/pods?dryRun=All&fieldValidation=Strict"
	if _, err := f.n.API().Post(t.Context(), path, barePod(plain, "twice", enabled, map[string]any{}), &first); err != nil {
		t.Fatal(err)
	}
	copied := object{"apiVersion": "v1", "kind": "Pod", "spec": first["spec"], "metadata": map[string]any{
		"name": "twice", "labels": object(first).meta()["labels"], "annotations": object(first).meta()["annotations"],
	}}
	if _, err := f.n.API().Post(t.Context(), path, copied, &second); err != nil {
		t.Fatal(err)
	}
	a, b := fmt.Sprint(first["spec"]), fmt.Sprint(second["spec"])
	if a != b {
		t.Errorf("injected twice:\n%s\n%s", a, b)
	}
}

// testOffline sends what `injector inject` has made of manifests to the API server, in a dry run with
// strict field validation.
func (f *fixture) testOffline(t *testing.T) {
	files, err := filepath.Glob("../inject/testdata/golden/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no goldens: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects(t, text) {
			items, list := o["items"].([]any)
			if !list {
				items = []any{map[string]any(o)}
			}
			for _, item := range items {
				o := object(item.(map[string]any))
				if o.kind() == "Namespace" {
					continue
				}
				o.meta()["namespace"] = openshift // where Pod Security allows the apps, which say nothing of it
				apply(t, f.n, o, true)
			}
		}
	}
}

// testRefusals: the pod starts without the sidecar, its creator is warned, and an event says
// what to set.
func (f *fixture) testRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		labels, annotations map[string]any
		want                string
	}{
		"badlabel":  {map[string]any{injectLabel: "yes"}, map[string]any{}, "outrigger.dev/inject: the pod's label says"},
		"badport":   {map[string]any{}, map[string]any{"outrigger.dev/port": "http"}, "outrigger.dev/port: no single container port is named http; the pod declares rpc=50051"},
		"misspelt":  {map[string]any{}, map[string]any{"outrigger.dev/protocl": "grpc"}, "did you mean outrigger.dev/protocol?"},
		"nosuchmap": {map[string]any{}, map[string]any{"outrigger.dev/config-map": "toolz"}, "outrigger.dev/config-map: the ConfigMap toolz does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.labels["app"] = name
			pod := barePod(shop, name, tc.labels, tc.annotations)
			warnings, err := f.n.API().Post(t.Context(), "/api/v1/namespaces/shop/pods", pod, nil)
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.ReplaceAll(strings.Join(warnings, " "), `\"`, `"`); !strings.Contains(text, "the pod starts without the sidecar") || !strings.Contains(text, tc.want) {
				t.Errorf("the warnings are %q, want %q", text, tc.want)
			}
			f.await(t, shop, name, 1, 0)
			f.awaitEvent(t, shop, name, "InjectionRefused", tc.want)
		})
	}
}

// awaitEvent waits for an event of a pod.
func (f *fixture) awaitEvent(t *testing.T, namespace, pod, reason, text string) {
	t.Helper()
	// Another replica may have to become the one that sweeps first.
	within(t, time.Minute, "the event "+reason+" of "+pod, func() error {
		var events struct {
			Items []struct {
				Reason, Message string
				InvolvedObject  struct{ Name string }
			}
		}
		if err := f.n.API().Get(t.Context(), "/api/v1/namespaces/"+namespace+"/events", &events); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == reason && e.InvolvedObject.Name == pod && strings.Contains(e.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("%+v", events)
	})
}

// testArbitraryUser: where the namespace assigns users, the sidecar runs as the pod's.
func (f *fixture) testArbitraryUser(t *testing.T) {
	pod := barePod(openshift, "arbitrary", map[string]any{"app": "arbitrary"}, map[string]any{"outrigger.dev/protocol": "grpc"})
	pod["spec"].(map[string]any)["securityContext"] = map[string]any{"runAsUser": arbitraryUser}
	apply(t, f.n, pod, false)
	p := f.await(t, openshift, "arbitrary", 1, 1)[0]
	if user := p.Spec.InitContainers[0].SecurityContext.RunAsUser; user != nil {
		t.Errorf("the sidecar names the user %d", *user)
	}
	calls(t, p)
	_, id, _ := strings.Cut(p.Status.InitContainerStatuses[0].ContainerID, "://")
	pid, err := node.Process(id)
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || !strings.Contains(string(status), fmt.Sprintf("Uid:\t%d\t", arbitraryUser)) {
		t.Errorf("the sidecar runs as another user (%v):\n%s", err, status)
	}
}

// checkedConfiguration is that of an app that checks who calls it: a sidecar with the keys that the API server publishes.
const checkedConfiguration = `listeners:
  listen: 127.0.0.1:50051
  admin: 127.0.0.1:9911
access:
  oauth:
    resource: https://checked.example/mcp
    issuers: [{url: "https://node", jwks_url: "file:///etc/checked/jwks.json", audiences: [checked]}]
`

// testServiceAccount: the app takes the sidecar by the service account token of `identity: token`, and refuses one for another audience.
func (f *fixture) testServiceAccount(t *testing.T) {
	var keys json.RawMessage
	if err := f.n.API().Get(t.Context(), "/openid/v1/jwks", &keys); err != nil {
		t.Fatal(err)
	}
	apply(t, f.n, object{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "checked", "namespace": shop},
		"data": map[string]any{"jwks.json": string(keys), "sidecar.yaml": checkedConfiguration},
	}, false)
	var other *pod
	for name, audience := range map[string]string{"checked": "checked", "unchecked": "another"} {
		o := barePod(shop, name, map[string]any{"app": name}, map[string]any{
			"outrigger.dev/protocol": "grpc", "outrigger.dev/identity": "token", "outrigger.dev/identity-audience": audience,
		})
		spec := o["spec"].(map[string]any)
		spec["volumes"] = []any{map[string]any{"name": "checked", "configMap": map[string]any{"name": "checked"}}}
		c := spec["containers"].([]any)[0].(map[string]any)
		c["image"], c["args"] = sidecarImage, []any{"serve", "--demo", "--config", "/etc/checked/sidecar.yaml", "--record-dir", "off"}
		c["volumeMounts"] = []any{map[string]any{"name": "checked", "mountPath": "/etc/checked"}}
		if name == "checked" {
			apply(t, f.n, o, false)
		} else {
			other = place(t, f.n, o, "fleet")
		}
	}
	p := f.await(t, shop, "checked", 1, 1)[0]
	client := outriggerv1connect.NewToolServiceClient(httpClient(false), "http://"+p.Status.PodIP+":8080")
	out, err := client.CallTool(t.Context(), toolCall("lab.inspect", "{}"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := subject(json.RawMessage(out.Msg.GetResult().GetDataJson())), "https://node#system:serviceaccount:"+shop+":default"; got != want {
		t.Errorf("the app is called by %q, want %q", got, want)
	}
	testkit.Try(t, "the app refuses a token for another audience", func() error {
		log := other.logs["fleet"]
		if !slices.ContainsFunc(log.all(), func(e entry) bool {
			return e.text("msg") == "unauthenticated request rejected" && e.text("reason") == "audience"
		}) {
			return errors.New(log.tail())
		}
		return nil
	})
	if other.status(t).ready() {
		t.Error("the pod whose token is refused is ready")
	}
}

// testKilled: when the replica that the API server asks is killed, the other one injects.
func (f *fixture) testKilled(t *testing.T) {
	killed := max(0, f.busy())
	f.left = 1 - killed
	f.replicas[killed].end(syscall.SIGKILL)
	apply(t, f.n, deployment("after", 1, template("after", map[string]any{})), false)
	f.await(t, shop, "after", 1, 1)
}

// testMissed: pods that are made while no replica is there start without the sidecar. When
// one is back it says so, and evicts those that ask for it. The Secret with the certificate
// is lost meanwhile.
func (f *fixture) testMissed(t *testing.T) {
	f.replicas[f.left].end(syscall.SIGTERM)
	if err := f.n.API().Delete(t.Context(), "/api/v1/namespaces/"+system+"/secrets/outrigger-injector-tls"); err != nil {
		t.Fatal(err)
	}
	apply(t, f.n, deployment("reported", 1, template("reported", map[string]any{})), false)
	apply(t, f.n, deployment("restarted", 2, template("restarted", map[string]any{"outrigger.dev/restart-missed": "true"})), false)
	apply(t, f.n, barePod(shop, "alone", map[string]any{"app": "alone"}, map[string]any{"outrigger.dev/restart-missed": "true"}), false)
	reported := f.await(t, shop, "reported", 1, 0)[0]
	f.await(t, shop, "restarted", 2, 0)
	f.await(t, shop, "alone", 1, 0)
	f.start(t, 0)
	f.start(t, 1)
	f.awaitEvent(t, shop, reported.Metadata.Name, "InjectionMissed", "restart-missed")
	f.awaitEvent(t, shop, "alone", "InjectionMissed", "Delete it and create it again")
	f.await(t, shop, "restarted", 2, 1)
	if p := f.pods(t, shop, "reported"); len(p) != 1 || p[0].Metadata.UID != reported.Metadata.UID {
		t.Errorf("a pod that did not ask for it was restarted: %+v", p)
	}
	f.await(t, shop, "alone", 1, 0)
	if err := f.n.API().Delete(t.Context(), "/api/v1/namespaces/shop/pods/"+reported.Metadata.Name); err != nil {
		t.Fatal(err)
	}
	f.await(t, shop, "reported", 1, 1)
}

// proxy is what a node knows of a Service: addresses that are up to a second old.
type proxy struct {
	f    *fixture
	mu   sync.Mutex
	at   time.Time
	last []string
}

func (p *proxy) addresses(ctx context.Context) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) < time.Second {
		return p.last, nil
	}
	var err error
	p.last, err = p.f.addresses(ctx, "rolled")
	p.at = time.Now()
	return p.last, err
}

// addresses are the ready addresses of a Service.
func (f *fixture) addresses(ctx context.Context, service string) ([]string, error) {
	var slices struct {
		Items []struct {
			Endpoints []struct {
				Addresses  []string
				Conditions struct{ Ready *bool }
			}
		}
	}
	err := f.n.API().Get(ctx, "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D"+service, &slices)
	var out []string
	for _, s := range slices.Items {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				out = append(out, e.Addresses...)
			}
		}
	}
	return out, err
}

// testRollout replaces the pods of a Deployment twice while callers use all edges. A call that
// a pod refuses, or that finds no listener, goes to another pod; none may be lost.
func (f *fixture) testRollout(t *testing.T, r *result) {
	rolled := func(revision string) object {
		return deployment("rolled", 2, template("rolled", map[string]any{
			"outrigger.dev/protocol": "grpc", "outrigger.dev/app-sleep": "10s", "example.com/revision": revision,
		}))
	}
	apply(t, f.n, object{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "rolled", "namespace": shop},
		"spec": map[string]any{"selector": map[string]any{"app": "rolled"}, "ports": []any{map[string]any{"port": 8080, "targetPort": 8080}}},
	}, false)
	apply(t, f.n, rolled("1"), false)
	f.await(t, shop, "rolled", 2, 1)
	testkit.Try(t, "the Service has two addresses", func() error {
		if all, err := f.addresses(t.Context(), "rolled"); err != nil || len(all) != 2 {
			return fmt.Errorf("%v (%w)", all, err)
		}
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var callers sync.WaitGroup
	var done, again atomic.Int64
	all, service := edges(), &proxy{f: f}
	for n := range injectCallers {
		callers.Go(func() {
			e := all[n%len(all)]
			dialled := map[string]func(context.Context, string, time.Duration) attempt{}
			for call := 0; ctx.Err() == nil; call++ {
				again.Add(service.callOne(t, e, dialled, fmt.Sprintf("%d-%d", n, call)))
				done.Add(1)
			}
		})
	}
	for _, revision := range []string{"2", "3"} {
		apply(t, f.n, rolled(revision), false)
		within(t, 4*time.Minute, "revision "+revision+" is rolled out", func() error {
			found := f.pods(t, shop, "rolled")
			for _, p := range found {
				if !p.ready() || p.sidecars() != 1 || p.Metadata.Annotations["example.com/revision"] != revision {
					return fmt.Errorf("%+v", found)
				}
			}
			if len(found) != 2 {
				return fmt.Errorf("%d pods", len(found))
			}
			return nil
		})
	}
	// The last pods of the former revision are still ending: their calls count too.
	within(t, 2*time.Minute, "the former pods have gone", func() error {
		var list struct{ Items []foundPod }
		if err := f.n.API().Get(t.Context(), "/api/v1/namespaces/shop/pods?labelSelector=app%3Drolled", &list); err != nil || len(list.Items) != 2 {
			return fmt.Errorf("%d pods (%w)", len(list.Items), err)
		}
		return nil
	})
	stop()
	callers.Wait()
	if done.Load() < 100 {
		t.Errorf("only %d calls were made", done.Load())
	}
	r.injectedRollout = fmt.Sprintf("%d calls by %d callers over 4 edges, each answered with its own result; %d were refused or found no listener, and went to another pod; none lost", done.Load(), injectCallers, again.Load())
	t.Log(r.injectedRollout)
}

// callOne makes one call, at another address after each refusal. It returns how
// often it was refused.
func (p *proxy) callOne(t *testing.T, e edge, dialled map[string]func(context.Context, string, time.Duration) attempt, nonce string) int64 {
	t.Helper()
	const most = 100
	for n := range int64(most) {
		all, err := p.addresses(t.Context())
		if err != nil || len(all) == 0 {
			t.Errorf("%s: the Service has the addresses %v (%v)", nonce, all, err)
			return n
		}
		addr := all[(int(n)+len(nonce))%len(all)] + ":8080"
		if dialled[addr] == nil {
			dialled[addr] = e.dial(addr)
		}
		switch got := dialled[addr](t.Context(), nonce, 50*time.Millisecond); {
		case got.outcome == answered && got.nonce == nonce:
			return n
		case got.outcome == refused, got.outcome == unsent:
			time.Sleep(50 * time.Millisecond)
		default:
			t.Errorf("%s over %s: lost: %+v", nonce, e.name, got)
			return n
		}
	}
	t.Errorf("%s: refused %d times", nonce, most)
	return most
}
