// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/demo"
)

// writeLock writes the lock of a descriptor file in one step, as `sidecar lock update` does.
func writeLock(t *testing.T, descriptors, lock string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args := []string{"lock", "update", "--descriptors", descriptors, "--backend", "http://127.0.0.1:1", "--native", "off", "--catalog-lock", lock}
	if code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr, nil); code != exitOK {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
}

// TestLockWhileItRuns: a catalog and a lock file that change under a process that serves.
func TestLockWhileItRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, reviewed, other := filepath.Join(dir, "shop.binpb"), filepath.Join(dir, "catalog.lock.json"), filepath.Join(dir, "other.lock.json")
	replace := func(write func(path string)) {
		t.Helper()
		write(file + ".new")
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	replace(func(path string) { writeShop(t, path, "Take", "Put") })
	writeLock(t, file, reviewed)
	service, err := demo.Start(t.Context(), demo.Options{}) // one that answers, for /readyz
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Close(context.WithoutCancel(t.Context())) })
	p := startProcess(t, "serve", "--backend", service.URL(), "--native", "off", "--descriptors", file, "--reload-interval", "30ms",
		"--catalog-lock", reviewed, "--catalog-lock-mode", "refuse")
	drift := func(added, removed, changed string) {
		t.Helper()
		wantSample(t, p, `outrigger_catalog_lock_drift{change="added"} `+added, `outrigger_catalog_lock_drift{change="removed"} `+removed,
			`outrigger_catalog_lock_drift{change="changed"} `+changed)
	}
	drift("0", "0", "0")
	wantSample(t, p, "outrigger_catalog_tools 2")

	// A tool that no one approved, and one that is gone.
	replace(func(path string) { writeShop(t, path, "Take", "Drop") })
	line := string(p.await(t, "catalog differs from its lock").raw)
	for _, want := range []string{`"drift":"1 added, 1 removed, 0 changed"`, `"tools_added":["shop.drop"]`, `"tools_removed":["shop.put"]`} {
		if !strings.Contains(line, want) {
			t.Errorf("no %s in %s", want, line)
		}
	}
	drift("1", "1", "0")
	wantSample(t, p, "outrigger_catalog_tools 1")
	(&configured{process: p}).wantReady(t, "catalog lock failed (info) 1 added, 1 removed, 0 changed")

	// A lock that cannot be read changes nothing.
	if err := os.WriteFile(reviewed, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.await(t, "catalog lock rejected; keeping the last good one")
	drift("1", "1", "0")
	wantSample(t, p, "outrigger_catalog_tools 1", `outrigger_reload_failing{files="catalog_lock"} 1`)

	// It is reviewed: the tool is there without a restart.
	writeLock(t, file, other)
	if err := os.Rename(other, reviewed); err != nil {
		t.Fatal(err)
	}
	p.await(t, "catalog matches its lock")
	p.await(t, "catalog lock reloaded")
	drift("0", "0", "0")
	wantSample(t, p, "outrigger_catalog_tools 2", `outrigger_reload_failing{files="catalog_lock"} 0`)
}
