// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"

	"github.com/outrigger-mcp/outrigger/deploy/image"
)

// materials writes what each binary is made of, as the linker noted it in the binary: in CycloneDX and in SPDX.
func materials(o Options, b binaries) error {
	folder := filepath.Join(o.Out, "sbom")
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // a release is for everybody to read
		return fmt.Errorf("bill of materials: %w", err)
	}
	for _, platform := range o.Platforms {
		name, binary := filepath.Join(folder, o.fileName(platform)), b.program.Binary(b.program.Compiled, platform)
		if err := image.WriteMaterials(name+".cdx.json", b.program, image.Options{Version: o.Version, Commit: o.Commit, Time: o.Time}, binary); err != nil {
			return err
		}
		document, err := spdxOf(o, platform.String(), binary)
		if err != nil {
			return fmt.Errorf("bill of materials: %w", err)
		}
		var out bytes.Buffer
		if err := spdxjson.Write(document, &out, spdxjson.Indent("  ")); err != nil {
			return fmt.Errorf("bill of materials: %w", err)
		}
		if err := writeFile(name+".spdx.json", out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// spdxOf describes a binary as SPDX 2.3 does: a package that depends on the packages linked into it.
func spdxOf(o Options, platform, binary string) (*spdx.Document, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	root := spdxPackage("binary", o.Names.Module, o.Version)
	root.PackageFileName, root.PackageLicenseDeclared, root.PrimaryPackagePurpose = program, "Apache-2.0", "APPLICATION"
	root.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: digest}}
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: program + " " + o.Version + " " + platform,
		// The namespace must be unique for each document; the binary's sum is.
		DocumentNamespace: o.Names.Homepage + "/spdx/" + digest,
		CreationInfo: &spdx.CreationInfo{
			Created: o.Time.Format(time.RFC3339), Creators: []common.Creator{{CreatorType: "Tool", Creator: o.Names.Package + "-release-" + o.Version}},
		},
		Packages: []*spdx.Package{root},
		Relationships: []*spdx.Relationship{{
			RefA: common.MakeDocElementID("", "DOCUMENT"), RefB: common.MakeDocElementID("", "binary"), Relationship: common.TypeRelationshipDescribe,
		}},
	}
	add := func(name, version string) {
		p := spdxPackage(fmt.Sprintf("module-%d", len(document.Packages)), name, version)
		document.Packages = append(document.Packages, p)
		document.Relationships = append(document.Relationships, &spdx.Relationship{
			RefA: common.MakeDocElementID("", "binary"), RefB: common.MakeDocElementID("", string(p.PackageSPDXIdentifier)), Relationship: common.TypeRelationshipDependsOn,
		})
	}
	add("std", strings.TrimPrefix(info.GoVersion, "go"))
	for _, module := range info.Deps {
		add(module.Path, module.Version)
	}
	return document, nil
}

func spdxPackage(id, name, version string) *spdx.Package {
	return &spdx.Package{
		PackageSPDXIdentifier: common.ElementID(id), PackageName: name, PackageVersion: version, PackageDownloadLocation: "NOASSERTION",
		PackageLicenseConcluded: "NOASSERTION", PackageLicenseDeclared: "NOASSERTION", PackageCopyrightText: "NOASSERTION", IsFilesAnalyzedTagPresent: true,
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
			Locator: "pkg:golang/" + strings.ToLower(name) + "@" + strings.ReplaceAll(version, "+", "%2B"),
		}},
	}
}
