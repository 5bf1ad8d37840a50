// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// cycleCeilings are the most files of a package that may be one cycle: each of them
// needs each other one, so that none can be read alone.
func cycleCeilings() map[string]int {
	return map[string]int{"bridge": 44, "internal/catalog": 12, "cmd/sidecar": 4}
}

// TestCyclesOfFilesAreSmall measures by go/types: a file needs another one where it
// uses a name, a method or a field that is declared there.
func TestCyclesOfFilesAreSmall(t *testing.T) {
	t.Parallel()
	exports := exportData(t, cycleCeilings())
	for pkg, ceiling := range cycleCeilings() {
		largest := []string{}
		needs := fileUses(t, pkg, exports)
		for file := range needs {
			if cycle := cycleOf(file, needs); len(cycle) > len(largest) {
				largest = cycle
			}
		}
		t.Logf("%s: %d of %d files are one cycle", pkg, len(largest), len(needs))
		if len(largest) > ceiling {
			t.Errorf("%s: %d files are one cycle, above the ceiling of %d: %v", pkg, len(largest), ceiling, largest)
		}
	}
}

// exportData has the compiler's files of all that the packages import.
func exportData(t *testing.T, packages map[string]int) map[string]string {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for pkg := range packages {
		args = append(args, "./"+pkg)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, file, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			exports[path] = file
		}
	}
	return exports
}

// fileUses says of every file of a package which others it needs.
func fileUses(t *testing.T, pkg string, exports map[string]string) map[string][]string {
	t.Helper()
	set, files, needs := token.NewFileSet(), []*ast.File{}, map[string][]string{}
	for _, path := range buildFiles(t, pkg) {
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files, needs[filepath.Base(path)] = append(files, file), nil
	}
	lookup := func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, errors.New("no export data")
		}
		return os.Open(exports[path])
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(set, "gc", lookup)}
	own, err := config.Check(module+pkg, set, files, info)
	if err != nil {
		t.Fatal(err)
	}
	for ident, object := range info.Uses {
		if object.Pkg() != own || !object.Pos().IsValid() {
			continue
		}
		from, to := filepath.Base(set.Position(ident.Pos()).Filename), filepath.Base(set.Position(object.Pos()).Filename)
		if from != to && !slices.Contains(needs[from], to) {
			needs[from] = append(needs[from], to)
		}
	}
	return needs
}

// buildFiles are the files of a package that are built here, tests aside.
func buildFiles(t *testing.T, pkg string) []string {
	t.Helper()
	dir := filepath.Join("..", "..", filepath.FromSlash(pkg))
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{range .GoFiles}}{{.}} {{end}}`, "./"+filepath.ToSlash(dir)).Output()
	if err != nil {
		t.Fatal(err)
	}
	paths := strings.Fields(string(out))
	for i, name := range paths {
		paths[i] = filepath.Join(dir, name)
	}
	return paths
}

// cycleOf are the files that a file needs and that need it, by others too.
func cycleOf(file string, needs map[string][]string) []string {
	cycle := []string{}
	for other := range reached(file, needs) {
		if reached(other, needs)[file] {
			cycle = append(cycle, other)
		}
	}
	slices.Sort(cycle)
	return cycle
}

// reached are the files that a file needs, by others too.
func reached(file string, needs map[string][]string) map[string]bool {
	seen, next := map[string]bool{}, slices.Clone(needs[file])
	for len(next) > 0 {
		last := next[len(next)-1]
		next = next[:len(next)-1]
		if !seen[last] {
			seen[last] = true
			next = append(next, needs[last]...)
		}
	}
	return seen
}
