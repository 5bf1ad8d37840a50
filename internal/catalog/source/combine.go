// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
)

// maxSets bounds the descriptor sets of one source that has several.
const maxSets = 256

// set is one descriptor set of several.
type set struct {
	// name is for errors.
	name string
	open func() (io.ReadCloser, error)
}

// combined are the files of several descriptor sets, once each.
type combined struct {
	files map[string]*combinedFile
	paths []string // in the order in which they came
}

// combinedFile is a file, and what is known of it.
type combinedFile struct {
	file     *descriptorpb.FileDescriptorProto
	set      string
	isImport bool // in every set that has it
}

// readSets reads several descriptor sets as one. A file may be in more than one of them; two copies that differ in more than
// comments are an error, except those that come with every compiler.
func readSets(ctx context.Context, source string, sets []set, l Limits) (*Loaded, error) {
	out := &Loaded{Source: source, Static: true}
	if len(sets) > maxSets {
		return nil, &errBroken{fmt.Errorf("it has more than %d descriptor sets; put several into one with `buf build -o`", maxSets)}
	}
	c, left := &combined{files: map[string]*combinedFile{}}, int64(l.MaxBytes)
	for _, s := range sets {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		loaded, err := s.read(&left, l)
		if err != nil {
			return nil, err
		}
		out.Warnings = append(out.Warnings, loaded.Warnings...)
		if err := c.add(s.name, loaded); err != nil {
			return nil, err
		}
		if len(c.paths) > l.MaxFiles {
			return nil, &errBroken{fmt.Errorf("it has more than %d files, the limit for one source", l.MaxFiles)}
		}
	}
	for _, path := range c.paths {
		f := c.files[path]
		out.Files = append(out.Files, f.file)
		if f.isImport {
			out.Imported = append(out.Imported, path)
		}
	}
	return out, nil
}

// read reads the set. It takes its size from what is left.
func (s set) read(left *int64, l Limits) (*Loaded, error) {
	in, err := s.open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	defer func() { _ = in.Close() }()
	loaded, err := readSet(s.name, &sharing{from: in, left: left, most: l.MaxBytes}, l, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return loaded, nil
}

// add takes the files of a set.
func (c *combined) add(set string, loaded *Loaded) error {
	imported := make(map[string]bool, len(loaded.Imported))
	for _, path := range loaded.Imported {
		imported[path] = true
	}
	for _, f := range loaded.Files {
		path := f.GetName()
		before, ok := c.files[path]
		if !ok {
			c.files[path], c.paths = &combinedFile{f, set, imported[path]}, append(c.paths, path)
			continue
		}
		before.isImport = before.isImport && imported[path]
		switch {
		case SameFile(before.file, f):
			if before.file.GetSourceCodeInfo() == nil {
				before.file = f
			}
		case strings.HasPrefix(path, "google/protobuf/"):
			// Compilers of different versions bring their own copies. The first one is used.
		default:
			return &errBroken{fmt.Errorf("%s and %s have different copies of %s; build both from the same version of it",
				before.set, set, shown.Clip(path))}
		}
	}
	return nil
}

// sharing reads one of several inputs that have a limit together.
type sharing struct {
	from io.Reader
	left *int64
	most int
}

func (s *sharing) Read(into []byte) (int, error) {
	n, err := s.from.Read(into)
	if *s.left -= int64(n); *s.left < 0 {
		return 0, fmt.Errorf("the descriptor sets have more than %d bytes together, the limit for one source (limits.max_descriptor_bytes)", s.most)
	}
	return n, err
}

// isBroken reports whether an error is about the content.
func isBroken(err error) bool {
	var broken *errBroken
	return errors.As(err, &broken)
}

// setSuffixes are the names that descriptor sets have, gzipped or not.
func setSuffixes() []string { return []string{".binpb", ".pb", ".desc"} }

// IsSetName reports whether a file is a descriptor set by its name: it ends in .binpb, .pb or .desc, with or without .gz behind that.
func IsSetName(name string) bool {
	name = strings.TrimSuffix(name, ".gz")
	for _, suffix := range setSuffixes() {
		if strings.HasSuffix(name, suffix) && len(name) > len(suffix) {
			return true
		}
	}
	return false
}
