// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"testing"
	"time"
)

// startLimit is how long a pod may take to become ready: seconds, but for a
// machine that does other things too.
const startLimit = 2 * time.Minute

// eventually polls until check succeeds.
func eventually(t *testing.T, what string, limit time.Duration, check func() error) {
	t.Helper()
	end := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not after %s: %v", what, limit, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
