// SPDX-License-Identifier: Apache-2.0

package mcpjson

import "testing"

// TestPlans: the plans fit the messages, and each exception a field of them.
func TestPlans(t *testing.T) {
	t.Parallel()
	for _, fault := range compiled().faults {
		t.Error(fault)
	}
}
