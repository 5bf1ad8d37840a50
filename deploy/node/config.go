// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"fmt"
	"path/filepath"
)

// socket is where containerd listens. The path is short, because a socket's may
// have 107 bytes.
func (n *Node) socket() string { return filepath.Join(n.state, "c.sock") }

func (n *Node) kubeconfig() string { return filepath.Join(n.state, "kubeconfig") }

func (n *Node) containerdConfig() string {
	return fmt.Sprintf(`version = 2
root = %q
state = %q
oom_score = 0
[grpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
`, filepath.Join(n.state, "containerd", "root"), filepath.Join(n.state, "containerd", "state"), n.socket(), PauseImage,
		pluginFolder, filepath.Join(n.state, "cni"))
}

// cniConfig plugs pods into the bridge. There is no way out of it, so there is
// nothing to masquerade and no rule of iptables.
func cniConfig() string {
	return fmt.Sprintf(`{
  "cniVersion": "0.4.0",
  "name": "node",
  "plugins": [{
    "type": "bridge",
    "bridge": %q,
    "isGateway": true,
    "ipMasq": false,
    "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": %q}], "dataDir": "/run/cni-addresses"}
  }]
}
`, bridgeName, podNetwork, serviceRange)
}

func (n *Node) kubeletConfig(cgroup string) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://%s
cgroupDriver: cgroupfs
cgroupRoot: /%s
failSwapOn: false
clusterDNS: [%s]
clusterDomain: cluster.local
address: %s
port: 11250
readOnlyPort: 0
healthzPort: 11248
makeIPTablesUtilChains: false
podLogsDir: %s
volumePluginDir: %s
oomScoreAdj: 0
enforceNodeAllocatable: []
cgroupsPerQOS: true
evictionHard: {memory.available: 10Mi, nodefs.available: "1%%", imagefs.available: "1%%"}
imageGCHighThresholdPercent: 100 # images are loaded once and cannot be pulled, however full the disk is
syncFrequency: 5s
`, n.socket(), cgroup, namesAddress, Address, n.PodLogs(), filepath.Join(n.state, "plugins"))
}

func kubeconfigText(token string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: node, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: %q}}]
contexts: [{name: node, context: {cluster: node, user: admin}}]
current-context: node
`, apiURL, token)
}
