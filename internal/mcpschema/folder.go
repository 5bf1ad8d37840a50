// SPDX-License-Identifier: Apache-2.0

package mcpschema

import (
	"os"
	"path/filepath"
	"testing"
)

// folderName is where the schemas are, seen from the folder that the project is
// in.
var folderName = filepath.Join("shared", "mcp-schema")

// folder returns where the official schemas are: beside one of the folders that
// lead to the working directory.
func folder(tb testing.TB) string {
	tb.Helper()
	start, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	found, ok := findFolder(start)
	if !ok {
		tb.Skipf("SKIPPED: the official MCP schemas are not here; put them into a folder %s beside the project to check messages against them (looked upwards from %s)", folderName, start)
	}
	return found
}

func findFolder(start string) (string, bool) {
	for dir := start; ; dir = filepath.Dir(dir) {
		found := filepath.Join(filepath.Dir(dir), folderName)
		if info, err := os.Stat(found); err == nil && info.IsDir() {
			return found, true
		}
		if dir == filepath.Dir(dir) {
			return "", false
		}
	}
}
