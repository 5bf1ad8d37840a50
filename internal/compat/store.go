// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"bytes"
	"context"
	"encoding/json"
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
		return nil, &FormatError{Reason: fmt.Sprintf("it holds more than %d bytes", most)}
	}
	return raw, nil
}

// saveTools replaces what is kept. Readers of the file see the old list or the new one, also after a crash. A list over
// the limit is refused, and the old one stays.
func (s Store) saveTools(tools []Tool) error {
	if err := s.save(tools); err != nil {
		return fmt.Errorf("save last catalog: %w", err)
	}
	return nil
}

func (s Store) save(tools []Tool) error {
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(map[string]any{"tools": tools}); err != nil {
		return err
	}
	if most := s.Limits.withDefaults().MaxBytes; raw.Len() > most {
		return fmt.Errorf("it takes %d bytes, the limit is %d", raw.Len(), most)
	}
	folder := filepath.Dir(s.Path())
	// Descriptions and schemas are not secret, but who may read them is for the operator to say.
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	f, err := os.CreateTemp(folder, storeFile+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(raw.Bytes())
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), s.Path())
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncFolder(folder)
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
func (s Store) Watch(ctx context.Context, c *catalog.Catalog) ([]Finding, error) {
	before, loadErr := s.Load()
	tools, err := fromCatalog(ctx, c) // once: it derives every schema
	if err != nil {
		return nil, errors.Join(loadErr, err)
	}
	findings := Watch(before, tools, s.Limits)
	return findings, errors.Join(loadErr, s.saveTools(tools))
}
