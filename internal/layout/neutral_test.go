// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestThePipelineIsNeutral keeps JSON-RPC and MCP out of the package bridge: what
// a message looks like, its headers and its revisions are those of internal/dialect,
// which is in front of it. It looks at the code, not at the comments.
func TestThePipelineIsNeutral(t *testing.T) {
	t.Parallel()
	files := 0
	for _, file := range sources(t) {
		if filepath.ToSlash(filepath.Dir(file.path)) != "bridge" {
			continue
		}
		files++
		for _, found := range foreignTo(file.ast) {
			t.Errorf("%s: %s belongs in internal/dialect", file.path, found)
		}
	}
	if files < 10 {
		t.Errorf("%d files: is the pipeline still in bridge?", files)
	}
}

// foreignWords are what no text of the pipeline holds: braces, for it renders no
// JSON; members and headers of JSON-RPC and MCP; methods; revisions.
func foreignWords() *regexp.Regexp {
	return regexp.MustCompile(`[{}]|jsonrpc|^(2\.0|20\d\d-\d\d-\d\d)$|(?i:\bmcp-)|io\.modelcontextprotocol|dev\.outrigger|_meta|/params/|` +
		`progressToken|requestState|inputResponses|requiredCapabilities|structuredContent|isError|` +
		`\b(tools|resources|prompts|tasks|roots|completion|logging|sampling|elicitation|server|subscriptions|notifications)/[a-z]`)
}

// isOfMCP reports whether a name of internal/content writes or reads MCP's JSON. The pipeline reads payloads, looks at typed
// messages, and fits results: it does neither.
func isOfMCP(name string) bool {
	return name != "AppendCut" && regexp.MustCompile(`^(Append|Read[A-Z]|Missing$|Meta|Revision|ParseRevision|LogLevelName|InvalidError|UnsupportedError)`).MatchString(name)
}

// foreignTo returns what a file of the pipeline holds of JSON-RPC and MCP.
func foreignTo(file *ast.File) (found []string) {
	foreign, version := foreignWords(), regexp.MustCompile(`^(Rev\d+|GetProtocolVersion|ProtocolVersion|ParseRevision)$`)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if text := textOfLiteral(n); foreign.MatchString(text) {
				found = append(found, n.Value)
			}
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.Ident); ok && of.Name == "content" && isOfMCP(n.Sel.Name) {
				found = append(found, "content."+n.Sel.Name)
			}
			if version.MatchString(n.Sel.Name) {
				found = append(found, "the revision "+n.Sel.Name)
			}
		}
		return true
	})
	return found
}

// textOfLiteral is what a string or a character of the source represents; empty for
// a number.
func textOfLiteral(lit *ast.BasicLit) string {
	if lit.Kind != token.STRING && lit.Kind != token.CHAR {
		return ""
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return lit.Value
	}
	return text
}

// TestForeignWordsAreFound: the test above fails on each of what once was in the
// pipeline, and not on what the pipeline says.
func TestForeignWordsAreFound(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]int{
		`var x = "tools/call"`:                                               1,
		`var x = "tools/list shows the available names"`:                     1,
		`var x = "not offered here; server/discover says what is"`:           1,
		"var x = []byte(`{\"items\":[`)":                                     1,
		`var x = '}'`:                                                        1,
		`var x = "notifications/tools/list_changed"`:                         1,
		`var x = "dev.outrigger/repaired"`:                                   1,
		`var x = "in _meta"`:                                                 1,
		`var x = "mcp-"`:                                                     1,
		`var x = "Mcp-Session-Id"`:                                           1,
		`var x = "2026-07-28"`:                                               1,
		`var x, err = content.AppendCapabilities(nil, nil)`:                  1,
		`var x = req.Context.GetProtocolVersion() == content.Rev20260728`:    2,
		`var x, err = content.FreeForm(nil, nil)`:                            0,
		`var x, err = content.ReadCapabilities(nil)`:                         1,
		`var x, err = content.AppendCut(nil, nil, 1, nil)`:                   0,
		`var x = "the tool declares an output schema, but returned no data"`: 0,
		`var x = "application/json"`:                                         0,
		`import "github.com/outrigger-mcp/outrigger/internal/server/front"`:  0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package bridge\n"+code, 0)
		if err != nil {
			t.Fatal(err)
		}
		if found := foreignTo(file); len(found) != want {
			t.Errorf("%s: found %v, want %d", code, strings.Join(found, ", "), want)
		}
	}
}

// wayIn are the functions of package bridge that may name the client of a backend, and those that may ask for it without what callers do
// not see: a watch keeps messages whole, and each reader is shown its part. What is under way has a member of that name.
func wayIn() map[string][]string {
	return map[string][]string{
		"Upstream":   {"(*sender).upstream", "(*Backend).everything", "(*seen).Call", "(*seen).Stream", "(*seen).Open", "(*Bridge).underWay"},
		"everything": {"(*Host).Stream"},
	}
}

// TestAnswersComeInAtOnePlace: what backends answer passes (*sender).upstream, which takes out what a caller does not see. Code that calls
// a backend in another way would show everything.
func TestAnswersComeInAtOnePlace(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, file := range sources(t) {
		if filepath.ToSlash(filepath.Dir(file.path)) != "bridge" {
			continue
		}
		for _, use := range uses(file.ast, wayIn()) {
			name, by, _ := strings.Cut(use, " ")
			if used[use] = true; !slices.Contains(wayIn()[name], by) {
				t.Errorf("%s: %s uses %s of a backend: ask (*sender).upstream for it", file.path, by, name)
			}
		}
	}
	for name, functions := range wayIn() {
		for _, by := range functions {
			if !used[name+" "+by] {
				t.Errorf("%s does not use %s any more: take it off the list", by, name)
			}
		}
	}
}

// uses are the functions of a file that select one of the names, each as "name function".
func uses(file *ast.File, names map[string][]string) (found []string) {
	for _, d := range file.Decls {
		by := "a variable"
		if f, ok := d.(*ast.FuncDecl); ok {
			if by = f.Name.Name; f.Recv != nil {
				by = "(" + types.ExprString(f.Recv.List[0].Type) + ")." + by
			}
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && names[s.Sel.Name] != nil {
				found = append(found, s.Sel.Name+" "+by)
			}
			return true
		})
	}
	return found
}

func TestUses(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package bridge\nvar a = b.Upstream\nfunc (s *T) f() { _ = Backend{Upstream: s.x}; go func() { s.at().Upstream.Call() }() }", 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(uses(file, wayIn()), ", "); got != "Upstream a variable, Upstream (*T).f" {
		t.Errorf("found %s", got)
	}
}
