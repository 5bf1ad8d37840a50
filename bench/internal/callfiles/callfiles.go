// SPDX-License-Identifier: Apache-2.0

// Package callfiles says what code one more call runs: files, packages, functions and statements. It takes the difference of
// two runs of a sidecar that counts how often each block runs, of a few calls and of many equal ones more.
package callfiles

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/outrigger-mcp/outrigger/bench/internal/path"
	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
)

const (
	module = "github.com/outrigger-mcp/outrigger/"
	// Before is how many calls warm the sidecar up, and More how many are counted: many more than anything else happens in one
	// of the two runs and not in the other, such as questions whether the sidecar is ready.
	Before, More = 3, 5000
	// each is how many of them a block must run in: not all, because now and then one waits for a buffer or a turn.
	each = More * 9 / 10
)

// Figures are those of one more call of a path.
type Figures struct {
	// Files are the sorted files of the main module with a block that ran in at least nine of ten calls. Generated code and the
	// example service are left out.
	Files []string `json:"files"`
	// Packages and Functions have such a block; Statements are those of the blocks.
	Packages   int `json:"packages"`
	Functions  int `json:"functions"`
	Statements int `json:"statements"`
}

// Above says in what figures are above those on record. A file may take another's place, and a hundredth of the statements depends on
// how busy the machine is.
func (f Figures) Above(record Figures) []string {
	var out []string
	if len(f.Files) > len(record.Files) {
		added := slices.DeleteFunc(slices.Clone(f.Files), func(name string) bool { return slices.Contains(record.Files, name) })
		out = append(out, fmt.Sprintf("runs %d files, %d on record: new are %s", len(f.Files), len(record.Files), strings.Join(added, ", ")))
	}
	if f.Statements > record.Statements+record.Statements/100 {
		out = append(out, fmt.Sprintf("runs %d statements, %d on record", f.Statements, record.Statements))
	}
	return out
}

// Build makes a sidecar that counts how often each block runs, and returns its path inside dir.
func Build(ctx context.Context, root, dir string) (string, error) {
	out := filepath.Join(dir, "sidecar-cover")
	cmd := exec.CommandContext(ctx, "go", "build", "-cover", "-covermode=atomic", "-coverpkg=./...", "-o", out, "./cmd/sidecar") //nolint:gosec // a folder of the benchmark's own
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the sidecar: %w\n%s", err, text)
	}
	return out, nil
}

// Of measures a path with calls of a small unary tool over HTTP/1.1. The sidecar has its defaults.
func Of(ctx context.Context, root, binary, dir, name string) (Figures, error) {
	few, err := counts(ctx, binary, dir, name, Before)
	if err != nil {
		return Figures{}, err
	}
	many, err := counts(ctx, binary, dir, name, Before+More)
	if err != nil {
		return Figures{}, err
	}
	return figuresOf(root, few, many)
}

// counts runs a sidecar for a number of calls, and returns how often each of its blocks ran.
func counts(ctx context.Context, binary, dir, name string, calls int) (map[block]uint64, error) {
	data, err := os.MkdirTemp(dir, "counts")
	if err != nil {
		return nil, err
	}
	s, err := sidecar.StartWith(ctx, []string{"GOCOVERDIR=" + data}, binary, dir, "--demo")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(call(ctx, s.Addr, name, calls), s.Stop()); err != nil {
		return nil, err
	}
	text := filepath.Join(data, "profile.txt")
	if out, err := exec.CommandContext(ctx, "go", "tool", "covdata", "textfmt", "-i="+data, "-o="+text).CombinedOutput(); err != nil { //nolint:gosec // a folder of the benchmark's own
		return nil, fmt.Errorf("read the counts: %w\n%s", err, out)
	}
	file, err := os.Open(text)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return read(file)
}

func call(ctx context.Context, addr, name string, calls int) error {
	way, err := path.Named(name)
	if err != nil {
		return err
	}
	session, err := way.Open(ctx, path.Addrs{Sidecar: addr}, 1, path.Echo([]byte("payload")))
	if err != nil {
		return err
	}
	defer session.Close()
	for range calls {
		if err := session.Callers[0].Call(ctx); err != nil {
			return err
		}
	}
	return nil
}

// block is a run of statements that the compiler counts together, as a profile writes it.
type block struct {
	file  string // below the module
	place string // "12.30,14.2"
	size  int    // statements
}

// read reads a profile: a line of the mode, then "file:place statements count" for each block. A block may come more than once.
func read(profile io.Reader) (map[block]uint64, error) {
	out := map[block]uint64{}
	for lines := bufio.NewScanner(profile); ; {
		if !lines.Scan() {
			return out, lines.Err()
		}
		name, rest, ok := strings.Cut(strings.TrimPrefix(lines.Text(), module), ":")
		if !ok || name == "mode" {
			continue
		}
		b, count := block{file: name}, uint64(0)
		if _, err := fmt.Sscan(rest, &b.place, &b.size, &count); err != nil {
			return nil, fmt.Errorf("profile: %q: %w", lines.Text(), err)
		}
		out[b] += count
	}
}

// figuresOf are those of the blocks that ran in at least nine of ten calls by which many has more than few.
func figuresOf(root string, few, many map[block]uint64) (Figures, error) {
	var out Figures
	packages, places := map[string]bool{}, map[string][]block{}
	for b, count := range many {
		if count < few[b]+each || strings.HasPrefix(b.file, "gen/") || strings.HasPrefix(b.file, "internal/demo/") {
			continue
		}
		out.Statements += b.size
		packages[filepath.Dir(b.file)] = true
		places[b.file] = append(places[b.file], b)
	}
	for name, blocks := range places {
		n, err := functions(filepath.Join(root, name), blocks)
		if err != nil {
			return Figures{}, err
		}
		out.Functions += n
	}
	out.Packages, out.Files = len(packages), slices.Sorted(maps.Keys(places))
	return out, nil
}

// functions counts those of a file that have one of the blocks.
func functions(name string, blocks []block) (int, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		from, to := set.Position(f.Pos()), set.Position(f.End())
		if slices.ContainsFunc(blocks, func(b block) bool {
			var line, column int
			_, err := fmt.Sscanf(b.place, "%d.%d", &line, &column)
			return err == nil && (line > from.Line || line == from.Line && column >= from.Column) && (line < to.Line || line == to.Line && column <= to.Column)
		}) {
			n++
		}
	}
	return n, nil
}
