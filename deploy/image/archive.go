// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// writeArchive writes an index as an OCI layout, and the layout as a tar.
// Container engines find the image's name in the annotations.
func writeArchive(built Built, o Options, index v1.ImageIndex, folder string) error {
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return fmt.Errorf("layout: %w", err)
	}
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": o.Version,
		"io.containerd.image.name":          built.Reference,
	}))
	if err != nil {
		return fmt.Errorf("layout: %w", err)
	}
	part := built.Archive + ".part"
	file, err := os.Create(part)
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	if err := errors.Join(pack(file, folder, o.Time), file.Close()); err != nil {
		return errors.Join(fmt.Errorf("archive: %w", err), os.Remove(part))
	}
	if err := os.Rename(part, built.Archive); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	return nil
}

// pack writes the files of a folder as a tar, in the order of their names, with
// nothing of the machine: one time, one owner, one mode.
func pack(out io.Writer, folder string, at time.Time) error {
	w := tar.NewWriter(out)
	root := os.DirFS(folder)
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: filepath.ToSlash(path), Mode: 0o644, Size: int64(len(content)), ModTime: at, Format: tar.FormatPAX,
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	return errors.Join(err, w.Close())
}
