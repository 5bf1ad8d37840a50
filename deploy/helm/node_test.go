// SPDX-License-Identifier: Apache-2.0

//go:build linux

package helm

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/yaml"

	"github.com/outrigger-mcp/outrigger/deploy/node"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

const (
	// system is the injector's namespace, fleet the team's, and dry that of what is not made.
	system, fleet, dry = "outrigger-system", "fleet", "dry-run"
	// webhookAddress is where the API server finds the webhook: it listens on loopback only, so no pod reaches it, and
	// the injector runs beside the node.
	webhookAddress, healthAddress = "127.0.0.1:9443", "127.0.0.1:9444"
	// helmLimit bounds one command of Helm, and rollLimit one that has NATS servers leave one after the other, each in half a minute.
	helmLimit, rollLimit = 4 * time.Minute, 10 * time.Minute
	// token is the secret of the only caller.
	token = "a-token-of-this-test"
)

var pauseName, pauseTag, _ = strings.Cut(node.PauseImage, ":")

// TestNode installs the charts on a real node.
func TestNode(t *testing.T) {
	if os.Getenv("OUTRIGGER_K8S_TEST") != "1" {
		t.Skip("takes root and minutes; `make helm-test` runs it")
	}
	var p prepared
	if err := json.Unmarshal([]byte(os.Getenv(preparedVariable)), &p); err != nil {
		t.Fatal(err)
	}
	n, err := node.Start(t.Context(), node.Options{Kubernetes: p.Kubernetes, Archives: p.Archives})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	c := &cluster{n: n, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), p: p}
	c.writeConfig(t)
	c.installDefinitions(t)
	c.makeNamespace(t, dry)
	c.makeNamespace(t, fleet)
	t.Run("dry run", c.testDryRun)
	if err := n.StartControllers(t.Context(), p.Kubernetes); err != nil {
		t.Fatal(err)
	}
	t.Run("injector", c.testInjector)
	t.Run("a team's chart", c.testTeam)
}

// cluster is the node with Helm.
type cluster struct {
	n          *node.Node
	kubeconfig string
	p          prepared
}

func (c *cluster) writeConfig(t *testing.T) {
	t.Helper()
	url, token := c.n.API().Credentials()
	c.write(t, c.kubeconfig, url, token)
}

