// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/deploy/node"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// testKill ends the sidecar with SIGKILL while every edge has a call in flight:
// their callers hear of it at once, the kubelet starts the sidecar again, the app
// goes on undisturbed, and calls are answered again.
func testKill(t *testing.T, n *node.Node, r *result) {
	p := run(t, n, "minimal", "killed", nil)
	before := p.ready(t)
	pid := p.pid(t, "sidecar")
	const nap = 30 * time.Second
	var broken sync.WaitGroup
	for _, e := range edges() {
		broken.Go(func() {
			nonce := "broken " + e.name
			if got := e.dial(before.Status.PodIP+":8080")(t.Context(), nonce, nap); got.outcome != lost {
				t.Errorf("%s: the call in flight ended as %+v", e.name, got)
			}
		})
		testkit.Try(t, "the call is in flight", func() error {
			_, err := p.logs["fleet"].find("request_id", "broken "+e.name)
			return err
		})
	}
	killed := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	broken.Wait()
	if r.brokeOff = time.Since(killed); r.brokeOff > nap/3 {
		t.Errorf("callers heard of it after %s", r.brokeOff)
	}
	testkit.Try(t, "the sidecar was started again", func() error {
		c := p.status(t).container("sidecar")
		if c.RestartCount != 1 || c.State.Running == nil {
			return errors.New(p.describe(t))
		}
		return nil
	})
	after := p.ready(t)
	ip := after.Status.PodIP
	for _, e := range edges() {
		if got := e.dial(ip+":8080")(t.Context(), "again", time.Millisecond); got.outcome != answered || got.nonce != "again" {
			t.Errorf("%s: %+v", e.name, got)
		}
	}
	r.backAfterKill = time.Since(killed)
	app, was := after.container("fleet"), before.container("fleet")
	if app.RestartCount != 0 || app.ContainerID != was.ContainerID || ip != before.Status.PodIP {
		t.Errorf("the app was disturbed: %+v, before %+v", app, was)
	}
	last := after.container("sidecar").LastState.Terminated
	if last == nil || last.ExitCode != 128+int(syscall.SIGKILL) {
		t.Errorf("the sidecar's last end is %+v", last)
	}
}
