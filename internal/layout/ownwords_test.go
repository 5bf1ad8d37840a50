// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// TestRedactionLeavesOurOwnTextsAlone: redaction is for what a backend or a caller
// wrote. It runs over every message on its way out, so none of our own may look
// like a secret to it ("no Mcp-Session-Id [redacted] sent").
func TestRedactionLeavesOurOwnTextsAlone(t *testing.T) {
	t.Parallel()
	verb := regexp.MustCompile(`%[-+# 0]*[0-9]*(\.[0-9]+)?[a-zA-Z]`)
	texts := 0
	for _, file := range sources(t) {
		if !slices.ContainsFunc(ownWords(), func(dir string) bool { return strings.HasPrefix(filepath.ToSlash(file.path), dir) }) {
			continue
		}
		ast.Inspect(file.ast, func(n ast.Node) bool {
			expr, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, isText := textOf(expr)
			if !isText {
				return true
			}
			text = strings.TrimSpace(verb.ReplaceAllString(text, "value"))
			if len(text) > 2000 || !strings.Contains(text, " ") || strings.ContainsAny(text, "\x00\r") {
				return false // no sentence, or a document
			}
			texts++
			if got := errmap.Redact(text); got != text {
				t.Errorf("%s: redaction changes a text of our own:\n got %q\nwant %q", file.path, got, text)
			}
			return false // its parts have been looked at
		})
	}
	if texts < 500 {
		t.Errorf("%d texts: is this still how messages are written?", texts)
	}
}

// ownWords are the folders whose texts reach callers. Of the commands, what they
// print to their own user is not redacted.
func ownWords() []string {
	return []string{"bridge/", "internal/identity/authenticator", "internal/identity/identity", "internal/catalog/", "internal/dialect/", "internal/jsonrpc/", "correlate/", "errmap/", "internal/server/admin/", "internal/server/front/pressure", "internal/server/life", "internal/server/drain", "internal/server/ready", "internal/server/upstream/service"}
}

// textOf is a text as far as the source tells, with "value" for what it does not.
func textOf(expr ast.Expr) (text string, isText bool) {
	switch e := expr.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		left, isLeft := textOf(e.X)
		right, isRight := textOf(e.Y)
		if !isLeft && !isRight {
			return "", false
		}
		if !isLeft {
			left = "value"
		}
		if !isRight {
			right = "value"
		}
		return left + right, true
	case *ast.ParenExpr:
		return textOf(e.X)
	}
	return "", false
}
