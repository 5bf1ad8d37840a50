// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// skillFolder has two skills, one of them with files and a folder.
func skillFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"alpha/SKILL.md": "---\nname: alpha\ndescription: The first.\n---\n# Alpha\n", "alpha/a.md": "a", "alpha/refs/b.bin": "\xff\x00", "alpha/refs/c.md": "c",
		"team/beta/SKILL.md": "---\nname: beta\ndescription: The second.\nlicense: MIT\n---\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func withSkills(dir string, more ...func(*configv1.Config)) func(*configv1.Config) {
	return func(c *configv1.Config) {
		c.Catalog.Skills = []string{dir}
		for _, f := range more {
			f(c)
		}
	}
}

// asker sends requests of MCP and reads the results as JSON.
type asker struct {
	ctx     context.Context //nolint:containedctx // of the caller
	rig     *mcptest.Rig
	dialect mcptest.Dialect
}

func (a asker) ask(t *testing.T, method, params string) (result map[string]any, code float64) {
	t.Helper()
	raw := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params
	if a.dialect == mcptest.Modern {
		if params != "" {
			raw += ","
		}
		raw += modernMeta
	}
	var reply struct {
		Result map[string]any `json:"result"`
		Error  struct {
			Code float64 `json:"code"`
		} `json:"error"`
	}
	sent := say(a.ctx, t, a.rig, a.dialect, raw+"}}")
	got := sent.Bytes()
	if err := json.Unmarshal(got, &reply); err != nil {
		t.Fatalf("%s: %v: %s", method, err, got)
	}
	return reply.Result, reply.Error.Code
}

// all turns the pages of a list and returns the URIs on them.
func (a asker) all(t *testing.T, method, params, member string) (uris []string, pages int) {
	t.Helper()
	cursor := ""
	for pages < 100 {
		got, code := a.ask(t, method, strings.Trim(params+cursor, ","))
		if code != 0 {
			t.Fatalf("%s: %v", method, code)
		}
		pages++
		entries, _ := got[member].([]any)
		for _, e := range entries {
			uris = append(uris, e.(map[string]any)["uri"].(string))
		}
		next, ok := got["nextCursor"].(string)
		if !ok {
			return uris, pages
		}
		cursor = fmt.Sprintf(`,"cursor":%q`, next)
	}
	t.Fatalf("%s has no end", method)
	return nil, 0
}

// TestSkillsInEveryEra reads everything about skills from a folder, a page at a time.
func TestSkillsInEveryEra(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: withSkills(skillFolder(t), pagesOf(2))})
	for _, d := range []mcptest.Dialect{mcptest.Modern, mcptest.Legacy} {
		a := asker{t.Context(), rig, d}
		files := []string{"skill://alpha/SKILL.md", "skill://alpha/a.md", "skill://alpha/refs/b.bin", "skill://alpha/refs/c.md", "skill://team/beta/SKILL.md"}
		got, _ := a.all(t, "resources/list", "", "resources")
		if shown := slices.DeleteFunc(got, func(uri string) bool { return !strings.HasPrefix(uri, "skill:") }); !slices.Equal(shown, files) {
			t.Errorf("%v: resources %v", d, shown)
		}
		if got, _ := a.all(t, "skills/list", "", "skills"); !slices.Equal(got, []string{files[0], files[4]}) {
			t.Errorf("%v: skills %v", d, got)
		}
		children, pages := a.all(t, "resources/directory/read", `"uri":"skill://alpha"`, "resources")
		if !slices.Equal(children, []string{files[0], files[1], "skill://alpha/refs"}) || pages != 2 {
			t.Errorf("%v: directory %v on %d pages", d, children, pages)
		}
		skill, _ := a.ask(t, "skills/get", `"uri":"skill://team/beta/SKILL.md"`)
		entry, _ := json.Marshal(skill["skill"])
		sum := sha256.Sum256([]byte("---\nname: beta\ndescription: The second.\nlicense: MIT\n---\n"))
		want := fmt.Sprintf(`{"frontmatter":{"description":"The second.","license":"MIT","name":"beta"},"resources":[{"digest":"sha256:%x","size":57,`+
			`"uri":"skill://team/beta/SKILL.md"}],"uri":"skill://team/beta/SKILL.md"}`, sum)
		if string(entry) != want {
			t.Errorf("%v: %s, want %s", d, entry, want)
		}
		if _, ok := skill["nextCursor"]; ok {
			t.Errorf("%v: one skill has a cursor", d)
		}
		read, _ := a.ask(t, "resources/read", `"uri":"skill://alpha/refs/b.bin"`)
		if c := read["contents"].([]any)[0].(map[string]any); c["blob"] != "/wA=" || c["mimeType"] != "application/octet-stream" {
			t.Errorf("%v: %v", d, c)
		}
		read, _ = a.ask(t, "resources/read", `"uri":"skill://alpha/SKILL.md"`)
		if c := read["contents"].([]any)[0].(map[string]any); c["text"] != "---\nname: alpha\ndescription: The first.\n---\n# Alpha\n" || c["mimeType"] != "text/markdown" {
			t.Errorf("%v: %v", d, c)
		}
		for name, result := range map[string]map[string]any{"skills/get": skill, "resources/read": read} {
			_, hasTTL := result["ttlMs"]
			if hasTTL != (d == mcptest.Modern) || hasTTL && result["cacheScope"] != "private" {
				t.Errorf("%v: %s: ttlMs %v, cacheScope %v", d, name, result["ttlMs"], result["cacheScope"])
			}
		}
	}
}

