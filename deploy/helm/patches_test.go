// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the goldens, and the patches of the library chart")

// TestPatches holds the library chart's copy of the patches to deploy/k8s. `make
// helm-generate` makes it anew.
func TestPatches(t *testing.T) {
	var want strings.Builder
	want.WriteString("{{/* SPDX-License-Identifier: Apache-2.0 */}}\n\n{{/* Made by `make helm-generate` from deploy/k8s/components. */}}\n")
	for _, one := range []struct{ define, file string }{
		{"patch.sidecar", "sidecar/sidecar.yaml"},
		{"patch.unix-socket", "unix-socket/unix-socket.yaml"},
		{"patch.configuration", "configuration/configuration.yaml"},
		{"patch.descriptors", "descriptors/descriptors.yaml"},
		{"patch.records", "records/records.yaml"},
		{"patch.replicas", "replicas/replicas.yaml"},
		{"patch.shared-state", "shared-state/credentials.yaml"},
		{"patch.telemetry", "telemetry/telemetry.yaml"},
		{"patch.no-auth", "no-auth/no-auth.yaml"},
		{"object.network-policy", "network-policy/network-policy.yaml"},
		{"object.disruption-budget", "disruption-budget/disruption-budget.yaml"},
		{"object.pod-monitor", "pod-monitor/pod-monitor.yaml"},
		{"object.http-route", "http-route/http-route.yaml"},
		{"object.grpc-route", "grpc-route/grpc-route.yaml"},
	} {
		text, err := os.ReadFile(filepath.Join("../k8s/components", one.file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "{{") {
			t.Fatalf("%s has {{, which a template would evaluate", one.file)
		}
		body := strings.TrimPrefix(string(text), "# SPDX-License-Identifier: Apache-2.0\n")
		fmt.Fprintf(&want, "\n{{- define \"outrigger-sidecar.%s\" -}}\n%s{{- end }}\n", one.define, body)
	}
	const path = "outrigger-sidecar/templates/_patches.tpl"
	if *update {
		if err := os.WriteFile(path, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want.String() {
		t.Errorf("%s is not what deploy/k8s/components has (%v); `make helm-generate` makes it anew", path, err)
	}
}

// TestExample holds the example's links to the library chart: a file that is missing would be a template that is missing.
func TestExample(t *testing.T) {
	want, got := load(t, "outrigger-sidecar"), load(t, "examples/fleet").Dependencies()
	if len(got) != 1 || len(got[0].Raw) != len(want.Raw) {
		t.Fatalf("examples/fleet has not all files of the library chart; link them below examples/fleet/charts")
	}
}
