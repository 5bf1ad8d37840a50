// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

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
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/deploy/image"
	"github.com/outrigger-mcp/outrigger/deploy/node"
)

var (
	images    = flag.String("images", "../../dist", "`folder` with the archives of `make image`")
	document  = flag.String("doc", "", "`file` that is to hold the result; empty: none")
	commit    = flag.String("commit", "unknown", "`commit` that the images were built from")
	keepState = flag.Bool("keep", false, "keep the node's folder with its logs")
)

// preparedVariable holds what was made outside, where there is a network.
const preparedVariable = "OUTRIGGER_NODE_PREPARED"

// prepared is what the tests need inside.
type prepared struct {
	node.Kubernetes
	Archives []string
	// Rollout is the binary of the tests of replicas, and Robustness the folder of their package.
	Rollout, Robustness string
	// Injector and Sidecar are binaries for use beside the node.
	Injector, Sidecar string
	// Definitions are folders with the custom resource definitions of others.
	Definitions []string
}

// definitions are the modules that have the definitions of the custom resources
// in the manifests, with the folder below.
func definitions() map[string]string {
	return map[string]string{
		"sigs.k8s.io/gateway-api@v1.4.1":                             "config/crd/standard",
		"github.com/cert-manager/cert-manager@v1.18.2":               "deploy/crds",
		"github.com/prometheus-operator/prometheus-operator@v0.85.0": "example/prometheus-operator-crd",
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("OUTRIGGER_K8S_TEST") != "1" {
		os.Exit(m.Run()) // every test skips itself
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
	var p prepared
	var err error
	if p.Kubernetes, err = node.Binaries(ctx, filepath.Join("..", "node", "kubernetes")); err != nil {
		return 1, err
	}
	for module, folder := range definitions() {
		root, err := download(ctx, module)
		if err != nil {
			return 1, err
		}
		p.Definitions = append(p.Definitions, filepath.Join(root, folder))
	}
	work, err := os.MkdirTemp("", "ot-images-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if p.Archives, err = archives(ctx, work); err != nil {
		return 1, err
	}
	if err := p.buildRollout(ctx, work); err != nil {
		return 1, err
	}
	if err := p.buildInjector(ctx, work); err != nil {
		return 1, err
	}
	if err := p.buildSidecar(ctx, work); err != nil {
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

// download brings a module into the module cache and returns its folder.
func download(ctx context.Context, module string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", module).Output()
	var answer struct{ Dir, Error string }
	if err := errors.Join(err, json.Unmarshal(out, &answer)); err != nil || answer.Error != "" {
		return "", fmt.Errorf("download %s: %w %s", module, err, answer.Error)
	}
	return answer.Dir, nil
}

// archives are those of `make image`, and one with the pause image.
func archives(ctx context.Context, work string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(*images, "*.oci.tar"))
	if err != nil || len(found) < 2 {
		return nil, fmt.Errorf("%s has no archives of the sidecar and the tool service (%w); `make image` makes them", *images, err)
	}
	for i, path := range found {
		if found[i], err = filepath.Abs(path); err != nil {
			return nil, err
		}
	}
	name, tag, _ := strings.Cut(node.PauseImage, ":")
	pause, err := image.Build(ctx, image.Program{Name: filepath.Base(name), Dir: "..", Package: "./cmd/pause"},
		image.Options{Repository: filepath.Dir(name), Version: tag, Time: time.Unix(0, 0), Out: work})
	return append(found, pause.Archive), err
}

// setup starts the node, and makes the namespaces that the tests use.
func setup(t *testing.T, p prepared) *node.Node {
	t.Helper()
	n, err := node.Start(t.Context(), node.Options{Kubernetes: p.Kubernetes, Archives: p.Archives})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	installDefinitions(t, n, p.Definitions)
	return n
}
