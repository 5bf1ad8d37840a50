// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed formula.rb.tmpl
var formulaText string

// formula writes the Homebrew formula: one archive for each system and processor that Homebrew runs on.
func formula(o Options, _ binaries) error {
	page, err := template.New("formula").Option("missingkey=error").Parse(formulaText)
	if err != nil {
		return fmt.Errorf("formula: %w", err)
	}
	archives := map[string]map[string]string{}
	for _, platform := range o.Platforms {
		name := o.fileName(platform) + ".tar.gz"
		content, err := os.ReadFile(filepath.Join(o.Out, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // Windows
		}
		if err != nil {
			return fmt.Errorf("formula: %w", err)
		}
		digest := sha256.Sum256(content)
		if archives[platform.OS] == nil {
			archives[platform.OS] = map[string]string{}
		}
		archives[platform.OS][platform.Architecture] = fmt.Sprintf("url %q\n      sha256 %q",
			o.Names.Downloads+"/v"+o.Version+"/"+name, hex.EncodeToString(digest[:]))
	}
	var out bytes.Buffer
	err = page.Execute(&out, map[string]any{"Names": o.Names, "Version": o.Version, "Summary": summary, "Archives": archives})
	if err != nil {
		return fmt.Errorf("formula: %w", err)
	}
	return writeFile(filepath.Join(o.Out, "homebrew", o.Names.Package+".rb"), out.Bytes())
}
