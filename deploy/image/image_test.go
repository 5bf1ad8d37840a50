// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const (
	version = "1.2.3-test"
	commit  = "0123456789ab"
)

func commitTime() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 678, time.FixedZone("far", 3600)) }

func sidecar(t *testing.T) Program {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return Sidecar(root, version, commit)
}

func options(out string) Options {
	return Options{Repository: "registry.example/outrigger", Version: version, Commit: commit, Time: commitTime(), Out: out}
}

// TestSidecar builds the sidecar's image for every platform, twice in different
// folders, and reads the archive back with the library: names, platforms,
// configuration, the one file in it, and what that file is. The binary for this
// machine runs.
func TestSidecar(t *testing.T) {
	program, first, second := sidecar(t), t.TempDir(), t.TempDir()
	built, err := Build(t.Context(), program, options(first))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Build(t.Context(), program, options(second))
	if err != nil {
		t.Fatal(err)
	}
	sameFiles(t, first, second)
	if built.Digest != again.Digest || built.Reference != "registry.example/outrigger/sidecar:"+version {
		t.Errorf("built %+v and then %+v", built, again)
	}

	index := load(t, built)
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	machines := map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64}
	if len(manifest.Manifests) != len(machines) || len(built.Materials) != len(machines) {
		t.Fatalf("%d images and %d bills of materials, want %d", len(manifest.Manifests), len(built.Materials), len(machines))
	}
	for i, descriptor := range manifest.Manifests {
		platform := descriptor.Platform.String()
		t.Run(platform, func(t *testing.T) {
			img, err := index.Image(descriptor.Digest)
			if err != nil {
				t.Fatal(err)
			}
			checkConfig(t, img, platform)
			binary := binaryOf(t, img)
			file, err := elf.NewFile(bytes.NewReader(binary))
			if err != nil {
				t.Fatal(err)
			}
			if file.Machine != machines[platform] {
				t.Errorf("the binary is for %v", file.Machine)
			}
			checkMaterials(t, built.Materials[i], binary)
			if platform == runtime.GOOS+"/"+runtime.GOARCH {
				checkRuns(t, binary)
			}
		})
	}
}

