// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// listWriter replaces the saved list, tool by tool. Readers of the file see the old list or the new one, also after a
// crash. After an error it does nothing more, and the old list stays.
type listWriter struct {
	store Store
	file  *os.File
	to    *bufio.Writer
	text  bytes.Buffer
	count int
	bytes int
	err   error
}

// create begins a list. commit or abandon has to follow.
func (s Store) create(mark string) *listWriter {
	w := &listWriter{store: s}
	folder := filepath.Dir(s.Path())
	// Descriptions and schemas are not secret, but who may read them is for the operator to say.
	if w.err = os.MkdirAll(folder, 0o750); w.err != nil {
		return w
	}
	if w.file, w.err = os.CreateTemp(folder, storeFile+".*"); w.err != nil {
		return w
	}
	w.to = bufio.NewWriter(w.file)
	w.write([]byte(listHead(mark)))
	return w
}

// add appends a tool.
func (w *listWriter) add(t Tool) {
	if w.err != nil {
		return
	}
	w.text.Reset()
	if w.count++; w.count > 1 {
		w.text.WriteByte(',')
	}
	encoder := json.NewEncoder(&w.text)
	encoder.SetEscapeHTML(false)
	if w.err = encoder.Encode(t); w.err == nil {
		w.write(w.text.Bytes())
	}
}

func (w *listWriter) write(text []byte) {
	if w.err != nil {
		return
	}
	if w.bytes += len(text); w.bytes > w.store.Limits.withDefaults().MaxBytes {
		w.err = fmt.Errorf("it exceeds the limit of %d bytes", w.store.Limits.withDefaults().MaxBytes)
		return
	}
	_, w.err = w.to.Write(text)
}

// commit puts the list in its place.
func (w *listWriter) commit() error {
	w.write([]byte("]}\n"))
	if w.err == nil {
		w.err = w.to.Flush()
	}
	if w.err == nil {
		w.err = w.file.Sync()
	}
	if w.err != nil {
		w.abandon()
		return fmt.Errorf("save last catalog: %w", w.err)
	}
	err := w.file.Close()
	if err == nil {
		err = os.Rename(w.file.Name(), w.store.Path())
	}
	if err != nil {
		return fmt.Errorf("save last catalog: %w", errors.Join(err, os.Remove(w.file.Name())))
	}
	if err := syncFolder(filepath.Dir(w.store.Path())); err != nil {
		return fmt.Errorf("save last catalog: %w", err)
	}
	return nil
}

// abandon leaves the old list.
func (w *listWriter) abandon() {
	if w.file != nil {
		_ = w.file.Close()
		_ = os.Remove(w.file.Name())
	}
}
