// SPDX-License-Identifier: Apache-2.0

package logkey_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// TestThePageListsEveryKey compares the keys in the source with the tables of docs/log.md.
func TestThePageListsEveryKey(t *testing.T) {
	t.Parallel()
	inSource := keysInSource(t)
	inDocs := documented(t)
	for key, place := range inSource {
		if !slices.Contains(inDocs, key) {
			t.Errorf("%s: the key %q is not in docs/log.md", place, key)
		}
	}
	for _, key := range inDocs {
		if inSource[key] == "" {
			t.Errorf("docs/log.md lists %q, which no line has", key)
		}
	}
	if len(inSource) < 40 {
		t.Errorf("only %d keys were found", len(inSource))
	}
}

var update = flag.Bool("update", false, "write the messages of the log anew")

// TestMessagesAreOnRecord compares the messages of the log, by which operators search and alert, with the record.
func TestMessagesAreOnRecord(t *testing.T) {
	t.Parallel()
	messages := map[string]bool{}
	note := func(level string, message ast.Expr) {
		for { // the literal that a message of several parts begins with
			sum, ok := message.(*ast.BinaryExpr)
			if !ok {
				break
			}
			message = sum.X
		}
		if literal, ok := message.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			text, _ := strconv.Unquote(literal.Value)
			messages[level+": "+text] = true
		}
	}
	inSource(t, func(_ string, file *ast.File, _ *token.FileSet) {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 || selected(call.Fun, "zap") != "" {
				return true
			}
			if name := calledName(call.Fun); name == "Keep" && len(call.Args) == 4 { // of package reload: an error and a success
				note("error", call.Args[1])
				note("info", call.Args[2])
			} else if _, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, name) {
				note(strings.ToLower(name), call.Args[0])
			}
			return true
		})
	})
	const golden = "testdata/messages.txt"
	got := strings.Join(slices.Sorted(maps.Keys(messages)), "\n") + "\n"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("go test ./internal/telemetry/logkey -run TestMessagesAreOnRecord -update writes %s (-on record +now):\n%s", golden, diff)
	}
}

// calledName is the last name of what is called.
func calledName(of ast.Expr) string {
	switch f := of.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// TestKeysAreThoseOfSpans: a log line and a span say the same thing under the same name.
func TestKeysAreThoseOfSpans(t *testing.T) {
	t.Parallel()
	for key, attribute := range map[string]string{
		logkey.Method: telemetry.MethodName, logkey.Tool: telemetry.ToolName, logkey.RequestID: telemetry.RequestID, logkey.RPCMethod: telemetry.RPCMethod,
		logkey.RPCSystem: telemetry.RPCSystemName, logkey.Status: telemetry.StatusCode, logkey.HTTPRoute: telemetry.HTTPRoute,
		logkey.ErrorType: telemetry.ErrorType, logkey.ClientAddress: telemetry.ClientAddress, logkey.ClientPort: telemetry.ClientPort,
		logkey.Edge: telemetry.EdgeName, logkey.CanonicalTool: telemetry.CanonicalTool, logkey.ErrorCode: telemetry.ErrorCode,
	} {
		if key != attribute {
			t.Errorf("the log has %q, spans have %q", key, attribute)
		}
	}
}

// documented are the keys in the tables of docs/log.md.
func documented(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/log.md")
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

// inSource calls each for every file of the product that may log.
func inSource(t *testing.T, each func(path string, file *ast.File, set *token.FileSet)) {
	t.Helper()
	const root = "../../.."
	set := token.NewFileSet()
	for _, dir := range []string{"cmd", "bridge", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "mcptest") {
				return err
			}
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err == nil {
				each(path, file, set)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// keysInSource are the keys of all lines, with a place that writes each.
func keysInSource(t *testing.T) map[string]string {
	t.Helper()
	keys := constants(t)
	inSource(t, func(path string, file *ast.File, set *token.FileSet) {
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
	})
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
