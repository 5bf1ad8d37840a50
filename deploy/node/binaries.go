// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// KubernetesVersion is what the programs of Kubernetes are built from; it is
// the version in kubernetes/go.mod.
const KubernetesVersion = "v1.34.4"

// buildTimeout bounds the build of one of them. Cold, on two cores that others
// use too, one takes half an hour.
const buildTimeout = 90 * time.Minute

// Programs are those of the distribution that a node needs, by the Debian
// package that has them.
func Programs() map[string]string {
	return map[string]string{
		"etcd": "etcd-server", "containerd": "containerd", "ctr": "containerd", "runc": "runc", "ip": "iproute2",
		filepath.Join(pluginFolder, "bridge"): "containernetworking-plugins", "iptables": "iptables",
	}
}

// Missing says which programs are not there, and how to get them. Nil: nothing.
func Missing() error {
	packages := map[string]bool{}
	for program, pkg := range Programs() {
		if _, err := exec.LookPath(program); err != nil {
			packages[pkg] = true
		}
	}
	if len(packages) == 0 {
		return nil
	}
	var names []string
	for name := range packages {
		names = append(names, name)
	}
	return fmt.Errorf("programs are missing; `apt-get install --no-install-recommends %s` brings them", strings.Join(names, " "))
}

// Cache is the folder of the built binaries: outside of the checkout, so that
// they outlive it.
func Cache() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache: %w; set XDG_CACHE_HOME", err)
	}
	return filepath.Join(base, "outrigger-k8s", KubernetesVersion), nil
}

// Kubernetes are the paths of its programs.
type Kubernetes struct {
	Kubelet, APIServer string
	// ControllerManager and Scheduler are for [Node.StartControllers].
	ControllerManager, Scheduler string
	// Kubectl is what people use; see [Node.Environment].
	Kubectl string
}

// Binaries returns the paths of the programs of Kubernetes, and builds what the
// cache does not have, from the module in the folder source. It runs at the
// lowest priority: nothing waits for it more than for anything else.
func Binaries(ctx context.Context, source string) (Kubernetes, error) {
	cache, err := Cache()
	if err != nil {
		return Kubernetes{}, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil { //nolint:gosec // binaries are for everybody to run
		return Kubernetes{}, fmt.Errorf("cache: %w", err)
	}
	var k Kubernetes
	for _, program := range []struct {
		name string
		path *string
	}{{"kubelet", &k.Kubelet}, {"kube-apiserver", &k.APIServer}, {"kube-controller-manager", &k.ControllerManager}, {"kube-scheduler", &k.Scheduler}, {"kubectl", &k.Kubectl}} {
		*program.path = filepath.Join(cache, program.name)
		if _, err := os.Stat(*program.path); err == nil {
			continue
		} else if !errors.Is(err, os.ErrNotExist) {
			return Kubernetes{}, fmt.Errorf("cache: %w", err)
		}
		if err := compile(ctx, source, program.name, *program.path); err != nil {
			return Kubernetes{}, err
		}
	}
	return k, nil
}

func compile(ctx context.Context, source, name, out string) error {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	const version = "-X k8s.io/component-base/version."
	minor := strings.Split(strings.TrimPrefix(KubernetesVersion, "v"), ".")
	flags := "-s -w " + version + "gitVersion=" + KubernetesVersion + " " + version + "gitMajor=" + minor[0] + " " + version + "gitMinor=" + minor[1]
	cmd := exec.CommandContext(ctx, "nice", "-n", "19", "go", "build", "-p", "1", "-trimpath", "-ldflags", flags, //nolint:gosec // fixed but for paths
		"-o", out+".part", "k8s.io/kubernetes/cmd/"+name)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, err, text)
	}
	return os.Rename(out+".part", out)
}
