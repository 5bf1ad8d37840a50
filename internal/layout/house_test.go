// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the figures of the house instead of comparing with them")

// house are the figures that say whether the project can be owned: how much there is, and how much each part needs of the
// others. They are on record, and a figure that rises fails until the record says so in the same commit.
type house struct {
	// Rooms are the directories right below internal/ that have code of the product.
	Rooms int
	// Lines and Statements are those of the main module's product, Unused its exported names below internal/ that no other
	// package uses, and Cycle the most files of a package that need one another.
	Lines, Statements, Unused, Cycle int
	// Phrases is how often hand-written Go, tests too, has a phrase that readers of English read twice.
	Phrases int
	// Modules are the lines of the repository's other modules, so that code which moves there does not disappear.
	Modules map[string]int
	// Packages are the main module's, by directory.
	Packages map[string]*figures
}

// figures are those of one package.
type figures struct {
	Lines      int // physical, comments in, of what is neither a test nor generated
	Statements int // of the syntax tree
	Tests      int // lines of test files, or of all files where tests alone use the package
	Imports    int // of packages of the main module, generated ones aside
	Cycle      int // the most files that need one another
	Unused     []string
}

// goFile is one of the repository's hand-written Go files.
type goFile struct {
	path, module, pkg string // pkg is the directory in the repository
	isTest            bool
	lines, phrases    int
	ast               *ast.File
}

const record = "../../.ci/house.json"

