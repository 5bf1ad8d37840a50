// SPDX-License-Identifier: Apache-2.0

//go:build unix

package skills_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/skills"
)

// TestSpecialFilesAreRefused: a pipe is not opened, which would wait for a writer.
func TestSpecialFilesAreRefused(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"a/SKILL.md": skillMD("a")})
	if err := syscall.Mkfifo(filepath.Join(dir, "a", "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := skills.Load(t.Context(), []string{dir}, skills.Limits{}); err == nil || !strings.Contains(err.Error(), "a/pipe: is neither a file nor a folder") {
		t.Errorf("got %v", err)
	}
}
