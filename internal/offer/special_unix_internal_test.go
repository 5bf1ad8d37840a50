// SPDX-License-Identifier: Apache-2.0

//go:build unix

package offer

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestSpecialFilesAreRefused: a pipe is not opened, which would wait for a writer.
func TestSpecialFilesAreRefused(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"a/SKILL.md": skillMD("a")})
	if err := syscall.Mkfifo(filepath.Join(dir, "a", "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadSkills(t.Context(), []string{dir}, skillLimits{}); err == nil || !strings.Contains(err.Error(), "a/pipe: is neither a file nor a folder") {
		t.Errorf("got %v", err)
	}
}
