// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Where everything listens. The network namespace is the node's own.
const (
	// Name is the node's.
	Name = "node"

	// Address is where pods reach what runs beside them.
	Address = "10.88.7.1"

	bridgeName  = "ot0"
	podNetwork  = "10.88.7.0/24"
	etcdURL     = "http://127.0.0.1:2379"
	etcdPeerURL = "http://127.0.0.1:2380"
	apiPort     = "6443"
	// serviceAddress is that of the Service kubernetes, the first of the range: pods find the API server there.
	serviceAddress = "10.96.0.1"
	serviceRange   = "10.96.0.0/24"
	apiURL         = "https://127.0.0.1:" + apiPort
	pluginFolder   = "/usr/lib/cni"

	// PauseImage holds the namespaces of each pod.
	PauseImage = "registry.example/outrigger/pause:node"
)

// startTimeout bounds the start of each daemon, on a machine that is busy with
// other things.
const startTimeout = 3 * time.Minute

// Options are what a node is made of.
type Options struct {
	Kubernetes
	// Archives are OCI archives with the images of pods, and with PauseImage.
	Archives []string
}

// Node is a running node. Its owner closes it.
type Node struct {
	state   string
	logs    string
	daemons []*daemon
	api     *API
	// inward listens for pods that call the API server.
	inward net.Listener
	// names answers for the names of Services.
	names net.PacketConn
}

// Start starts a node inside the namespaces of Enter.
func Start(ctx context.Context, o Options) (*Node, error) {
	state := os.Getenv(stateVariable)
	if state == "" {
		return nil, errors.New("node: not inside; call Enter first")
	}
	n := &Node{state: state, logs: filepath.Join(state, "logs")}
	for _, step := range []func(context.Context, Options) error{n.prepare, n.startEtcd, n.startAPI, n.startContainerd, n.load, n.startKubelet} {
		if err := step(ctx, o); err != nil {
			n.Close()
			return nil, fmt.Errorf("node: %w", err)
		}
	}
	return n, nil
}

// Close ends the daemons, the last started first. Containers end with the
// namespace.
func (n *Node) Close() {
	for _, d := range slices.Backward(n.daemons) {
		d.stop()
	}
	n.daemons = nil
	if n.inward != nil {
		_ = n.inward.Close()
	}
	if n.names != nil {
		_ = n.names.Close()
	}
}

// Environment is what kubectl needs to be the administrator of the node.
func (n *Node) Environment() []string { return []string{"KUBECONFIG=" + n.kubeconfig()} }

// API returns the client of the node's API server.
func (n *Node) API() *API { return n.api }

// PodLogs is the folder of the containers' logs.
func (n *Node) PodLogs() string { return filepath.Join(n.state, "pods") }

// prepare makes folders, cgroups and the bridge that pods are plugged into.
func (n *Node) prepare(context.Context, Options) error {
	for _, folder := range []string{"logs", "etcd", "api", "containerd", "cni", "kubelet", "pods", "plugins", "manifests"} {
		if err := os.MkdirAll(filepath.Join(n.state, folder), 0o755); err != nil { //nolint:gosec // containers read some of it
			return err
		}
	}
	if err := makeCgroups(os.Getenv(cgroupVariable)); err != nil {
		return err
	}
	// The kubelet wants an address that is there before the first pod; the plugin finds the bridge and uses it.
	for _, args := range [][]string{
		{"link", "add", bridgeName, "type", "bridge"},
		{"address", "add", Address + "/24", "dev", bridgeName},
		{"link", "set", bridgeName, "up"},
		{"address", "add", serviceAddress + "/32", "dev", bridgeName},
		{"address", "add", namesAddress + "/32", "dev", bridgeName},
		{"route", "add", "default", "dev", bridgeName}, // leads nowhere; some code asks whether there is one
	} {
		if err := run("ip", args...); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) start(name, program string, args ...string) (*daemon, error) {
	d, err := startDaemon(n.logs, name, program, args...)
	if err == nil {
		n.daemons = append(n.daemons, d)
	}
	return d, err
}

func (n *Node) startEtcd(ctx context.Context, _ Options) error {
	d, err := n.start("etcd", "etcd", "--name", Name, "--data-dir", filepath.Join(n.state, "etcd"),
		"--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL,
		"--listen-peer-urls", etcdPeerURL, "--initial-advertise-peer-urls", etcdPeerURL, "--initial-cluster", Name+"="+etcdPeerURL,
		"--unsafe-no-fsync") // what it holds ends with the test
	if err != nil {
		return err
	}
	return d.await(ctx, startTimeout, func(ctx context.Context) error {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", "127.0.0.1:2379")
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

func (n *Node) startContainerd(ctx context.Context, _ Options) error {
	config := filepath.Join(n.state, "containerd.toml")
	if err := os.WriteFile(config, []byte(n.containerdConfig()), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(n.state, "cni", "10-node.conflist"), []byte(cniConfig()), 0o600); err != nil {
		return err
	}
	d, err := n.start("containerd", "containerd", "--config", config)
	if err != nil {
		return err
	}
	return d.await(ctx, startTimeout, func(context.Context) error { return run("ctr", "-a", n.socket(), "version") })
}

// load gives containerd the images; nothing is ever pulled.
func (n *Node) load(_ context.Context, o Options) error {
	for _, archive := range o.Archives {
		if err := run("ctr", "-a", n.socket(), "-n", "k8s.io", "images", "import", archive); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) startKubelet(ctx context.Context, o Options) error {
	config := filepath.Join(n.state, "kubelet.yaml")
	if err := os.WriteFile(config, []byte(n.kubeletConfig(os.Getenv(cgroupVariable))), 0o600); err != nil {
		return err
	}
	d, err := n.start("kubelet", o.Kubelet, "--config", config, "--kubeconfig", n.kubeconfig(), "--root-dir", filepath.Join(n.state, "kubelet"),
		"--hostname-override", Name, "--node-ip", Address, "--v", "2")
	if err != nil {
		return err
	}
	return d.await(ctx, startTimeout, func(ctx context.Context) error {
		var node struct {
			Status struct{ Conditions []Condition }
		}
		if err := n.api.Get(ctx, "/api/v1/nodes/"+Name, &node); err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == "Ready" {
				if c.Status == "True" {
					return nil
				}
				return fmt.Errorf("the node is not ready: %s", c.Message)
			}
		}
		return errors.New("the node has not said whether it is ready")
	})
}
