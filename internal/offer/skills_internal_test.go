// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

func everything(string) bool { return true }

func uris(resources []*outriggerv1.Resource) (out []string) {
	for _, r := range resources {
		out = append(out, r.GetUri())
	}
	return out
}

// TestASkillIsLoaded looks at all that there is of two skills, one of them in the other.
func TestASkillIsLoaded(t *testing.T) {
	t.Parallel()
	image := "\x89PNG\xff\x00"
	set, err := loadSkills(t.Context(), []string{tree(t, map[string]string{
		"README.md": "outside", "team/deploy/SKILL.md": skillMD("deploy"), "team/deploy/logo.png": image, "team/deploy/refs/a b.md": "",
		"team/deploy/undo/SKILL.md": skillMD("undo"), "team/deploy/none/": "", "team/deploy/.git/config": "x", ".x": "", "other/x/y.txt": "",
	})}, skillLimits{})
	if err != nil {
		t.Fatal(err)
	}
	deploy, ok := set.Skill("skill://team/deploy/SKILL.md")
	if !ok || len(set.Skills()) != 2 || set.IsEmpty() {
		t.Fatalf("got %v", set.Skills())
	}
	if got, want := string(deploy.GetFrontmatterJson()), `{"name":"deploy","description":"Does deploy."}`; got != want {
		t.Errorf("frontmatter %s, want %s", got, want)
	}
	files := map[string]string{
		"skill://team/deploy/SKILL.md": skillMD("deploy"), "skill://team/deploy/logo.png": image, "skill://team/deploy/refs/a%20b.md": "",
		"skill://team/deploy/undo/SKILL.md": skillMD("undo"),
	}
	for _, s := range set.Skills() {
		if err := checkSkill(s); err != nil {
			t.Error(err)
		}
	}
	got := map[string]string{}
	for _, f := range deploy.GetResources() {
		got[f.GetUri()] = fmt.Sprintf("%s %d", f.GetDigest(), f.GetSize())
	}
	for uri, data := range files {
		if want := fmt.Sprintf("sha256:%x %d", sha256.Sum256([]byte(data)), len(data)); got[uri] != want {
			t.Errorf("%s: %q, want %q", uri, got[uri], want)
		}
		file, ok := set.File(uri)
		if contents := file.Contents(); !ok || contents.GetText()+string(contents.GetBlob()) != data {
			t.Errorf("%s has another content", uri)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(files)), uris(set.Resources())); diff != "" {
		t.Error(diff)
	}
	manual := set.Resources()[0]
	if manual.GetName() != "deploy" || manual.GetDescription() != "Does deploy." || manual.GetMimeType() != "text/markdown" || manual.GetSize() == 0 {
		t.Errorf("SKILL.md is %v", manual)
	}
	logo, _ := set.File("skill://team/deploy/logo.png")
	if logo.Contents().GetBlob() == nil || logo.Contents().GetMimeType() != "image/png" {
		t.Errorf("the image is %v", logo.Contents())
	}
	children, isFound, mayRead := set.Directory("skill://team/deploy", everything)
	want := []string{
		"skill://team/deploy/SKILL.md", "skill://team/deploy/logo.png", "skill://team/deploy/none", "skill://team/deploy/refs", "skill://team/deploy/undo",
	}
	if diff := cmp.Diff(want, uris(children)); diff != "" || !isFound || !mayRead {
		t.Error(diff, isFound, mayRead)
	}
	if children[3].GetMimeType() != "inode/directory" || children[3].GetName() != "refs" {
		t.Errorf("the folder is %v", children[3])
	}
	if children, isFound, mayRead := set.Directory("skill://team/deploy/none", everything); len(children) > 0 || !isFound || !mayRead {
		t.Errorf("the empty folder has %v", children)
	}
	for _, uri := range []string{"skill://team", "skill://team/deploy/", "skill://team/deploy/SKILL.md", "skill://team/deploy/.git", "skill://other", ""} {
		if _, isFound, _ := set.Directory(uri, everything); isFound {
			t.Errorf("%q is a directory", uri)
		}
	}
	if len(set.Outside) != 2 || set.Hidden != 2 {
		t.Errorf("outside: %v, hidden: %d", set.Outside, set.Hidden)
	}
}

