// SPDX-License-Identifier: Apache-2.0

package readme

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//nolint:gochecknoglobals // a flag of this test
var update = flag.Bool("update", false, "write docs/llms.txt")

// TestLLMs compares docs/llms.txt with the titles and first sentences of all pages. -update writes it.
func TestLLMs(t *testing.T) {
	t.Parallel()
	var want strings.Builder
	want.WriteString(`# Outrigger

> A sidecar that makes every RPC of a Protobuf service (gRPC, Connect, gRPC-Web) a tool for agents, over MCP and JSON-RPC. The service does not change.

To install it beside a service, follow [install-outrigger](agents/install-outrigger/SKILL.md). Links are relative to this file.

## Pages

`)
	pages, err := filepath.Glob(filepath.Join(root(), "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := 0
	for _, page := range pages {
		title, about := summarize(t, page)
		fmt.Fprintf(&want, "- [%s](%s): %s\n", title, filepath.Base(page), about)
		listed++
	}
	want.WriteString("\n## Optional\n\n- [README](../README.md): what it is, in ten minutes, with commands to try.\n- [Decisions](decisions/): why it is built this way.\n" +
		"- [Contract](../proto/outrigger/v1/): the Protobuf files of the tool API.\n")
	path := filepath.Join(root(), "docs", "llms.txt")
	if *update {
		if err := os.WriteFile(path, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := read(t, "docs/llms.txt")
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("docs/llms.txt differs from the pages; write it with `go test ./internal/readme -run TestLLMs -update` (-want +got):\n%s", diff)
	}
	// An agent follows the links.
	for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(string(got), -1) {
		if _, err := os.Stat(filepath.Join(root(), "docs", filepath.FromSlash(link[1]))); err != nil {
			t.Error(err)
		}
	}
	if listed < 25 {
		t.Errorf("%d pages are listed, there are more", listed)
	}
}

// summarize returns the title of a page and the first sentence of its text.
func summarize(t *testing.T, page string) (title, about string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut("\n"+string(text), "\n# ")
	title, rest, _ = strings.Cut(rest, "\n")
	for paragraph := range strings.SplitSeq(rest, "\n\n") {
		paragraph = strings.Join(strings.Fields(paragraph), " ")
		if paragraph == "" || strings.HasPrefix(paragraph, "<!--") || strings.HasPrefix(paragraph, "#") {
			continue
		}
		about = paragraph
		if sentence := regexp.MustCompile(`^.*?[^.]\.(?:\s|$)`).FindString(paragraph); sentence != "" {
			about = sentence
		}
		break
	}
	// Links in a sentence are relative to the page, which is beside this file.
	if about = strings.TrimRight(about, " :"); !ok || about == "" {
		t.Fatalf("%s has no title or no first sentence", page)
	}
	return title, about
}
