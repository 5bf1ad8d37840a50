// SPDX-License-Identifier: Apache-2.0

package readme

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestJSONInDocumentsIsIndented looks at every json block of the pages for
// people. On the wire the same is compact.
func TestJSONInDocumentsIsIndented(t *testing.T) {
	t.Parallel()
	pages := []string{filepath.Join(root(), "README.md")}
	for _, glob := range []string{"docs/*.md", "docs/*/*.md", "conformance/*.md", "conformance/*/*.md", "deploy/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root(), filepath.FromSlash(glob)))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	blocks := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?s)```json\n(.*?)\n```").FindAllSubmatch(text, -1) {
			blocks++
			var want bytes.Buffer
			if err := json.Indent(&want, block[1], "", "  "); err != nil {
				t.Errorf("%s: %v: %.200s", page, err, block[1])
				continue
			}
			if !bytes.Equal(want.Bytes(), block[1]) {
				t.Errorf("%s: not indented: %.200s", page, block[1])
			}
		}
	}
	if blocks == 0 {
		t.Error("there is no json block: is a fence misspelt?")
	}
}
