// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/deploy/node"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// testVariants runs the examples that put something else into the pod, and looks
// whether that is what is used.
func testVariants(t *testing.T, n *node.Node, r *result) {
	for _, tc := range []struct {
		example string
		look    func(t *testing.T, p *pod)
	}{
		{"unix-socket", func(t *testing.T, p *pod) {
			t.Helper()
			listening, err := p.logs["fleet"].find("event", "listening")
			if err != nil || listening.text("address") != "/run/outrigger/app.sock" {
				t.Errorf("the app listens at %q (%v)", listening.text("address"), err)
			}
		}},
		{"descriptors", func(t *testing.T, p *pod) {
			t.Helper()
			// The app starts after the sidecar. Tools that are there before it are not what it reflects.
			ready, err := p.logs["sidecar"].find("msg", "ready")
			if err != nil {
				t.Fatal(err)
			}
			listening, err := p.logs["fleet"].find("event", "listening")
			if err != nil {
				t.Fatal(err)
			}
			if !ready.At.Before(listening.At) {
				t.Errorf("the tools were there at %v, and the app listened at %v: they are not of the descriptors", ready.At, listening.At)
			}
		}},
		{"records", func(t *testing.T, p *pod) {
			t.Helper()
			root := fmt.Sprintf("/proc/%d/root/var/lib/outrigger/runs", p.pid(t, "sidecar"))
			testkit.Try(t, "the calls are in the run record", func() error {
				// Not by way of .latest, which is the same once more.
				found, err := filepath.Glob(root + "/mcp_server/envelope_validation/[0-9]*/events.jsonl")
				if err != nil || len(found) != 1 {
					return fmt.Errorf("%d run records (%w)", len(found), err)
				}
				info, err := os.Stat(found[0])
				if err == nil && info.Size() == 0 {
					return fmt.Errorf("%s is empty", found[0])
				}
				return err
			})
		}},
	} {
		t.Run(tc.example, func(t *testing.T) {
			p := run(t, n, tc.example, "with-"+tc.example, nil)
			ip := p.ready(t).Status.PodIP
			for _, e := range edges() {
				nonce := tc.example + " " + e.name
				if got := e.dial(ip+":8080")(t.Context(), nonce, time.Millisecond); got.outcome != answered || got.nonce != nonce {
					t.Errorf("%s: %+v", e.name, got)
				}
			}
			tc.look(t, p)
			r.variants = append(r.variants, tc.example)
		})
	}
}
