// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/server/upstream"
)

// garden is a descriptor set with several services.
const garden = "../../catalog/testdata/garden-protoc.binpb"

// TestRulesAndDescriptorFiles: a rule that does not fit a tool of a descriptor file is a fault with its place.
func TestRulesAndDescriptorFiles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ when, want string }{
		{`args.label != ""`, ""},
		{`caller.name == "a"`, ""},
		{`args.nothing == 1`, `:5:12: rules[0].when: expression 1:5: undefined field 'nothing' (tool garden_keeper.get_plant)`},
		{`args.label == 1`, `:5:12: rules[0].when: expression 1:12: found no matching overload`},
	} {
		file := filepath.Join(t.TempDir(), "policy.yaml")
		text := "rules:\n  - name: a\n    tools: [garden_keeper.get_plant]\n    effect: deny\n    when:  '" + tt.when + "'\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := config.Defaults(config.Serve)
		cfg.Catalog.Descriptors, cfg.Access.PolicyFile = []string{garden}, file
		var faults []string
		upstream.CheckRules(cfg, func(path, message string) { faults = append(faults, path+": "+message) })
		got := strings.Join(faults, "\n")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.when, got, tt.want)
		}
		set, err := upstream.Rules(cfg)
		if (err == nil) != (tt.want == "") || err == nil && set.Len() != 1 {
			t.Errorf("%s: %v", tt.when, err)
		}
	}
}

// TestRulesOfAConfiguration: rules in the configuration, their cost limit, and none.
func TestRulesOfAConfiguration(t *testing.T) {
	t.Parallel()
	cfg := config.Defaults(config.Serve)
	if set, err := upstream.Rules(cfg); set != nil || err != nil {
		t.Errorf("none: %v, %v", set, err)
	}
	cfg.Access.Policy = &configv1.Policy{MaxCost: new(int64(7)), Rules: []*configv1.PolicyRule{{Name: "a", Tools: []string{"*"}, Effect: "deny", When: "x"}}}
	if _, err := upstream.Rules(cfg); err == nil || !strings.Contains(err.Error(), "access.policy.rules[0].when: expression 1:1: undeclared reference to 'x'") {
		t.Errorf("a fault: %v", err)
	}
	cfg.Access.Policy.Rules[0].When = "true"
	if set, err := upstream.Rules(cfg); set.Len() != 1 || err != nil {
		t.Errorf("%v, %v", set, err)
	}
}

// TestReadersAreNoApprovers: a rule that no operator could satisfy is refused.
func TestReadersAreNoApprovers(t *testing.T) {
	t.Parallel()
	for role, isFault := range map[string]bool{"operate": false, "read": true} {
		file := filepath.Join(t.TempDir(), "operators.yaml")
		text := "operators:\n  - {name: rita, role: " + role + ", groups: [desk], token_sha256: ['" + strings.Repeat("ab", 32) + "']}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := config.Defaults(config.Serve)
		cfg.Listeners.AdminTokensFile = file
		cfg.Access.Policy = &configv1.Policy{Rules: []*configv1.PolicyRule{{
			Name: "a", Tools: []string{"*"}, Effect: "approve", When: "true", Approve: &configv1.PolicyApproval{Groups: []string{"desk"}},
		}}}
		var faults []string
		upstream.CheckRules(cfg, func(path, message string) { faults = append(faults, path+": "+message) })
		if (len(faults) > 0) != isFault {
			t.Errorf("%s: %v", role, faults)
		}
	}
}
