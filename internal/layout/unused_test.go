// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// unusedNames are the exported names below internal/, by package, that no other package uses, of this module or another one of
// the repository, in its tests or elsewhere. Methods and fields go with their type. A name that a used one needs, because it is in a
// signature or a field, counts as used: the other package has its values, though it never writes the name. So does each member
// of an enumeration whose type is used.
func unusedNames(files []goFile, kits map[string]bool) map[string][]string {
	used := map[string]map[string]bool{} // by package, then name
	for _, file := range files {
		for _, spec := range file.ast.Imports {
			dir, ok := strings.CutPrefix(importPath(spec), module)
			if !ok || dir == file.pkg || !strings.HasPrefix(dir, "internal/") {
				continue
			}
			name := dir[strings.LastIndex(dir, "/")+1:]
			if spec.Name != nil {
				name = spec.Name.Name
			}
			if used[dir] == nil {
				used[dir] = map[string]bool{}
			}
			ast.Inspect(file.ast, func(node ast.Node) bool {
				if selector, ok := node.(*ast.SelectorExpr); ok {
					if x, ok := selector.X.(*ast.Ident); ok && x.Name == name {
						used[dir][selector.Sel.Name] = true
					}
				}
				return true
			})
		}
	}
	declared := map[string]map[string][]ast.Node{} // what each exported name is declared with
	for _, file := range files {
		if file.isTest || kits[file.pkg] || file.module != "." || !strings.HasPrefix(file.pkg, "internal/") {
			continue
		}
		if declared[file.pkg] == nil {
			declared[file.pkg] = map[string][]ast.Node{}
		}
		declarations(file.ast, declared[file.pkg])
	}
	out := map[string][]string{}
	for pkg, names := range declared {
		if used[pkg] == nil {
			used[pkg] = map[string]bool{}
		}
		for again := true; again; {
			again = false
			for name, nodes := range names {
				if !used[pkg][name] {
					continue
				}
				for _, needed := range exportedIdents(nodes) {
					if _, isOurs := names[needed]; isOurs && !used[pkg][needed] {
						used[pkg][needed], again = true, true
					}
				}
			}
		}
		for name := range names {
			if ast.IsExported(name) && !used[pkg][name] {
				out[pkg] = append(out[pkg], name)
			}
		}
		slices.Sort(out[pkg])
	}
	return out
}

// declarations adds the names of a file, each with what a user of it sees: the signature of a function, the type of a
// variable, and of a type all that it is and the signatures of its methods.
func declarations(file *ast.File, to map[string][]ast.Node) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				if !d.Name.IsExported() {
					continue
				}
				name = receiver(d.Recv.List[0].Type)
			}
			to[name] = append(to[name], d.Type)
		case *ast.GenDecl:
			var last ast.Expr // constants of a group have the type of the one before
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					to[s.Name.Name] = append(to[s.Name.Name], s.Type)
				case *ast.ValueSpec:
					if s.Type != nil {
						last = s.Type
					}
					for _, name := range s.Names {
						to[name.Name] = append(to[name.Name], slices.Collect(nodes(last, s.Values))...)
						if enum, ok := last.(*ast.Ident); ok && d.Tok == token.CONST {
							to[enum.Name] = append(to[enum.Name], name)
						}
					}
				}
			}
		}
	}
}

func nodes(typ ast.Expr, values []ast.Expr) func(func(ast.Node) bool) {
	return func(yield func(ast.Node) bool) {
		if typ != nil && !yield(typ) {
			return
		}
		for _, value := range values {
			if !yield(value) {
				return
			}
		}
	}
}

// receiver is the name of a method's type.
func receiver(expr ast.Expr) string {
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// exportedIdents are the names in some nodes; those of packages that are selected from are not.
func exportedIdents(nodes []ast.Node) []string {
	var out []string
	for _, node := range nodes {
		ast.Inspect(node, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				ast.Inspect(n.X, func(n ast.Node) bool {
					if ident, ok := n.(*ast.Ident); ok {
						out = append(out, ident.Name)
					}
					return true
				})
				return false
			case *ast.Ident:
				out = append(out, n.Name)
			}
			return true
		})
	}
	return out
}
