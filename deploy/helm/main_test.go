// SPDX-License-Identifier: Apache-2.0

//go:build linux

package helm

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/deploy/image"
	"github.com/outrigger-mcp/outrigger/deploy/node"
)

var (
	images    = flag.String("images", "../../dist", "`folder` with the archives of `make image`")
	keepState = flag.Bool("keep", false, "keep the node's folder with its logs")
)

const (
	// preparedVariable holds what was made outside, where there is a network.
	preparedVariable = "OUTRIGGER_HELM_PREPARED"
	repository       = "registry.example/outrigger"
	// newer is the version of the sidecar that an upgrade brings. The former is that of `make image`.
	newer = "0.2.0-test"
	// natsImage is of the module that go.mod names.
	natsImage = repository + "/nats-server:test"
)

// prepared is what the tests need inside.
type prepared struct {
	node.Kubernetes
	Archives []string
	// Injector and Sidecar are binaries.
	Injector, Sidecar string
	// Definitions are files with the custom resource definitions of others.
	Definitions []string
}

// definitions are the modules that have the definitions of the custom resources
// that the charts render, with files in them.
func definitions() map[string][]string {
	const operator, gateway = "example/prometheus-operator-crd/monitoring.coreos.com_", "config/crd/standard/gateway.networking.k8s.io_"
	return map[string][]string{
		"sigs.k8s.io/gateway-api@v1.4.1":                             {gateway + "httproutes.yaml", gateway + "grpcroutes.yaml"},
		"github.com/prometheus-operator/prometheus-operator@v0.85.0": {operator + "podmonitors.yaml", operator + "servicemonitors.yaml", operator + "prometheusrules.yaml"},
		"github.com/cert-manager/cert-manager@v1.18.2":               {"deploy/crds/crd-certificates.yaml"},
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("OUTRIGGER_K8S_TEST") != "1" {
		os.Exit(m.Run()) // the node's test skips itself
	}
	if node.Inside() {
		if err := node.Settle(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	code, err := outside()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// outside makes what needs the machine's network and its build cache, and then
// enters.
func outside() (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := node.Missing(); err != nil {
		return 1, err
	}
	work, err := os.MkdirTemp("", "ot-helm-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	p, err := prepare(ctx, work)
	if err != nil {
		return 1, err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return 1, err
	}
	if err := os.Setenv(preparedVariable, string(text)); err != nil {
		return 1, err
	}
	return node.Enter(func(int) bool { return *keepState })
}

func prepare(ctx context.Context, work string) (p prepared, err error) {
	if p.Kubernetes, err = node.Binaries(ctx, "../node/kubernetes"); err != nil {
		return p, err
	}
	for module, files := range definitions() {
		out, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", module).Output()
		var answer struct{ Dir, Error string }
		if err := errors.Join(err, json.Unmarshal(out, &answer)); err != nil || answer.Error != "" {
			return p, fmt.Errorf("download %s: %w %s", module, err, answer.Error)
		}
		for _, file := range files {
			p.Definitions = append(p.Definitions, filepath.Join(answer.Dir, file))
		}
	}
	for _, name := range []string{"sidecar", "toolservice"} {
		found, err := filepath.Glob(filepath.Join(*images, name+"-*.oci.tar"))
		if err != nil || len(found) != 1 {
			return p, fmt.Errorf("%s has %d archives of %s (%w); `make image` makes one", *images, len(found), name, err)
		}
		path, err := filepath.Abs(found[0])
		if err != nil {
			return p, err
		}
		p.Archives = append(p.Archives, path)
	}
	pause := image.Program{Name: filepath.Base(pauseName), Dir: "..", Package: "./cmd/pause"}
	for _, one := range []struct {
		program             image.Program
		repository, version string
	}{
		{pause, filepath.Dir(pauseName), pauseTag},
		{image.Sidecar("../..", newer, "test"), repository, newer},
		{image.Program{Name: "nats-server", Dir: ".", Package: "github.com/nats-io/nats-server/v2"}, repository, "test"},
	} {
		built, err := image.Build(ctx, one.program, image.Options{
			Repository: one.repository, Version: one.version, Time: time.Unix(0, 0), Out: work, Platforms: image.DefaultPlatforms()[:1],
		})
		if err != nil {
			return p, err
		}
		p.Archives = append(p.Archives, built.Archive)
	}
	for _, one := range []struct {
		path          *string
		name, in, pkg string
	}{{&p.Injector, "injector", "..", "./cmd/injector"}, {&p.Sidecar, "sidecar", "../..", "./cmd/sidecar"}} {
		*one.path = filepath.Join(work, one.name)
		cmd := exec.CommandContext(ctx, "go", "build", "-o", *one.path, one.pkg)
		cmd.Dir = one.in
		if text, err := cmd.CombinedOutput(); err != nil {
			return p, fmt.Errorf("build %s: %w\n%s", one.pkg, err, text)
		}
	}
	return p, nil
}
