// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestBreakingChangesAreCounted keeps a catalog in which lab.echo takes one
// parameter more than it does, as if the service had lost it, and starts again.
func TestBreakingChangesAreCounted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kept := filepath.Join(dir, "catalog", "last.json")
	var tools bytes.Buffer
	if code := run(t.Context(), []string{"tools", "--demo", "--json"}, strings.NewReader(""), &tools, os.Stderr, nil); code != exitOK {
		t.Fatalf("tools: exit code %d", code)
	}
	before := regexp.MustCompile(`"nonce": \{`).ReplaceAll(tools.Bytes(), []byte(`"gone": {"type": "string"}, "nonce": {`))
	before = regexp.MustCompile(`"fingerprint": "[0-9a-f]{64}"`).ReplaceAll(before, []byte(`"fingerprint": "`+strings.Repeat("0", 64)+`"`))
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kept, append(append([]byte(`{"tools":`), before...), '}'), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, "serve", "--demo", "--record-dir", dir)
	p.await(t, "breaking change under an unchanged major version")
	// lab.echo, lab.relay and lab.sleep have a nonce among their arguments.
	wantSample(t, p, "outrigger_catalog_breaking_changes_total 3")
}
