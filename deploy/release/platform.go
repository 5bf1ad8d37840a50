// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/outrigger-mcp/outrigger/deploy/image"
)

const (
	// program is the name of the binary.
	program = "sidecar"
	// injector is the program of the webhook, of which only an image is released.
	injector = "injector"
)

// Platforms are what a release is built for.
func Platforms() []v1.Platform {
	var out []v1.Platform
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, architecture := range []string{"amd64", "arm64"} {
			out = append(out, v1.Platform{OS: system, Architecture: architecture})
		}
	}
	return out
}

// ParsePlatforms reads a list such as "linux/amd64,darwin/arm64". Only those of Platforms are known.
func ParsePlatforms(list string) ([]v1.Platform, error) {
	var out []v1.Platform
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(Platforms(), func(p v1.Platform) bool { return p.String() == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("platform %q is unknown; want some of %v", name, Platforms())
		}
		out = append(out, Platforms()[i])
	}
	return out, nil
}

// fileName is the binary's name inside of packages.
func fileName(p v1.Platform) string {
	if p.OS == "windows" {
		return program + ".exe"
	}
	return program
}

// extras are files that are the same on all platforms, by their path in an archive.
type extras map[string][]byte

// compile builds the binaries of all platforms into work.
func compile(ctx context.Context, o Options, work string) (image.Program, error) {
	p := image.Sidecar(o.Root, o.Version, o.Commit)
	p.Compiled = work
	for _, platform := range o.Platforms {
		if err := p.Compile(ctx, platform, p.Binary(work, platform)); err != nil {
			return p, err
		}
	}
	return p, nil
}

// documents makes what goes beside the binary: licence, README, manual pages and completion.
// A second binary for this machine writes them, because only it has the generator of manual pages.
func documents(ctx context.Context, o Options, work string) (extras, error) {
	licence, err := os.ReadFile(filepath.Join(o.Root, "LICENSE"))
	if err != nil {
		return nil, fmt.Errorf("documents: %w", err)
	}
	readme, err := readmeOf(o.Root)
	if err != nil {
		return nil, fmt.Errorf("documents: %w", err)
	}
	out := extras{"LICENSE": licence, "README.md": readme}
	p := image.Sidecar(o.Root, o.Version, o.Commit)
	p.Tags += ",man"
	writer := filepath.Join(work, "writer")
	if err := p.Compile(ctx, v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}, writer); err != nil {
		return nil, err
	}
	pages := filepath.Join(work, "man")
	if _, err := o.output(ctx, writer, program, "man", pages); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(pages, "*.1"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(errors.New("documents: there are no manual pages"), err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("documents: %w", err)
		}
		out["man/"+filepath.Base(file)] = content
	}
	for shell, file := range map[string]string{"bash": program + ".bash", "zsh": "_" + program, "fish": program + ".fish", "powershell": program + ".ps1"} {
		if out["completions/"+file], err = o.output(ctx, writer, program, "completion", shell); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// What is between these lines of the README is true until a release is published, and is left out of what is released.
const unreleasedBegin, unreleasedEnd = "<!-- until it is published -->\n", "<!-- from then on -->\n"

// readmeOf is the README of a release.
func readmeOf(root string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		return nil, err
	}
	before, rest, found := strings.Cut(string(content), unreleasedBegin)
	if !found {
		return content, nil
	}
	_, after, found := strings.Cut(rest, unreleasedEnd)
	if !found {
		return nil, fmt.Errorf("README.md has a line %q and no line %q after it; add it", strings.TrimSpace(unreleasedBegin), strings.TrimSpace(unreleasedEnd))
	}
	return []byte(before + after), nil
}

// output runs a binary under another name and returns what it prints. Its clock is that of the commit, and it sees nothing else of
// the builder's environment, because the sidecar's variables would become defaults in what it writes.
func (o Options) output(ctx context.Context, binary, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, binary, args...) //nolint:gosec // a binary that was built a moment ago
	cmd.Args[0] = name
	cmd.Env = []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", o.Time.Unix())}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return out, nil
}
