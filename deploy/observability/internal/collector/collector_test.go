// SPDX-License-Identifier: Apache-2.0

package collector_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/collector"
)

// TestTheExampleIsValid validates the example, and refuses what a typing error makes of it.
func TestTheExampleIsValid(t *testing.T) {
	t.Parallel()
	example := filepath.Join("..", "..", "collector.yaml")
	if err := collector.Validate(t.Context(), example); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ old, wrong, says string }{
		"unknown key":       {"check_interval", "check_intervals", "check_intervals"},
		"unknown component": {"  batch:", "  batches:", "batches"},
		"no such policy":    {"limit_mib: 400", "limit_mib: 0", "limit"},
		"wrong size":        {"send_batch_max_size: 2048", "send_batch_max_size: 1", "send_batch_max_size"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "collector.yaml")
			wrong := strings.Replace(string(text), tt.old, tt.wrong, 1)
			if wrong == string(text) {
				t.Fatalf("the example has no %q", tt.old)
			}
			if err := os.WriteFile(path, []byte(wrong), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := collector.Validate(t.Context(), path); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want an error about %q", err, tt.says)
			}
		})
	}
}
