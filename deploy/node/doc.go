// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package node runs a Kubernetes node of one machine for tests, without a
// container engine: etcd, the API server, containerd and the kubelet, all real.
// There is no scheduler and no controller manager, so pods name their node and
// Deployments stay what they are.
//
// It lives in its own namespaces (Enter): mounts, network and processes. When
// the first process in there ends, however it ends, the kernel takes everything
// else with it, bridge, routes and mounts included; what then is left is a
// folder and empty cgroups, which Enter removes.
//
// It takes root, a Linux with cgroups, the programs that Programs lists, and the
// two binaries of Kubernetes that Binaries builds once into a cache.
package node
