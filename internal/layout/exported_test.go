// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// exportedCeilings are the most exported names of each public package, methods and
// fields aside. "." is the module's root. A package that is not listed has none.
func exportedCeilings() map[string]int {
	return map[string]int{".": 25, "bridge": 78, "correlate": 29, "errmap": 131}
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

const (
	surface = "testdata/api.txt"
	gone    = "- " // begins what was exported, and its line ends in why it is not any more
)

// TestTheSurfaceIsOnRecord compares what others can import with the record: a line for each exported constant, variable, function, type,
// method and field. Whatever breaks importers keeps its line there, marked and with its reason.
func TestTheSurfaceIsOnRecord(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(surface)
	if err != nil {
		t.Fatal(err)
	}
	now := apiOf(t, exportData(token.NewFileSet(), listPackages(t)))
	onRecord := strings.Split(strings.TrimSpace(string(data)), "\n")
	if *update {
		onRecord = recordSurface(onRecord, now)
		if err := os.WriteFile(surface, []byte(strings.Join(onRecord, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, fault := range surfaceFaults(onRecord, now) {
		t.Error(fault)
	}
}

// recordSurface adds what is new to the record, and marks what is gone.
func recordSurface(onRecord, now []string) []string {
	next := slices.Clone(now)
	for _, line := range onRecord {
		if name, _, _ := strings.Cut(strings.TrimPrefix(line, gone), " // "); name != "" && !slices.Contains(now, name) {
			if !strings.HasPrefix(line, gone) {
				line = gone + line + " // "
			}
			next = append(next, line)
		}
	}
	slices.SortFunc(next, func(a, b string) int {
		return strings.Compare(strings.TrimPrefix(a, gone), strings.TrimPrefix(b, gone))
	})
	return slices.Compact(next)
}

// surfaceFaults are the differences, and what is gone without a reason.
func surfaceFaults(onRecord, now []string) (faults []string) {
	const command = "`go test ./internal/layout -run TestTheSurfaceIsOnRecord -update` records it in " + surface
	for _, line := range now {
		if !slices.Contains(onRecord, line) {
			faults = append(faults, "new: "+line+"; "+command)
		}
	}
	for _, line := range onRecord {
		name, isGone := strings.CutPrefix(line, gone)
		_, reason, _ := strings.Cut(name, " // ")
		switch {
		case !isGone && !slices.Contains(now, line):
			faults = append(faults, "gone: "+line+"; "+command)
		case isGone && strings.TrimSpace(reason) == "":
			faults = append(faults, "why is it gone? "+line)
		}
	}
	return faults
}

// TestSurfaceFaults: what is new, what is gone, and what is gone without a reason.
func TestSurfaceFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		onRecord, now []string
		faults        int
	}{
		{[]string{"a: func F()"}, []string{"a: func F()"}, 0},
		{[]string{"a: func F()"}, []string{"a: func F()", "a: func G()"}, 1},
		{[]string{"a: func F()"}, nil, 1},
		{[]string{"- a: func F() // "}, nil, 1},
		{[]string{"- a: func F() // no one used it"}, nil, 0},
	} {
		if got := surfaceFaults(tt.onRecord, tt.now); len(got) != tt.faults {
			t.Errorf("%q, now %q: %q, want %d", tt.onRecord, tt.now, got, tt.faults)
		}
	}
	updated := recordSurface([]string{"- a: func E() // no one used it", "a: func F()"}, []string{"a: func G()"})
	if want := []string{"- a: func E() // no one used it", "- a: func F() // ", "a: func G()"}; !slices.Equal(updated, want) {
		t.Errorf("%q, want %q", updated, want)
	}
}

// apiOf is the surface of the public packages, in order.
func apiOf(t *testing.T, imports types.Importer) (lines []string) {
	t.Helper()
	for dir := range exportedCeilings() {
		pkg, err := imports.Import(path.Join(module, dir))
		if err != nil {
			t.Fatal(err)
		}
		in := func(p *types.Package) string {
			if p == pkg {
				return ""
			}
			return p.Name()
		}
		add := func(format string, args ...any) { lines = append(lines, pkg.Name()+": "+fmt.Sprintf(format, args...)) }
		for _, name := range pkg.Scope().Names() {
			object := pkg.Scope().Lookup(name)
			if !object.Exported() {
				continue
			}
			if c, ok := object.(*types.Const); ok {
				add("%s = %s", types.ObjectString(c, in), c.Val())
				continue
			}
			named, ok := object.(*types.TypeName)
			if !ok {
				add("%s", types.ObjectString(object, in))
				continue
			}
			switch u := named.Type().Underlying().(type) {
			case *types.Struct:
				add("type %s struct", name)
				for field := range u.Fields() {
					if field.Exported() {
						add("field (%s) %s %s", name, field.Name(), types.TypeString(field.Type(), in))
					}
				}
			case *types.Interface:
				add("%s", types.ObjectString(object, in)) // with all its methods, which an implementation needs
				continue
			default:
				add("type %s %s", name, types.TypeString(u, in))
			}
			for method := range types.NewMethodSet(types.NewPointer(named.Type())).Methods() {
				if method.Obj().Exported() {
					add("%s", types.SelectionString(method, in))
				}
			}
		}
	}
	slices.Sort(lines)
	return lines
}