// TestCapabilitiesOfSkills: what has no skills does not declare them.
func TestCapabilitiesOfSkills(t *testing.T) {
	t.Parallel()
	const declared = `"io.modelcontextprotocol/skills":{"directoryRead":true}`
	with, without := mcptest.Start(t, mcptest.Options{Configure: withSkills(skillFolder(t))}), mcptest.Start(t, mcptest.Options{})
	for d, method := range map[mcptest.Dialect]string{
		mcptest.Modern: `"server/discover","params":{` + modernMeta + `}`, mcptest.Legacy: `"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}`,
	} {
		raw := `{"jsonrpc":"2.0","id":1,"method":` + method + `}`
		reply := say(t.Context(), t, with, d, raw)
		if got := string(reply.Bytes()); !strings.Contains(got, declared) || !strings.Contains(got, `"resources":{`) {
			t.Errorf("%v: %s", d, got)
		}
		reply = say(t.Context(), t, without, d, raw)
		if got := string(reply.Bytes()); strings.Contains(got, "skills") {
			t.Errorf("%v: %s", d, got)
		}
	}
	a := asker{t.Context(), without, mcptest.Modern}
	for method, params := range map[string]string{"skills/list": "", "skills/get": `"uri":"skill://alpha/SKILL.md"`, "resources/directory/read": `"uri":"skill://alpha"`} {
		if _, code := a.ask(t, method, params); code != -32601 {
			t.Errorf("%s without skills: %v", method, code)
		}
	}
}

// TestURIsThatNameNothing: they are invalid parameters, however they are written.
func TestURIsThatNameNothing(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: withSkills(skillFolder(t))})
	for _, d := range []mcptest.Dialect{mcptest.Modern, mcptest.Legacy} {
		a := asker{t.Context(), rig, d}
		for _, uri := range []string{
			"skill://gamma/SKILL.md", "skill://alpha/../alpha/SKILL.md", "skill://alpha/%2e%2e/alpha/SKILL.md", "skill://alpha/%2E%2E%2Falpha/SKILL.md", "skill://alpha/..%5c",
			"skill://alpha//SKILL.md", "skill://alpha/SKILL%2emd", "SKILL://alpha/SKILL.md", "skill://alpha/SKILL.md#x", "skill://alpha/SKILL.md?x", "skill:alpha", "skill://alpha/",
			"skill:///etc/passwd", "file:///etc/passwd", "skill://alpha/SKILL.md\\u0000", "skill://team", "", "skill://" + strings.Repeat("a", 9000),
		} {
			for _, method := range []string{"skills/get", "resources/directory/read"} {
				if _, code := a.ask(t, method, `"uri":"`+uri+`"`); code != -32602 {
					t.Errorf("%v: %s of %.60q: %v", d, method, uri, code)
				}
			}
			if _, code := a.ask(t, "resources/read", `"uri":"`+uri+`"`); code != -32602 && (d == mcptest.Modern || code != -32002) {
				t.Errorf("%v: read of %.60q: %v", d, uri, code)
			}
		}
		for method, uri := range map[string]string{"skills/get": "skill://alpha/a.md", "resources/directory/read": "skill://alpha/SKILL.md", "resources/read": "skill://alpha/refs"} {
			if _, code := a.ask(t, method, `"uri":"`+uri+`"`); code != -32602 {
				t.Errorf("%v: %s of %s: %v", d, method, uri, code)
			}
		}
		if _, code := a.ask(t, "skills/get", `"uri":7`); code != -32602 {
			t.Errorf("%v: a number for a URI: %v", d, code)
		}
		if _, code := a.ask(t, "skills/get", ""); code != -32602 {
			t.Errorf("%v: no URI: %v", d, code)
		}
	}
}