func (c *cluster) write(t *testing.T, path, url, token string) {
	t.Helper()
	text, err := json.Marshal(values{
		"apiVersion": "v1", "kind": "Config", "current-context": "node",
		"clusters": []any{values{"name": "node", "cluster": values{"server": url, "insecure-skip-tls-verify": true}}},
		"users":    []any{values{"name": "user", "user": values{"token": token}}},
		"contexts": []any{values{"name": "node", "context": values{"cluster": "node", "user": "user"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// path is where the API server has an object.
func (o object) path(t *testing.T, namespace string) string {
	t.Helper()
	kind, version := fmt.Sprint(o["kind"]), fmt.Sprint(o["apiVersion"])
	plural := strings.ToLower(kind) + "s"
	if strings.HasSuffix(kind, "y") {
		plural = strings.TrimSuffix(plural, "ys") + "ies"
	}
	root := "/apis/" + version
	if !strings.Contains(version, "/") {
		root = "/api/" + version
	}
	if !slices.Contains([]string{"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "MutatingWebhookConfiguration", "PersistentVolume"}, kind) {
		if in, ok := o.meta()["namespace"].(string); ok {
			namespace = in
		}
		root += "/namespaces/" + namespace
	}
	return root + "/" + plural + "/" + fmt.Sprint(o.meta()["name"])
}

// apply applies an object with strict validation, and wants neither error nor warning.
func (c *cluster) apply(t *testing.T, o object, namespace string, dryRun bool) {
	t.Helper()
	warnings, err := c.n.API().Apply(t.Context(), o.path(t, namespace), o, dryRun)
	if err != nil {
		t.Errorf("%s: %v", o.key(), err)
	}
	for _, warning := range warnings {
		t.Errorf("%s: warning: %s", o.key(), warning)
	}
}

// makeNamespace makes a namespace that enforces Pod Security, with a service account for pods.
func (c *cluster) makeNamespace(t *testing.T, name string) {
	t.Helper()
	c.apply(t, object{"apiVersion": "v1", "kind": "Namespace", "metadata": values{"name": name, "labels": values{
		"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted",
	}}}, "", false)
	c.apply(t, object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": values{"name": "default"}}, name, false)
}

func (c *cluster) installDefinitions(t *testing.T) {
	t.Helper()
	for _, file := range c.p.Definitions {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects(t, string(text)) {
			delete(o.meta(), "labels") // cert-manager's are templates
			c.apply(t, o, "", false)
			testkit.Try(t, o.key()+" is served", func() error {
				var definition struct {
					Status struct{ Conditions []node.Condition }
				}
				if err := c.n.API().Get(t.Context(), o.path(t, ""), &definition); err != nil {
					return err
				}
				for _, condition := range definition.Status.Conditions {
					if condition.Type == "Established" && condition.Status == "True" {
						return nil
					}
				}
				return errors.New("not yet")
			})
		}
	}
}

// testDryRun sends everything that the charts render, with every value, to the API server, and the pods of Deployments and
// StatefulSets.
func (c *cluster) testDryRun(t *testing.T) {
	o := release
	o.Namespace = dry
	sent := map[string]bool{}
	once := func(one object) {
		text, err := json.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		if !sent[string(text)] {
			sent[string(text)] = true
			c.apply(t, one, dry, true)
		}
	}
	for _, e := range allEffects() {
		for _, text := range append([]string{"{}"}, e.values...) {
			for _, one := range objects(t, render(t, load(t, e.folder), e.set(t, text), o)) {
				once(one)
				if kind := one["kind"]; kind == "Deployment" || kind == "StatefulSet" {
					once(podOf(t, one))
				}
			}
		}
	}
	t.Logf("%d objects", len(sent))
	if len(sent) < 100 {
		t.Errorf("only %d objects were sent", len(sent))
	}
	broken := objects(t, render(t, load(t, "outrigger"), nil, o))["Deployment/outrigger-injector"]
	broken["spec"].(map[string]any)["replica"] = 3
	if _, err := c.n.API().Apply(t.Context(), broken.path(t, dry), broken, true); err == nil || !strings.Contains(err.Error(), "replica") {
		t.Errorf("a field that is unknown: %v", err)
	}
}

// podOf is the pod of a Deployment or a StatefulSet, with a service account that is there, and a volume for each claim.
func podOf(t *testing.T, maker object) object {
	t.Helper()
	text, err := json.Marshal(maker["spec"])
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Template             object
		VolumeClaimTemplates []object
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		t.Fatal(err)
	}
	pod := spec.Template
	pod["apiVersion"], pod["kind"] = "v1", "Pod"
	pod.meta()["name"] = fmt.Sprint(maker.meta()["name"])
	inner := pod["spec"].(map[string]any)
	inner["serviceAccountName"] = "default"
	volumes, _ := inner["volumes"].([]any)
	for _, claim := range spec.VolumeClaimTemplates {
		volumes = append(volumes, values{"name": claim.meta()["name"], "emptyDir": values{}})
	}
	if len(volumes) > 0 {
		inner["volumes"] = volumes
	}
	return pod
}

// helm is Helm's configuration for a namespace.
func (c *cluster) helm(t *testing.T, namespace string) *action.Configuration {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace = &c.kubeconfig, &namespace
	cfg := new(action.Configuration)
	if err := cfg.Init(flags, namespace, "secret", func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// byURL is what a post-renderer makes of the webhook, which is no pod here.
type byURL struct{}

func (byURL) Run(manifests *bytes.Buffer) (*bytes.Buffer, error) {
	var out bytes.Buffer
	for document := range strings.SplitSeq(manifests.String(), "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			return nil, err
		}
		webhooks, _ := o["webhooks"].([]any)
		for _, w := range webhooks {
			w.(map[string]any)["clientConfig"] = values{"url": "https://" + webhookAddress + "/inject"}
		}
		text, err := yaml.Marshal(o)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "---\n%s", text)
	}
	return &out, nil
}

// at is a chart in another version, as a newer release has it.
func at(t *testing.T, folder, version string) *chart.Chart {
	t.Helper()
	c := load(t, folder)
	c.Metadata.Version = version
	return c
}

// testInjector installs, upgrades, rolls back and uninstalls the injector. What it wrote into its webhook outlives upgrade and
// rollback, so that pods get the sidecar all the time.
func (c *cluster) testInjector(t *testing.T) {
	// No node is such: the injector runs beside the node.
	v := parse(t, `injector: {nodeSelector: {kubernetes.io/os: none}, sidecarImage: "registry.example/outrigger/sidecar:0.1.0-dev"}`)
	cfg := c.helm(t, system)
	install := action.NewInstall(cfg)
	install.ReleaseName, install.Namespace, install.CreateNamespace, install.PostRenderer = "outrigger", system, true, byURL{}
	made, err := install.Run(at(t, "outrigger", "0.1.0"), v)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(made.Info.Notes, "kubectl label namespace NAMESPACE outrigger.dev/inject=enabled") {
		t.Errorf("the notes are %q", made.Info.Notes)
	}
	c.startInjector(t)
	testkit.Try(t, "pods get the sidecar", func() error { return c.injected(t, true) })
	ca := c.bundle(t)
	if ca == "" {
		t.Fatal("the webhook has no CA")
	}
	unchanged := func(after string) {
		t.Helper()
		if got := c.bundle(t); got != ca {
			t.Errorf("after the %s the webhook has another CA", after)
		}
		if err := c.injected(t, true); err != nil {
			t.Errorf("after the %s: %v", after, err)
		}
	}

	upgrade := action.NewUpgrade(cfg)
	upgrade.Namespace, upgrade.PostRenderer = system, byURL{}
	v["injector"].(map[string]any)["replicas"] = 3
	v["injector"].(map[string]any)["neverNamespaces"] = []any{"payments"}
	if _, err := upgrade.Run("outrigger", at(t, "outrigger", "0.2.0"), v); err != nil {
		t.Fatal(err)
	}
	if got := c.replicas(t, system, "outrigger-injector"); got != 3 {
		t.Errorf("after the upgrade there are %d replicas", got)
	}
	unchanged("upgrade")

	rollback := action.NewRollback(cfg)
	rollback.Version = 1
	if err := rollback.Run("outrigger"); err != nil {
		t.Fatal(err)
	}
	if got := c.replicas(t, system, "outrigger-injector"); got != 2 {
		t.Errorf("after the rollback there are %d replicas", got)
	}
	unchanged("rollback")

	second := action.NewInstall(c.helm(t, fleet))
	second.ReleaseName, second.Namespace = "second", fleet
	if _, err := second.Run(at(t, "outrigger", "0.2.0"), nil); err == nil || !strings.Contains(err.Error(), "invalid ownership metadata") {
		t.Errorf("a second release: %v", err)
	}

	bad := action.NewUpgrade(cfg)
	bad.Namespace = system
	if _, err := bad.Run("outrigger", at(t, "outrigger", "0.2.0"), values{"injector": values{"replicas": "two"}}); err == nil || !strings.Contains(err.Error(), "/injector/replicas") {
		t.Errorf("a bad value: %v", err)
	}
	unchanged("refused upgrade")

	if _, err := action.NewUninstall(cfg).Run("outrigger"); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects(t, made.Manifest) {
		c.gone(t, o, system)
	}
	if err := c.injected(t, false); err != nil {
		t.Errorf("after the end: %v", err)
	}
	c.clear(t, system)
}

// startInjector starts the injector with the rights of its service account.
func (c *cluster) startInjector(t *testing.T) {
	t.Helper()
	url, _ := c.n.API().Credentials()
	var answer struct{ Status struct{ Token string } }
	request := values{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": values{"expirationSeconds": 7200}}
	if _, err := c.n.API().Post(t.Context(), "/api/v1/namespaces/"+system+"/serviceaccounts/outrigger-injector/token", request, &answer); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "kubeconfig")
	c.write(t, config, url, answer.Status.Token)
	var log bytes.Buffer
	cmd := exec.Command(c.p.Injector, "serve", "--kubeconfig", config, "--namespace", system, "--listen", webhookAddress,
		"--metrics", "0", "--health", healthAddress, "--tls-names", "127.0.0.1", "--drain-delay", "0s")
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the injector: %s", log.String())
		}
	})
	testkit.Try(t, "the injector is ready", func() error {
		res, err := http.Get("http://" + healthAddress + "/readyz")
		if err != nil {
			return err
		}
		if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
			return fmt.Errorf("HTTP %d (%w)", res.StatusCode, err)
		}
		return nil
	})
}

// injected asks what would become of a labelled pod.
func (c *cluster) injected(t *testing.T, want bool) error {
	t.Helper()
	pod := object{"apiVersion": "v1", "kind": "Pod", "metadata": values{"name": "any", "labels": values{"outrigger.dev/inject": "enabled"}, "annotations": values{"outrigger.dev/auth": "none"}}}
	pod["spec"] = parse(t, `{containers: [{name: app, image: app, ports: [{containerPort: 9090}], securityContext: {allowPrivilegeEscalation: false,
  runAsNonRoot: true, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}}]}`)
	var made struct {
		Spec struct {
			InitContainers []struct{ Name, Image string }
		}
	}
	if _, err := c.n.API().Post(t.Context(), "/api/v1/namespaces/"+fleet+"/pods?dryRun=All", pod, &made); err != nil {
		return err
	}
	if got := len(made.Spec.InitContainers) == 1 && made.Spec.InitContainers[0].Name == "sidecar"; got != want {
		return fmt.Errorf("the pod has the init containers %v", made.Spec.InitContainers)
	}
	return nil
}

// bundle is the CA in the webhook.
func (c *cluster) bundle(t *testing.T) string {
	t.Helper()
	var webhook struct {
		Webhooks []struct{ ClientConfig struct{ CABundle string } }
	}
	if err := c.n.API().Get(t.Context(), "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/outrigger-injector", &webhook); err != nil {
		t.Fatal(err)
	}
	if len(webhook.Webhooks) != 2 || webhook.Webhooks[0] != webhook.Webhooks[1] {
		t.Fatalf("the webhook is %v", webhook)
	}
	return webhook.Webhooks[0].ClientConfig.CABundle
}

func (c *cluster) replicas(t *testing.T, namespace, name string) int {
	t.Helper()
	var deployment struct{ Spec struct{ Replicas int } }
	if err := c.n.API().Get(t.Context(), "/apis/apps/v1/namespaces/"+namespace+"/deployments/"+name, &deployment); err != nil {
		t.Fatal(err)
	}
	return deployment.Spec.Replicas
}

// gone wants an object not to be there.
func (c *cluster) gone(t *testing.T, o object, namespace string) {
	t.Helper()
	testkit.Try(t, o.key()+" is gone", func() error {
		var status *node.StatusError
		if err := c.n.API().Get(t.Context(), o.path(t, namespace), nil); !errors.As(err, &status) || status.Code != http.StatusNotFound {
			return fmt.Errorf("%w", err)
		}
		return nil
	})
}

// clear deletes what the garbage collector would: it does not run on this node.
func (c *cluster) clear(t *testing.T, namespace string) {
	t.Helper()
	for _, path := range []string{"/apis/apps/v1/namespaces/" + namespace + "/replicasets", "/api/v1/namespaces/" + namespace + "/pods"} {
		if err := c.n.API().Delete(t.Context(), path); err != nil {
			t.Error(err)
		}
	}
}

// testTeam installs a team's chart, whose pods keep their state in the NATS servers of the chart outrigger, upgrades it to a newer
// release of the sidecar, and rolls it back. What the newer release has stored, the former one reads. An upgrade that replaces the
// servers loses nothing.
func (c *cluster) testTeam(t *testing.T) {
	c.makeSecrets(t)
	state := c.installNATS(t)
	v := parse(t, `
outrigger-sidecar:
  stateKeySecret: outrigger-state
  nats: {address: "`+state.address+`"}
  config: {tools: [{method: outrigger.demo.v1.Lab/Sleep, tool: {task_support: optional}}]}
`)
	cfg := c.helm(t, fleet)
	install := action.NewInstall(cfg)
	install.ReleaseName, install.Namespace, install.Wait, install.Timeout = "fleet", fleet, true, helmLimit
	made, err := install.Run(at(t, "examples/fleet", "0.1.0"), v)
	if err != nil {
		t.Fatalf("%v\n%s", err, c.events(t))
	}
	tokens := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokens, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	sidecarAt := func(p podInfo, args ...string) (out string) {
		t.Helper()
		// While NATS servers elect a leader, an answer may be UNAVAILABLE, and say that the call may be made again.
		testkit.Try(t, strings.Join(args, " "), func() (err error) {
			if out, err = c.ask(t, tokens, p, args...); err != nil && !strings.Contains(out, `"retryable": true`) {
				t.Fatal(err)
			}
			return err
		})
		return out
	}
	sidecar := func(args ...string) string { t.Helper(); return sidecarAt(c.pods(t)[0], args...) }
	run := func(nonce string) string {
		t.Helper()
		var task struct {
			TaskID string `json:"taskId"`
		}
		text := sidecar("call", "lab.sleep", `{"duration": "3s", "nonce": "`+nonce+`"}`, "--task")
		if err := json.Unmarshal([]byte(text), &task); err != nil || task.TaskID == "" {
			t.Fatalf("the task is %s (%v)", text, err)
		}
		if text := sidecar("task", "wait", task.TaskID); !strings.Contains(text, nonce) {
			t.Errorf("the task of the %s release ends with %s", nonce, text)
		}
		return task.TaskID
	}
	c.runs(t, "0.1.0-dev", 1)
	first := run("former")

	upgrade := action.NewUpgrade(cfg)
	upgrade.Namespace, upgrade.Wait, upgrade.Timeout = fleet, true, helmLimit
	v["replicas"] = 2
	own := v["outrigger-sidecar"].(map[string]any)
	own["image"] = repository + "/sidecar:" + newer
	own["config"].(map[string]any)["timeout"] = "20s"
	if _, err := upgrade.Run("fleet", at(t, "examples/fleet", "0.2.0"), v); err != nil {
		t.Fatalf("%v\n%s", err, c.events(t))
	}
	c.runs(t, newer, 2)
	if text := sidecar("task", "wait", first); !strings.Contains(text, "former") {
		t.Errorf("the newer release says of the former one's task: %s", text)
	}
	second := run("newer")
	// While the servers are replaced, sidecars go on: a task begins before and ends after.
	state.upgrade(t, func() { run("meanwhile") })
	for _, p := range c.pods(t) {
		if text := sidecarAt(p, "task", "wait", second); !strings.Contains(text, "newer") {
			t.Errorf("after the upgrade of NATS, %s says of a task: %s", p.name, text)
		}
	}

	rollback := action.NewRollback(cfg)
	rollback.Version, rollback.Wait, rollback.Timeout = 1, true, helmLimit
	if err := rollback.Run("fleet"); err != nil {
		t.Fatalf("%v\n%s", err, c.events(t))
	}
	c.runs(t, "0.1.0-dev", 1)
	for id, want := range map[string]string{first: "former", second: "newer"} {
		if text := sidecar("task", "wait", id); !strings.Contains(text, want) {
			t.Errorf("after the rollback the %s release's task is %s", want, text)
		}
	}
	if text := sidecar("call", "lab.echo", `{"nonce": "after"}`); !strings.Contains(text, "after") {
		t.Errorf("after the rollback a call is answered %s", text)
	}

	// Pods of a release with a bad file are never ready. Those of the release before it go on, and start again where they are lost.
	v["replicas"], upgrade.Wait = 1, false
	own["image"], own["config"].(map[string]any)["timeout"] = repository+"/sidecar:0.1.0-dev", "never"
	if _, err := upgrade.Run("fleet", at(t, "examples/fleet", "0.2.0"), v); err != nil {
		t.Fatal(err)
	}
	lost := c.pods(t)
	if len(lost) != 1 {
		t.Fatalf("the pods are %v", lost)
	}
	if err := c.n.API().Delete(t.Context(), "/api/v1/namespaces/"+fleet+"/pods/"+lost[0].name); err != nil {
		t.Fatal(err)
	}
	testkit.Try(t, "another pod with the former file", func() error {
		all := c.pods(t)
		if len(all) != 1 || all[0].name == lost[0].name {
			return fmt.Errorf("the pods are %v, and %s", all, c.events(t))
		}
		return nil
	})

	if _, err := action.NewUninstall(cfg).Run("fleet"); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects(t, made.Manifest) {
		c.gone(t, o, fleet)
	}
	state.uninstall(t)
	c.clear(t, fleet)
}

// ask runs a command of the sidecar against that of a pod, and returns what it prints.
func (c *cluster) ask(t *testing.T, tokens string, p podInfo, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.p.Sidecar, append(args, "--server", "http://"+p.ip+":8080", "--token-file", tokens, "--insecure-token")...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			out = append(out, exit.Stderr...)
		}
		err = fmt.Errorf("%v: %w\n%s", args, err, out)
	}
	return string(out), err
}

// natsRelease is the chart outrigger with NATS servers and nothing else.
type natsRelease struct {
	c       *cluster
	cfg     *action.Configuration
	values  values
	address string
	made    string
}

// installNATS installs NATS for the team, as docs/helm.md does. The volumes are folders of this machine, which a cluster would make.
func (c *cluster) installNATS(t *testing.T) *natsRelease {
	t.Helper()
	for n := range 3 {
		folder := filepath.Join(t.TempDir(), "data")
		// Kubernetes sets no owner of such a volume.
		if err := errors.Join(os.Mkdir(folder, 0o700), os.Chown(folder, 1000, 1000), open(folder)); err != nil {
			t.Fatal(err)
		}
		c.apply(t, object{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": values{"name": fmt.Sprintf("volume-%d", n)}, "spec": values{
			"capacity": values{"storage": "4Gi"}, "accessModes": []any{"ReadWriteOnce"}, "persistentVolumeReclaimPolicy": "Retain",
			"hostPath": values{"path": folder, "type": "Directory"},
		}}, "", false)
	}
	r := &natsRelease{c: c, cfg: c.helm(t, fleet), values: parse(t, `{injector: {enabled: false}, nats: {enabled: true, antiAffinity: preferred, image: "`+natsImage+`"}}`)}
	install := action.NewInstall(r.cfg)
	install.ReleaseName, install.Namespace, install.PostRenderer, install.Wait, install.Timeout = "state", fleet, inRoot{}, true, helmLimit
	made, err := install.Run(at(t, "outrigger", "0.1.0"), r.values)
	if err != nil {
		t.Fatalf("%v\n%s", err, c.events(t))
	}
	r.made = made.Manifest
	if r.address = regexp.MustCompile(`nats://\S+`).FindString(made.Info.Notes); strings.Count(r.address, ",") != 2 {
		t.Fatalf("the notes have the address %q, want three servers:\n%s", r.address, made.Info.Notes)
	}
	return r
}

