// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestCallPrintsADocument: a process that makes one call holds nothing for later, so it prints all of the document.
func TestCallPrintsADocument(t *testing.T) {
	t.Parallel()
	flags := archive(t)
	for tool, want := range map[string]string{
		"archive.fetch":    `"text": "` + strings.Repeat("0123456789", 200) + `"`,
		"archive.download": `"blob": "` + strings.Repeat("////", 10),
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), append([]string{"call", tool}, flags...), strings.NewReader(""), &stdout, &stderr, nil); code != exitOK || !strings.Contains(stdout.String(), want) {
			t.Errorf("%s: exit code %d, %.300s, %s", tool, code, stdout.String(), stderr.String())
		}
	}
}
