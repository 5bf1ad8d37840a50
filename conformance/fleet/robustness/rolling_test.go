// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
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

// TestRolloutOnKubernetes replaces the pods of a Deployment twice, by its controller, behind the endpoints of its Service. It holds
// what TestRollingUpdate does. `make k8s-test` runs it on the node that it makes.
func TestRolloutOnKubernetes(t *testing.T) {
	path := os.Getenv(rolloutVariable)
	if path == "" {
		t.Skip("takes a Kubernetes node; `make k8s-test` runs it there")
	}
	k := readKubernetes(t, path)
	r := &run{t: t, h: newHistory(), seed: time.Now().UnixNano(), odd: &oddities{t: t}}
	r.rand = rand.New(rand.NewPCG(uint64(r.seed), 1))
	t.Cleanup(func() { r.h.keep(t) })
	r.f = &fleet{t: t, nats: startCluster(t, k.Host), till: startTill(t, k.Host), main: startBalancer(t, 0), admin: startBalancer(t, 0)}
	t.Cleanup(r.f.keep)
	k.deploy(r.f)
	k.settled()
	r.f.nats.whole()
	ctx, stop := context.WithCancel(context.Background())
	var balancing sync.WaitGroup
	t.Cleanup(func() { stop(); balancing.Wait() })
	balancing.Go(func() { k.balance(ctx, r.f) })
	testkit.Until(t, "all pods are endpoints", func() bool {
		ips, err := k.endpoints()
		return err == nil && len(ips) == replicas
	})
	r.wait(2 * lookEvery) // until the balancers have them
	w := r.work()
	r.wait(calm)
	for range rollouts {
		k.restart()
		k.settled()
		r.wait(calm)
	}
	var err error
	if r.f.pods, err = k.endpoints(); err != nil || len(r.f.pods) != replicas {
		t.Fatalf("the endpoints are %v, %v", r.f.pods, err)
	}
	w.end(r)
	w.check(r, nil)
	if t.Failed() {
		return
	}
	if err := os.WriteFile(k.Summary, []byte(w.summary(r)), 0o600); err != nil {
		t.Error(err)
	}
}
