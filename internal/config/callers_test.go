// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/config"
)

// Digests of two tokens.
var (
	digestA = strings.Repeat("a1", 32)
	digestB = strings.Repeat("b2", 32)
)

func callersFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "callers.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadCallers(t *testing.T) {
	t.Parallel()
	got, err := config.LoadCallers(callersFile(t, `callers:
  - name: planner
    token_sha256: ["`+digestA+`", "`+digestB+`"]
    tools: ["fleet.*", lab.echo]
    trust: trusted
  - name: spiffe://example.org/batch
    certificate_uris: ["spiffe://example.org/batch"]
    tools: ["*"]
    resources: ["fleet://*"]
    prompts: [greet]
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.GetCallers()) != 2 || got.GetCallers()[0].GetTrust() != "trusted" || got.GetCallers()[1].Trust != nil {
		t.Errorf("read %v", got)
	}
	// JSON is YAML.
	if _, err := config.LoadCallers(callersFile(t, `{"callers":[{"name":"a","token_sha256":["`+digestA+`"],"tools":["*"]}]}`)); err != nil {
		t.Error(err)
	}
}

// TestCallersFaults: each names the place, and none repeats what is there.
func TestCallersFaults(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-is-my-token" // where it must not be
	entry := func(lines string) string { return "callers:\n- name: a\n  " + lines }
	good := "token_sha256: ['" + digestA + "']\n  tools: ['*']\n"
	for name, tt := range map[string]struct{ text, want string }{
		"a token for a digest":      {entry("token_sha256: [" + secret + "]\n  tools: ['*']"), ":3:18: callers[0].token_sha256[0]: does not match"},
		"a token where none goes":   {entry("token: " + secret + "\n  tools: ['*']"), "callers[0].token: unknown key"},
		"a misspelt key is named":   {entry("tolls: ['*']"), "callers[0].tolls: unknown key; did you mean tools?"},
		"a token for a key":         {secret + ": {}", ":1:1: ?: unknown key"},
		"a token for an alias":      {entry("token_sha256: [*" + secret + "]"), "not well-formed"},
		"a token for a tag":         {entry("token_sha256: [!" + secret + " x]\n  tools: ['*']"), `of the type "?"`},
		"a number":                  {entry("token_sha256: [12345678901234567890]\n  tools: ['*']"), "must be a string, is a number; put it in quotes"},
		"no YAML":                   {"callers: [" + secret, "is not YAML: the text here is not well-formed"},
		"no callers":                {"callers: []", "callers: must contain at least 1 item"},
		"empty":                     {"", "callers: must contain at least 1 item"},
		"nothing to be known by":    {entry("tools: ['*']"), "set token_sha256, certificate_uris, unix_uids, unix_gids or oauth"},
		"no tools":                  {entry("token_sha256: ['" + digestA + "']"), "callers[0].tools: must contain at least 1 item"},
		"no name":                   {"callers:\n- " + good, "callers[0].name: must be set"},
		"a name that is no text":    {"callers:\n- name: \"a\\r\\nx: y\"\n  " + good, "callers[0].name: does not match"},
		"a tool's MCP name":         {entry("token_sha256: ['" + digestA + "']\n  tools: [Fleet/Get]"), "callers[0].tools[0]: does not match"},
		"upper case digits":         {entry("token_sha256: ['" + strings.ToUpper(digestA) + "']\n  tools: ['*']"), "does not match"},
		"an unknown trust":          {entry(good + "  trust: " + secret), "callers[0].trust: must be one of untrusted, trusted"},
		"one name twice":            {entry(good + "- name: a\n  certificate_uris: ['spiffe://x/y']\n  tools: ['*']"), "callers[1].name: is the name of callers[0] too"},
		"one token twice":           {entry(good + "- name: b\n  " + good), "callers[1].token_sha256[0]: is the token of callers[0].token_sha256 too"},
		"one certificate twice":     {entry("certificate_uris: ['spiffe://x/y']\n  tools: ['*']\n- name: b\n  certificate_uris: ['spiffe://x/y']\n  tools: ['*']"), "is the certificate of callers[0]"},
		"one user twice":            {entry("unix_uids: [7]\n  tools: ['*']\n- name: b\n  unix_gids: [7]\n  unix_uids: [8, 7]\n  tools: ['*']"), "callers[1].unix_uids[1]: is the user of callers[0].unix_uids too"},
		"one group twice":           {entry("unix_gids: [7]\n  tools: ['*']\n- name: b\n  unix_gids: [7]\n  tools: ['*']"), "is the group of callers[0]"},
		"one subject twice":         {entry("oauth: [{issuer: a, subject: b}]\n  tools: ['*']\n- name: b\n  oauth: [{issuer: a, subject: b}]\n  tools: ['*']"), "is the OAuth subject of callers[0]"},
		"a subject without issuer":  {entry("oauth: [{subject: b}]\n  tools: ['*']"), "callers[0].oauth[0].issuer"},
		"a key twice":               {entry(good + "  tools: ['*']"), ".?: is here already in line 4"},
		"two documents":             {entry(good + "---\ncallers: []"), "a second YAML document"},
		"a path that is no URI":     {entry("certificate_uris: [batch]\n  tools: ['*']"), "callers[0].certificate_uris[0]: must be a valid URI"},
		"a mapping of unknown kind": {entry("token_sha256: {" + secret + ": 1}\n  tools: ['*']"), "must be a list, is a mapping"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.LoadCallers(callersFile(t, tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%v repeats the token", err)
			}
		})
	}
	if _, err := config.LoadCallers(filepath.Join(t.TempDir(), "none.yaml")); err == nil || !strings.Contains(err.Error(), "cannot read the callers file: ") {
		t.Errorf("no file: %v", err)
	}
}

// FuzzLoadCallers: whatever the file, there is no panic, a callers file that is
// taken keeps its rules, and an error never repeats a long word of the file.
func FuzzLoadCallers(f *testing.F) {
	const canary = "canary-0123456789abcdef"
	for _, seed := range []string{
		"callers:\n- name: a\n  token_sha256: [" + canary + "]\n  tools: ['*']\n",
		"callers:\n- " + canary + ": a\n", canary, "- " + canary, "callers: !" + canary + " []", "callers: &" + canary + " [*" + canary + "]",
		"callers: {" + canary + "}", "\"" + canary, "%TAG ! " + canary + "\n---\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := config.LoadCallers(callersFile(t, text))
		switch {
		case err != nil && strings.Contains(err.Error(), canary):
			t.Errorf("the error repeats the file: %v", err)
		case err == nil && len(got.GetCallers()) == 0:
			t.Error("a file without callers was taken")
		}
	})
}
