// SPDX-License-Identifier: Apache-2.0

package stranger

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// root is the tree that is copied.
var root = filepath.Join("..", "..")

// edit is one change by hand.
type edit struct {
	// file is the path in the tree. Without an anchor it is a new file.
	file string
	// anchor is a part of one line of the file, which must be there once: the name of a declaration, or what begins a table. At
	// is where the text goes.
	anchor string
	at     place
	text   string
}

type place int

const (
	below place = iota // behind the line of the anchor
	above              // before it
	atEnd              // at the end of the file; the anchor is only looked for
)

// tree is a copy of the repository's files.
type tree struct {
	dir string
	// before are the sums of its files when it was made, byHand the files that edits touched.
	before map[string][sha256.Size]byte
	byHand map[string]bool
}

// newTree copies the files that git knows or would add. What `make` installs is shared.
func newTree(t *testing.T) *tree {
	t.Helper()
	c := &tree{dir: t.TempDir(), byHand: map[string]bool{}}
	listed := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	listed.Dir = root
	names, err := listed.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed, and not committed
		}
		if err != nil {
			t.Fatal(err)
		}
		c.write(t, name, text)
	}
	tools, err := filepath.Abs(filepath.Join(root, ".tmp"))
	if err == nil {
		err = os.Symlink(tools, filepath.Join(c.dir, ".tmp"))
	}
	if err != nil {
		t.Fatal(err)
	}
	c.before = c.sums(t)
	return c
}

func (c *tree) write(t *testing.T, name string, text []byte) {
	t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	mode := fs.FileMode(0o600)
	if bytes.HasPrefix(text, []byte("#!")) {
		mode = 0o700
	}
	if err := os.WriteFile(path, text, mode); err != nil {
		t.Fatal(err)
	}
}

// sums are those of all files.
func (c *tree) sums(t *testing.T) map[string][sha256.Size]byte {
	t.Helper()
	out := map[string][sha256.Size]byte{}
	err := filepath.WalkDir(c.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(c.dir, path)
		out[filepath.ToSlash(name)] = sha256.Sum256(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// apply makes the changes.
func (c *tree) apply(t *testing.T, edits []edit) {
	t.Helper()
	for _, e := range edits {
		c.byHand[e.file] = true
		old, err := os.ReadFile(filepath.Join(c.dir, e.file))
		switch {
		case e.anchor == "" && err == nil:
			t.Fatalf("%s is there already, so it is no new file", e.file)
		case e.anchor != "" && err != nil:
			t.Fatalf("%v; the row has to name another file", err)
		}
		text, fault := edited(string(old), e)
		if fault != "" {
			t.Fatalf("%s: %s; the row has to name another anchor", e.file, fault)
		}
		c.write(t, e.file, []byte(text))
	}
}

// edited is a file after a change, or says what is wrong with its anchor.
func edited(old string, e edit) (text, fault string) {
	if e.anchor == "" {
		return e.text, ""
	}
	switch n := strings.Count(old, e.anchor); n {
	case 1:
	case 0:
		return "", "the anchor " + e.anchor + " was not found"
	default:
		return "", "the anchor " + e.anchor + " is there more than once"
	}
	i := strings.Index(old, e.anchor)
	switch e.at {
	case above:
		i = strings.LastIndexByte(old[:i], '\n') + 1
	case below:
		i += strings.IndexByte(old[i:], '\n') + 1
	case atEnd:
		i = len(old)
	}
	return old[:i] + e.text + old[i:], ""
}

// run runs a command in the tree.
func (c *tree) run(t *testing.T, command ...string) {
	t.Helper()
	began := time.Now()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = c.dir
	// With the paths cut and the tags of the build, what did not change is in the cache of builds, whatever folder the copy is in.
	cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath -tags=grpcnotrace", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.Logf("%s: %s, %s of CPU", strings.Join(command, " "), time.Since(began).Round(100*time.Millisecond), used.Round(100*time.Millisecond))
}

// build builds the sidecar and returns the path of the binary.
func (c *tree) build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "sidecar")
	c.run(t, "go", "build", "-ldflags", "-s -w", "-o", binary, "./cmd/sidecar")
	return binary
}

// generated are the files that differ from the beginning and that no edit touched.
func (c *tree) generated(t *testing.T) []string {
	t.Helper()
	now := c.sums(t)
	maps.DeleteFunc(now, func(name string, sum [sha256.Size]byte) bool { return c.byHand[name] || c.before[name] == sum })
	return slices.Sorted(maps.Keys(now))
}

func TestEdited(t *testing.T) {
	t.Parallel()
	const old = "a\nfunc b() {\n}\ncall, cell\n"
	for _, tt := range []struct{ e, want, fault string }{
		{"func b(", "a\nfunc b() {\nX\n}\ncall, cell\n", ""},
		{"func d(", "", "the anchor func d( was not found"},
		{"ll", "", "the anchor ll is there more than once"},
	} {
		got, fault := edited(old, edit{anchor: tt.e, text: "X\n"})
		if got != tt.want || fault != tt.fault {
			t.Errorf("%s: %q, %q", tt.e, got, fault)
		}
	}
	if got, _ := edited(old, edit{anchor: "func b(", at: above, text: "X\n"}); got != "a\nX\nfunc b() {\n}\ncall, cell\n" {
		t.Errorf("above: %q", got)
	}
	if got, _ := edited(old, edit{anchor: "func b(", at: atEnd, text: "X\n"}); got != old+"X\n" {
		t.Errorf("at the end: %q", got)
	}
}
