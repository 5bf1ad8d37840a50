// SPDX-License-Identifier: Apache-2.0

//go:build linux

package release

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// written is a small release with files of every kind, of a repository with one commit.
func written(t *testing.T) Options {
	t.Helper()
	o, err := testOptions(t.TempDir(), "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	o.Root, o.Dirty = t.TempDir(), false
	for _, name := range []string{"outrigger", "outrigger-sidecar"} {
		if err := writeFile(filepath.Join(o.Root, "deploy", "helm", name, "Chart.yaml"), []byte("name: "+name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"config", "user.name", "a"}, {"config", "user.email", "a@b.c"}, {"add", "."}, {"commit", "-q", "-m", "charts"}} {
		run(t, command(t, "git", append([]string{"-C", o.Root}, args...)...))
	}
	if o, err = o.checked(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		o.fileName(o.Platforms[0]) + ".tar.gz", "sbom/a.spdx.json", "homebrew/outrigger.rb", "npm/outrigger-0.1.0.tgz",
		"go/go.mod", "go/go.sum", "go/README.md", "charts/outrigger-0.1.0.tgz",
	} {
		if err := writeFile(filepath.Join(o.Out, name), []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	seal(t, o)
	return o
}

// seal writes the sums and the statement of what is in the folder.
func seal(t *testing.T, o Options) {
	t.Helper()
	sums, err := writeSums(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeProvenance(o, sums); err != nil {
		t.Fatal(err)
	}
}

// TestWrongRelease has releases that are not what is to be published. Nothing is asked, tagged or sent.
func TestWrongRelease(t *testing.T) {
	change := func(t *testing.T, name string, content []byte) {
		t.Helper()
		if err := writeFile(name, content); err != nil {
			t.Fatal(err)
		}
	}
	commands := map[string]func(context.Context, Options) error{
		"check": func(ctx context.Context, o Options) error { return Check(ctx, o, Publication{}) }, "tag": Tag,
		"publish": func(ctx context.Context, o Options) error { return Publish(ctx, o, Publication{}) },
		"github":  func(ctx context.Context, o Options) error { return GitHub(ctx, o, Publication{}) },
	}
	for name, tc := range map[string]struct {
		change func(*testing.T, *Options)
		want   string
	}{
		"another version": {func(_ *testing.T, o *Options) { o.Version = "0.2.0" }, "is 0.1.0, not 0.2.0; build it with `make release VERSION=0.2.0`"},
		"no version": {func(t *testing.T, o *Options) {
			o.Version = "0.1.0-dev"
			seal(t, *o)
		}, "version is 0.1.0-dev, which is no release's"},
		"of a tree with changes": {func(t *testing.T, o *Options) {
			o.Dirty = true
			seal(t, *o)
			o.Dirty = false
		}, "from a tree with changes"},
		"a file that changed": {func(t *testing.T, o *Options) { change(t, filepath.Join(o.Out, "sbom", "a.spdx.json"), []byte("{}")) }, "a.spdx.json was changed or added"},
		"a file that came":    {func(t *testing.T, o *Options) { change(t, filepath.Join(o.Out, "notes.txt"), nil) }, "notes.txt was changed or added"},
		"a file that went": {func(t *testing.T, o *Options) {
			if err := os.Remove(filepath.Join(o.Out, "homebrew", "outrigger.rb")); err != nil {
				t.Fatal(err)
			}
		}, "outrigger.rb is missing"},
		"other sums": {func(t *testing.T, o *Options) { change(t, filepath.Join(o.Out, sumsFile), nil) }, "SHA256SUMS is missing or was changed"},
		"another commit": {func(t *testing.T, o *Options) {
			run(t, command(t, "git", "-C", o.Root, "commit", "-q", "--allow-empty", "-m", "more"))
			o.Commit = strings.TrimSpace(run(t, command(t, "git", "-C", o.Root, "rev-parse", "HEAD")))
		}, "was not built from the present commit"},
	} {
		t.Run(name, func(t *testing.T) {
			o := written(t)
			tc.change(t, &o)
			for name, do := range commands {
				if err := do(t.Context(), o); err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%s: %v, want %q", name, err, tc.want)
				}
			}
			if tags := run(t, command(t, "git", "-C", o.Root, "tag")); tags != "" {
				t.Errorf("there are tags: %s", tags)
			}
		})
	}
}

// TestCheck has an owner without credentials: it names all that is missing, and sends nothing.
func TestCheck(t *testing.T) {
	o := written(t)
	refuse := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer refuse.Close()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("npm_config_userconfig", filepath.Join(t.TempDir(), "npmrc"))
	t.Setenv("GH_TOKEN", "")
	t.Setenv("GITHUB_TOKEN", "")
	t.Setenv("GH_CONFIG_DIR", t.TempDir())
	p := Publication{Registry: refuse.URL + "/", Image: strings.TrimPrefix(refuse.URL, "http://") + "/sidecar", Remote: filepath.Join(t.TempDir(), "none"), Output: io.Discard}
	err := Check(t.Context(), o, p)
	for _, want := range []string{"npm login", "docker login", "/charts/outrigger cannot be pushed", "/charts/outrigger-sidecar cannot be pushed", "tags cannot be pushed", "GH_TOKEN"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("nothing about %q:\n%v", want, err)
		}
	}

	// A registry and a remote that accept the owner get nothing.
	images := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer images.Close()
	p.Image, p.Remote = strings.TrimPrefix(images.URL, "http://")+"/sidecar", filepath.Join(t.TempDir(), "remote.git")
	run(t, command(t, "git", "init", "-q", "--bare", p.Remote))
	err = Check(t.Context(), o, p)
	if err == nil || strings.Contains(err.Error(), "docker login") || strings.Contains(err.Error(), "tags cannot be pushed") {
		t.Errorf("%v", err)
	}
	if refs := run(t, command(t, "git", "-C", p.Remote, "for-each-ref")); refs != "" {
		t.Errorf("the remote has %s", refs)
	}
	got, err := http.Get(images.URL + "/v2/sidecar/tags/list")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusNotFound {
		t.Errorf("the registry says %s of an image that was not pushed", got.Status)
	}
}

// TestTagAgain makes the tags of a release a second time, by another committer: they stay. Those of another content are refused.
func TestTagAgain(t *testing.T) {
	o := written(t)
	if err := Tag(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	refs := func() string { return run(t, command(t, "git", "-C", o.Root, "for-each-ref")) }
	before := refs()
	if strings.Count(before, "refs/tags/") != 2 {
		t.Fatalf("%s", before)
	}
	run(t, command(t, "git", "-C", o.Root, "config", "user.name", "another"))
	if err := Tag(t.Context(), o); err != nil {
		t.Error(err)
	}
	if err := writeFile(filepath.Join(o.Out, "go", "go.mod"), []byte("another")); err != nil {
		t.Fatal(err)
	}
	seal(t, o)
	if err := Tag(t.Context(), o); err == nil || !strings.Contains(err.Error(), "v0.1.0 already exists with other content") {
		t.Error(err)
	}
	if after := refs(); after != before {
		t.Errorf("the tags were\n%sand are\n%s", before, after)
	}
}

// TestUploads puts what GitHub gets into one folder, as people get it, and checks it as docs/releases.md says.
func TestUploads(t *testing.T) {
	o := written(t)
	files, err := o.uploads()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(o.Out, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := writeFile(filepath.Join(folder, path.Base(file)), content); err != nil {
			t.Fatal(err)
		}
	}
	if there := digests(t, folder); len(there) != len(files) {
		t.Errorf("two of %v have one name", files)
	}
	check := command(t, "sha256sum", "--check", "--strict", sumsFile)
	check.Dir = folder
	if got, want := strings.Count(run(t, check), ": OK\n"), len(files)-3; got != want || want < 3 {
		t.Errorf("%d of %v were checked, want %d", got, files, want)
	}
}

// TestPreliminary compares how a release and a candidate are published. A candidate is not what users get who name no version.
func TestPreliminary(t *testing.T) {
	for version, want := range map[string]bool{"0.2.0": false, "0.2.0-rc.1": true} {
		o := written(t)
		o.Version = version
		if got := npmArguments(o, "a.tgz"); slices.Contains(got, "next") != want {
			t.Errorf("%s: npm %v", version, got)
		}
		created, err := githubArguments(o, false)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(created, "--prerelease") != want || slices.Contains(created, "--latest=false") != want || created[1] != "create" {
			t.Errorf("%s: gh %v", version, created)
		}
		added, err := githubArguments(o, true)
		if err != nil {
			t.Fatal(err)
		}
		if added[1] != "upload" || !slices.Contains(added, "--clobber") || !slices.Contains(added, filepath.Join(o.Out, githubSums)) {
			t.Errorf("%s: gh %v", version, added)
		}
	}
}

// TestNPMAgain publishes to a real registry, is interrupted, and goes on. A candidate leaves the version that users get.
func TestNPMAgain(t *testing.T) {
	url := npmRegistry(t)
	npmLogin(t, url)
	var said strings.Builder
	p := Publication{Registry: url, Output: &said}
	o, err := testOptions(t.TempDir(), "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	o.Time = time.Unix(0, 0)
	pack := func(o Options, name, text string) {
		t.Helper()
		if err := writeNPM(o, manifest{Name: name, Version: o.Version}, contents{"package/a.txt": {content: []byte(text)}}); err != nil {
			t.Fatal(err)
		}
	}
	pack(o, o.Names.Scope+"/linux-x64", "a")
	pack(o, o.Names.NPM, "a")
	first := o
	first.Out = t.TempDir()
	pack(first, o.Names.Scope+"/linux-x64", "a")
	for _, step := range []Options{first, o, o} {
		if err := p.pushPackages(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
	const want = "npm: outrigger-mcp-linux-x64-0.1.0.tgz\n" +
		"npm: outrigger-mcp-linux-x64-0.1.0.tgz was there\nnpm: outrigger-0.1.0.tgz\n" +
		"npm: outrigger-mcp-linux-x64-0.1.0.tgz was there\nnpm: outrigger-0.1.0.tgz was there\n"
	if said.String() != want {
		t.Errorf("%s", said.String())
	}
	pack(o, o.Names.NPM, "b")
	if err := p.pushPackages(t.Context(), o); err == nil || !strings.Contains(err.Error(), "a version cannot be replaced") {
		t.Error(err)
	}
	candidate := o
	candidate.Version, candidate.Out = "0.2.0-rc.1", t.TempDir()
	pack(candidate, o.Names.NPM, "c")
	if err := p.pushPackages(t.Context(), candidate); err != nil {
		t.Fatal(err)
	}
	for tag, want := range map[string]string{"latest": "0.1.0", "next": "0.2.0-rc.1"} {
		if got := strings.TrimSpace(run(t, command(t, "npm", "view", o.Names.NPM, "dist-tags."+tag, "--registry", url))); got != want {
			t.Errorf("%s is %q, want %q", tag, got, want)
		}
	}
}

// TestReadme cuts what is true until a release is published, of the repository's README too.
func TestReadme(t *testing.T) {
	root := filepath.Join("..", "..")
	content, err := readmeOf(root)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(content); strings.Contains(text, "published yet") || strings.Contains(text, "<!--") || !strings.Contains(text, "\nFrom a clone:\n") {
		t.Errorf("%s", text)
	}
	folder := t.TempDir()
	for text, want := range map[string]string{
		"a\n": "a\n",
		"a\n" + unreleasedBegin + "b\n" + unreleasedEnd + "c\n": "a\nc\n",
		"a\n" + unreleasedBegin + "b\n":                         "",
	} {
		if err := writeFile(filepath.Join(folder, "README.md"), []byte(text)); err != nil {
			t.Fatal(err)
		}
		got, err := readmeOf(folder)
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%q becomes %q (%v)", text, got, err)
		}
	}
}
