// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/deploy/node"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// Of the manifests: what the sidecar may have, in bytes.
const memoryLimit = 128 << 20

// testForce looks at the running sidecar from the kernel's side, for everything
// that the manifests ask for, and measures it at rest and at work.
func testForce(t *testing.T, n *node.Node, r *result) {
	p := run(t, n, "production", "in-force", nil)
	ip := p.ready(t).Status.PodIP
	pid := p.pid(t, "sidecar")
	status := readStatus(t, pid)
	for field, want := range map[string]string{
		"Uid": "65532\t65532\t65532\t65532", "Gid": "65532\t65532\t65532\t65532", "NoNewPrivs": "1", "Seccomp": "2",
		"CapPrm": strings.Repeat("0", 16), "CapEff": strings.Repeat("0", 16), "CapBnd": strings.Repeat("0", 16), "CapAmb": strings.Repeat("0", 16),
	} {
		if status[field] != want {
			t.Errorf("%s is %q, want %q", field, status[field], want)
		}
	}
	if root := rootMount(t, pid); !strings.HasPrefix(root, "ro") {
		t.Errorf("the root file system is mounted %q", root)
	}
	limit, err := node.CgroupFile(pid, "memory.limit_in_bytes", "memory.max")
	if err != nil || limit != strconv.Itoa(memoryLimit) {
		t.Errorf("the memory limit is %q (%v), want %d", limit, err, memoryLimit)
	}
	// What the sidecar told Go's collector: nine tenths of that limit, so that it collects harder before the kernel ends it.
	said, err := p.logs["sidecar"].find("msg", "memory limit")
	if bytes, _ := said.Fields["limit_bytes"].(float64); err != nil || int64(bytes) != memoryLimit*9/10 || said.text("from") != "the control group" {
		t.Errorf("the sidecar works towards %v (%v), want nine tenths of the limit", said.Fields, err)
	}

	r.idleRSS = rss(t, pid)
	r.busyRSS = loadMemory(t, ip, pid)
	peak, err := node.CgroupFile(pid, "memory.max_usage_in_bytes", "memory.peak")
	if err != nil {
		t.Fatal(err)
	}
	if r.peakMemory, err = strconv.ParseInt(peak, 10, 64); err != nil || r.peakMemory > memoryLimit {
		t.Errorf("the cgroup held %s bytes (%v)", peak, err)
	}
	if c := p.status(t).container("sidecar"); c.RestartCount != 0 {
		t.Errorf("the sidecar was restarted: %+v", c.LastState)
	}
	testLimit(t, n)
}

// loadMemory has 256 callers for some seconds, and returns the resident memory
// at their end.
func loadMemory(t *testing.T, ip string, pid int) int64 {
	t.Helper()
	const callers = 256
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	var group sync.WaitGroup
	all := edges()
	for i := range callers {
		group.Go(func() {
			call := all[i%len(all)].dial(ip + ":8080")
			for round := 0; ctx.Err() == nil; round++ {
				nonce := fmt.Sprintf("m%d-%d", i, round)
				got := call(t.Context(), nonce, 20*time.Millisecond)
				if got.outcome == refused {
					continue // the configuration has fewer places than callers
				}
				if got.outcome != answered || got.nonce != nonce {
					t.Errorf("%s: %+v", all[i%len(all)].name, got)
					return
				}
			}
		})
	}
	most := int64(0)
	for ctx.Err() == nil {
		most = max(most, rss(t, pid))
		time.Sleep(100 * time.Millisecond)
	}
	group.Wait()
	return most
}

// testLimit gives a sidecar less memory than it needs: the kernel ends it, so the
// limit of the manifests is one that is kept.
func testLimit(t *testing.T, n *node.Node) {
	t.Helper()
	p := run(t, n, "minimal", "too-little", func(o object) {
		o.container(t, "sidecar")["resources"] = map[string]any{"limits": map[string]any{"memory": "12Mi"}}
	})
	testkit.Try(t, "the kernel ends it", func() error {
		c := p.status(t).container("sidecar")
		for _, s := range []containerState{c.State, c.LastState} {
			if s.Terminated != nil && s.Terminated.Reason == "OOMKilled" {
				return nil
			}
		}
		return errors.New(p.describe(t))
	})
}

func readStatus(t *testing.T, pid int) map[string]string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		out[name] = strings.TrimSpace(value)
	}
	return out
}

// rss is a process's resident memory in bytes.
func rss(t *testing.T, pid int) int64 {
	t.Helper()
	kilobytes, err := strconv.ParseInt(strings.TrimSuffix(readStatus(t, pid)["VmRSS"], " kB"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// rootMount returns the options of a process's root mount.
func rootMount(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 5 && fields[4] == "/" {
			return fields[5]
		}
	}
	t.Fatal("the process has no root mount")
	return ""
}
