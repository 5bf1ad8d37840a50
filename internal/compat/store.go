// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// Where the last catalog stands within the record folder.
const (
	storeFolder = "catalog"
	storeFile   = "last.json"
)

// Store keeps the last catalog across restarts, as DIR/catalog/last.json, which `sidecar diff` reads too. One process
// at a time may use a folder for the comparison to mean something; two do no harm to the file, since it is replaced as a
// whole.
type Store struct {
	// Dir is the record folder. It is made where it does not exist.
	Dir    string
	Limits Limits
	// Version is the program's: another one may derive other schemas of the same catalog.
	Version string
}

// Path is the file's path.
func (s Store) Path() string { return filepath.Join(s.Dir, storeFolder, storeFile) }

// Load returns the tools that were saved last, by name; nil and no error where none were. A file that is no list of
// tools is a *FormatError, wrapped: the next Save replaces it.
func (s Store) Load() ([]Tool, error) {
	raw, err := s.read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read last catalog: %w", err)
	}
	tools, err := ReadTools(raw, s.Limits)
	if err != nil {
		return nil, fmt.Errorf("read last catalog: %s: %w", s.Path(), err)
	}
	return tools, nil
}

func (s Store) read() ([]byte, error) {
	info, err := os.Stat(s.Path())
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", s.Path()) // Opening a pipe would wait for its other end.
	}
	f, err := os.Open(s.Path())
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	most := s.Limits.withDefaults().MaxBytes
	raw, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > most {
		return nil, &FormatError{Reason: fmt.Sprintf("it has more than %d bytes", most)}
	}
	return raw, nil
}

// syncFolder makes a renaming survive a crash of the machine.
func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Watch compares a catalog with the one that was saved last, and saves it. The findings are also there where an error
// is: a last list that cannot be read leaves nothing to compare with, and one that cannot be replaced will be compared
// with again. Neither should keep a server from starting. A context that ends leaves the saved list as it is.
//
// It costs nothing where the catalog is the one that was saved, and holds few tools at a time otherwise: their schemas,
// which are derived for it, take many times the memory of the catalog.
func (s Store) Watch(ctx context.Context, c *catalog.Catalog) ([]Finding, error) {
	mark := s.mark(c)
	if s.holds(mark) {
		return nil, nil
	}
	before, loadErr := s.Load()
	was := make(map[string]Tool, len(before))
	for _, t := range before {
		was[t.Name] = t
	}
	var olds, changed []Tool
	out := s.create(mark)
	for _, t := range sorted(c) {
		if ctx.Err() != nil {
			out.abandon()
			return nil, errors.Join(loadErr, fmt.Errorf("list the tools: %w", context.Cause(ctx)))
		}
		tool := fromTool(t)
		out.add(tool)
		if old, ok := was[tool.Name]; ok && (tool.Fingerprint == "" || old.Fingerprint != tool.Fingerprint) {
			olds, changed = append(olds, old), append(changed, tool)
		}
	}
	return CheckVersions(olds, changed, s.Limits), errors.Join(loadErr, out.commit())
}

// mark stands for a catalog and the version that derives its schemas.
func (s Store) mark(c *catalog.Catalog) string {
	sum := sha256.Sum256([]byte(s.Version + "\x00" + c.Fingerprint()))
	return hex.EncodeToString(sum[:])
}

// holds reports whether the saved list is that of a mark.
func (s Store) holds(mark string) bool {
	if info, err := os.Stat(s.Path()); err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(s.Path())
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	want := listHead(mark)
	got := make([]byte, len(want))
	_, err = io.ReadFull(f, got)
	return err == nil && string(got) == want
}

// listHead is how a saved list begins.
func listHead(mark string) string { return `{"catalog":"` + mark + `","tools":[` }
