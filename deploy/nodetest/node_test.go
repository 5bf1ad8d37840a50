// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"encoding/json"
	"os"
	"testing"
)

// TestNode runs everything on one node, in the order in which a reader would ask.
func TestNode(t *testing.T) {
	if os.Getenv("OUTRIGGER_K8S_TEST") != "1" {
		t.Skip("takes root and minutes; `make k8s-test` runs it")
	}
	var p prepared
	if err := json.Unmarshal([]byte(os.Getenv(preparedVariable)), &p); err != nil {
		t.Fatal(err)
	}
	n := setup(t, p)
	r := newResult()
	makeNamespace(t, n)
	makeAccess(t, n)
	t.Run("dry run", func(t *testing.T) { testDryRun(t, n, r) })
	t.Run("refusals", func(t *testing.T) { testRefusals(t, n) })
	t.Run("start order", func(t *testing.T) { testStart(t, n, r) })
	t.Run("restrictions in force", func(t *testing.T) { testForce(t, n, r) })
	t.Run("variants", func(t *testing.T) { testVariants(t, n, r) })
	t.Run("kill of the sidecar", func(t *testing.T) { testKill(t, n, r) })
	t.Run("deletion under load", func(t *testing.T) { testDeletion(t, n, r) })
	t.Run("front", func(t *testing.T) { testFront(t, n, p, r) })
	t.Run("figures", func(t *testing.T) { testFigures(t, n, r) })
	if err := n.StartControllers(t.Context(), p.Kubernetes); err != nil {
		t.Fatal(err)
	}
	t.Run("five commands", func(t *testing.T) { testPage(t, n, p, r) })
	t.Run("renewal", func(t *testing.T) { testRenewal(t, n, p, r) })
	t.Run("injection", func(t *testing.T) { testInjection(t, n, p, r) })
	t.Run("rolling update", func(t *testing.T) { testRollout(t, n, p, r) })
	if *document != "" && !t.Failed() {
		r.write(t, *document)
	}
}
