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
}

func newResult() *result { return &result{executions: make([]int, 2)} }

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// write writes the document. It is called only when every test has passed.
func (r *result) write(t *testing.T, path string) {
	t.Helper()
	rows := [][2]string{
		{"server-side dry run, strict fields, Pod Security `restricted` enforced", fmt.Sprintf("%d examples, %d objects and pods: none refused, no warning", r.examples, r.objects)},
		{"root, privilege escalation, capabilities, a misspelt field, probes without a native sidecar", "each refused by the API server"},
		{"start order", fmt.Sprintf("the app started %v after the sidecar listened", round(r.appAfterSidecar))},
		{fmt.Sprintf("app that takes %v to listen", slowStart), fmt.Sprintf("sidecar started, alive, not ready; pod ready %v after the app listened; no restart", round(r.readyAfterApp))},
		{"no token, wrong token; admin listener from outside", "401; not reachable"},
		{"in force, read from the kernel", "user 65532, no capabilities, no new privileges, seccomp filter, read-only root, memory limit 128 MiB, of which Go works towards nine tenths"},
		{"memory of the sidecar", fmt.Sprintf("%s at rest, %s with 256 callers; at most %s in its cgroup", mib(r.idleRSS), mib(r.busyRSS), mib(r.peakMemory))},
		{"a memory limit that is too small", "OOMKilled"},
		{"variants " + strings.Join(r.variants, ", "), "ready, every edge answers, and what is varied is used"},
		{"kill -9 of the sidecar", fmt.Sprintf("calls in flight broke off after %v; restarted alone; every edge answers again after %v", round(r.brokeOff), round(r.backAfterKill))},
		{fmt.Sprintf("deletion under load (%d callers, 4 edges)", loadCallers), fmt.Sprintf("%d requests, each answered once with its own answer and executed once (%d by the pod that left, %d by the other); %d refusals with a hint when to try again, %d found no listener; none lost, crossed or repeated",
			r.requests, r.executions[0], r.executions[1], r.refused, r.unsent)},
		{"order of the end", fmt.Sprintf("drain over in %v, app told %v later, pod gone %v after its deletion; both containers ended with 0", round(r.drain), round(r.appTold), round(r.deletion))},
	}
	var b strings.Builder
	b.WriteString("<!-- Written by `make k8s-test`. Do not edit. -->\n\n# The manifests on a real node\n\n")
	b.WriteString("`make k8s-test` starts etcd, the API server, containerd and the kubelet, and tries what `deploy/k8s` renders with the images of `make image`.\n")
	fmt.Fprintf(&b, "Last passed on %s at commit `%s`, with Kubernetes %s, %s, %s.\n\n", time.Now().UTC().Format(time.DateOnly), *commit, node.KubernetesVersion, version(t, "containerd", "--version", 2), version(t, "runc", "--version", 2))
	b.WriteString("| what | result |\n|---|---|\n")
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], row[1])
	}
	b.WriteString("\nThere is no scheduler and no controller manager: the pods are those that the Deployments would make, and name their node.\n" +
		"NetworkPolicy, PodDisruptionBudget, PodMonitor, HTTPRoute and GRPCRoute are checked by the API server against their own definitions, and nothing acts upon them.\n")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// version is a word of what a program says about itself, with its name.
func version(t *testing.T, program, flag string, word int) string {
	t.Helper()
	out, err := exec.Command(program, flag).Output()
	fields := strings.Fields(string(out))
	if err != nil || len(fields) <= word {
		t.Fatalf("%s %s says %q (%v)", program, flag, out, err)
	}
	return program + " " + fields[word]
}
