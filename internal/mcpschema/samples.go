// SPDX-License-Identifier: Apache-2.0

package mcpschema

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Sample is one official example of 2026-07-28.
type Sample struct {
	// Type is the definition that it is an example of, Name what it shows.
	Type, Name string
	Body       []byte
}

// Samples returns the official examples in the order of their types and names.
// Where they are missing it skips the test.
func Samples(tb testing.TB) []Sample {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(folder(tb), Revision20260728, "examples", "*", "*.json"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no samples of MCP %s: %v", Revision20260728, err)
	}
	out := make([]Sample, len(files))
	for i, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		out[i] = Sample{
			Type: filepath.Base(filepath.Dir(file)),
			Name: strings.TrimSuffix(filepath.Base(file), ".json"),
			Body: body,
		}
	}
	return out
}
