// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

//go:embed npm/bin.js
var npmBin []byte

// manifest is the package.json of a package.
type manifest struct {
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	Description string            `json:"description"`
	MCPName     string            `json:"mcpName,omitempty"`
	License     string            `json:"license"`
	Homepage    string            `json:"homepage"`
	Repository  map[string]string `json:"repository"`
	Bin         map[string]string `json:"bin,omitempty"`
	OS          []string          `json:"os,omitempty"`
	CPU         []string          `json:"cpu,omitempty"`
	Engines     map[string]string `json:"engines,omitempty"`
	Optional    map[string]string `json:"optionalDependencies,omitempty"`
	Publish     map[string]string `json:"publishConfig"`
}

// npmPlatform translates a platform to Node's words.
func npmPlatform(p v1.Platform) (system, processor string) {
	system, processor = p.OS, p.Architecture
	if system == "windows" {
		system = "win32"
	}
	if processor == "amd64" {
		processor = "x64"
	}
	return system, processor
}

// npmPackages writes a package a platform, which has the binary, and one that chooses among them. Nothing is downloaded at
// installation: npm skips the optional dependencies that are for other machines.
func npmPackages(o Options, b binaries) error {
	common := manifest{
		Version: o.Version, Description: summary, License: "Apache-2.0", Homepage: o.Names.Homepage,
		Repository: map[string]string{"type": "git", "url": "git+" + o.Names.Homepage + ".git"}, Publish: map[string]string{"access": "public"},
	}
	chooser := common
	chooser.Name, chooser.MCPName, chooser.Optional = o.Names.NPM, o.Names.Server, map[string]string{}
	chooser.Bin = map[string]string{o.Names.NPM: "bin.js", program: "bin.js"}
	chooser.Engines = map[string]string{"node": ">=18"}
	for _, platform := range o.Platforms {
		m := common
		system, processor := npmPlatform(platform)
		m.Name, m.OS, m.CPU = o.Names.Scope+"/"+system+"-"+processor, []string{system}, []string{processor}
		m.Description += " (the binary for " + system + " on " + processor + ")"
		chooser.Optional[m.Name] = o.Version
		binary, err := b.read(platform)
		if err != nil {
			return err
		}
		files := contents{"package/bin/" + fileName(platform): {content: binary, executable: true}, "package/LICENSE": {content: b.documents["LICENSE"]}}
		if err := writeNPM(o, m, files); err != nil {
			return err
		}
	}
	return writeNPM(o, chooser, contents{
		"package/bin.js":    {content: bytes.ReplaceAll(npmBin, []byte("@SCOPE@"), []byte(o.Names.Scope)), executable: true},
		"package/LICENSE":   {content: b.documents["LICENSE"]},
		"package/README.md": {content: b.documents["README.md"]},
	})
}

func writeNPM(o Options, m manifest, files contents) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("npm: %w", err)
	}
	files["package/package.json"] = entry{content: append(text, '\n')}
	var out bytes.Buffer
	if err := files.writeTar(&out, o.Time); err != nil {
		return fmt.Errorf("npm: %w", err)
	}
	name := strings.ReplaceAll(strings.TrimPrefix(m.Name, "@"), "/", "-") + "-" + o.Version + ".tgz"
	return writeFile(filepath.Join(o.Out, "npm", name), out.Bytes())
}
