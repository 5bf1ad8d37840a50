// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// spread is a service of two pods behind a headless Service, and a sidecar elsewhere whose backend has its name.
type spread struct {
	f        *fixture
	address  string
	journals map[string]*journal
	done     atomic.Int64
	again    atomic.Int64
}

// testSpread: calls of one sidecar are spread over the pods that the name of a headless Service has. One is deleted under load: its calls end,
// those that it refuses go to the other one, and the pod that takes its place gets calls too.
func (f *fixture) testSpread(t *testing.T, r *result) {
	s := &spread{f: f, journals: map[string]*journal{}}
	apply(t, f.n, object{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "spread", "namespace": shop},
		"spec": map[string]any{"clusterIP": "None", "selector": map[string]any{"app": "spread"}, "ports": []any{map[string]any{"port": 8080}}},
	}, false)
	apply(t, f.n, deployment("spread", 2, template("spread", map[string]any{"outrigger.dev/protocol": "grpc", "outrigger.dev/app-sleep": "10s"})), false)
	former := f.await(t, shop, "spread", 2, 1)
	s.follow(t, former)
	secret(t, f.n, shop, "spread", map[string]any{"token": token})
	apply(t, f.n, s.caller(), false)
	s.address = f.await(t, shop, "caller", 1, 0)[0].Status.PodIP + ":8080"

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var callers sync.WaitGroup
	for n := range injectCallers {
		callers.Go(func() { s.call(ctx, t, n) })
	}
	s.both(t, former)
	gone := former[0]
	path := "/api/v1/namespaces/shop/pods/" + gone.Metadata.Name
	if err := f.n.API().Delete(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	within(t, 2*time.Minute, "the pod has gone", func() error {
		if err := f.n.API().Get(t.Context(), path, nil); !isGone(err) {
			return errors.Join(errors.New("it is still there"), err)
		}
		return nil
	})
	now := f.await(t, shop, "spread", 2, 1)
	s.follow(t, now)
	s.both(t, now)
	stop()
	callers.Wait()
	var executed int64
	for _, j := range s.journals {
		executed += int64(begun(j))
	}
	if executed != s.done.Load() {
		t.Errorf("%d calls were answered, and the apps have executed %d", s.done.Load(), executed)
	}
	r.spread = fmt.Sprintf("%d calls by %d callers over 4 edges, spread over both pods, then over the one that was left and the one in place of the other; each executed once and answered with its own "+
		"result, %d after a refusal with UNAVAILABLE; none lost", s.done.Load(), injectCallers, s.again.Load())
	t.Log(r.spread)
	for _, path := range []string{"/apis/apps/v1/namespaces/shop/deployments/spread", "/api/v1/namespaces/shop/pods/caller"} {
		if err := f.n.API().Delete(t.Context(), path); err != nil {
			t.Error(err)
		}
	}
}

// caller is a pod with a sidecar and nothing else.
func (s *spread) caller() object {
	pod := barePod(shop, "caller", map[string]any{"app": "caller", injectLabel: "disabled"}, map[string]any{})
	spec := pod["spec"].(map[string]any)
	spec["volumes"] = []any{
		map[string]any{"name": "token", "secret": map[string]any{"secretName": "spread"}},
		map[string]any{"name": "callers", "secret": map[string]any{"secretName": "outrigger-callers"}},
	}
	c := spec["containers"].([]any)[0].(map[string]any)
	c["image"] = sidecarImage
	c["args"] = []any{
		"serve", "--backend", "dns:///spread.shop.svc:8080", "--backend-token-file", "/etc/token/token", "--insecure-backend-credentials",
		"--listen", ":8080", "--tokens", "/etc/callers/callers.yaml", "--health", ":9902", "--record-dir", "off",
	}
	c["ports"] = []any{map[string]any{"containerPort": 8080}, map[string]any{"containerPort": 9902}}
	c["readinessProbe"] = map[string]any{"httpGet": map[string]any{"path": "/readyz", "port": 9902}, "periodSeconds": 1, "timeoutSeconds": 5}
	c["volumeMounts"] = []any{map[string]any{"name": "token", "mountPath": "/etc/token"}, map[string]any{"name": "callers", "mountPath": "/etc/callers"}}
	return pod
}

// follow reads what the apps of pods write.
func (s *spread) follow(t *testing.T, pods []foundPod) {
	t.Helper()
	for _, p := range pods {
		if name := p.Metadata.Name; s.journals[name] == nil {
			s.journals[name] = follow(t, filepath.Join(s.f.n.PodLogs(), shop+"_"+name+"_"+p.Metadata.UID, "fleet"))
		}
	}
}

// begun is how many calls an app has begun.
func begun(j *journal) int {
	n := 0
	for _, e := range j.all() {
		if e.text("event") == "begin" && e.text("procedure") == "/outrigger.demo.v1.Lab/Sleep" {
			n++
		}
	}
	return n
}

// both waits until each of the pods has executed calls.
func (s *spread) both(t *testing.T, pods []foundPod) {
	t.Helper()
	for _, p := range pods {
		// One that is new begins with a tenth of the calls.
		within(t, 2*time.Minute, "calls reach "+p.Metadata.Name, func() error {
			if n := begun(s.journals[p.Metadata.Name]); n < 20 {
				return fmt.Errorf("%d calls", n)
			}
			return nil
		})
	}
}

// call makes one call after the other. A call that is refused is made again.
func (s *spread) call(ctx context.Context, t *testing.T, caller int) {
	e := edges()[caller%len(edges())]
	send := e.dial(s.address)
	for round := 0; ctx.Err() == nil; round++ {
		nonce := fmt.Sprintf("%d-%d", caller, round)
		got := send(t.Context(), nonce, 50*time.Millisecond)
		for try := 0; got.outcome == refused && try < 100; try++ {
			s.again.Add(1)
			time.Sleep(50 * time.Millisecond) // as the refusal asks
			got = send(t.Context(), nonce, 50*time.Millisecond)
		}
		if got.outcome != answered || got.nonce != nonce {
			t.Errorf("%s over %s: lost: %+v", nonce, e.name, got)
			return
		}
		s.done.Add(1)
	}
}
