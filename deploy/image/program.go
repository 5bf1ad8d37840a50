// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Program is what an image holds.
type Program struct {
	// Name is the program's file name in the root of the image, and the last part
	// of the image's name.
	Name string
	// Dir is the root of its module, Package the folder of its command below that,
	// such as "./cmd/sidecar".
	Dir, Package string
	// LDFlags go to the linker, after those that strip the binary.
	LDFlags string
	// Tags are build tags, separated by commas.
	Tags string
	// Title and Description say on the image what it is.
	Title, Description string
	// Ports are what it usually listens on, such as "8080/tcp".
	Ports []string
	// Server is its name in MCP's registry, empty where it has none. The registry looks for it in a label.
	Server string
	// Compiled is a folder with binaries that Compile has made, each in OS-ARCHITECTURE/NAME. Empty: they are compiled.
	Compiled string
}

// Binary is the file of a platform's binary in a folder of compiled ones.
func (p Program) Binary(folder string, platform v1.Platform) string {
	return filepath.Join(folder, platform.OS+"-"+platform.Architecture, p.Name)
}

// Compile builds the program for a platform into a file. A binary for Linux needs nothing but the kernel.
func (p Program) Compile(ctx context.Context, platform v1.Platform, out string) error {
	flags := strings.TrimSpace("-s -w -buildid= " + p.LDFlags)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", p.Tags, "-ldflags", flags, "-o", out, p.Package) //nolint:gosec // a build tool runs the compiler
	cmd.Dir = p.Dir
	cmd.Env = append(neutral(os.Environ()),
		"CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOOS="+platform.OS, "GOARCH="+platform.Architecture, "GOAMD64=v1", "GOARM64=v8.0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s for %s: %w\n%s", p.Package, platform, err, text)
	}
	if platform.OS != "linux" {
		return nil
	}
	return checkStatic(out)
}

// neutral drops the variables that would change the binary.
func neutral(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"CGO_ENABLED", "GOFLAGS", "GOEXPERIMENT", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "GOFIPS140"}, name)
	})
}

// checkStatic refuses a binary that needs a loader or a library, because there
// is none in the image.
func checkStatic(path string) error {
	file, err := elf.Open(filepath.Clean(path))
	if err != nil {
		return fmt.Errorf("the binary: %w", err)
	}
	var needs []string
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			needs = append(needs, "a loader")
		}
	}
	libraries, err := file.ImportedLibraries()
	needs = append(needs, libraries...)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("the binary: %w", err)
	}
	if len(needs) > 0 {
		return fmt.Errorf("the binary %s is not static, it needs %s; build it without cgo", filepath.Base(path), strings.Join(needs, ", "))
	}
	return nil
}
