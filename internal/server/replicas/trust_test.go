// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/outrigger-mcp/outrigger/internal/policy"
)

func TestEveryChangeOfTrustIsAudited(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zap.InfoLevel)
	s := &trust{gate: policy.NewGate(policy.Untrusted), log: zap.New(core)}
	for _, to := range []string{"trusted", "trusted", "untrusted"} {
		if _, err := s.SetTrust("127.0.0.1:5001", to); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.SetTrust("127.0.0.1:5001", "yes"); err == nil {
		t.Error("an unknown state is taken")
	}
	var got []map[string]any
	for _, line := range logged.All() {
		if line.Level != zap.InfoLevel || line.Message != "trust changed" {
			t.Errorf("logged %v", line)
		}
		got = append(got, line.ContextMap())
	}
	want := []map[string]any{
		{"who": "127.0.0.1:5001", "from": "untrusted", "to": "trusted", "changes": uint64(1)},
		{"who": "127.0.0.1:5001", "from": "trusted", "to": "trusted", "changes": uint64(1)},
		{"who": "127.0.0.1:5001", "from": "trusted", "to": "untrusted", "changes": uint64(2)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}
	if state, changes := s.Trust(); state != "untrusted" || changes != 2 {
		t.Errorf("%s after %d changes", state, changes)
	}
}
