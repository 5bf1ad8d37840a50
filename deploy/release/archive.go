// SPDX-License-Identifier: Apache-2.0

package release

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// entry is one file of an archive.
type entry struct {
	content    []byte
	executable bool
}

func (e entry) mode() int64 {
	if e.executable {
		return 0o755
	}
	return 0o644
}

// contents are the files of an archive by their path.
type contents map[string]entry

func (c contents) add(under string, files extras) {
	for name, content := range files {
		c[under+name] = entry{content: content}
	}
}

// writeTar writes a compressed tar with nothing of the machine: sorted names, one time, one owner.
func (c contents) writeTar(out io.Writer, at time.Time) error {
	compressor := gzip.NewWriter(out)
	return errors.Join(c.writePlainTar(compressor, at), compressor.Close())
}

// writePlainTar does the same without compression.
func (c contents) writePlainTar(out io.Writer, at time.Time) error {
	w := tar.NewWriter(out)
	for _, name := range slices.Sorted(maps.Keys(c)) {
		e := c[name]
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: e.mode(), Size: int64(len(e.content)), ModTime: at, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(e.content); err != nil {
			return err
		}
	}
	return w.Close()
}

// writeZip does the same as a zip.
func (c contents) writeZip(out io.Writer, at time.Time) error {
	w := zip.NewWriter(out)
	for _, name := range slices.Sorted(maps.Keys(c)) {
		header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: at}
		header.SetMode(fs.FileMode(c[name].mode()))
		file, err := w.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := file.Write(c[name].content); err != nil {
			return err
		}
	}
	return w.Close()
}

// writeFile writes a file below a folder, which is made.
func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // a release is for everybody to read
		return fmt.Errorf("write: %w", err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil { //nolint:gosec // a release is for everybody to read
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// archives writes an archive a platform: a folder with the binary and what belongs to it.
func archives(o Options, b binaries) error {
	for _, platform := range o.Platforms {
		folder := o.fileName(platform)
		all := contents{}
		all.add(folder+"/", b.documents)
		binary, err := b.read(platform)
		if err != nil {
			return err
		}
		all[folder+"/"+fileName(platform)] = entry{content: binary, executable: true}
		var out bytes.Buffer
		name, write := folder+".tar.gz", all.writeTar
		if platform.OS == "windows" {
			name, write = folder+".zip", all.writeZip
		}
		if err := write(&out, o.Time); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := writeFile(filepath.Join(o.Out, name), out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
