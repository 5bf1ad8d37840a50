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

// Store keeps the last catalog across restarts, as DIR/catalog/last.json, which `sidecar diff` can read too. For a
// meaningful comparison, only one process at a time may use a directory. Two processes do not corrupt the file, since it
// is replaced as a whole.
type Store struct {
	// Dir is the record directory. It is created if it does not exist.
	Dir    string
	Limits Limits
	// Version is the version of the program: another version may derive other schemas from the same catalog.
	Version string
}

// Path returns the path of the file.
func (s Store) Path() string { return filepath.Join(s.Dir, storeFolder, storeFile) }

// Load returns the tools that were saved last, sorted by name; nil and no error if there are none. A file that is not a
// list of tools is a wrapped *FormatError: the next Watch replaces it.
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

// Watch compares a catalog with the one that was saved last, and saves it. It returns findings even with an error: if
// the last list cannot be read, there is nothing to compare with, and if it cannot be replaced, the next call compares
// with it again. Neither should prevent a server from starting. If the context ends, the saved list stays unchanged.
//
// It costs nothing if the catalog equals the saved one. Otherwise it holds few tools at a time: their schemas, which are
// derived for it, take many times the memory of the catalog.
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
