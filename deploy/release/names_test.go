// SPDX-License-Identifier: Apache-2.0

package release

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/outrigger-mcp/outrigger/deploy/image"
)

// TestNames compares names.json with everything that cannot read it: go.mod, the label of the image, the README and every page.
func TestNames(t *testing.T) {
	t.Parallel()
	n, err := LoadNames()
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"go.mod": n.Module, "proto/options/go.mod": n.Options} {
		content, err := os.ReadFile(filepath.Join("..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		if got := modfile.ModulePath(content); got != want {
			t.Errorf("%s is of the module %s, names.json says %s", file, got, want)
		}
	}
	if got := image.Sidecar(".", "", "").Server; got != n.Server {
		t.Errorf("the label of the image is %s, names.json says %s", got, n.Server)
	}
	pages := []string{filepath.Join("..", "..", "README.md")}
	for _, pattern := range []string{"docs/*.md", "docs/agents/*/*.md", "docs/llms.txt", "docs/decisions/*.md"} {
		found, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: no pages (%v)", pattern, err)
		}
		pages = append(pages, found...)
	}
	for name, rule := range map[string]struct {
		find *regexp.Regexp
		want []string
	}{
		"Go":    {regexp.MustCompile(`go install ([\w./-]*outrigger[\w./-]*)@`), []string{n.Module + "/cmd/" + program}},
		"npm":   {regexp.MustCompile(`(?:npx|npm install(?: -g)?) ([\w@/-]*outrigger[\w@/-]*)`), []string{n.NPM}},
		"scope": {regexp.MustCompile(`(@[\w-]*outrigger[\w-]*)/`), []string{n.Scope}},
		"image": {regexp.MustCompile(`(ghcr\.io/[\w./-]*outrigger[\w./-]*\w)`), []string{n.Image, n.Beside(injector), n.Beside("charts"), n.Beside("charts/" + n.Package), n.Beside("charts/" + n.Package + "-sidecar"), path.Dir(n.Image)}},
		"MCP":   {regexp.MustCompile(`(io\.github\.[\w./-]*outrigger[\w./-]*)`), []string{n.Server}},
		"brew":  {regexp.MustCompile(`brew install (\S*outrigger\S*[\w])`), []string{n.Tap + "/" + n.Package}},
	} {
		found := 0
		for _, page := range pages {
			content, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range rule.find.FindAllStringSubmatch(string(content), -1) {
				found++
				if !slices.Contains(rule.want, match[1]) {
					t.Errorf("%s: %s is called %s, names.json says %s", strings.TrimPrefix(page, "../../"), name, match[1], rule.want)
				}
			}
		}
		if found == 0 && name != "scope" && name != "MCP" {
			t.Errorf("no page has the name for %s", name)
		}
	}
}
