// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"bytes"
	"encoding/json"
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

// largestCycles are, by package of the main module, the most files that are one cycle: each of them needs each other one, so
// that none can be read alone. It is measured by go/types: a file needs another one where it uses a name, a method or a field
// that is declared there.
func largestCycles(t *testing.T) map[string]int {
	t.Helper()
	built := listPackages(t)
	set := token.NewFileSet()
	imports := exportData(set, built)
	largest := map[string]int{}
	for path, pkg := range built {
		dir, isOwn := strings.CutPrefix(path, module)
		if !isOwn || strings.HasPrefix(dir, "gen/") || pkg.Module == nil || !pkg.Module.Main {
			continue
		}
		needs := fileUses(t, pkg, set, imports)
		for file := range needs {
			largest[dir] = max(largest[dir], len(cycleOf(file, needs)))
		}
	}
	return largest
}

// exportData imports packages as the compiler left them, and keeps what it has read.
func exportData(set *token.FileSet, built map[string]builtPackage) types.Importer {
	return importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) {
		if built[path].Export == "" {
			return nil, errors.New("no export data")
		}
		return os.Open(built[path].Export)
	})
}

// builtPackage is what "go list" says of one.
type builtPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct{ Main bool }
}

// listPackages lists the packages of the main module, and all that they import with the compiler's files.
func listPackages(t *testing.T) map[string]builtPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Module", "./...")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	built := map[string]builtPackage{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg builtPackage
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			return built
		} else if err != nil {
			t.Fatal(err)
		}
		built[pkg.ImportPath] = pkg
	}
}

// fileUses says of every file of a package which others it needs.
func fileUses(t *testing.T, pkg builtPackage, set *token.FileSet, imports types.Importer) map[string][]string {
	t.Helper()
	files, needs := []*ast.File{}, map[string][]string{}
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(set, filepath.Join(pkg.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files, needs[name] = append(files, file), nil
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: imports}
	own, err := config.Check(pkg.ImportPath, set, files, info)
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