// TestCursorsOfDirectoriesAreTheirOwn: one of another directory, or of another list, is refused.
func TestCursorsOfDirectoriesAreTheirOwn(t *testing.T) {
	t.Parallel()
	a := asker{t.Context(), mcptest.Start(t, mcptest.Options{Configure: withSkills(skillFolder(t), pagesOf(1))}), mcptest.Modern}
	page, _ := a.ask(t, "resources/directory/read", `"uri":"skill://alpha"`)
	cursor := fmt.Sprintf(`,"cursor":%q`, page["nextCursor"])
	if _, code := a.ask(t, "resources/directory/read", `"uri":"skill://alpha"`+cursor); code != 0 {
		t.Errorf("its own: %v", code)
	}
	for method, uri := range map[string]string{"resources/directory/read": "skill://alpha/refs", "skills/list": "x", "resources/list": "x"} {
		if _, code := a.ask(t, method, `"uri":"`+uri+`"`+cursor); code != -32602 {
			t.Errorf("%s: %v", method, code)
		}
	}
}

// TestSkillsAreGranted: callers see and read what their grants of resources have.
func TestSkillsAreGranted(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: withSkills(skillFolder(t))})
	for name, tt := range map[string]struct {
		grant                    []string
		skills, files, directory []string
		get, read                float64
	}{
		"nothing": {nil, nil, nil, nil, -31007, -31007},
		"everything": {[]string{"*"}, []string{"skill://alpha/SKILL.md", "skill://team/beta/SKILL.md"}, []string{
			"skill://alpha/SKILL.md", "skill://alpha/a.md", "skill://alpha/refs/b.bin", "skill://alpha/refs/c.md", "skill://team/beta/SKILL.md",
		}, []string{"skill://alpha/SKILL.md", "skill://alpha/a.md", "skill://alpha/refs"}, 0, 0},
		"the other skill": {[]string{"skill://team/*"}, []string{"skill://team/beta/SKILL.md"}, []string{"skill://team/beta/SKILL.md"}, nil, -31007, -31007},
		"one file":        {[]string{"skill://alpha/refs/c.md"}, nil, []string{"skill://alpha/refs/c.md"}, []string{"skill://alpha/refs"}, -31007, -31007},
	} {
		a := asker{mcptest.As(t, outrigger.Grant{Name: "ann", Tools: []string{"*"}, Resources: tt.grant}), rig, mcptest.Modern}
		if got, _ := a.all(t, "skills/list", "", "skills"); !slices.Equal(got, tt.skills) {
			t.Errorf("%s: skills %v", name, got)
		}
		got, _ := a.all(t, "resources/list", "", "resources")
		if got = slices.DeleteFunc(got, func(uri string) bool { return !strings.HasPrefix(uri, "skill:") }); !slices.Equal(got, tt.files) {
			t.Errorf("%s: resources %v", name, got)
		}
		if _, code := a.ask(t, "skills/get", `"uri":"skill://alpha/SKILL.md"`); code != tt.get {
			t.Errorf("%s: get: %v", name, code)
		}
		read, code := a.ask(t, "resources/read", `"uri":"skill://alpha/SKILL.md"`)
		if code != tt.read || code == 0 && read["cacheScope"] != "private" {
			t.Errorf("%s: read: %v, %v", name, code, read["cacheScope"])
		}
		listing, code := a.ask(t, "resources/directory/read", `"uri":"skill://alpha"`)
		var children []string
		entries, _ := listing["resources"].([]any)
		for _, e := range entries {
			children = append(children, e.(map[string]any)["uri"].(string))
		}
		if !slices.Equal(children, tt.directory) || (code == -31007) != (tt.directory == nil) {
			t.Errorf("%s: directory %v, %v", name, children, code)
		}
	}
}

// nativeSkills is a backend with its own skills.
func nativeSkills() *mcptest.Native {
	desk := mcptest.Desk()
	file := func(uri string) *outriggerv1.SkillFile {
		return &outriggerv1.SkillFile{Uri: uri, Digest: "sha256:" + strings.Repeat("0", 64), Size: proto.Int64(3)}
	}
	entry := func(name string, files ...*outriggerv1.SkillFile) *outriggerv1.Skill {
		return &outriggerv1.Skill{
			Uri: "skill://" + name + "/SKILL.md", Resources: files, Dynamic: files == nil,
			FrontmatterForm: &outriggerv1.Skill_FrontmatterJson{FrontmatterJson: []byte(`{"name":"` + name + `","description":"d"}`)},
		}
	}
	desk.Skills = []*outriggerv1.Skill{
		entry("made"), entry("tidy", file("skill://tidy/SKILL.md"), file("skill://tidy/x.md")), entry("alpha", file("skill://alpha/SKILL.md")),
	}
	desk.Directories = map[string][]*outriggerv1.Resource{"skill://tidy": {
		{Uri: "skill://tidy/SKILL.md", Name: "tidy", MimeType: "text/markdown"}, {Uri: "skill://tidy/x.md", Name: "x.md"},
	}}
	return desk
}

