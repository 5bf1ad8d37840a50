// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// TestTheDocumentsExamples loads what docs/policy.md has to paste: rules that fit the demo service, and cases.
func TestTheDocumentsExamples(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) != 3 {
		t.Fatalf("%d blocks of YAML", len(blocks))
	}
	cat := build(t, mcptest.Descriptors(demov1.File_outrigger_demo_v1_fleet_proto, demov1.File_outrigger_demo_v1_lab_proto), "outrigger.demo.v1.Fleet", "outrigger.demo.v1.Lab")
	dir := t.TempDir()
	for _, block := range blocks {
		if strings.HasPrefix(string(block[1]), "tools:") {
			continue // an overlay, of a service that is not the demo
		}
		path := filepath.Join(dir, "page.yaml")
		if err := os.WriteFile(path, block[1], 0o600); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(block[1]), "cases:") {
			_, err = config.LoadPolicyTests(path, func(*configv1.PolicyTests, func(path, message string)) {})
		} else {
			_, err = config.LoadPolicy(path, func(p *configv1.Policy, _ func(path, message string)) {
				var list []policy.Rule
				for _, r := range p.GetRules() {
					list = append(list, policy.Rule{Name: r.GetName(), Tools: r.GetTools(), Effect: policy.Effect(r.GetEffect()), When: r.GetWhen()})
				}
				set := compile(t, list...)
				if faults := set.Fit(cat); len(faults) > 0 {
					t.Errorf("%v", faults)
				}
				for i, r := range list {
					if len(set.ToolsOf(i, cat)) == 0 {
						t.Errorf("%s is about no tool", r.Name)
					}
				}
			})
		}
		if err != nil {
			t.Error(err)
		}
	}
}
