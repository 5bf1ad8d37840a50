// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBreakingChangesAreCounted: descriptors change while a process serves them, so that one tool breaks its callers under
// the same major version. A process that starts with them finds the change by the catalog lock.
func TestBreakingChangesAreCounted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, lock := filepath.Join(dir, "library.binpb.gz"), filepath.Join(dir, "catalog.lock.json")
	put := func(version string) {
		t.Helper()
		raw, err := os.ReadFile("../../internal/report/testdata/" + version + ".binpb.gz")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file+".new", raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	put("v1")
	writeLock(t, file, lock)
	args := []string{"serve", "--backend", "http://127.0.0.1:1", "--native", "off", "--descriptors", file, "--reload-interval", "30ms", "--catalog-lock", lock}
	p := startProcess(t, args...)
	wantSample(t, p, "outrigger_catalog_breaking_changes_total 0")
	put("v2")
	line := string(p.await(t, "breaking change under an unchanged major version").raw)
	if !strings.Contains(line, `"library.return_book"`) || !strings.Contains(line, "want 2.0.0") {
		t.Errorf("%s", line)
	}
	wantSample(t, p, "outrigger_catalog_breaking_changes_total 1")
	p.stop()

	p = startProcess(t, args...)
	wantSample(t, p, `outrigger_catalog_lock_drift{change="changed"} 5`, "outrigger_catalog_breaking_changes_total 0")
}
