// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// rollouts is how often all replicas are replaced.
const rollouts = 2

// TestRollingUpdate replaces the replicas one by one, as a Deployment does: each is taken from the balancers, drained, and
// replaced by one that is ready. No call fails that needs no task or session, every task ends as it may, and no session, event,
// consent or registration is lost.
func TestRollingUpdate(t *testing.T) {
	r := &run{t: t, h: newHistory(), seed: *seed, odd: &oddities{t: t}}
	if r.seed == 0 {
		r.seed = time.Now().UnixNano()
	}
	t.Logf("-seed %d", r.seed)
	r.rand = rand.New(rand.NewPCG(uint64(r.seed), 1))
	t.Cleanup(func() { r.h.keep(t) })
	r.f = startFleet(t)
	w := r.work()
	r.wait(calm)
	for range rollouts {
		for i := range replicas {
			r.f.withdraw(i)
			r.wait(time.Second) // endpoints take a while to hear of it
			r.f.end(i, syscall.SIGTERM)
			r.f.launch(i)
			r.f.healthy()
			r.f.publish(i)
			r.wait(time.Second)
		}
	}
	w.end(r)
	// Nothing was broken: so no call of any kind may fail for it.
	w.check(r, nil)
}
