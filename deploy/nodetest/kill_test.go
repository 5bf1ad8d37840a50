// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/deploy/node"
)

// testKill ends the sidecar with SIGKILL: the kubelet starts it again, the app
// goes on undisturbed, and calls are answered again.
func testKill(t *testing.T, n *node.Node, r *result) {
	p := run(t, n, "minimal", "killed", nil)
	before := p.ready(t)
	pid := p.pid(t, "sidecar")
	killed := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the sidecar was started again", startLimit, func() error {
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