// TestSkillsOfANativeBackend stand behind those of folders, which win where both have one.
func TestSkillsOfANativeBackend(t *testing.T) {
	t.Parallel()
	for name, configure := range map[string]func(*configv1.Config){"alone": pagesOf(1), "with a folder": withSkills(skillFolder(t), pagesOf(1))} {
		a := asker{t.Context(), mcptest.Start(t, mcptest.Options{Native: nativeSkills(), NoDemo: true, Configure: configure}), mcptest.Modern}
		want := []string{"skill://made/SKILL.md", "skill://tidy/SKILL.md", "skill://alpha/SKILL.md"}
		if name != "alone" {
			want = []string{"skill://alpha/SKILL.md", "skill://team/beta/SKILL.md", "skill://made/SKILL.md", "skill://tidy/SKILL.md"}
		}
		if got, _ := a.all(t, "skills/list", "", "skills"); !slices.Equal(got, want) {
			t.Errorf("%s: %v", name, got)
		}
		made, _ := a.ask(t, "skills/get", `"uri":"skill://made/SKILL.md"`)
		if diff := cmp.Diff(map[string]any{
			"uri": "skill://made/SKILL.md", "frontmatter": map[string]any{"name": "made", "description": "d"}, "resources": "dynamic",
		}, made["skill"]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if got, pages := a.all(t, "resources/directory/read", `"uri":"skill://tidy"`, "resources"); len(got) != 2 || pages != 2 {
			t.Errorf("%s: directory %v on %d pages", name, got, pages)
		}
		for method, uri := range map[string]string{"skills/get": "skill://none/SKILL.md", "resources/directory/read": "skill://none"} {
			if _, code := a.ask(t, method, `"uri":"`+uri+`"`); code != -32602 {
				t.Errorf("%s: %s: %v", name, method, code)
			}
		}
		few := asker{mcptest.As(t, outrigger.Grant{Name: "ann", Tools: []string{"*"}, Resources: []string{"skill://made/*"}}), a.rig, mcptest.Modern}
		if got, _ := few.all(t, "skills/list", "", "skills"); !slices.Equal(got, []string{"skill://made/SKILL.md"}) {
			t.Errorf("%s: a caller of one: %v", name, got)
		}
		if _, code := few.ask(t, "skills/get", `"uri":"skill://tidy/SKILL.md"`); code != -31007 {
			t.Errorf("%s: a caller of another: %v", name, code)
		}
	}
}

// TestANativeSkillThatBreaksTheRules is the backend's fault.
func TestANativeSkillThatBreaksTheRules(t *testing.T) {
	t.Parallel()
	desk := nativeSkills()
	desk.Skills[1].Resources = desk.Skills[1].Resources[1:] // without SKILL.md
	rig := mcptest.Start(t, mcptest.Options{Native: desk, NoDemo: true})
	for _, question := range []proto.Message{&outriggerv1.ListSkillsRequest{}, &outriggerv1.GetSkillRequest{Uri: "skill://tidy/SKILL.md"}} {
		resp := rig.Handle(t.Context(), &mcptest.Call{Origin: rig.NewOrigin(), Question: question})
		if codeOf(resp) != errmap.InvalidToolOutput {
			t.Errorf("%T: %v", question, resp.Err)
		}
	}
}

// TestPagesOfSkillsAreBoundedByFiles: an entry has all files of a skill.
func TestPagesOfSkillsAreBoundedByFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 20 {
		name := fmt.Sprintf("s%02d", i)
		for n := range 300 {
			path := filepath.Join(dir, name, fmt.Sprintf("f%d", n))
			if n == 0 {
				path = filepath.Join(dir, name, "SKILL.md")
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("---\nname: "+name+"\ndescription: d\n---\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	a := asker{t.Context(), mcptest.Start(t, mcptest.Options{Configure: withSkills(dir)}), mcptest.Modern}
	if got, pages := a.all(t, "skills/list", "", "skills"); len(got) != 20 || pages != 2 {
		t.Errorf("%d skills on %d pages, want 20 on 2: 13 have fewer than 4,096 files", len(got), pages)
	}
}
