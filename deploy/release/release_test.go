// SPDX-License-Identifier: Apache-2.0

//go:build linux

package release

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"debug/buildinfo"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/signerverifier"
	spdxjson "github.com/spdx/tools-golang/json"
)

// digests are the sums of all files below a folder.
func digests(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(folder, path))
		all[path] = fmt.Sprintf("%x", sha256.Sum256(content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// builderVariable is one of the sidecar's variables, as a builder may have them. It must not become a default in what is built.
const builderVariable, builderValue = "OUTRIGGER_SERVER", "http://the-builder.example"

// TestOutput has a builder with variables: a program that writes documents sees the commit's time alone.
func TestOutput(t *testing.T) {
	t.Setenv(builderVariable, builderValue)
	got, err := Options{Time: time.Unix(1234, 0)}.output(t.Context(), "env", "env")
	if err != nil || string(got) != "SOURCE_DATE_EPOCH=1234\n" {
		t.Errorf("%s (%v)", got, err)
	}
}

// TestMan compares the pages that `make man` writes with those in the archive.
func TestMan(t *testing.T) {
	o := built(t)
	t.Setenv(builderVariable, builderValue)
	pages, base := filepath.Join(t.TempDir(), "man"), o.fileName(o.Platforms[0])
	run(t, command(t, "make", "-C", o.Root, "man", "MAN="+pages, "VERSION="+o.Version))
	want := digests(t, filepath.Join(unpacked(t, filepath.Join(o.Out, base+".tar.gz")), base, "man"))
	if got := digests(t, pages); !maps.Equal(got, want) {
		t.Errorf("%d pages, the archive has %d, or they differ", len(got), len(want))
	}
}

// TestTwice builds a release twice, with the same key, and compares every byte. -platforms all does it for all platforms. The
// second builder has variables of the sidecar.
func TestTwice(t *testing.T) {
	first, platform := built(t), "linux/"+runtime.GOARCH
	if *platforms != platform {
		o, err := testOptions(t.TempDir(), *platforms)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := Build(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Logf("built for %s in %v", *platforms, time.Since(began).Round(time.Second))
		first = o
	}
	second, err := testOptions(t.TempDir(), *platforms)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(builderVariable, builderValue)
	began := time.Now()
	if err := Build(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	t.Logf("and again in %v", time.Since(began).Round(time.Second))
	one, two := digests(t, first.Out), digests(t, second.Out)
	if len(one) < 18 {
		t.Errorf("the release has %d files: %v", len(one), slices.Sorted(maps.Keys(one)))
	}
	for name, digest := range one {
		if two[name] != digest {
			t.Errorf("%s differs between two builds", name)
		}
	}
	if len(two) != len(one) {
		t.Errorf("%d files, then %d", len(one), len(two))
	}
}

// TestSums lets sha256sum check the release.
func TestSums(t *testing.T) {
	o := built(t)
	cmd := command(t, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	cmd.Dir = o.Out
	run(t, cmd)
	sums, err := os.ReadFile(filepath.Join(o.Out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	// The sums themselves and what is signed over them.
	if got, want := bytes.Count(sums, []byte("\n")), len(digests(t, o.Out))-3; got != want {
		t.Errorf("%d files have sums, want %d", got, want)
	}
}

// TestProvenance verifies the signature with the public key alone, and compares the subjects with the sums. A statement that
// was changed is refused.
func TestProvenance(t *testing.T) {
	o := built(t)
	content, err := os.ReadFile(filepath.Join(o.Out, "provenance.intoto.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var envelope dsse.Envelope
	if err := json.Unmarshal(content, &envelope); err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(filepath.Join(o.Out, "provenance.pub"))
	if err != nil {
		t.Fatal(err)
	}
	if block, _ := pem.Decode(public); block == nil {
		t.Fatalf("no key: %s", public)
	} else if _, err := x509.ParsePKIXPublicKey(block.Bytes); err != nil {
		t.Fatal(err)
	}
	key, err := signerverifier.LoadKey(public)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := signerverifier.NewED25519SignerVerifierFromSSLibKey(key)
	if err != nil {
		t.Fatal(err)
	}
	verify, err := dsse.NewEnvelopeVerifier(verifier)
	if err != nil {
		t.Fatal(err)
	}
	_, payload, err := verify.VerifyAndDecode(t.Context(), &envelope)
	if err != nil {
		t.Fatal(err)
	}
	var statement struct {
		Type          string `json:"_type"`
		PredicateType string
		Subject       []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct {
				ExternalParameters   map[string]any
				ResolvedDependencies []struct{ Digest map[string]string }
			}
		}
	}
	if err := json.Unmarshal(payload, &statement); err != nil {
		t.Fatal(err)
	}
	definition := statement.Predicate.BuildDefinition
	if statement.Type != "https://in-toto.io/Statement/v1" || statement.PredicateType != "https://slsa.dev/provenance/v1" ||
		definition.ExternalParameters["version"] != o.Version || definition.ResolvedDependencies[0].Digest["gitCommit"] != o.Commit {
		t.Errorf("%s", payload)
	}
	want := digests(t, o.Out)
	for _, name := range []string{"SHA256SUMS", "provenance.pub", "provenance.intoto.jsonl"} {
		delete(want, name)
	}
	got := map[string]string{}
	for _, s := range statement.Subject {
		got[s.Name] = s.Digest["sha256"]
	}
	if !maps.Equal(got, want) {
		t.Errorf("the statement is about %v, want %v", got, want)
	}

	changed := bytes.Replace(payload, []byte(o.Version), []byte("6.6.6"), 1)
	envelope.Payload = string(must(json.Marshal(changed)))[1:]
	envelope.Payload = strings.TrimSuffix(envelope.Payload, `"`)
	if _, err := verify.Verify(t.Context(), &envelope); err == nil {
		t.Error("a statement that was changed is accepted")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestMaterials reads the SPDX document back, and compares it with what the linker noted in the binary of the archive. That
// the one of CycloneDX does so is a test of the package image.
func TestMaterials(t *testing.T) {
	o := built(t)
	name := o.fileName(o.Platforms[0])
	file, err := os.Open(filepath.Join(o.Out, "sbom", name+".spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	document, err := spdxjson.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(unpacked(t, filepath.Join(o.Out, name+".tar.gz")), name, program)
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := document.Packages[0].PackageChecksums[0].Value, fmt.Sprintf("%x", sha256.Sum256(content)); got != want {
		t.Errorf("the document is of %s, the binary is %s", got, want)
	}
	var got, want []string
	for _, p := range document.Packages[1:] {
		got = append(got, p.PackageName+" "+p.PackageVersion)
	}
	want = append(want, "std "+strings.TrimPrefix(info.GoVersion, "go"))
	for _, m := range info.Deps {
		want = append(want, m.Path+" "+m.Version)
	}
	if !slices.Equal(got, want) || len(document.Relationships) != len(document.Packages) {
		t.Errorf("packages %v, want %v; %d relationships", got, want, len(document.Relationships))
	}
}

// TestFormula compares the formula with its golden, and lets Ruby read it where there is one. Sums are blanked.
func TestFormula(t *testing.T) {
	o := built(t)
	path := filepath.Join(o.Out, "homebrew", o.Names.Package+".rb")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sums := regexp.MustCompile(`sha256 "([0-9a-f]{64})"`)
	archive := digests(t, o.Out)[o.fileName(o.Platforms[0])+".tar.gz"]
	if found := sums.FindSubmatch(content); found == nil || string(found[1]) != archive {
		t.Errorf("the formula has the sum %s, want %s", found, archive)
	}
	if runtime.GOARCH == "amd64" {
		want, err := os.ReadFile(filepath.Join("testdata", "formula.rb"))
		if err != nil {
			t.Fatal(err)
		}
		if got := sums.ReplaceAll(content, []byte(`sha256 "SUM"`)); !bytes.Equal(got, want) {
			t.Errorf("testdata/formula.rb is another one:\n%s", got)
		}
	}
	if _, err := exec.LookPath("ruby"); err == nil {
		run(t, command(t, "ruby", "-c", path))
	}
}

// TestRefusals has releases that cannot be built, tagged or published. Each says why and leaves nothing.
func TestRefusals(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(key, []byte("-----BEGIN NONSENSE-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*Options)
		do     func(context.Context, Options) error
		want   string
	}{
		"a version with a v":         {func(o *Options) { o.Version = "v0.1.0" }, Build, `version is "v0.1.0"; want one such as 0.1.0`},
		"a version with metadata":    {func(o *Options) { o.Version = "0.1.0+x" }, Build, `version is "0.1.0+x"`},
		"no version":                 {func(o *Options) { o.Version = "" }, Build, `version is ""`},
		"no folder":                  {func(o *Options) { o.Out = "" }, Build, "no folder"},
		"no repository":              {func(o *Options) { o.Root = t.TempDir() }, Build, "git"},
		"a folder that is not empty": {func(o *Options) { o.Out = "testdata" }, Build, "is not empty"},
		"tags without a release":     {func(o *Options) { o.Out = t.TempDir() }, Tag, "make release VERSION=0.1.0"},
		"publish without a release":  {func(o *Options) { o.Out = t.TempDir() }, func(ctx context.Context, o Options) error { return Publish(ctx, o, Publication{}) }, "make release VERSION=0.1.0"},
		"a key that is none": {func(o *Options) { o.Key = key }, func(_ context.Context, o Options) error {
			_, _, err := newSigner(o.Key)
			return err
		}, "openssl genpkey"},
		"a public key": {func(o *Options) { o.Key = filepath.Join(built(t).Out, "provenance.pub") }, func(_ context.Context, o Options) error {
			_, _, err := newSigner(o.Key)
			return err
		}, "is public"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := testOptions(filepath.Join(t.TempDir(), "out"), "linux/amd64")
			if err != nil {
				t.Fatal(err)
			}
			tc.change(&o)
			if err := tc.do(t.Context(), o); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
	if _, err := ParsePlatforms("linux/amd64,plan9/mips"); err == nil || !strings.Contains(err.Error(), `"plan9/mips" is unknown; want some of [linux/amd64`) {
		t.Error(err)
	}
}

// TestDirtyTree refuses to release what is not committed.
func TestDirtyTree(t *testing.T) {
	root := t.TempDir()
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "--allow-empty", "-m", "empty"}} {
		run(t, command(t, "git", append([]string{"-C", root}, args...)...))
	}
	if err := os.WriteFile(filepath.Join(root, "new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := testOptions(filepath.Join(root, "out"), "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	o.Root, o.Dirty = root, false
	if err := Build(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the working tree has changes; commit them") {
		t.Error(err)
	}
}

// TestBreakingIsARule changes the contract in a clone. Before the first tag of a release that is reported, and then refused.
func TestBreakingIsARule(t *testing.T) {
	if *buf == "" {
		t.Skip("`make release-test` installs buf, and runs this")
	}
	clone := filepath.Join(t.TempDir(), "clone")
	run(t, command(t, "git", "clone", "-q", "--shared", "../..", clone))
	run(t, command(t, "git", "-C", clone, "checkout", "-q", "-B", "main"))
	for tag := range strings.FieldsSeq(run(t, command(t, "git", "-C", clone, "tag"))) {
		run(t, command(t, "git", "-C", clone, "tag", "-d", tag))
	}
	// That of this tree, with its changes.
	run(t, command(t, "cp", filepath.Join("..", "..", "Makefile"), clone))
	contract := filepath.Join(clone, "proto", "outrigger", "v1", "task.proto")
	text, err := os.ReadFile(contract)
	if err != nil {
		t.Fatal(err)
	}
	breaking := func() (string, error) {
		out, err := command(t, "make", "--no-print-directory", "-C", clone, "-o", *buf, "BUF="+*buf, "breaking").CombinedOutput()
		return string(out), err
	}
	broken := regexp.MustCompile(`(?m)^  string task_id = \d+`).ReplaceAll(text, []byte("  bytes task_id = 77"))
	if bytes.Equal(broken, text) {
		t.Fatal("the contract has no field to break")
	}
	for _, step := range []struct {
		name, tag string
		contract  []byte
		fails     bool
		says      string
	}{
		{"before the first tag, with a candidate", "v0.1.0-rc.1", broken, false, "advisory until the first tag"},
		{"after it, a change", "v0.1.0", broken, true, "this breaks clients of v0.1.0"},
		{"after it, no change", "", text, false, ""},
	} {
		if step.tag != "" {
			run(t, command(t, "git", "-C", clone, "tag", step.tag))
		}
		if err := os.WriteFile(contract, step.contract, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := breaking(); (err != nil) != step.fails || !strings.Contains(out, step.says) {
			t.Errorf("%s: %v\n%s", step.name, err, out)
		}
	}
}

// TestChart packs charts where the repository has some: with the release's version, and with what symbolic links lead to.
func TestChart(t *testing.T) {
	o, err := testOptions(t.TempDir(), "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	o.Root, o.Time = t.TempDir(), time.Unix(1700000000, 0).UTC()
	if err := charts(o); err != nil {
		t.Fatal(err)
	}
	if made := digests(t, o.Out); len(made) != 0 {
		t.Errorf("without a chart there is %v", made)
	}
	folder := filepath.Join(o.Root, "deploy", "helm", "outrigger")
	for file, text := range map[string]string{
		"Chart.yaml": "name: outrigger\nversion: 0.1.0-dev\nappVersion: 0.1.0-dev\nkeywords: [a]\n", "values.yaml": "image: sidecar:0.1.0-dev\n", "templates/a.yaml": "a: 0.1.0-dev",
	} {
		if err := writeFile(filepath.Join(folder, file), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(writeFile(filepath.Join(o.Root, "rules.yaml"), []byte("groups")), os.Symlink("../../../rules.yaml", filepath.Join(folder, "rules.yaml"))); err != nil {
		t.Fatal(err)
	}
	if err := charts(o); err != nil {
		t.Fatal(err)
	}
	made := unpacked(t, filepath.Join(o.Out, "charts", "outrigger-0.1.0.tgz"))
	for file, want := range map[string]string{
		"Chart.yaml": "name: outrigger\nversion: 0.1.0\nappVersion: 0.1.0\nkeywords: [a]\n", "values.yaml": "image: sidecar:0.1.0\n", "templates/a.yaml": "a: 0.1.0-dev", "rules.yaml": "groups",
	} {
		if got, err := os.ReadFile(filepath.Join(made, "outrigger", file)); err != nil || string(got) != want {
			t.Errorf("%s: %q, want %q (%v)", file, got, want, err)
		}
	}
	before := digests(t, o.Out)
	if err := charts(o); err != nil {
		t.Fatal(err)
	}
	if after := digests(t, o.Out); len(after) != 2 || !maps.Equal(before, after) {
		t.Errorf("it was %v and is %v", before, after)
	}
	if err := writeFile(filepath.Join(folder, "Chart.yaml"), []byte("version: 1.2.3\nappVersion: 0.1.0-dev\n")); err != nil {
		t.Fatal(err)
	}
	if err := charts(o); err == nil || !strings.Contains(err.Error(), "version and appVersion in Chart.yaml must be 0.1.0-dev") {
		t.Error(err)
	}
}
