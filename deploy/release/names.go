// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

//go:embed names.json
var namesFile []byte

// Names are what a release is called in every registry.
type Names struct {
	// Module is the Go module of the sidecar, Options that of the annotations.
	Module  string `json:"module"`
	Options string `json:"options"`
	// Package is the name for dpkg, rpm and Homebrew, and the prefix of files.
	Package string `json:"package"`
	// NPM is the package that users name, Scope what its platform packages are below.
	NPM   string `json:"npm"`
	Scope string `json:"npmScope"`
	// Image is the repository of the container image.
	Image string `json:"image"`
	// Server is the name in MCP's registry.
	Server string `json:"server"`
	// Homepage is where people look, Downloads the folder of all releases' files, Tap the repository of formulas.
	Homepage  string `json:"homepage"`
	Downloads string `json:"downloads"`
	Tap       string `json:"tap"`
}

// LoadNames reads names.json. All members are required, and no other is known.
func LoadNames() (Names, error) {
	decoder := json.NewDecoder(bytes.NewReader(namesFile))
	decoder.DisallowUnknownFields()
	var n Names
	if err := decoder.Decode(&n); err != nil {
		return Names{}, fmt.Errorf("names.json: %w", err)
	}
	for member, value := range map[string]string{
		"module": n.Module, "options": n.Options, "package": n.Package, "npm": n.NPM, "npmScope": n.Scope, "image": n.Image,
		"server": n.Server, "homepage": n.Homepage, "downloads": n.Downloads, "tap": n.Tap,
	} {
		if value == "" {
			return Names{}, fmt.Errorf("names.json: %q is missing or empty; add it", member)
		}
	}
	if !strings.HasPrefix(n.Options, n.Module+"/") {
		return Names{}, fmt.Errorf("names.json: options is %q, want a folder below %q", n.Options, n.Module)
	}
	if path.Base(n.Image) != program {
		return Names{}, fmt.Errorf("names.json: image is %q, want a repository that ends in /%s", n.Image, program)
	}
	return n, nil
}

// Beside is a repository beside the image's, such as that of the injector.
func (n Names) Beside(name string) string { return path.Dir(n.Image) + "/" + name }

// repository is the owner and name of the repository, as GitHub's API has them.
func (n Names) repository() string { return strings.TrimPrefix(n.Homepage, "https://github.com/") }
