// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/strvals"
)

// TestPage renders what docs/helm.md shows: each --set, and the chart of a team.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/helm.md")
	if err != nil {
		t.Fatal(err)
	}
	sets := 0
	for line := range strings.Lines(string(text)) {
		v := values{}
		for _, set := range regexp.MustCompile("--set ([^ =`\n]+=[^ `\n]+)").FindAllStringSubmatch(line, -1) {
			if err := strvals.ParseInto(set[1], v); err != nil {
				t.Fatal(err)
			}
			sets++
		}
		render(t, load(t, "outrigger"), v, release)
	}
	if sets < 5 {
		t.Errorf("the page has %d values", sets)
	}
	// Each value of the table is one of the chart's.
	all := leaves("", load(t, "outrigger").Values)
	for _, name := range regexp.MustCompile("(?m)^\\| `([a-zA-Z.]+)`(?:, `([a-zA-Z.]+)`)? \\|").FindAllStringSubmatch(string(text), -1) {
		for _, one := range name[1:] {
			found := one == ""
			for _, path := range all {
				found = found || path == one || strings.HasPrefix(path, one+".")
			}
			if !found {
				t.Errorf("the chart has no value %s", one)
			}
		}
	}

	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 3 {
		t.Fatalf("the page has %d blocks of YAML", len(blocks))
	}
	c := team(t, "", blocks[1][1])
	c.Templates = c.Templates[:1]
	dependency := parse(t, blocks[0][1])["dependencies"].([]any)[0].(map[string]any)
	if dependency["name"] != "outrigger-sidecar" {
		t.Errorf("the dependency is %v", dependency)
	}
	got := strings.Join(flat(t, render(t, c, parse(t, blocks[2][1]), release)), "\n")
	for _, want := range []string{
		"Deployment/shop spec.template.spec.initContainers.0.env.OUTRIGGER_BACKEND.value: grpc://127.0.0.1:9090\n",
		"ConfigMap/shop-outrigger data.sidecar.yaml.state.url: nats://nats.example:4222\n", "NetworkPolicy/shop kind: ", "PodMonitor/shop kind: ", "Service/shop spec.ports.mcp.port: 8080\n",
		"PodDisruptionBudget/shop spec.selector.matchLabels.app: shop\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the chart of the page renders no %s", want)
		}
	}
}
