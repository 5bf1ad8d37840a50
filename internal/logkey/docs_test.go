// SPDX-License-Identifier: Apache-2.0

package logkey_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/logkey"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// TestOperationsListsEveryKey compares the keys in the source with the tables of docs/operations.md.
func TestOperationsListsEveryKey(t *testing.T) {
	t.Parallel()
	inSource := keysInSource(t)
	inDocs := documented(t)
	for key, place := range inSource {
		if !slices.Contains(inDocs, key) {
			t.Errorf("%s: the key %q is not in docs/operations.md", place, key)
		}
	}
	for _, key := range inDocs {
		if inSource[key] == "" {
			t.Errorf("docs/operations.md lists %q, which no line has", key)
		}
	}
	if len(inSource) < 40 {
		t.Errorf("only %d keys were found", len(inSource))
	}
}

// TestKeysAreThoseOfSpans: a log line and a span say the same thing under the same name.
func TestKeysAreThoseOfSpans(t *testing.T) {
	t.Parallel()
	for key, attribute := range map[string]string{
		logkey.Method: tracing.MethodName, logkey.Tool: tracing.ToolName, logkey.RequestID: tracing.RequestID, logkey.RPCMethod: tracing.RPCMethod,
		logkey.RPCSystem: tracing.RPCSystem, logkey.Status: tracing.StatusCode, logkey.HTTPRoute: tracing.HTTPRoute,
		logkey.ErrorType: tracing.ErrorType, logkey.ClientAddress: tracing.ClientAddress, logkey.ClientPort: tracing.ClientPort,
		logkey.Edge: tracing.Edge, logkey.CanonicalTool: tracing.CanonicalTool, logkey.ErrorCode: tracing.ErrorCode,
	} {
		if key != attribute {
			t.Errorf("the log has %q, spans have %q", key, attribute)
		}
	}
}

// documented are the keys in the tables of docs/operations.md.
func documented(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	rest := string(page)
	for {
		_, after, ok := strings.Cut(rest, "<!-- keys of the log -->\n")
		if !ok {
			break
		}
		table, tail, _ := strings.Cut(after, "<!-- end -->")
		rest = tail
		for line := range strings.Lines(table) {
			cells := strings.Split(line, "|")
			for _, key := range regexp.MustCompile("`([a-z0-9._]+)`").FindAllStringSubmatch(cells[min(1, len(cells)-1)], -1) {
				keys = append(keys, key[1])
			}
		}
	}
	return keys
}

// keysInSource are the keys of all lines, with a place that writes each.
func keysInSource(t *testing.T) map[string]string {
	t.Helper()
	const root = "../.."
	set, keys := token.NewFileSet(), constants(t)
	var files []string
	for _, dir := range []string{"cmd", "bridge", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "mcptest") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range files {
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			maker := selected(call.Fun, "zap")
			if maker == "Error" || maker == "NamedError" {
				t.Errorf("%s: zap.%s: use logkey.Error, which has the key of the conventions", set.Position(call.Pos()), maker)
			}
			literal, ok := call.Args[0].(*ast.BasicLit)
			if maker == "" || !ok || len(call.Args) != 2 || literal.Kind != token.STRING {
				return true
			}
			key, _ := strconv.Unquote(literal.Value)
			keys[key] = path
			if maker == "Duration" && !strings.HasSuffix(key, "_ms") {
				t.Errorf("%s: the key %q of a duration does not end in _ms", set.Position(call.Pos()), key)
			}
			if strings.Contains(key, ".") {
				t.Errorf("%s: the key %q belongs into package logkey", set.Position(call.Pos()), key)
			}
			return true
		})
	}
	return keys
}

// constants are the keys of the package, and that it has them.
func constants(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "keys.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
				key, _ := strconv.Unquote(literal.Value)
				out[key] = "keys.go"
			}
		}
		return true
	})
	return out
}

// selected is the name that an expression takes from a package, "" for others.
func selected(n ast.Node, pkg string) string {
	selector, ok := n.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if from, ok := selector.X.(*ast.Ident); !ok || from.Name != pkg {
		return ""
	}
	return selector.Sel.Name
}
