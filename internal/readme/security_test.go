// SPDX-License-Identifier: Apache-2.0

package readme

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestThreatsAreTested follows the links of SECURITY.md's table: every threat has
// a number, an answer, and at least one test that there is.
func TestThreatsAreTested(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root(), "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\[(\w+)\]\(([^)]+)\)(?: "([^"]+)")?`)
	number := regexp.MustCompile(`^[0-9]+$`)
	threats := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if !strings.HasPrefix(line, "| ") || !number.MatchString(cells[0]) {
			continue
		}
		threats++
		if cells[0] != strconv.Itoa(threats) || len(cells) != 4 {
			t.Errorf("row %d is numbered %s and has %d columns", threats, cells[0], len(cells))
			continue
		}
		tests := 0
		for _, found := range link.FindAllStringSubmatch(cells[3], -1) {
			tests++
			if fault := follow(filepath.Join(root(), filepath.FromSlash(found[2])), found[1], found[3]); fault != "" {
				t.Errorf("threat %s: %s: %s", cells[0], found[0], fault)
			}
		}
		if tests == 0 {
			t.Errorf("threat %s is shown by no test", cells[0])
		}
	}
	if threats < 20 {
		t.Errorf("%d threats, so the table was not read", threats)
	}
}
