// SPDX-License-Identifier: Apache-2.0

//go:build unix

package keys_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/keys"
)

// TestRead: what is no regular file is never opened, and a file is never read beyond its bound.
func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Skip("no pipes here:", err)
	}
	if err := os.Symlink(at("pipe"), at("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("file"), []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path string
		most int
		want string
	}{
		{at("file"), 10, ""},
		{at("file"), 9, at("file") + " has more than 9 bytes"},
		{at("absent"), 10, "no such file"},
		{dir, 10, dir + " is not a regular file"},
		{at("pipe"), 10, at("pipe") + " is not a regular file"},
		{at("link"), 10, at("link") + " is not a regular file"},
		{os.DevNull, 10, os.DevNull + " is not a regular file"},
	} {
		got, err := keys.ReadFile(tt.path, tt.most)
		switch {
		case tt.want == "" && (err != nil || string(got) != "0123456789"):
			t.Errorf("%s: %q, %v", tt.path, got, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s within %d bytes: %v, want %q", tt.path, tt.most, err, tt.want)
		}
	}
}