// TestDirectoriesShowWhatACallerMayRead: a grant of one file shows the folders above it and nothing else.
func TestDirectoriesShowWhatACallerMayRead(t *testing.T) {
	t.Parallel()
	set, err := loadSkills(t.Context(), []string{tree(t, map[string]string{"a/SKILL.md": skillMD("a"), "a/x/y/z.md": "z", "a/x/w.md": "w", "a/v/u.md": "u"})}, skillLimits{})
	if err != nil {
		t.Fatal(err)
	}
	may := func(uri string) bool { return uri == "skill://a/x/y/z.md" }
	for uri, want := range map[string][]string{
		"skill://a": {"skill://a/x"}, "skill://a/x": {"skill://a/x/y"}, "skill://a/x/y": {"skill://a/x/y/z.md"},
	} {
		if got, _, mayRead := set.Directory(uri, may); !mayRead || !slices.Equal(uris(got), want) {
			t.Errorf("%s: %v", uri, uris(got))
		}
	}
	if got, isFound, mayRead := set.Directory("skill://a/v", may); !isFound || mayRead || len(got) > 0 {
		t.Errorf("skill://a/v: %v %v %v", got, isFound, mayRead)
	}
}

func TestFoldersThatAreRefused(t *testing.T) {
	t.Parallel()
	const good = "a/SKILL.md"
	outside := tree(t, map[string]string{"secret": "s"})
	for _, tt := range []struct {
		name   string
		files  map[string]string
		change func(t *testing.T, dir string)
		limits skillLimits
		want   string
	}{
		{name: "no skill", files: map[string]string{"a/x.md": ""}, want: "has no skill"},
		{name: "an empty folder", files: map[string]string{"a/": ""}, want: "has no skill"},
		{name: "a skill without a folder", files: map[string]string{"SKILL.md": skillMD("a")}, want: "SKILL.md: a skill needs a folder with its name"},
		{name: "another name", files: map[string]string{"a/SKILL.md": skillMD("b")}, want: `a/SKILL.md: the name is "b" and the folder is "a"`},
		{name: "another spelling", files: map[string]string{good: skillMD("a"), "b/skill.md": skillMD("b")}, want: "b/skill.md: must be a file with the name SKILL.md"},
		{name: "a folder SKILL.md", files: map[string]string{"a/SKILL.md/x": ""}, want: "must be a file"},
		{name: "frontmatter", files: map[string]string{good: "# A"}, want: "a/SKILL.md: it does not begin"},
		{name: "no UTF-8", files: map[string]string{good: "---\nname: a\ndescription: b\n---\n\xff"}, want: "not UTF-8"},
		{name: "the first folder", files: map[string]string{"my team/a/SKILL.md": skillMD("a")}, want: `the folder "my team" begins the path`},
		{name: "a backslash", files: map[string]string{good: skillMD("a"), `a/x\y`: ""}, want: "has a backslash"},
		{name: "control characters", files: map[string]string{good: skillMD("a"), "a/x\ny": ""}, want: "has control characters"},
		{name: "a name that is not UTF-8", files: map[string]string{good: skillMD("a"), "a/x\xff": ""}, want: "its name is not UTF-8"},
		{name: "a link out of the folder", files: map[string]string{good: skillMD("a")}, change: func(t *testing.T, dir string) {
			link(t, filepath.Join("..", "..", filepath.Base(outside), "secret"), filepath.Join(dir, "a", "x"))
		}, want: "a/x: is a symbolic link"},
		{name: "an absolute link", files: map[string]string{good: skillMD("a")}, change: func(t *testing.T, dir string) {
			link(t, filepath.Join(outside, "secret"), filepath.Join(dir, "a", "x"))
		}, want: "a/x: is a symbolic link out of the folder, an absolute one"},
		{name: "a link to nothing", files: map[string]string{good: skillMD("a")}, change: func(t *testing.T, dir string) {
			link(t, "none", filepath.Join(dir, "a", "x"))
		}, want: "is a symbolic link to nothing"},
		{name: "a circle", files: map[string]string{good: skillMD("a")}, change: func(t *testing.T, dir string) {
			link(t, ".", filepath.Join(dir, "a", "x"))
		}, want: "a/x: is a symbolic link to a folder that it is in"},
		{name: "links to an ancestor that multiply", files: map[string]string{good: skillMD("a")}, change: func(t *testing.T, dir string) {
			for i := range 6 {
				link(t, filepath.Join("..", ".."), filepath.Join(dir, "a", "l"+strconv.Itoa(i)))
				link(t, "..", filepath.Join(dir, "a", "m"+strconv.Itoa(i)))
			}
		}, want: "a/m0: is a symbolic link to a folder that it is in"},
		{name: "links that double at each level", files: map[string]string{good: skillMD("a"), "l6/x": "x"}, change: func(t *testing.T, dir string) {
			for i := range 6 {
				if err := os.Mkdir(filepath.Join(dir, "l"+strconv.Itoa(i)), 0o700); err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"one", "two", "three"} {
					link(t, filepath.Join("..", "l"+strconv.Itoa(i+1)), filepath.Join(dir, "l"+strconv.Itoa(i), name))
				}
			}
		}, want: "has more than 256 symbolic links to folders"},
		{name: "deep folders", files: map[string]string{good: skillMD("a"), "a/" + strings.Repeat("x/", 16) + "y": ""}, want: "folders are more than 16 levels deep"},
		{name: "a file that no one may read", files: map[string]string{good: skillMD("a"), "a/x": "x"}, change: func(t *testing.T, dir string) {
			if os.Getuid() == 0 {
				t.Skip("root may read everything")
			}
			if err := os.Chmod(filepath.Join(dir, "a", "x"), 0); err != nil {
				t.Fatal(err)
			}
		}, want: "a/x: cannot be read"},
		{name: "too many files", files: map[string]string{good: skillMD("a"), "a/x": "", "a/y": ""}, limits: skillLimits{MaxFiles: 2}, want: "the skill a has more than 2 files (--max-skill-files)"},
		{name: "too many files with those of a skill in it", files: map[string]string{good: skillMD("a"), "a/b/SKILL.md": skillMD("b")}, limits: skillLimits{MaxFiles: 1}, want: "the skill a has more than 1 files"},
		{name: "too large a skill", files: map[string]string{good: skillMD("a"), "a/x": strings.Repeat("x", 60), "a/y": strings.Repeat("y", 60)}, limits: skillLimits{MaxBytes: 100}, want: "the skill a has more than 100 bytes (--max-skill-bytes)"},
		{name: "too large a file", files: map[string]string{good: skillMD("a"), "a/x": strings.Repeat("x", 101)}, limits: skillLimits{MaxFileBytes: 100}, want: "a/x: has 101 bytes; a result may have 100 (--max-result-bytes)"},
		{name: "too much together", files: map[string]string{good: skillMD("a"), "b/SKILL.md": skillMD("b"), "b/x": strings.Repeat("x", 99)}, limits: skillLimits{MaxTotalBytes: 150}, want: "all skills together have more than 150 bytes (--max-skills-bytes)"},
		{name: "too many skills", files: map[string]string{good: skillMD("a"), "b/SKILL.md": skillMD("b")}, limits: skillLimits{MaxSkills: 1}, want: "there are more than 1 skills (--max-skills)"},
		{name: "too many entries", files: map[string]string{good: skillMD("a"), "x/1": "", "x/2": "", "x/3": ""}, limits: skillLimits{MaxSkills: 1, MaxFiles: 1}, want: "it has more than 2 files and folders"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := tree(t, tt.files)
			if tt.change != nil {
				tt.change(t, dir)
			}
			_, err := loadSkills(t.Context(), []string{dir}, tt.limits)
			var wrong *skillsError
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func link(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
}

// TestAllFaultsAreNamed: one start names what is wrong with several folders, each with its index.
func TestAllFaultsAreNamed(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range 25 {
		many[fmt.Sprintf("s%d/SKILL.md", i)] = "no frontmatter"
	}
	file := filepath.Join(tree(t, map[string]string{"f": ""}), "f")
	_, err := loadSkills(t.Context(), []string{"no/such/folder", file, tree(t, many)}, skillLimits{})
	var wrong *skillsError
	if !errors.As(err, &wrong) || len(wrong.Faults) != 20 || wrong.More != 7 {
		t.Fatalf("got %+v", wrong)
	}
	if f := wrong.Faults[0]; f.Folder != 0 || f.String() != "no/such/folder: does not exist" {
		t.Errorf("got %v", f)
	}
	if f := wrong.Faults[1]; f.Folder != 1 || !strings.Contains(f.Reason, "is a file") {
		t.Errorf("got %v", f)
	}
	if !strings.HasSuffix(err.Error(), "; and 7 more") || wrong.Faults[2].Folder != 2 {
		t.Errorf("got %v", err)
	}
}

func TestTwoFoldersWithTheSameSkill(t *testing.T) {
	t.Parallel()
	one, two := tree(t, map[string]string{"a/SKILL.md": skillMD("a")}), tree(t, map[string]string{"a/SKILL.md": skillMD("a")})
	if _, err := loadSkills(t.Context(), []string{one, two}, skillLimits{}); err == nil || !strings.Contains(err.Error(), "the folder "+one+" has a skill with the same path") {
		t.Errorf("got %v", err)
	}
}

// TestAConfigMapIsRead has the links of a mounted ConfigMap, and its swap.
func TestAConfigMapIsRead(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"..1/a/SKILL.md": skillMD("a"), "..2/a/SKILL.md": skillMD("a") + "more\n", "..2/a/x.md": "x"})
	link(t, "..1", filepath.Join(dir, "..data"))
	link(t, filepath.Join("..data", "a"), filepath.Join(dir, "a"))
	source, err := openSkills([]string{dir}, skillLimits{})
	if err != nil {
		t.Fatal(err)
	}
	before := source.Current()
	if changed, isNew, err := source.Reload(t.Context()); err != nil || isNew || len(changed) > 0 || source.Current() != before {
		t.Errorf("nothing changed, and Reload returned %v, %v, %v", changed, isNew, err)
	}
	paths := skillPaths([]string{dir}, skillLimits{})
	if want := []string{dir, filepath.Join(dir, "a"), filepath.Join(dir, "a", "SKILL.md")}; !slices.Equal(paths, want) {
		t.Errorf("watched: %v, want %v", paths, want)
	}
	link(t, "..2", filepath.Join(dir, "..data_tmp"))
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	changed, isNew, err := source.Reload(t.Context())
	if err != nil || !isNew || !slices.Equal(changed, []string{"skill://a/SKILL.md", "skill://a/x.md"}) {
		t.Errorf("after the swap: %v, %v, %v", changed, isNew, err)
	}
	write(t, dir, map[string]string{"..2/a/SKILL.md": "broken"})
	now := source.Current()
	if _, isNew, err := source.Reload(t.Context()); err == nil || isNew || source.Current() != now {
		t.Errorf("a broken version is used: %v", err)
	}
}