// TestHouse compares the figures with those on record.
func TestHouse(t *testing.T) {
	t.Parallel()
	now := measure(t)
	t.Logf("\n%s", now.table())
	if *update {
		data, err := json.MarshalIndent(now, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(record, append(data, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	var before house
	if err := json.Unmarshal(data, &before); err != nil {
		t.Fatalf("%s: %v", record, err)
	}
	for _, fault := range compareHouses(before, now) {
		t.Error(fault)
	}
}

// TestHouseIsCompared: each figure that rises is a fault, and so is one that has fallen so far that it could rise unseen.
func TestHouseIsCompared(t *testing.T) {
	t.Parallel()
	made := func(change func(*house)) house {
		h := house{
			Rooms: 30, Lines: 1000, Statements: 500, Unused: 1, Cycle: 12, Modules: map[string]int{"bench": 100},
			Packages: map[string]*figures{"bridge": {Lines: 1000, Statements: 500, Tests: 10, Imports: 20, Cycle: 12, Unused: []string{"A"}}},
		}
		change(&h)
		return h
	}
	for name, row := range map[string]struct {
		change func(*house)
		faults int
	}{
		"the same":                   {func(*house) {}, 0},
		"tests may grow":             {func(h *house) { h.Packages["bridge"].Tests = 99 }, 0},
		"a little less":              {func(h *house) { h.Lines, h.Packages["bridge"].Lines = 995, 995 }, 0},
		"a line more":                {func(h *house) { h.Packages["bridge"].Lines++ }, 1},
		"a statement more":           {func(h *house) { h.Packages["bridge"].Statements++ }, 1},
		"an import more":             {func(h *house) { h.Packages["bridge"].Imports++ }, 1},
		"a larger cycle":             {func(h *house) { h.Packages["bridge"].Cycle++ }, 1},
		"a name that no other uses":  {func(h *house) { h.Packages["bridge"].Unused = []string{"B"} }, 1},
		"a phrase more":              {func(h *house) { h.Phrases++ }, 1},
		"a room more":                {func(h *house) { h.Rooms++ }, 1},
		"a package more":             {func(h *house) { h.Packages["new"] = &figures{Lines: 1} }, 1},
		"code in another module":     {func(h *house) { h.Modules["bench"]++ }, 1},
		"another module":             {func(h *house) { h.Modules["tools"] = 1 }, 1},
		"much less, not on record":   {func(h *house) { h.Lines = 900 }, 1},
		"a smaller cycle, unwritten": {func(h *house) { h.Packages["bridge"].Cycle-- }, 1},
	} {
		if got := compareHouses(made(func(*house) {}), made(row.change)); len(got) != row.faults {
			t.Errorf("%s: %q, want %d faults", name, got, row.faults)
		}
	}
}

// compareHouses says what has risen, and what has fallen so far that the record should say so.
func compareHouses(before, now house) []string {
	var faults []string
	atMost := func(what string, was, is int) {
		if is > was {
			faults = append(faults, fmt.Sprintf("%s: %d, above the %d on record. Make it smaller, or record it with its reason in the same commit: make house RECORD=-update", what, is, was))
		}
	}
	// A hundredth may come and go within a landing.
	recorded := func(what string, was, is, room int) {
		atMost(what, was, is)
		if is < was-room {
			faults = append(faults, fmt.Sprintf("%s: %d, well below the %d on record: make house RECORD=-update", what, is, was))
		}
	}
	recorded("lines", before.Lines, now.Lines, before.Lines/100)
	recorded("statements", before.Statements, now.Statements, before.Statements/100)
	recorded("rooms", before.Rooms, now.Rooms, 0)
	recorded("phrases to be said otherwise ("+strings.Join(phrases(), ", ")+")", before.Phrases, now.Phrases, 0)
	for _, module := range slices.Sorted(maps.Keys(now.Modules)) {
		atMost("lines of module "+module, before.Modules[module], now.Modules[module])
	}
	for _, pkg := range slices.Sorted(maps.Keys(now.Packages)) {
		was, is := before.Packages[pkg], now.Packages[pkg]
		if was == nil {
			was = &figures{}
		}
		if is.Lines == 0 {
			continue // for tests alone
		}
		if was.Lines == 0 {
			faults = append(faults, pkg+" is a new package: make house RECORD=-update, with its reason in the commit")
			continue
		}
		atMost(pkg+": lines", was.Lines, is.Lines)
		atMost(pkg+": statements", was.Statements, is.Statements)
		recorded(pkg+": imports", was.Imports, is.Imports, 0)
		recorded(pkg+": files in a cycle", was.Cycle, is.Cycle, 0)
		for _, name := range is.Unused {
			if !slices.Contains(was.Unused, name) {
				faults = append(faults, fmt.Sprintf("%s exports %s, which no other package uses", pkg, name))
			}
		}
	}
	return faults
}

// measure reads the whole repository.
func measure(t *testing.T) house {
	t.Helper()
	files := goFiles(t)
	now := house{Modules: map[string]int{}, Packages: map[string]*figures{}}
	kits := kitsOf(files)
	for _, file := range files {
		now.Phrases += file.phrases
		if file.module != "." {
			if !file.isTest {
				now.Modules[file.module] += file.lines
			}
			continue
		}
		f := now.Packages[file.pkg]
		if f == nil {
			f = &figures{}
			now.Packages[file.pkg] = f
		}
		if file.isTest || kits[file.pkg] {
			f.Tests += file.lines
			continue
		}
		f.Lines += file.lines
		f.Statements += statements(file.ast)
	}
	unused, cycles, rooms := unusedNames(files, kits), largestCycles(t), map[string]bool{}
	for pkg, f := range now.Packages {
		if f.Lines == 0 {
			continue
		}
		f.Unused, f.Cycle, f.Imports = unused[pkg], cycles[pkg], ownImports(files, pkg)
		now.Lines, now.Statements, now.Unused = now.Lines+f.Lines, now.Statements+f.Statements, now.Unused+len(f.Unused)
		now.Cycle = max(now.Cycle, f.Cycle)
		if below, ok := strings.CutPrefix(pkg, "internal/"); ok {
			room, _, _ := strings.Cut(below, "/")
			rooms[room] = true
		}
	}
	now.Rooms = len(rooms)
	return now
}

// phrases are what no text of the project says. They are put together here, so that this file has none.
func phrases() []string {
	return []string{"[Ww]ho" + "ever", "[Nn]o" + "body", "of its" + " own", "is" + " told", "[Ss]tan" + "ds"}
}

// TestDocumentsSayItOtherwise: documents, definitions and scripts have none of the phrases. Exempt are the notes that name them, the records and
// corpora of tests, and the examples, whose comments are descriptions of tools in goldens.
func TestDocumentsSayItOtherwise(t *testing.T) {
	t.Parallel()
	root, said := filepath.Join("..", ".."), regexp.MustCompile(`\b(?:`+strings.Join(phrases(), "|")+`)\b`)
	exempt := []string{"docs/writing.md", "proto/outrigger/demo", "bench/proto"}
	skipped := []string{"gen", "node_modules", "testdata", "third_party", "bin", "dist"}
	seen := 0
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		short, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		short = filepath.ToSlash(short)
		switch hidden := short != "." && strings.HasPrefix(d.Name(), "."); {
		case d.IsDir() && (hidden || slices.Contains(skipped, d.Name()) || slices.Contains(exempt, short)):
			return filepath.SkipDir
		case d.IsDir() || slices.Contains(exempt, short) || !slices.Contains([]string{".md", ".proto", ".yaml", ".mjs", ".sh", ""}, path.Ext(short)):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		seen++
		for number, line := range strings.Split(string(text), "\n") {
			if found := said.FindString(line); found != "" {
				t.Errorf("%s:%d: say %q in other words", short, number+1, found)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 100 {
		t.Errorf("%d files: is the walk right?", seen)
	}
}

// goFiles parses every Go file of the repository that is written by hand.
func goFiles(t *testing.T) []goFile {
	t.Helper()
	root := filepath.Join("..", "..")
	var out []goFile
	modules := []string{}
	said := regexp.MustCompile(`\b(?:` + strings.Join(phrases(), "|") + `)\b`)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		short, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		short = filepath.ToSlash(short)
		if d.IsDir() {
			base := d.Name()
			if short != "." && (strings.HasPrefix(base, ".") || base == "gen" || base == "node_modules" || base == "testdata") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
				modules = append(modules, short)
			}
			return nil
		}
		if path.Ext(short) != ".go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if ast.IsGenerated(file) {
			return nil
		}
		module := "."
		for _, m := range modules { // a parent comes before what is in it
			if strings.HasPrefix(short, m+"/") {
				module = m
			}
		}
		out = append(out, goFile{path: short, module: module, pkg: path.Dir(short), isTest: strings.HasSuffix(short, "_test.go"), lines: bytes.Count(text, []byte("\n")), phrases: len(said.FindAll(text, -1)), ast: file})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// kitsOf are the packages for tests: those that import package testing, or such a package, and those that have tests alone.
func kitsOf(files []goFile) map[string]bool {
	kits, product := map[string]bool{}, map[string]bool{}
	for again := true; again; {
		again = false
		for _, file := range files {
			if file.isTest || kits[file.pkg] {
				continue
			}
			for _, spec := range file.ast.Imports {
				own, isOwn := strings.CutPrefix(importPath(spec), module)
				if importPath(spec) == "testing" || isOwn && kits[own] {
					kits[file.pkg], again = true, true
				}
			}
		}
	}
	for _, file := range files {
		product[file.pkg] = product[file.pkg] || !file.isTest && path.Base(file.path) != "doc.go"
	}
	for pkg, has := range product {
		kits[pkg] = kits[pkg] || !has
	}
	return kits
}

func importPath(spec *ast.ImportSpec) string {
	text, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return ""
	}
	return text
}

// statements counts those of a file, blocks and clauses aside.
func statements(file *ast.File) int {
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		switch node.(type) {
		case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause, *ast.LabeledStmt, *ast.EmptyStmt:
		case ast.Stmt:
			n++
		}
		return true
	})
	return n
}

// ownImports counts the packages of the main module that a package imports, generated ones aside.
func ownImports(files []goFile, pkg string) int {
	own := map[string]bool{}
	for _, file := range files {
		if file.pkg != pkg || file.isTest {
			continue
		}
		for _, spec := range file.ast.Imports {
			if dir, ok := strings.CutPrefix(importPath(spec)+"/", module); ok && !strings.HasPrefix(dir, "gen/") {
				own[dir] = true
			}
		}
	}
	return len(own)
}

// table is what a person reads.
func (h house) table() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d rooms below internal/, %d lines, %d statements, %d exported names that no other package uses, %d files in the largest cycle\n\n", h.Rooms, h.Lines, h.Statements, h.Unused, h.Cycle)
	out.WriteString("| package | lines | statements | lines of tests | own imports | files in a cycle | exported for no other |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for _, pkg := range slices.Sorted(maps.Keys(h.Packages)) {
		f := h.Packages[pkg]
		fmt.Fprintf(&out, "| %s | %d | %d | %d | %d | %d | %d |\n", pkg, f.Lines, f.Statements, f.Tests, f.Imports, f.Cycle, len(f.Unused))
	}
	for _, module := range slices.Sorted(maps.Keys(h.Modules)) {
		fmt.Fprintf(&out, "| module %s | %d | | | | | |\n", module, h.Modules[module])
	}
	return out.String()
}