// sameFiles compares all files of two folders byte by byte.
func sameFiles(t *testing.T, a, b string) {
	t.Helper()
	entries, err := os.ReadDir(a)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadDir(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(other) || len(entries) == 0 {
		t.Fatalf("%d files, then %d", len(entries), len(other))
	}
	for _, entry := range entries {
		one, err := os.ReadFile(filepath.Join(a, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		two, err := os.ReadFile(filepath.Join(b, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one, two) {
			t.Errorf("%s differs between two builds", entry.Name())
		}
	}
}

// load unpacks an archive and returns the one index that it holds, validated:
// every digest, size and media type is what the index says.
func load(t *testing.T, built Built) v1.ImageIndex {
	t.Helper()
	file, err := os.Open(built.Archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	folder := t.TempDir()
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(commitTime().Truncate(time.Second)) || header.Uid != 0 || header.Uname != "" {
			t.Errorf("%s has time %v and owner %d %q", header.Name, header.ModTime, header.Uid, header.Uname)
		}
		path := filepath.Join(folder, header.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("the archive has %d images", len(manifest.Manifests))
	}
	only := manifest.Manifests[0]
	if only.Digest.String() != built.Digest || only.Annotations["io.containerd.image.name"] != built.Reference ||
		only.Annotations["org.opencontainers.image.ref.name"] != version {
		t.Errorf("the archive says %+v, built was %+v", only, built)
	}
	index, err := root.ImageIndex(only.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Fatal(err)
	}
	return index
}

func checkConfig(t *testing.T, img v1.Image, platform string) {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := config.OS + "/" + config.Architecture; got != platform {
		t.Errorf("the configuration is for %s", got)
	}
	c := config.Config
	if c.User != "65532:65532" || len(c.Entrypoint) != 1 || c.Entrypoint[0] != "/sidecar" || len(c.Cmd) != 0 || len(c.Env) != 0 {
		t.Errorf("user %q, entrypoint %q, command %q, environment %q", c.User, c.Entrypoint, c.Cmd, c.Env)
	}
	if c.Labels["org.opencontainers.image.revision"] != commit || c.Labels["org.opencontainers.image.version"] != version {
		t.Errorf("labels %v", c.Labels)
	}
	if want := commitTime().Truncate(time.Second); !config.Created.Equal(want) {
		t.Errorf("created %v, want %v", config.Created, want)
	}
}

// binaryOf returns the only file of an image.
func binaryOf(t *testing.T, img v1.Image) []byte {
	t.Helper()
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers (%v), want one", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	r := tar.NewReader(content)
	header, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if header.Name != "sidecar" || header.Mode != 0o755 || header.Uid != 0 {
		t.Errorf("the file is %q, mode %o, owner %d", header.Name, header.Mode, header.Uid)
	}
	binary, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if header, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("the image also has %v (%v)", header, err)
	}
	return binary
}

// checkMaterials reads a bill of materials back and looks for what must be in
// it: this very binary, and modules that the sidecar cannot do without.
func checkMaterials(t *testing.T, path string, binary []byte) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	bom := new(cdx.BOM)
	if err := cdx.NewBOMDecoder(file, cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(binary)
	subject := bom.Metadata.Component
	if subject.Hashes == nil || (*subject.Hashes)[0].Value != hex.EncodeToString(sum[:]) {
		t.Errorf("%s is not of this binary: %+v", path, subject)
	}
	sums := map[string]string{}
	for _, c := range *bom.Components {
		sums[c.Name] = c.Version
		if c.Properties != nil {
			sums[c.Name] += " " + (*c.Properties)[0].Value
		}
	}
	if want := strings.TrimPrefix(runtime.Version(), "go"); sums["std"] != want {
		t.Errorf("the standard library is %q, want %q", sums["std"], want)
	}
	for _, module := range []string{"connectrpc.com/connect", "google.golang.org/protobuf", "github.com/spf13/cobra"} {
		if !strings.Contains(sums[module], " h1:") {
			t.Errorf("%s has no version and sum: %q", module, sums[module])
		}
	}
}

// checkRuns starts the binary with nothing around it.
func checkRuns(t *testing.T, binary []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sidecar")
	if err := os.WriteFile(path, binary, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, "version")
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), version) || !strings.Contains(string(out), commit) {
		t.Errorf("version says %q (%v), want %s and %s", out, err, version, commit)
	}
}

// TestRefusals has builds that cannot work. Each says why, and leaves no
// archive.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Program, *Options)
		want   []string
	}{
		"nothing given": {
			func(_ *Program, o *Options) { *o = Options{} },
			[]string{"no repository", "no version", "no time", "no folder"},
		},
		"no such command": {
			func(p *Program, _ *Options) { p.Package = "./cmd/nothing" },
			[]string{"compile ./cmd/nothing for linux/amd64"},
		},
		"no such platform": {
			func(_ *Program, o *Options) { o.Platforms = []v1.Platform{{OS: "linux", Architecture: "abacus"}} },
			[]string{"compile ./cmd/sidecar for linux/abacus", "unsupported GOOS/GOARCH"},
		},
		"no command": {
			func(p *Program, o *Options) {
				p.Package, o.Platforms = "./internal/layout", []v1.Platform{{OS: "linux", Architecture: "amd64"}}
			},
			[]string{"the binary"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, o := sidecar(t), options(t.TempDir())
			out := o.Out
			tc.change(&program, &o)
			_, err := Build(t.Context(), program, o)
			if err == nil {
				t.Fatal("it was built")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(out, "*")); len(left) > 0 {
				t.Errorf("it left %v", left)
			}
		})
	}
}

// TestStatic tells binaries that need a loader from those that need nothing.
func TestStatic(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no shell to look at")
	}
	if err := checkStatic(shell); err == nil || !strings.Contains(err.Error(), "is not static") {
		t.Errorf("the shell is refused with %v", err)
	}
}