// open lets other users through the folders above one that a test has made.
func open(folder string) error {
	var errs []error
	for up := filepath.Dir(folder); up != os.TempDir() && up != "/"; up = filepath.Dir(up) {
		errs = append(errs, os.Chmod(up, 0o755))
	}
	return errors.Join(errs...)
}

// inRoot is a post-renderer that finds the program where the image of this test has it.
type inRoot struct{}

func (inRoot) Run(manifests *bytes.Buffer) (*bytes.Buffer, error) {
	const name = "            - name: POD_NAME\n"
	if n := strings.Count(manifests.String(), name); n != 1 {
		return nil, fmt.Errorf("%d containers have POD_NAME, want 1", n)
	}
	return bytes.NewBufferString(strings.Replace(manifests.String(), name, "            - {name: PATH, value: /}\n"+name, 1)), nil
}

// servers are the pods of NATS, by their names, with their identities.
func (r *natsRelease) servers(t *testing.T) map[string]string {
	t.Helper()
	var list struct {
		Items []struct{ Metadata struct{ Name, UID string } }
	}
	if err := r.c.n.API().Get(t.Context(), "/api/v1/namespaces/"+fleet+"/pods?labelSelector=app.kubernetes.io%2Fname%3Doutrigger-nats", &list); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, p := range list.Items {
		out[p.Metadata.Name] = p.Metadata.UID
	}
	return out
}