func TestNoSkills(t *testing.T) {
	t.Parallel()
	var source *Skills
	set := source.Current()
	if !set.IsEmpty() || len(set.Skills()) > 0 || len(set.Resources()) > 0 || set.IsFile("x") || set.IsDirectory("x") {
		t.Error("no source has skills")
	}
	if _, ok := set.Skill("x"); ok {
		t.Error("no source has a skill")
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	digest, size := "sha256:"+strings.Repeat("0", 64), int64(1)
	file := func(uri string) *outriggerv1.SkillFile {
		return &outriggerv1.SkillFile{Uri: uri, Digest: digest, Size: &size}
	}
	entry := func(change func(*outriggerv1.Skill)) *outriggerv1.Skill {
		s := &outriggerv1.Skill{
			Uri:             "x://t/a/SKILL.md",
			FrontmatterForm: &outriggerv1.Skill_FrontmatterJson{FrontmatterJson: []byte(`{"name":"a","description":"d"}`)},
			Resources:       []*outriggerv1.SkillFile{file("x://t/a/SKILL.md"), file("x://t/a/y")},
		}
		if change != nil {
			change(s)
		}
		return s
	}
	large := int64(16 << 20)
	for _, tt := range []struct {
		name   string
		change func(*outriggerv1.Skill)
		want   string
	}{
		{"good", nil, ""},
		{"dynamic", func(s *outriggerv1.Skill) { s.Dynamic, s.Resources = true, nil }, ""},
		{"dynamic with files", func(s *outriggerv1.Skill) { s.Dynamic = true }, "is dynamic and has digests"},
		{"another file", func(s *outriggerv1.Skill) { s.Uri = "x://t/a/skill.md" }, "does not end in /SKILL.md"},
		{"another name", func(s *outriggerv1.Skill) { s.Uri = "x://t/b/SKILL.md" }, `the name in its frontmatter is "a"`},
		{"no name", func(s *outriggerv1.Skill) { s.FrontmatterForm = nil }, "is not valid"},
		{"no description", func(s *outriggerv1.Skill) {
			s.FrontmatterForm = &outriggerv1.Skill_FrontmatterJson{FrontmatterJson: []byte(`{"name":"a"}`)}
		}, "has no description"},
		{"incomplete", func(s *outriggerv1.Skill) { s.Resources = s.Resources[1:] }, "lack SKILL.md"},
		{"outside", func(s *outriggerv1.Skill) { s.Resources[1].Uri = "x://t/ab/y" }, "is not in its folder"},
		{"twice", func(s *outriggerv1.Skill) { s.Resources[1].Uri = s.Resources[0].Uri }, "listed twice"},
		{"too large", func(s *outriggerv1.Skill) { s.Resources[1].Size = &large }, "the limit is 16777216"},
	} {
		if err := checkSkill(entry(tt.change)); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestLoadHearsTheContext(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := loadSkills(over, []string{tree(t, map[string]string{"a/SKILL.md": skillMD("a")})}, skillLimits{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

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
		if got := skillURI(path); got != want {
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
		got := skillURI("a/" + path)
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
	set, err := loadSkills(f.Context(), []string{tree(f, map[string]string{"a/SKILL.md": skillMD("a"), "a/x/y z.md": "z"})}, skillLimits{})
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

// tree writes files below a new folder and returns it. A name that ends with a slash is an empty folder.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, files)
	return dir
}

func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if name[len(name)-1] == '/' {
			if err := os.MkdirAll(path, 0o750); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// skillMD is a SKILL.md with a name.
func skillMD(name string) string {
	return "---\nname: " + name + "\ndescription: Does " + name + ".\n---\n\n# " + name + "\n"
}
