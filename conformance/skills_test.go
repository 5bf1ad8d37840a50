// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type skillResource struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Description string `json:"description"`
	MimeType    string `json:"mimeType"`
}

// skillsReply is what the methods about skills and resources return.
type skillsReply struct {
	Result struct {
		Capabilities struct {
			Extensions map[string]struct {
				DirectoryRead bool `json:"directoryRead"`
			} `json:"extensions"`
		} `json:"capabilities"`
		Skills []struct {
			URI       string `json:"uri"`
			Resources []struct {
				URI    string `json:"uri"`
				Digest string `json:"digest"`
				Size   int    `json:"size"`
			} `json:"resources"`
		} `json:"skills"`
		Skill struct {
			Frontmatter map[string]string `json:"frontmatter"`
			Resources   any               `json:"resources"`
		} `json:"skill"`
		Resources []skillResource `json:"resources"`
		Contents  []struct {
			Text string `json:"text"`
		} `json:"contents"`
		TTL *int `json:"ttlMs"`
	} `json:"result"`
	Error *struct {
		Code int `json:"code"`
	} `json:"error"`
}

// TestSkillsOfANativeBackend: clients get the skills of a backend through the sidecar as the extension has them, and each
// caller what the callers file grants.
func TestSkillsOfANativeBackend(t *testing.T) {
	t.Parallel()
	const all, one, none = "token-of-all-skills", "token-of-one-skill-", "token-of-no-skills-"
	var file strings.Builder
	file.WriteString("callers:\n")
	for _, c := range []struct{ name, token, resources string }{{"all", all, `["*"]`}, {"one", one, `["skill://team/*"]`}, {"none", none, "[]"}} {
		fmt.Fprintf(&file, "  - {name: %s, token_sha256: [\"%x\"], tools: [\"*\"], resources: %s}\n", c.name, sha256.Sum256([]byte(c.token)), c.resources)
	}
	callers := filepath.Join(t.TempDir(), "callers.yaml")
	if err := os.WriteFile(callers, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	endpoint := serve(t, "--backend", startFixture(t), "--tokens", callers).URL("/mcp")
	ask := func(token, method, uri string) skillsReply {
		t.Helper()
		params := `{}`
		if uri != "" {
			params = fmt.Sprintf(`{"uri":%q}`, uri)
		}
		var reply skillsReply
		raw := modernBodyAs(t, endpoint, token, method, uri, params)
		if err := json.Unmarshal(raw, &reply); err != nil {
			t.Fatalf("%s %s: %v: %s", method, uri, err, raw)
		}
		return reply
	}
	const guide, reply, today = "skill://fixture-guide/SKILL.md", "skill://team/fixture-reply/SKILL.md", "skill://fixture-today/SKILL.md"

	if extension, ok := ask(all, "server/discover", "").Result.Capabilities.Extensions["io.modelcontextprotocol/skills"]; !ok || !extension.DirectoryRead {
		t.Error("the capability is not declared")
	}
	// What lists say of a file is true of what is read.
	list := ask(all, "skills/list", "")
	var uris []string
	files := 0
	for _, s := range list.Result.Skills {
		uris = append(uris, s.URI)
		for _, f := range s.Resources {
			files++
			read := ask(all, "resources/read", f.URI).Result.Contents
			if len(read) != 1 || f.Size != len(read[0].Text) || f.Digest != fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(read[0].Text))) {
				t.Errorf("%s: %+v is %+v", s.URI, f, read)
			}
		}
	}
	if !slices.Equal(uris, []string{guide, reply}) || files != 4 || list.Result.TTL == nil {
		t.Errorf("skills %v with %d files, ttlMs %v", uris, files, list.Result.TTL)
	}
	skill := ask(all, "skills/get", guide)
	shown := slices.DeleteFunc(ask(all, "resources/list", "").Result.Resources, func(r skillResource) bool { return r.URI != guide })
	if fm := skill.Result.Skill.Frontmatter; len(shown) != 1 || fm["name"] != "fixture-guide" || shown[0].Name != fm["name"] || shown[0].Description != fm["description"] || shown[0].MimeType != "text/markdown" {
		t.Errorf("frontmatter %v, resource %+v", skill.Result.Skill.Frontmatter, shown)
	}
	if made := ask(all, "skills/get", today); made.Result.Skill.Resources != "dynamic" || made.Result.Skill.Frontmatter["name"] != "fixture-today" {
		t.Errorf("on demand: %+v", made)
	}
	folder := ask(all, "resources/directory/read", "skill://fixture-guide").Result.Resources
	if len(folder) != 3 || folder[2].URI != "skill://fixture-guide/reference" || folder[2].MimeType != "inode/directory" {
		t.Errorf("folder %+v", folder)
	}
	for method, uri := range map[string]string{"skills/get": "skill://none/SKILL.md", "resources/directory/read": guide, "resources/read": "skill://none/x.md"} {
		if got := ask(all, method, uri); got.Error == nil || got.Error.Code != -32602 {
			t.Errorf("%s %s: %+v", method, uri, got)
		}
	}

	// Permissions.
	const forbidden = -31007
	for _, tc := range []struct {
		token       string
		skills      []string
		guide, file int // codes; 0 for a result
	}{
		{all, []string{guide, reply}, 0, 0}, {one, []string{reply}, forbidden, forbidden}, {none, nil, forbidden, forbidden},
	} {
		var uris []string
		for _, s := range ask(tc.token, "skills/list", "").Result.Skills {
			uris = append(uris, s.URI)
		}
		if !slices.Equal(uris, tc.skills) {
			t.Errorf("%s: skills %v, want %v", tc.token, uris, tc.skills)
		}
		for method, want := range map[string]int{"skills/get": tc.guide, "resources/read": tc.file} {
			code := 0
			if got := ask(tc.token, method, guide); got.Error != nil {
				code = got.Error.Code
			}
			if code != want {
				t.Errorf("%s: %s of the guide: %d, want %d", tc.token, method, code, want)
			}
		}
		for _, r := range ask(tc.token, "resources/list", "").Result.Resources {
			if tc.token != all && !strings.HasPrefix(r.URI, "skill://team/") {
				t.Errorf("%s sees %s", tc.token, r.URI)
			}
		}
	}
}