// upgrade upgrades the release such that each server is replaced, and does something meanwhile.
func (r *natsRelease) upgrade(t *testing.T, meanwhile func()) {
	t.Helper()
	before := r.servers(t)
	r.values["nats"].(map[string]any)["resources"] = parse(t, `{requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 640Mi}}`)
	upgrade := action.NewUpgrade(r.cfg)
	upgrade.Namespace, upgrade.PostRenderer, upgrade.Wait, upgrade.Timeout = fleet, inRoot{}, true, rollLimit
	done := make(chan error, 1)
	newer := at(t, "outrigger", "0.2.0")
	go func() {
		_, err := upgrade.Run("state", newer, r.values)
		done <- err
	}()
	for n := 0; ; n++ {
		meanwhile()
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("%v\n%s", err, r.c.events(t))
			}
			after := r.servers(t)
			for name, uid := range before {
				if after[name] == "" || after[name] == uid {
					t.Errorf("%s was not replaced: %s, then %s", name, uid, after[name])
				}
			}
			t.Logf("NATS: %d servers replaced, %d tasks meanwhile", len(after), n+1)
			return
		default:
		}
	}
}

func (r *natsRelease) uninstall(t *testing.T) {
	t.Helper()
	if _, err := action.NewUninstall(r.cfg).Run("state"); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects(t, r.made) {
		r.c.gone(t, o, fleet)
	}
}

