// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// program puts a helper program on the path.
func program(t *testing.T, name, script string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the programs are shell scripts")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker-credential-"+name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// credentialsFor asks for the credentials of a registry with this file of Docker's.
func credentialsFor(t *testing.T, o FetchOptions, config, host string) (auth.Credential, error) {
	t.Helper()
	o.DockerConfig = filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(o.DockerConfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	get, err := o.credentials()
	if err != nil {
		return auth.EmptyCredential, err
	}
	return get(t.Context(), host)
}

func TestHelpersOfDocker(t *testing.T) {
	program(t, "one", `read -r host || true
case "$1 $host" in
"get a.example") echo '{"ServerURL":"a.example","Username":"ann","Secret":"s1"}' ;;
"get b.example") echo '{"Username":"<token>","Secret":"s2"}' ;;
"get https://index.docker.io/v1/") echo '{"Username":"hub","Secret":"s3"}' ;;
"get bad.example") echo 'secret' ;;
"get empty.example") echo '{}' ;;
"get long.example") i=0; while [ $i -lt 2000 ]; do echo "secretsecretsecretsecretsecretsecretsecret"; i=$((i+1)); done ;;
"get fails.example") echo "a secret cause"; echo "a secret cause" >&2; exit 3 ;;
*) echo 'credentials not found in native keychain'; exit 1 ;;
esac
`)
	// "eDp5" is x:y.
	const config = `{"credsStore":"one","credHelpers":{"c.example":"missing","d.example":"../one","index.docker.io":"one"},"auths":{"kept.example":{"auth":"eDp5"}}}`
	for host, want := range map[string]any{
		"a.example": auth.Credential{Username: "ann", Password: "s1"}, "b.example": auth.Credential{RefreshToken: "s2"},
		"registry-1.docker.io": auth.Credential{Username: "hub", Password: "s3"},
		"unknown.example":      auth.EmptyCredential, "kept.example": auth.Credential{Username: "x", Password: "y"},
		"bad.example": "docker-credential-one did not write credentials", "empty.example": "docker-credential-one did not write credentials",
		"long.example": "writes more than 65536 bytes", "fails.example": "docker-credential-one: exit status 3",
		"c.example": "docker-credential-missing: ", "d.example": "is not valid",
	} {
		got, err := credentialsFor(t, FetchOptions{Config: &configv1.Catalog{FetchDockerHelpers: true}}, config, host)
		if text, fails := want.(string); fails {
			if err == nil || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: error %v, want %q", host, err, text)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%s: %v, error %v", host, got != auth.EmptyCredential, err)
		}
	}
	if got, err := credentialsFor(t, FetchOptions{}, config, "a.example"); err != nil || got != auth.EmptyCredential {
		t.Errorf("a helper was run without being allowed: error %v", err)
	}
	if _, err := credentialsFor(t, FetchOptions{Config: &configv1.Catalog{FetchDockerHelpers: true}}, `{"credHelpers":"secret"}`, "a.example"); err == nil || strings.Contains(err.Error(), "secret\"") {
		t.Errorf("helpers that are no object: error %v", err)
	}
}

// TestAHelperThatHangs is killed at the end of the fetch.
func TestAHelperThatHangs(t *testing.T) {
	program(t, "hangs", "tail -f /dev/null\n")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, errors.New("no more time"))
	defer cancel()
	began := time.Now()
	if _, err := runHelper(ctx, "hangs", "a.example"); err == nil || !strings.Contains(err.Error(), "no more time") {
		t.Errorf("error %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}
