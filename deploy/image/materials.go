// SPDX-License-Identifier: Apache-2.0

package image

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// WriteMaterials writes what a binary is made of, as the Go linker noted it in
// the binary itself: every module with its version and checksum, and the
// standard library. The format is CycloneDX 1.6 in JSON.
func WriteMaterials(path string, p Program, o Options, binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("bill of materials: %w", err)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("bill of materials: %w", err)
	}
	sum := sha256.Sum256(content)
	subject := cdx.Component{
		BOMRef: "binary", Type: cdx.ComponentTypeApplication, Name: p.Name, Version: o.Version, Description: p.Description,
		PackageURL: modulePURL(info.Main.Path, o.Version) + "#" + strings.TrimPrefix(p.Package, "./"),
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		Properties: settings(info, o),
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	components := []cdx.Component{{
		BOMRef: modulePURL("std", goVersion), Type: cdx.ComponentTypeLibrary, Name: "std", Version: goVersion, PackageURL: modulePURL("std", goVersion),
	}}
	for _, module := range info.Deps {
		sumOf := module.Sum
		if module.Replace != nil {
			sumOf = module.Replace.Sum
		}
		c := cdx.Component{
			BOMRef: modulePURL(module.Path, module.Version), Type: cdx.ComponentTypeLibrary, Name: module.Path, Version: module.Version,
			PackageURL: modulePURL(module.Path, module.Version),
		}
		if sumOf != "" {
			c.Properties = &[]cdx.Property{{Name: "go:sum", Value: sumOf}}
		}
		components = append(components, c)
	}
	// The linker lists all modules and not who needs whom.
	refs := make([]string, 0, len(components))
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: o.Time.Format(time.RFC3339), Component: &subject}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: subject.BOMRef, Dependencies: &refs}}
	return writeBOM(path, bom)
}

// settings are what else decides about the binary's bytes.
func settings(info *buildinfo.BuildInfo, o Options) *[]cdx.Property {
	out := []cdx.Property{{Name: "go:version", Value: info.GoVersion}, {Name: "vcs:revision", Value: o.Commit}}
	for _, s := range info.Settings {
		out = append(out, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	return &out
}

func modulePURL(path, version string) string {
	return "pkg:golang/" + strings.ToLower(path) + "@" + strings.ReplaceAll(version, "+", "%2B")
}

func writeBOM(path string, bom *cdx.BOM) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("bill of materials: %w", err)
	}
	encoder := cdx.NewBOMEncoder(file, cdx.BOMFileFormatJSON).SetPretty(true)
	if err := errors.Join(encoder.EncodeVersion(bom, cdx.SpecVersion1_6), file.Close()); err != nil {
		return fmt.Errorf("bill of materials: %w", err)
	}
	return nil
}
