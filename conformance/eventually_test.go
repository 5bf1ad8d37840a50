// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"testing"
	"time"
)

// waitLimit bounds the wait for something that another process does.
const waitLimit = 20 * time.Second

// eventually waits until a condition holds. Other processes cannot be put under
// a fake clock, so it asks again and again.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for limit := time.Now().Add(waitLimit); ; {
		if holds() {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("not after %s: %s", waitLimit, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
