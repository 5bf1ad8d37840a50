// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/deploy/node"
)

// result is what docs/k8s-test.md tells.
type result struct {
	examples, objects int

	appAfterSidecar, readyAfterApp time.Duration

	idleRSS, busyRSS, peakMemory int64

	variants []string

	brokeOff, backAfterKill time.Duration

	requests, refused, unsent int
	executions                []int
	drain, appTold, deletion  time.Duration

	front, page string
	figures     []figure

	rollout, injection, injectedRollout, renewal, spread string
}

func newResult() *result { return &result{executions: make([]int, 2)} }

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// write writes the document. It is called only when every test has passed.
func (r *result) write(t *testing.T, path string) {
	t.Helper()
	rows := [][2]string{
		{"server-side dry run, strict fields, Pod Security `restricted` enforced", fmt.Sprintf("%d examples, %d objects and pods: none rejected, no warnings", r.examples, r.objects)},
		{"root, privilege escalation, capabilities, a misspelt field, probes without a native sidecar", "the API server rejects each one"},
		{"start order", fmt.Sprintf("the app started %v after the sidecar listened", round(r.appAfterSidecar))},
		{fmt.Sprintf("app that takes %v to listen", slowStart), fmt.Sprintf("sidecar started, live, not ready; pod ready %v after the app listened; no restart", round(r.readyAfterApp))},
		{"no token, wrong token; admin listener from outside", "401; not reachable"},
		{"security context, as the kernel reports it", "user 65532, no capabilities, no new privileges, seccomp filter, read-only root, memory limit 128 MiB (the Go memory limit is nine tenths of it)"},
		{"memory of the sidecar", fmt.Sprintf("%s idle, %s with 256 callers; cgroup peak %s", mib(r.idleRSS), mib(r.busyRSS), mib(r.peakMemory))},
		{"memory limit too small", "OOMKilled"},
		{"variants " + strings.Join(r.variants, ", "), "ready; every edge answers; the variant is in effect"},
		{"kill -9 of the sidecar", fmt.Sprintf("calls in flight broke off after %v; only the sidecar restarted; every edge answers again after %v", round(r.brokeOff), round(r.backAfterKill))},
		{fmt.Sprintf("deletion under load (%d callers, 4 edges)", loadCallers), fmt.Sprintf("%d requests, each executed once (%d by the deleted pod, %d by the other) and answered once, with its own result; %d rejected with a retry hint, %d found no listener; none lost, crossed or repeated",
			r.requests, r.executions[0], r.executions[1], r.refused, r.unsent)},
		{"shutdown order", fmt.Sprintf("drain finished in %v, app got SIGTERM %v later, pod gone %v after its deletion; both containers exited with 0", round(r.drain), round(r.appTold), round(r.deletion))},
		{"`examples/front` with three services behind it, each in its namespace with `examples/behind-front`", r.front},
		{"[five commands](five-commands.md), with kubectl, the injector in its pods", r.page},
		{"the injector's webhook, by URL, under RBAC: a labelled Deployment, StatefulSet, Job, CronJob and bare pod; refusals; pods that were missed", r.injection},
		{"two rolling updates of a Deployment with injected sidecars, under load", r.injectedRollout},
		{"a sidecar whose backend is `dns:///` and the name of a headless Service with two pods, of which one is deleted", r.spread},
		{"the injector in its pods with the component `cert-manager`, whose Secret is replaced as cert-manager does", r.renewal},
		{"two rolling updates of three replicas that share state, clients of every revision", r.rollout},
	}
	var b strings.Builder
	b.WriteString("<!-- Written by `make k8s-test`. Do not edit. -->\n\n# The manifests on a real node\n\n")
	b.WriteString("`make k8s-test` starts etcd, the API server, containerd and the kubelet, and deploys what `deploy/k8s` renders, with the images of `make image`.\n")
	fmt.Fprintf(&b, "Last passed on %s at commit `%s`, with Kubernetes %s, %s, %s.\n\n", time.Now().UTC().Format(time.DateOnly), *commit, node.KubernetesVersion, version(t, "containerd", "--version", 2), version(t, "runc", "--version", 2))
	b.WriteString("| what | result |\n|---|---|\n")
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], row[1])
	}
	r.writeFigures(t, &b)
	b.WriteString("\nRolling updates and injected pods are made by the controllers, and the names of Services are those of a resolver of the test. For all other tests there is no scheduler and no controller manager: the test creates\n" +
		"the pods of the Deployments itself and sets their node. NATS runs beside the node, as three processes.\n" +
		"The API server validates NetworkPolicy, PodDisruptionBudget, PodMonitor, HTTPRoute and GRPCRoute against their definitions; nothing enforces them.\n")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// version returns a program's name and the given word of its version output.
func version(t *testing.T, program, flag string, word int) string {
	t.Helper()
	out, err := exec.Command(program, flag).Output()
	fields := strings.Fields(string(out))
	if err != nil || len(fields) <= word {
		t.Fatalf("%s %s says %q (%v)", program, flag, out, err)
	}
	return program + " " + fields[word]
}
