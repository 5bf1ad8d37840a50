// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"go/ast"
	"path/filepath"
	"strings"
	"testing"
)

// exportedCeilings are the most exported names of each public package, methods and
// fields aside. "." is the module's root. A package that is not listed has none.
func exportedCeilings() map[string]int {
	return map[string]int{".": 25, "bridge": 78, "correlate": 29, "errmap": 130}
}

// exportedTotal is the ceiling of all public packages together.
const exportedTotal = 262

// TestTheSurfaceIsSmall counts the exported names of the packages that others can
// import. Raise a ceiling only for a name that a program outside of this module needs.
func TestTheSurfaceIsSmall(t *testing.T) {
	t.Parallel()
	found, total := map[string]int{}, 0
	for _, file := range sources(t) {
		pkg := filepath.ToSlash(filepath.Dir(file.path))
		if isPublic(pkg) && file.ast.Name.Name != "main" {
			n := exportedNames(file.ast)
			found[pkg], total = found[pkg]+n, total+n
		}
	}
	for pkg, n := range found {
		if n > exportedCeilings()[pkg] {
			t.Errorf("%s exports %d names, above its ceiling of %d", pkg, n, exportedCeilings()[pkg])
		}
	}
	if total > exportedTotal {
		t.Errorf("%d exported names, above the ceiling of %d", total, exportedTotal)
	}
	t.Logf("%d exported names: %v", total, found)
}

// isPublic reports whether other modules can import a package of this one.
func isPublic(pkg string) bool {
	return !strings.Contains("/"+pkg+"/", "/internal/") && !strings.HasPrefix(pkg, "deploy")
}

// exportedNames counts what a file declares at the top level.
func exportedNames(file *ast.File) int {
	count := 0
	add := func(name *ast.Ident) {
		if name.IsExported() {
			count++
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					add(s.Name)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						add(name)
					}
				}
			}
		}
	}
	return count
}
