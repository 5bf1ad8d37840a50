// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"context"
	"fmt"
	"path/filepath"
)

// StartControllers starts what makes the pods of Deployments, StatefulSets and Jobs, gives them to the
// node, binds their volumes, keeps the endpoints of Services and answers for their names. Without it, the creator
// of a pod sets its node. It must be called at most once.
func (n *Node) StartControllers(ctx context.Context, k Kubernetes) error {
	for _, program := range []struct {
		name, path, port string
		args             []string
	}{
		// Neither the garbage collector nor what looks after nodes that are lost is needed for one node that lasts minutes.
		{"kube-controller-manager", k.ControllerManager, "10257", []string{
			"--controllers", "deployment-controller,replicaset-controller,statefulset-controller,job-controller,cronjob-controller," +
				"endpointslice-controller,node-lifecycle-controller,disruption-controller,serviceaccount-controller,root-ca-certificate-publisher-controller," +
				"namespace-controller,persistentvolume-binder-controller",
			"--root-ca-file", filepath.Join(n.state, "api", "apiserver.crt"), // it has the CA behind its certificate
		}},
		{"kube-scheduler", k.Scheduler, "10259", nil},
	} {
		args := append([]string{"--kubeconfig", n.kubeconfig(), "--leader-elect=false", "--bind-address", "127.0.0.1", "--secure-port", program.port,
			"--authorization-always-allow-paths", "/healthz"}, program.args...)
		d, err := n.start(program.name, program.path, args...)
		if err != nil {
			return fmt.Errorf("node: %w", err)
		}
		health := "https://127.0.0.1:" + program.port + "/healthz"
		if err := d.await(ctx, startTimeout, func(ctx context.Context) error { return n.api.check(ctx, health) }); err != nil {
			return fmt.Errorf("node: %w", err)
		}
	}
	if err := n.serveNames(ctx); err != nil {
		return fmt.Errorf("node: names of Services: %w", err)
	}
	return nil
}
