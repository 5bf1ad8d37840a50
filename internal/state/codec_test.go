// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/keys"
)

var update = flag.Bool("update", false, "write the golden file anew")

// fixedSealer seals with a key that everybody knows, and random bytes that are none.
func fixedSealer(t *testing.T) *keys.Sealer {
	t.Helper()
	key := make([]byte, keys.KeyBytes)
	for i := range key {
		key[i] = byte(i)
	}
	ring, err := keys.ParseKeys([]byte(base64.StdEncoding.EncodeToString(key)))
	if err != nil {
		t.Fatal(err)
	}
	return keys.NewSealer(keys.SealerOptions{Keys: ring, Rand: bytes.NewReader(make([]byte, 1024))})
}

// TestStoredBytesStayReadable opens what the first release stored. Never update the
// golden file: a new format gets a new version and its own golden.
func TestStoredBytesStayReadable(t *testing.T) {
	t.Parallel()
	golden := filepath.Join("testdata", "value_v1.hex")
	if *update {
		stored, err := encode(fixedSealer(t), "tasks", "t_key", []byte("a value"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(hex.EncodeToString(stored)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decode(fixedSealer(t), "tasks", "t_key", stored); err != nil || string(got) != "a value" {
		t.Errorf("%q, %v", got, err)
	}
	for name, open := range map[string]func() ([]byte, error){
		"another kind": func() ([]byte, error) { return decode(fixedSealer(t), "owners", "t_key", stored) },
		"another key":  func() ([]byte, error) { return decode(fixedSealer(t), "tasks", "t_kez", stored) },
		"a version": func() ([]byte, error) {
			return decode(fixedSealer(t), "tasks", "t_key", append([]byte{9}, stored[1:]...))
		},
		"nothing": func() ([]byte, error) { return decode(fixedSealer(t), "tasks", "t_key", nil) },
	} {
		if got, err := open(); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestPlacesKeepTheirShape: a release finds what those before it made at NATS, by its name and subjects and with its rules, and is
// refused by a stream of another shape. Update the golden file only for members that change nothing.
func TestPlacesKeepTheirShape(t *testing.T) {
	t.Parallel()
	c := newClient(Options{Config: configtest.Filled(t, &configv1.State{Url: "nats://127.0.0.1:4222"}), Sealer: fixedSealer(t)})
	got, err := json.MarshalIndent(map[string]any{
		"a bucket": c.Bucket(BucketOptions{Name: "tasks", MaxBytes: 1 << 20, MaxAge: time.Hour, KeepsAll: true}).config,
		"tokens":   c.Once(OnceOptions{Name: "consents", MaxBytes: 1 << 20, MaxAge: time.Hour}).bucket.config,
		"a stream": c.Stream(StreamOptions{Name: "events", MaxBytes: 1 << 20, MaxAge: time.Hour, DropOldest: true}).config,
		"messages": c.Channel("replicas").prefix,
	}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "places_v1.json")
	if *update {
		if err := os.WriteFile(golden, append(got, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(strings.TrimSpace(string(want)), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOptions: what cannot be right is refused before anything is connected, with the file
// and without its contents.
func TestOptions(t *testing.T) {
	t.Parallel()
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sealer := fixedSealer(t)
	for _, tc := range []struct {
		name    string
		options Options
		want    string
	}{
		{"no file", Options{Config: configtest.Filled(t, &configv1.State{Url: "nats://127.0.0.1:1", CredentialsFile: "/none"}), Sealer: sealer}, "no such file"},
		{"no credentials", Options{Config: configtest.Filled(t, &configv1.State{Url: "nats://127.0.0.1:1", CredentialsFile: file("hidden")}), Sealer: sealer}, "nsc generate creds"},
		{"no seed", Options{Config: configtest.Filled(t, &configv1.State{Url: "nats://127.0.0.1:1", NkeyFile: file("hidden")}), Sealer: sealer}, "begins with SU"},
		{"a huge file", Options{Config: configtest.Filled(t, &configv1.State{Url: "nats://127.0.0.1:1", NkeyFile: file(strings.Repeat("hidden", 20000))}), Sealer: sealer}, "has more than"},
	} {
		c, err := Open(tc.options)
		if err == nil {
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}
