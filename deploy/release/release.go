// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/outrigger-mcp/outrigger/deploy/image"
)

// Options say what is released, and where it goes.
type Options struct {
	// Names are those of names.json.
	Names Names
	// Root is the repository, Out the folder of the release. It is made, and must be empty.
	Root, Out string
	// Version is that of the release, such as 0.1.0.
	Version string
	// Commit is what it is built from, Time the commit's. Build takes both from Root where Commit is empty.
	Commit string
	Time   time.Time
	// Dirty admits a working tree with changes, for trying. The statement of provenance then says so.
	Dirty bool
	// Platforms are what to build for. Empty means all.
	Platforms []v1.Platform
	// Key is a PEM file with a private key (PKCS#8, Ed25519 or ECDSA) that signs the statement of provenance. Empty: a new key
	// signs it once, and is thrown away.
	Key string
}

// versionPattern is a semantic version without build metadata, which Docker and npm refuse or drop.
var versionPattern = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z]+(\.[0-9A-Za-z]+)*)?$`)

// binaries are what all packages are made of.
type binaries struct {
	program   image.Program
	documents extras
}

func (b binaries) read(p v1.Platform) ([]byte, error) {
	content, err := os.ReadFile(b.program.Binary(b.program.Compiled, p))
	if err != nil {
		return nil, fmt.Errorf("binary: %w", err)
	}
	return content, nil
}

// fileName is the name that files for a platform begin with.
func (o Options) fileName(p v1.Platform) string {
	return strings.Join([]string{o.Names.Package, o.Version, p.OS, p.Architecture}, "_")
}

// linux are the platforms with packages and images.
func (o Options) linux() []v1.Platform {
	return slices.DeleteFunc(slices.Clone(o.Platforms), func(p v1.Platform) bool { return p.OS != "linux" })
}

// Build makes the release.
func Build(ctx context.Context, o Options) error {
	o, err := o.checked(ctx)
	if err != nil {
		return err
	}
	if left, err := os.ReadDir(o.Out); err == nil && len(left) > 0 {
		return fmt.Errorf("the folder %s is not empty; remove what is in it, or name another", o.Out)
	}
	work, err := os.MkdirTemp("", "outrigger-release-")
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	err = build(ctx, o, work)
	return errors.Join(err, os.RemoveAll(work))
}

func build(ctx context.Context, o Options, work string) error {
	compiled, err := compile(ctx, o, work)
	if err != nil {
		return err
	}
	docs, err := documents(ctx, o, work)
	if err != nil {
		return err
	}
	b := binaries{program: compiled, documents: docs}
	for _, step := range []func(Options, binaries) error{archives, systemPackages, npmPackages, materials, formula} {
		if err := step(o, b); err != nil {
			return err
		}
	}
	if err := images(ctx, o, b); err != nil {
		return err
	}
	if err := modules(ctx, o, work); err != nil {
		return err
	}
	if err := charts(o); err != nil {
		return err
	}
	sums, err := writeSums(o)
	if err != nil {
		return err
	}
	return writeProvenance(o, sums)
}

// checked fills in what is left open, and reports all faults together.
func (o Options) checked(ctx context.Context) (Options, error) {
	var faults []error
	if !versionPattern.MatchString(o.Version) {
		faults = append(faults, fmt.Errorf("version is %q; want one such as 0.1.0 or 0.2.0-rc.1", o.Version))
	}
	if o.Out == "" {
		faults = append(faults, errors.New("there is no folder for the release; name one, such as dist"))
	}
	if len(o.Platforms) == 0 {
		o.Platforms = Platforms()
	}
	if o.Commit == "" {
		if err := o.fromGit(ctx); err != nil {
			faults = append(faults, err)
		}
	}
	o.Time = o.Time.UTC().Truncate(time.Second)
	return o, errors.Join(faults...)
}

// fromGit takes commit and time from the repository.
func (o *Options) fromGit(ctx context.Context) error {
	changes, err := o.git(ctx, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" && !o.Dirty {
		return fmt.Errorf("the working tree has changes; commit them, or try with -dirty:\n%s", changes)
	}
	if o.Commit, err = o.git(ctx, "rev-parse", "HEAD"); err != nil {
		return err
	}
	at, err := o.git(ctx, "log", "-1", "--format=%cI")
	if err != nil {
		return err
	}
	if o.Time, err = time.Parse(time.RFC3339, at); err != nil {
		return fmt.Errorf("time of the commit: %w", err)
	}
	o.Dirty = changes != ""
	return nil
}

func (o *Options) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...) //nolint:gosec // git, with arguments of this package
	cmd.Dir = o.Root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// images builds the images of the sidecar and the injector for all Linux platforms.
func images(ctx context.Context, o Options, b binaries) error {
	if len(o.linux()) == 0 {
		return nil
	}
	sidecar := b.program
	sidecar.Server = o.Names.Server
	for _, p := range []image.Program{sidecar, image.Injector(o.Root, o.Version, o.Commit)} {
		work, err := os.MkdirTemp("", "outrigger-image-")
		if err != nil {
			return fmt.Errorf("image: %w", err)
		}
		built, err := image.Build(ctx, p, image.Options{
			Repository: path.Dir(o.Names.Image), Version: o.Version, Commit: o.Commit, Time: o.Time, Platforms: o.linux(), Out: work,
		})
		if err != nil {
			return errors.Join(err, os.RemoveAll(work))
		}
		content, err := os.ReadFile(built.Archive)
		if err != nil {
			return errors.Join(fmt.Errorf("image: %w", err), os.RemoveAll(work))
		}
		if err := errors.Join(writeFile(o.imageArchive(p.Name), content), os.RemoveAll(work)); err != nil {
			return err
		}
	}
	return nil
}

// imageArchive is the archive of a program's image.
func (o Options) imageArchive(name string) string {
	if name != program {
		name += "_image"
	} else {
		name = "image"
	}
	return filepath.Join(o.Out, o.Names.Package+"_"+o.Version+"_"+name+".oci.tar")
}

// sum is a file of the release with its SHA-256.
type sum struct{ name, digest string }

// sumsFile has the sums. Those of what is uploaded to GitHub, where names have no folder, are in githubSums.
const (
	sumsFile   = "SHA256SUMS"
	githubSums = "github/" + sumsFile
)

// summed reports whether a file has a sum: all have but the sums themselves, and what is signed over them.
func summed(name string) bool {
	return name != sumsFile && name != statementFile && name != keyFile
}

// sumsOf are the sums of all files below the folder, by name.
func sumsOf(folder string) ([]sum, error) {
	var sums []sum
	root := os.DirFS(folder)
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !summed(path) {
			return err
		}
		content, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		digest := sha256.Sum256(content)
		sums = append(sums, sum{path, hex.EncodeToString(digest[:])})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sums: %w", err)
	}
	return sums, nil
}

// textOf is what `sha256sum --check` reads.
func textOf(sums []sum) []byte {
	var text []byte
	for _, s := range sums {
		text = fmt.Appendf(text, "%s  %s\n", s.digest, s.name)
	}
	return text
}

// writeSums writes both files of sums, and returns the sums of everything.
func writeSums(o Options) ([]sum, error) {
	sums, err := sumsOf(o.Out)
	if err != nil {
		return nil, err
	}
	uploads, err := o.uploads()
	if err != nil {
		return nil, err
	}
	flat := slices.DeleteFunc(slices.Clone(sums), func(s sum) bool { return !slices.Contains(uploads, s.name) })
	for i := range flat {
		flat[i].name = path.Base(flat[i].name)
	}
	if err := writeFile(filepath.Join(o.Out, githubSums), textOf(flat)); err != nil {
		return nil, err
	}
	if sums, err = sumsOf(o.Out); err != nil {
		return nil, err
	}
	return sums, writeFile(filepath.Join(o.Out, sumsFile), textOf(sums))
}

// uploads are the files that GitHub gets, by their names in the folder. There, all are in one folder.
func (o Options) uploads() ([]string, error) {
	var out []string
	root := os.DirFS(o.Out)
	for _, folder := range []string{".", "sbom", "homebrew", "github"} {
		entries, err := fs.ReadDir(root, folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("uploads: %w", err)
		}
		for _, e := range entries {
			if name := path.Join(folder, e.Name()); !e.IsDir() && name != sumsFile {
				out = append(out, name)
			}
		}
	}
	return out, nil
}
