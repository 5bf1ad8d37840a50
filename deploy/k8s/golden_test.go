// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/outrigger-mcp/outrigger/internal/config"
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

// TestConfigurationsAreRead reads the configuration file of every example, with the variables of a pod: a sidecar that cannot read its file
// does not start. Files that it names are not there.
func TestConfigurationsAreRead(t *testing.T) {
	t.Parallel()
	read := 0
	for _, name := range examples(t) {
		text, err := Render(filepath.Join("examples", name))
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			var o struct {
				Kind string
				Data map[string]string
			}
			if err := yaml.Unmarshal([]byte(document), &o); err != nil {
				t.Fatal(err)
			}
			file := o.Data["sidecar.yaml"]
			if o.Kind != "ConfigMap" || file == "" {
				continue
			}
			read++
			path := filepath.Join(t.TempDir(), "sidecar.yaml")
			if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
			environ := []string{"OUTRIGGER_CONFIG=" + path, "OUTRIGGER_STATE_KEY=/etc/outrigger/state/state.key"}
			if !strings.Contains(file, "backend") {
				environ = append(environ, "OUTRIGGER_BACKEND=http://127.0.0.1:50051")
			}
			flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
			config.RegisterFlags(flags, config.Serve)
			_, err := config.Load(config.Serve, flags, environ, config.Options{})
			var faults *config.Error
			if err != nil && !errors.As(err, &faults) {
				t.Fatal(err)
			}
			if faults == nil {
				continue
			}
			for _, fault := range faults.Faults {
				if !strings.Contains(fault.Message, "no such file") {
					t.Errorf("%s: %+v", name, fault)
				}
			}
		}
	}
	if read < 5 {
		t.Errorf("read %d configurations", read)
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
