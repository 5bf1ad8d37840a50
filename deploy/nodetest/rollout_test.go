// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/deploy/node"
)

// buildRollout builds the tests of replicas, which are in a module of their own.
func (p *prepared) buildRollout(ctx context.Context, work string) error {
	var err error
	if p.Robustness, err = filepath.Abs("../../conformance/fleet/robustness"); err != nil {
		return err
	}
	p.Rollout = filepath.Join(work, "rollout.test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", p.Rollout, ".")
	cmd.Dir = p.Robustness
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the tests of replicas: %w\n%s", err, text)
	}
	return nil
}

// rolloutFile is what the tests of replicas read: where the cluster is and what
// to deploy there.
type rolloutFile struct {
	API, Token, Namespace, Name, Host, Summary string
	Objects                                    []rolloutObject
}

type rolloutObject struct {
	Path   string
	Object object
}

// testRollout has the controller of a Deployment replace three replicas that share
// their state, twice, while clients of every revision use tasks, sessions, events,
// consents and registrations. The tests of replicas are the clients, the backend
// and the NATS servers.
func testRollout(t *testing.T, n *node.Node, p prepared, r *result) {
	url, token := n.API().Credentials()
	folder := t.TempDir()
	file := rolloutFile{API: url, Token: token, Namespace: namespace, Name: "fleet", Host: node.Address, Summary: filepath.Join(folder, "summary")}
	for _, o := range render(t, "shared-state") {
		if strings.HasPrefix(o.name(), "outrigger-nats") {
			continue // the servers, which run beside the node
		}
		path, err := o.path()
		if err != nil {
			t.Fatal(err)
		}
		switch o.kind() {
		case "Deployment", "Service", "ConfigMap", "ServiceAccount", "PodDisruptionBudget":
			file.Objects = append(file.Objects, rolloutObject{path, o})
		}
	}
	text, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	spec := filepath.Join(folder, "rollout.json")
	if err := os.WriteFile(spec, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), p.Rollout, "-test.run", "^TestRolloutOnKubernetes$", "-test.v", "-test.timeout", "30m")
	cmd.Dir = p.Robustness
	// The sidecars are in the image: none has to be built.
	cmd.Env = append(os.Environ(), "OUTRIGGER_ROLLOUT="+spec, "OUTRIGGER_TEST_BINARY="+p.Rollout)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	summary, err := os.ReadFile(file.Summary)
	if err != nil {
		t.Fatal(err)
	}
	r.rollout = string(summary)
}
