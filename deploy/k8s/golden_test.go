// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the goldens, and the descriptor set of the example")

// examples are the folders that somebody would apply.
func examples(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("examples/*/kustomization.yaml")
	if err != nil || len(found) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for i, path := range found {
		found[i] = filepath.Base(filepath.Dir(path))
	}
	return found
}

// TestGolden renders every example and compares it to what it was.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, name := range examples(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Render(filepath.Join("examples", name))
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "golden", name+".yaml")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatalf("%v; write it with `make k8s-golden`", err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("examples/%s is not what it was (-golden +rendered); `make k8s-golden` accepts it:\n%s", name, diff)
			}
		})
	}
}

// TestGoldensHaveExamples refuses goldens of examples that are no more.
func TestGoldensHaveExamples(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir("testdata/golden")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), ".yaml")
		if _, err := os.Stat(filepath.Join("examples", name)); err != nil {
			t.Errorf("testdata/golden/%s has no example", entry.Name())
		}
	}
}

// TestEveryComponentIsRendered keeps each component in at least one example.
func TestEveryComponentIsRendered(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	note := func(pattern string) {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if path, ok := strings.CutPrefix(strings.TrimSpace(line), "- ../"); ok {
					used[filepath.Base(path)] = true
				}
			}
		}
	}
	note("base/kustomization.yaml")
	note("examples/*/kustomization.yaml")
	note("components/*/kustomization.yaml")
	components, err := filepath.Glob("components/*")
	if err != nil || len(components) == 0 {
		t.Fatalf("no components: %v", err)
	}
	for _, path := range components {
		if !used[filepath.Base(path)] {
			t.Errorf("no example uses %s", path)
		}
	}
}

// TestDescriptorSetOfTheExample keeps the example's descriptor set what the tool
// service serves: a kustomization reads no file outside its folder, so it
// must have a copy.
func TestDescriptorSetOfTheExample(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("../../internal/demo/demo.binpb")
	if err != nil {
		t.Fatal(err)
	}
	const path = "examples/descriptors/api.binpb"
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not internal/demo/demo.binpb; `make k8s-golden` copies it", path)
	}
}
