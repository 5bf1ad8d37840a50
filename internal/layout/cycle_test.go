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
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// largestCycles are, by package of the main module, the most files that are one cycle: each of them needs each other one, so
// that none can be read alone. It is measured by go/types: a file needs another one where it uses a name, a method or a field
// that is declared there.
func largestCycles(t *testing.T) map[string]int {
	t.Helper()
	largest := map[string]int{}
	for _, pkg := range typed(t) {
		needs := fileUses(pkg)
		for file := range needs {
			largest[pkg.dir] = max(largest[pkg.dir], len(cycleOf(file, needs)))
		}
	}
	return largest
}

// typedPackage is a package of the main module, without its tests.
type typedPackage struct {
	dir   string // in the repository
	files map[string]*ast.File
	set   *token.FileSet
	info  *types.Info
	types *types.Package
}

// typedOnce has the packages of the main module once for all tests, because it takes seconds to check them.
var typedOnce struct {
	sync.Once
	packages []typedPackage
}

// typed are the packages of the main module with the types of their names, and all of one importer. Generated ones are not.
func typed(t *testing.T) []typedPackage {
	t.Helper()
	typedOnce.Do(func() {
		built, set := listPackages(t), token.NewFileSet()
		imports := exportData(set, built)
		for path, pkg := range built {
			dir, isOwn := strings.CutPrefix(path, module)
			if isOwn && !strings.HasPrefix(dir, "gen/") && pkg.Module != nil && pkg.Module.Main {
				typedOnce.packages = append(typedOnce.packages, check(t, dir, pkg, set, imports))
			}
		}
	})
	return typedOnce.packages
}

// check finds the types of the names of one package.
func check(t *testing.T, dir string, pkg builtPackage, set *token.FileSet, imports types.Importer) typedPackage {
	t.Helper()
	out := typedPackage{dir: dir, files: map[string]*ast.File{}, set: set, info: &types.Info{Uses: map[*ast.Ident]types.Object{}}}
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(set, filepath.Join(pkg.Dir, name), nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		out.files[name] = file
	}
	config := types.Config{Importer: imports}
	var err error
	if out.types, err = config.Check(pkg.ImportPath, set, slices.Collect(maps.Values(out.files)), out.info); err != nil {
		t.Fatal(err)
	}
	return out
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
func fileUses(pkg typedPackage) map[string][]string {
	needs := map[string][]string{}
	for name := range pkg.files {
		needs[name] = nil
	}
	for ident, object := range pkg.info.Uses {
		if object.Pkg() != pkg.types || !object.Pos().IsValid() {
			continue
		}
		from, to := filepath.Base(pkg.set.Position(ident.Pos()).Filename), filepath.Base(pkg.set.Position(object.Pos()).Filename)
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
