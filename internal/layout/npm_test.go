// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPackagesOfNPMAreLocked: what tests and tools take from npm is what lock files have, so that a release elsewhere fails nothing here. Lock
// files have a hash of each package and no address, which would be that of one machine's registry.
func TestPackagesOfNPMAreLocked(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	unlocked := regexp.MustCompile(`\bnpm\s+(install|i|add|exec|x)\b|\bnpx\s`)
	locks, scripts := 0, 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", ".tmp", "node_modules", "third_party", "docs"}, name):
			return fs.SkipDir
		case d.IsDir():
			return nil
		case name == "package.json":
			locks++
			checkLock(t, filepath.Join(filepath.Dir(path), "package-lock.json"))
		case name == "Makefile", filepath.Ext(name) == ".sh", path == filepath.Join(root, ".ci", "run"):
			scripts++
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for i, line := range strings.Split(string(raw), "\n") {
				if found := unlocked.FindString(line); found != "" && !strings.HasPrefix(line, "#") {
					t.Errorf("%s:%d: %q does not heed a lock file; use npm ci", path, i+1, found)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if locks < 7 || scripts < 3 {
		t.Errorf("%d lock files and %d scripts: are they found?", locks, scripts)
	}
}

func checkLock(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Errorf("%v: packages without a lock file", err)
		return
	}
	var lock struct {
		Packages map[string]struct{ Version, Resolved, Integrity string }
	}
	if err := json.Unmarshal(raw, &lock); err != nil {
		t.Errorf("%s: %v", path, err)
	}
	if len(lock.Packages) < 2 {
		t.Errorf("%s locks nothing", path)
	}
	for name, p := range lock.Packages {
		if name != "" && (p.Version == "" || p.Integrity == "" || p.Resolved != "") {
			t.Errorf("%s: %s has version %q, hash %q and address %q; the first two are wanted alone", path, name, p.Version, p.Integrity, p.Resolved)
		}
	}
}
