// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestCompilingHearsTheContext: a check ends with its context while its schema is being compiled. What was compiled is kept for
// the next one, and no place for a check is lost, whether it could be compiled or not.
func TestCompilingHearsTheContext(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]error{"a schema": nil, "a fault": errors.New("no schema")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var builds atomic.Int64
				ms := newMachines(func() (*machine, error) {
					builds.Add(1)
					time.Sleep(time.Minute)
					return &machine{}, fault
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				for range 2 * cap(ms.slots) { // those that find no place free end, too
					if _, err := ms.acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("the check ends with %v", err)
					}
				}
				time.Sleep(2 * time.Minute)
				before := builds.Load()
				for range 2 * cap(ms.slots) {
					m, err := ms.acquire(t.Context())
					if !errors.Is(err, fault) {
						t.Fatalf("a check gets %v", err)
					}
					if err == nil {
						ms.release(m)
					}
				}
				if fault == nil && builds.Load() != before {
					t.Errorf("%d schemas were compiled once more", builds.Load()-before)
				}
				if n := len(ms.slots); n != 0 {
					t.Errorf("%d places are still taken", n)
				}
			})
		})
	}
}
