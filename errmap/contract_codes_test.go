// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestContractOfUnknownCodes has the sentence about codes that are none.
func TestContractOfUnknownCodes(t *testing.T) {
	t.Parallel()

	t.Run("an unknown canonical code is a look-up error", func(t *testing.T) {
		t.Parallel()
		if _, err := Lookup("TOOL_NOT_FUOND"); !errors.Is(err, ErrUnknownCode) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("no code is spelt out in the source, so that a wrong one does not compile", func(t *testing.T) {
		t.Parallel()
		spelt := regexp.MustCompile(`errmap\.Code\(["` + "`" + `]|errmap\.New\(["` + "`" + `]|errmap\.Wrap\(["` + "`" + `]`)
		files := 0
		err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && (entry.Name() == "gen" || strings.HasPrefix(entry.Name(), ".") && entry.Name() != "..") {
				return fs.SkipDir
			}
			if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			files++
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if at := spelt.FindIndex(text); at != nil {
				t.Errorf("%s spells a code out: %s", path, text[at[0]:min(at[1]+40, len(text))])
			}
			return nil
		})
		if err != nil || files < 100 {
			t.Errorf("%d files, %v", files, err)
		}
	})
}
