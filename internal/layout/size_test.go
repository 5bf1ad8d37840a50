// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostLines is the length of the longest file that is written by hand.
const mostLines = 500

// TestFilesCanBeReadInOneSitting bounds every file that is written by hand, tests and
// the other modules included.
func TestFilesCanBeReadInOneSitting(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	var product []int
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "gen" || name == "node_modules") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".pb.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lines := bytes.Count(text, []byte("\n"))
		if lines > mostLines {
			t.Errorf("%s has %d lines, above %d", path, lines, mostLines)
		}
		if !strings.HasSuffix(path, "_test.go") {
			product = append(product, lines)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(product) < 400 {
		t.Fatalf("%d files: is this the root?", len(product))
	}
	slices.Sort(product)
	t.Logf("%d files besides tests, median %d lines, longest %d", len(product), product[len(product)/2], product[len(product)-1])
}
