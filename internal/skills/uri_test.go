// SPDX-License-Identifier: Apache-2.0

package skills_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/skills"
)

func TestURIs(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"a/SKILL.md":           "skill://a/SKILL.md",
		"team/a/x y.md":        "skill://team/a/x%20y.md",
		"a/50%.md":             "skill://a/50%25.md",
		"a/q?#.md":             "skill://a/q%3F%23.md",
		"a/ü:@!.md":            "skill://a/%C3%BC%3A%40%21.md",
		"a/%2e%2e":             "skill://a/%252e%252e",
		"a/" + "x" + "/~_-.md": "skill://a/x/~_-.md",
	} {
		if got := skills.URI(path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

// FuzzURI: a URI leads back to its path, and has no segment that a reader would resolve.
func FuzzURI(f *testing.F) {
	for _, seed := range []string{"b/SKILL.md", "x y/ü", "..", "%2e%2e/a", "a?b#c", "a:1@x", `\`, "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got := skills.URI("a/" + path)
		parsed, err := url.Parse(got)
		if err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		if parsed.Scheme != "skill" || parsed.Host != "a" || parsed.Path != "/"+path || parsed.RawQuery != "" || parsed.Fragment != "" {
			t.Errorf("%q: %+v", got, parsed)
		}
		if strings.ContainsAny(got, " \\?#\x00") {
			t.Errorf("%q has characters that no URI has", got)
		}
	})
}

// FuzzLookup: a set answers only for the URIs that it lists.
func FuzzLookup(f *testing.F) {
	set, err := skills.Load(f.Context(), []string{tree(f, map[string]string{"a/SKILL.md": skillMD("a"), "a/x/y z.md": "z"})}, skills.Limits{})
	if err != nil {
		f.Fatal(err)
	}
	known := map[string]bool{}
	for _, r := range set.Resources() {
		known[r.GetUri()] = true
	}
	for _, seed := range []string{
		"skill://a/SKILL.md", "skill://a/x/y%20z.md", "skill://a/x/../SKILL.md", "skill://a/%2e%2e/a/SKILL.md", "skill://a/x/y z.md", "SKILL://a/SKILL.md",
		"skill://a//SKILL.md", "skill://a/SKILL.md?", "skill://a/", "skill:///etc/passwd", "skill://a/x/y%2520z.md", "file:///a/SKILL.md", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		if _, ok := set.File(uri); ok != known[uri] {
			t.Errorf("file %q: %v", uri, ok)
		}
		if _, ok := set.Skill(uri); ok != (uri == "skill://a/SKILL.md") {
			t.Errorf("skill %q: %v", uri, ok)
		}
		if ok := set.IsDirectory(uri); ok != (uri == "skill://a" || uri == "skill://a/x") {
			t.Errorf("directory %q: %v", uri, ok)
		}
	})
}
