// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"testing"
	"time"
)

// patience is how long a test waits for what should take a fraction of it.
const patience = 90 * time.Second

// await waits until something holds; why may say what is missing.
func await(t *testing.T, what string, holds func() bool, why ...func() string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			text := ""
			for _, f := range why {
				text += ": " + f()
			}
			t.Fatalf("not within %v: %s%s", patience, what, text)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
