// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

const (
	summary    = "Sidecar that makes every RPC of a Protobuf service a tool for agents"
	maintainer = "Outrigger maintainers <maintainers@outrigger.dev>"
)

// systemPackages writes a .deb and an .rpm for every Linux platform.
func systemPackages(o Options, b binaries) error {
	work, err := os.MkdirTemp("", "outrigger-packages-")
	if err != nil {
		return fmt.Errorf("packages: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	for name, content := range b.documents {
		if err := writeFile(filepath.Join(work, name), content); err != nil {
			return err
		}
	}
	for _, platform := range o.linux() {
		for format, packager := range map[string]nfpm.Packager{"deb": deb.Default, "rpm": &rpm.RPM{}} {
			// The packager changes what it is given.
			info := nfpm.WithDefaults(&nfpm.Info{
				Name: o.Names.Package, Arch: platform.Architecture, Platform: "linux", Version: o.Version, Section: "net", Priority: "optional",
				Maintainer: maintainer, Description: summary, Homepage: o.Names.Homepage, License: "Apache-2.0", MTime: o.Time, DisableGlobbing: true,
				Overridables: nfpm.Overridables{
					Contents: packaged(o, work, b.program.Binary(b.program.Compiled, platform), b.documents),
					RPM:      nfpm.RPM{BuildHost: "localhost", Summary: summary, Group: "Applications/Internet"},
				},
			})
			var out bytes.Buffer
			if err := packager.Package(info, &out); err != nil {
				return fmt.Errorf("%s for %s: %w", format, platform, err)
			}
			if err := writeFile(filepath.Join(o.Out, o.fileName(platform)+"."+format), out.Bytes()); err != nil {
				return err
			}
		}
	}
	return nil
}

// packaged are the files of a system package. The binary has the name of the package too, by a link.
func packaged(o Options, work, binary string, documents extras) files.Contents {
	file := func(source, destination string, mode os.FileMode) *files.Content {
		return &files.Content{Source: source, Destination: destination, FileInfo: &files.ContentFileInfo{Mode: mode, MTime: o.Time, Owner: "root", Group: "root"}}
	}
	out := files.Contents{
		file(binary, "/usr/bin/"+program, 0o755),
		&files.Content{
			Source: program, Destination: "/usr/bin/" + o.Names.Package, Type: files.TypeSymlink,
			FileInfo: &files.ContentFileInfo{MTime: o.Time, Owner: "root", Group: "root"},
		},
	}
	for _, name := range slices.Sorted(maps.Keys(documents)) {
		folder, base := filepath.Split(name)
		var to string
		switch {
		case folder == "":
			to = "/usr/share/doc/" + o.Names.Package + "/" + base
		case folder == "man/":
			to = "/usr/share/man/man1/" + base
		case strings.HasSuffix(base, ".bash"):
			to = "/usr/share/bash-completion/completions/" + program
		case strings.HasSuffix(base, ".fish"):
			to = "/usr/share/fish/vendor_completions.d/" + base
		case strings.HasPrefix(base, "_"):
			to = "/usr/share/zsh/vendor-completions/" + base
		default:
			continue // PowerShell has no folder for them
		}
		out = append(out, file(filepath.Join(work, name), to, 0o644))
	}
	return out
}
