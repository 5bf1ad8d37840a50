// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDiffOfDescriptorSets compares descriptor sets, which are told from lists of tools by what they hold.
func TestDiffOfDescriptorSets(t *testing.T) {
	t.Parallel()
	const v1, v2 = "../../internal/compat/testdata/v1.binpb.gz", "../../internal/compat/testdata/v2.binpb.gz"
	diff := func(args ...string) (int, string) {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"diff"}, args...), strings.NewReader(""), &stdout, &stderr, nil)
		if stderr.Len() > 0 {
			t.Errorf("%v: %s", args, &stderr)
		}
		return code, stdout.String()
	}
	if code, out := diff(v1, v2); code != 1 || !strings.HasPrefix(out, "Breaking:\n") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if code, out := diff(v1, v1); code != 0 || out != "no differences\n" {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	// The list of tools of the same descriptors is the same catalog.
	var list, stderr bytes.Buffer
	if code := run(t.Context(), []string{"tools", "--descriptors", v1, "--json"}, strings.NewReader(""), &list, &stderr, nil); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	path := filepath.Join(t.TempDir(), "catalog.json")
	if err := os.WriteFile(path, list.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := diff(v1, path); code != 0 || out != "no differences\n" {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}
