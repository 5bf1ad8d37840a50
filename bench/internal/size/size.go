// SPDX-License-Identifier: Apache-2.0

// Package size tells what the sidecar's binary consists of: the bytes of code and data by module, as its symbols say.
package size

import (
	"cmp"
	"context"
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Limit is the maximum size of the stripped binary in bytes.
const Limit = 43_000_000

// Rows that are no module.
const (
	standard = "Go's standard library and runtime"
	shared   = "types, tables and strings without an owner"
	rest     = "line tables and the rest of the file"
)

// least is the size of a module that has its own row.
const least = 100_000

// Share is what one module takes.
type Share struct {
	Module string
	Bytes  int64
}

// Of builds the sidecar of the module in root twice into dir, stripped as it is released and with symbols, and returns the size of
// the first and the shares that the symbols of the second have in it, largest first.
func Of(ctx context.Context, root, dir string) (int64, []Share, error) {
	stripped, err := build(ctx, root, filepath.Join(dir, "stripped"), "-s -w")
	if err != nil {
		return 0, nil, err
	}
	info, err := os.Stat(stripped)
	if err != nil {
		return 0, nil, err
	}
	full, err := build(ctx, root, filepath.Join(dir, "full"), "")
	if err != nil {
		return 0, nil, err
	}
	modules, err := modulesOf(ctx, full)
	if err != nil {
		return 0, nil, err
	}
	symbols, err := read(full)
	if err != nil {
		return 0, nil, err
	}
	shares, err := Sum(symbols, modules, info.Size())
	return info.Size(), shares, err
}

func build(ctx context.Context, root, out, ldflags string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "grpcnotrace", "-ldflags", ldflags, "-o", out, "./cmd/sidecar") //nolint:gosec // our own build
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the sidecar: %w\n%s", err, text)
	}
	return out, nil
}

// modulesOf are the modules in a binary.
func modulesOf(ctx context.Context, binary string) ([]string, error) {
	text, err := output(ctx, "go", "version", "-m", binary)
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 1 && (fields[0] == "dep" || fields[0] == "mod") {
			out = append(out, fields[1])
		}
	}
	return out, nil
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	text, err := exec.CommandContext(ctx, name, args...).Output() //nolint:gosec // commands of this file
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, args[0], err)
	}
	return string(text), nil
}

// Symbol is a named part of a binary.
type Symbol struct {
	Name string
	Size int64
}

// read returns the symbols of a binary that take room in its file.
func read(binary string) ([]Symbol, error) {
	f, err := elf.Open(binary)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	all, err := f.Symbols()
	if err != nil {
		return nil, err
	}
	var out []Symbol
	for _, s := range all {
		if int(s.Section) < len(f.Sections) && f.Sections[s.Section].Type != elf.SHT_NOBITS {
			out = append(out, Symbol{s.Name, int64(s.Size)})
		}
	}
	return out, nil
}

// Sum adds the sizes of symbols by module. What total has beyond them is a share too, and modules below a tenth of a megabyte
// are one.
func Sum(symbols []Symbol, modules []string, total int64) ([]Share, error) {
	sums := make(map[string]int64)
	left := total
	for _, s := range symbols {
		sums[ownerOf(s.Name, modules)] += s.Size
		left -= s.Size
	}
	if left < 0 {
		return nil, fmt.Errorf("symbols have %d bytes more than the binary", -left)
	}
	sums[rest] += left
	return sorted(sums), nil
}

// ownerOf is the module that a symbol is from.
func ownerOf(symbol string, modules []string) string {
	if strings.HasPrefix(symbol, "type:") || strings.HasPrefix(symbol, "go:") || strings.HasPrefix(symbol, "runtime.pclntab") {
		return shared
	}
	// The path of a package within a symbol has no dots after its last slash, unless they are escaped.
	symbol = strings.ReplaceAll(symbol, "%2e", ".")
	best := ""
	for _, module := range modules {
		if len(module) > len(best) && (strings.HasPrefix(symbol, module+"/") || strings.HasPrefix(symbol, module+".")) {
			best = module
		}
	}
	return cmp.Or(best, standard)
}

func sorted(sums map[string]int64) []Share {
	small := int64(0)
	var out []Share
	for _, module := range slices.Sorted(maps.Keys(sums)) {
		if sums[module] < least {
			small += sums[module]
			continue
		}
		out = append(out, Share{module, sums[module]})
	}
	slices.SortStableFunc(out, func(a, b Share) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return append(out, Share{"modules below 0.1 MB", small})
}

// Table is the shares in Markdown.
func Table(total int64, shares []Share) string {
	var b strings.Builder
	b.WriteString("| part of the binary | MB |\n|---|---|\n")
	for _, s := range shares {
		fmt.Fprintf(&b, "| %s | %.2f |\n", s.Module, float64(s.Bytes)/1e6)
	}
	fmt.Fprintf(&b, "| **all, stripped** | **%.2f** |\n", float64(total)/1e6)
	return b.String()
}
