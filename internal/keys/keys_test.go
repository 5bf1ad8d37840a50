// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func std(n byte) string {
	s := secret(n)
	return base64.StdEncoding.EncodeToString(s[:])
}

func TestParseKeys(t *testing.T) {
	t.Parallel()
	url := base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("\xfb\xff", 15) + "\x00\x01"))
	short, long := base64.StdEncoding.EncodeToString(make([]byte, 31)), base64.StdEncoding.EncodeToString(make([]byte, 33))
	list := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(std(byte(i)) + "\n")
		}
		return b.String()
	}
	tests := []struct {
		name, text string
		keys       int
		fault      string
	}{
		{"one", std(1), 1, ""},
		{"one line", std(1) + "\n", 1, ""},
		{"without padding", strings.TrimRight(std(1), "=") + "\n", 1, ""},
		{"URL-safe", url, 1, ""},
		{"comments, blank lines, line ends of Windows", "# new\r\n\r\n  " + std(1) + " # of May\r\n\t\n#\n" + std(2), 2, ""},
		{"as many as there may be", list(maxKeys), maxKeys, ""},
		{"nothing", "", 0, "no key"},
		{"comments only", "# " + std(1) + "\n\n", 0, "no key"},
		{"too many", list(maxKeys + 1), 0, "line 9: more than 8"},
		{"too short", std(1) + "\n" + short, 0, "line 2: 31 bytes; want exactly 32"},
		{"too long", "\n\n" + long, 0, "line 3: 33 bytes"},
		{"no base64", std(1) + "\nhello, world!\n", 0, "line 2: not base64"},
		{"two on a line", std(1) + " " + std(2), 0, "line 1: not base64"},
		{"line ends of old", std(1) + "\r" + std(2), 0, "line 1: not base64"},
		{"a line end of old within a key", std(1)[:20] + "\r" + std(1)[20:], 0, "line 1: not base64"},
		{"too much padding", std(1) + "=", 0, "line 1: not base64"},
		{"both alphabets", "-" + std(1)[1:30] + "+" + std(1)[31:], 0, "line 1: not base64"},
		{"bits left over", base64.RawStdEncoding.EncodeToString(make([]byte, 32))[:42] + "B", 0, "line 1: not base64"},
		{"hexadecimal", strings.Repeat("0a1b2c3d", 8), 0, "line 1: 48 bytes"},
		{"a byte order mark", "\ufeff" + std(1), 0, "line 1: not base64"},
		{"twice", std(1) + "\n" + std(2) + "\n" + std(1), 0, "line 3: duplicates the key of line 1"},
		{"twice in two spellings", std(1) + "\n" + strings.TrimRight(std(1), "="), 0, "line 2: duplicates the key of line 1"},
		{"a placeholder", base64.StdEncoding.EncodeToString(make([]byte, 32)), 0, "line 1: the key is one repeated byte"},
		{"too large", strings.Repeat("#", maxKeyFileBytes+1), 0, "more than 65536 bytes"},
		{"as large as it may be", std(1) + "\n" + strings.Repeat("#", maxKeyFileBytes-len(std(1))-1), 1, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			keys, err := ParseKeys([]byte(tt.text))
			checkNoSecret(t, tt.text, err)
			if tt.fault == "" {
				if err != nil || keys.Len() != tt.keys {
					t.Fatalf("%d keys, %v; want %d", keys.Len(), err, tt.keys)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.fault) || keys != nil {
				t.Errorf("%d keys, %v; want an error with %q", keys.Len(), err, tt.fault)
			}
			path := filepath.Join(t.TempDir(), "keys")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := LoadKeys(path); err == nil || !strings.Contains(err.Error(), tt.fault) || !strings.Contains(err.Error(), path) {
				t.Errorf("from a file: %v; want an error with %q and the path", err, tt.fault)
			}
		})
	}
}

// checkNoSecret wants nothing of a key to be in an error.
func checkNoSecret(t *testing.T, text string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' || r == ' ' || r == '#' }) {
		const telling = 12 // no word of the errors has as many characters in a row as a part of a key would
		for at := 0; at+telling <= len(word); at++ {
			if strings.Contains(err.Error(), word[at:at+telling]) {
				t.Fatalf("the error shows %q: %v", word[at:at+telling], err)
			}
		}
	}
}

func TestLoadKeys(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	if _, err := LoadKeys(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("no file: %v", err)
	}
	if _, err := LoadKeys(filepath.Dir(path)); err == nil {
		t.Error("a folder was read")
	}
	if err := os.WriteFile(path, []byte(std(3)+"\n"+std(1)), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := LoadKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	c := newClock()
	// The first line seals.
	token := mustSeal(t, NewSealer(SealerOptions{Keys: keys, Now: c.now}), alice(), "x")
	if _, err := fixed(c, 3).Open(alice(), token); err != nil {
		t.Error(err)
	}
}

func TestKeysDoNotPrint(t *testing.T) {
	t.Parallel()
	keys := keysOf(1, 2)
	want := fmt.Sprintf("2 keys [%x %x]", keys.list[0].id[:], keys.list[1].id[:])
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%c"} {
		if got := fmt.Sprintf(verb, keys); got != want {
			t.Errorf("%s prints %s, want %s", verb, got, want)
		}
	}
	if got := fmt.Sprint((*Keys)(nil)); got != "0 keys []" {
		t.Errorf("nil prints %s", got)
	}
	// The id says nothing about the secret: it is derived one way.
	if s := secret(1); bytes.HasPrefix(s[:], keys.list[0].id[:]) {
		t.Error("the id is a part of the secret")
	}
}
