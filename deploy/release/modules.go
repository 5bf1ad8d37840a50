// SPDX-License-Identifier: Apache-2.0

package release

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// largestSource bounds what is unpacked of the repository. It has 25 MB.
const largestSource = 1 << 30

// modules writes both Go modules as a module proxy serves them, into the folder go. `go install` refuses a main module with
// replace, so the module that is released requires the annotations in their release.
func modules(ctx context.Context, o Options, work string) error {
	tree := filepath.Join(work, "tree")
	if err := o.unpack(ctx, tree); err != nil {
		return fmt.Errorf("modules: %w", err)
	}
	options := module.Version{Path: o.Names.Options, Version: "v" + o.Version}
	folder := strings.TrimPrefix(o.Names.Options, o.Names.Module+"/")
	// As Go does it of the repository: a module below a folder has the licence of the root.
	licence, err := os.ReadFile(filepath.Join(tree, "LICENSE"))
	if err != nil {
		return fmt.Errorf("modules: %w", err)
	}
	if err := writeFile(filepath.Join(tree, folder, "LICENSE"), licence); err != nil {
		return err
	}
	archive, err := o.writeModule(options, filepath.Join(tree, folder))
	if err != nil {
		return fmt.Errorf("modules: %w", err)
	}
	if err := releasedModule(tree, filepath.Join(tree, folder), options, archive); err != nil {
		return fmt.Errorf("modules: %w", err)
	}
	readme, err := readmeOf(tree)
	if err != nil {
		return fmt.Errorf("modules: %w", err)
	}
	if err := writeFile(filepath.Join(tree, "README.md"), readme); err != nil {
		return err
	}
	if _, err := o.writeModule(module.Version{Path: o.Names.Module, Version: "v" + o.Version}, tree); err != nil {
		return fmt.Errorf("modules: %w", err)
	}
	for _, name := range releasedFiles() {
		content, err := os.ReadFile(filepath.Join(tree, name))
		if err != nil {
			return fmt.Errorf("modules: %w", err)
		}
		if err := writeFile(filepath.Join(o.Out, "go", name), content); err != nil {
			return err
		}
	}
	return nil
}

// releasedFiles are those that differ from the commit's. `release tag` commits them.
func releasedFiles() []string { return []string{"go.mod", "go.sum", "README.md"} }

// unpack writes the tree of the commit into a folder.
func (o Options) unpack(ctx context.Context, folder string) error {
	cmd := exec.CommandContext(ctx, "git", "archive", "--format=tar", "HEAD")
	cmd.Dir = o.Root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("git archive: %w\n%s", err, stderr.String())
	}
	left := int64(largestSource)
	for r := tar.NewReader(bytes.NewReader(out)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("git archive: %w", err)
		}
		if header.Typeflag != tar.TypeReg || !filepath.IsLocal(header.Name) {
			continue
		}
		content, err := io.ReadAll(io.LimitReader(r, left+1))
		if err != nil {
			return fmt.Errorf("git archive: %w", err)
		}
		if left -= int64(len(content)); left < 0 {
			return fmt.Errorf("git archive: more than %d bytes", int64(largestSource))
		}
		if err := writeFile(filepath.Join(folder, header.Name), content); err != nil { //nolint:gosec // names are local, see above
			return err
		}
	}
}

// writeModule writes the files of one module of a proxy, and returns the path of its zip.
func (o Options) writeModule(m module.Version, folder string) (string, error) {
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return "", err
	}
	base := filepath.Join(o.Out, "go", "proxy", filepath.FromSlash(escaped), "@v", m.Version)
	var out bytes.Buffer
	if err := zip.CreateFromDir(&out, m, folder); err != nil {
		return "", fmt.Errorf("%s: %w", m, err)
	}
	info, err := json.Marshal(struct {
		Version string    `json:"Version"`
		Time    time.Time `json:"Time"`
	}{m.Version, o.Time})
	if err != nil {
		return "", err
	}
	goMod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return "", err
	}
	return base + ".zip", errors.Join(
		writeFile(base+".zip", out.Bytes()), writeFile(base+".info", info), writeFile(base+".mod", goMod),
		writeFile(filepath.Join(filepath.Dir(base), "list"), []byte(m.Version+"\n")))
}

// releasedModule changes go.mod and go.sum in the tree: the annotations are required in their release, and not replaced.
func releasedModule(tree, optionsFolder string, options module.Version, archive string) error {
	path := filepath.Join(tree, "go.mod")
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	file, err := modfile.Parse("go.mod", content, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(file.DropReplace(options.Path, ""), file.AddRequire(options.Path, options.Version)); err != nil {
		return err
	}
	file.Cleanup()
	for _, left := range file.Replace {
		return fmt.Errorf("go.mod replaces %s; `go install` refuses a module that does", left.Old.Path)
	}
	if content, err = file.Format(); err != nil {
		return err
	}
	sumOfZip, err := dirhash.HashZip(archive, dirhash.Hash1)
	if err != nil {
		return err
	}
	sumOfMod, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(optionsFolder, "go.mod"))
	})
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(tree, "go.sum"))
	if err != nil {
		return err
	}
	sums = fmt.Appendf(sums, "%s %s %s\n%s %s/go.mod %s\n", options.Path, options.Version, sumOfZip, options.Path, options.Version, sumOfMod)
	return errors.Join(writeFile(path, content), writeFile(filepath.Join(tree, "go.sum"), sums))
}