// makeSecrets makes those that a team makes.
func (c *cluster) makeSecrets(t *testing.T) {
	t.Helper()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(token))
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	for name, data := range map[string]values{
		"outrigger-callers": {"callers.yaml": fmt.Sprintf("callers:\n  - name: agent\n    token_sha256: [%s]\n    tools: [\"*\"]\n", hex.EncodeToString(sum[:]))},
		"outrigger-nats":    {"user.nk": string(seed) + "\n", "user.pub": public},
		"outrigger-state":   {"state.key": base64.StdEncoding.EncodeToString(key) + "\n"},
	} {
		c.apply(t, object{"apiVersion": "v1", "kind": "Secret", "metadata": values{"name": name}, "stringData": data}, fleet, false)
	}
}

type podInfo struct{ name, ip, image string }

// pods are those of the team that are ready and not about to end.
func (c *cluster) pods(t *testing.T) []podInfo {
	t.Helper()
	var list struct {
		Items []struct {
			Metadata struct{ Name, DeletionTimestamp string }
			Spec     struct{ InitContainers []struct{ Image string } }
			Status   struct {
				PodIP      string
				Conditions []node.Condition
			}
		}
	}
	if err := c.n.API().Get(t.Context(), "/api/v1/namespaces/"+fleet+"/pods?labelSelector=app.kubernetes.io%2Fname%3Dfleet", &list); err != nil {
		t.Fatal(err)
	}
	var out []podInfo
	for _, p := range list.Items {
		ready := slices.ContainsFunc(p.Status.Conditions, func(c node.Condition) bool { return c.Type == "Ready" && c.Status == "True" })
		if ready && p.Metadata.DeletionTimestamp == "" {
			out = append(out, podInfo{p.Metadata.Name, p.Status.PodIP, p.Spec.InitContainers[0].Image})
		}
	}
	return out
}

// runs waits until there are so many pods, all with a version of the sidecar.
func (c *cluster) runs(t *testing.T, version string, replicas int) {
	t.Helper()
	testkit.Try(t, "pods with "+version, func() error {
		all := c.pods(t)
		if len(all) != replicas || slices.ContainsFunc(all, func(p podInfo) bool { return p.image != repository+"/sidecar:"+version }) {
			return fmt.Errorf("the pods are %v", all)
		}
		return nil
	})
}

// events are the last that were said about pods of the team.
func (c *cluster) events(t *testing.T) string {
	t.Helper()
	var list struct {
		Items []struct{ Reason, Message string }
	}
	if err := c.n.API().Get(t.Context(), "/api/v1/namespaces/"+fleet+"/events", &list); err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, e := range list.Items[max(0, len(list.Items)-20):] {
		fmt.Fprintf(&out, "%s: %s\n", e.Reason, e.Message)
	}
	return out.String()
}
