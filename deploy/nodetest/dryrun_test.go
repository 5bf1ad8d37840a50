// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/deploy/node"
)

// makeNamespace makes the namespace of the production example for real, with
// what it enforces, and makes the API server warn of it too: it enforces on pods
// alone, and warns at what makes pods.
func makeNamespace(t *testing.T, n *node.Node) {
	t.Helper()
	for _, o := range render(t, "production") {
		if o.kind() == "Namespace" {
			labels := o.meta()["labels"].(map[string]any)
			if labels["pod-security.kubernetes.io/enforce"] != "restricted" {
				t.Fatalf("the namespace enforces %v", labels)
			}
			labels["pod-security.kubernetes.io/warn"] = "restricted"
			apply(t, n, o, false)
			return
		}
	}
	t.Fatal("the production example has no namespace")
}

// testDryRun sends every object of every example to the API server with strict
// field validation, and the pod that each Deployment or StatefulSet makes. None is refused, and
// none is warned of.
func testDryRun(t *testing.T, n *node.Node, r *result) {
	entries, err := os.ReadDir("../k8s/examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		t.Run(entry.Name(), func(t *testing.T) {
			for _, o := range render(t, entry.Name()) {
				if o.kind() == "Namespace" {
					continue // it is there; a second owner of its labels would be a conflict
				}
				apply(t, n, o, true)
				r.objects++
				if o.kind() == "Deployment" || o.kind() == "StatefulSet" {
					apply(t, n, podFor(t, o), true)
					r.objects++
				}
			}
		})
	}
	r.examples = len(entries)
}

// podFor is the pod of a Deployment or a StatefulSet, with a service account that is there, and a volume for each claim.
func podFor(t *testing.T, maker object) object {
	t.Helper()
	pod := podOf(t, copyOf(t, maker), maker.name()+"-dry-run")
	spec := pod["spec"].(map[string]any)
	spec["serviceAccountName"] = "fleet"
	claims, _ := maker.at("spec", "volumeClaimTemplates").([]any)
	volumes, _ := spec["volumes"].([]any)
	for _, claim := range claims {
		volumes = append(volumes, map[string]any{"name": object(claim.(map[string]any)).name(), "emptyDir": map[string]any{}})
	}
	if len(volumes) > 0 {
		spec["volumes"] = volumes
	}
	return pod
}

// testRefusals shows that the dry run has teeth: each of these is refused, with
// what it breaks.
func testRefusals(t *testing.T, n *node.Node) {
	for name, tc := range map[string]struct {
		change func(pod object)
		code   int
		want   string
	}{
		"root": {func(pod object) {
			pod.container(t, "sidecar")["securityContext"].(map[string]any)["runAsUser"] = 0
		}, http.StatusForbidden, "runAsUser=0"},
		"privilege escalation": {func(pod object) {
			pod.container(t, "sidecar")["securityContext"].(map[string]any)["allowPrivilegeEscalation"] = true
		}, http.StatusForbidden, "allowPrivilegeEscalation"},
		"capabilities": {func(pod object) {
			delete(pod.container(t, "sidecar")["securityContext"].(map[string]any), "capabilities")
		}, http.StatusForbidden, "unrestricted capabilities"},
		"misspelt field": {func(pod object) {
			pod.container(t, "sidecar")["readynessProbe"] = map[string]any{}
		}, http.StatusBadRequest, "readynessProbe"},
		"not a sidecar": {func(pod object) {
			delete(pod.container(t, "sidecar"), "restartPolicy")
		}, http.StatusUnprocessableEntity, "may not be set for init containers without restartPolicy=Always"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podFor(t, deploymentOf(t, render(t, "minimal")))
			tc.change(pod)
			err := n.API().Create(t.Context(), pods+"?dryRun=All&fieldValidation=Strict", pod)
			var status *node.StatusError
			if !errors.As(err, &status) || status.Code != tc.code || !strings.Contains(status.Message, tc.want) {
				t.Errorf("got %v, want HTTP %d that says %q", err, tc.code, tc.want)
			}
		})
	}
}

func deploymentOf(t *testing.T, all []object) object {
	t.Helper()
	for _, o := range all {
		if o.kind() == "Deployment" {
			return o
		}
	}
	t.Fatal("there is no Deployment")
	return nil
}
