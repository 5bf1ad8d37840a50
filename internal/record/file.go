// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// file is what is needed of an [os.File].
type file interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
	Stat() (os.FileInfo, error)
}

func openFile(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, fileMode)
	if err != nil {
		return nil, err // not f: a nil *os.File is no nil file
	}
	return f, nil
}

// logFile is the current file of a run. It belongs to the writer.
type logFile struct {
	folder *folder
	open   func(path string) (file, error)

	f     file        // nil: to be opened
	about os.FileInfo // of f
	size  int64
	// stale, after a failed write, makes ensure open the file anew: on some file
	// systems a handle stays broken when the path is not.
	stale bool
}

// ensure opens the file where it is not open, or not at its path any more:
// somebody removed or moved it, and what is written would be lost. It
// tells whether it is another file than before. The old one is held open until
// then, because a new file may get the number of one that is gone.
func (l *logFile) ensure() (replaced bool, err error) {
	if l.f != nil && !l.stale {
		if now, err := os.Stat(l.folder.current()); err == nil && os.SameFile(now, l.about) {
			return false, nil
		}
	}
	if err := l.folder.restore(); err != nil {
		return false, err
	}
	f, err := l.open(l.folder.current())
	if err != nil {
		return false, fmt.Errorf("run records: open the file: %w", err)
	}
	about, err := f.Stat()
	if err != nil {
		return false, errors.Join(fmt.Errorf("run records: open the file: %w", err), f.Close())
	}
	replaced = l.f == nil || !os.SameFile(l.about, about)
	l.close()
	l.f, l.about, l.size, l.stale = f, about, about.Size(), false
	return replaced, nil
}

// close forgets the file. Its error tells nothing new: every write was checked,
// and Sync is called where it matters.
func (l *logFile) close() {
	if l.f != nil {
		_ = l.f.Close()
		l.f = nil
	}
}

// write appends whole lines. After an error the first n bytes are in the file;
// they are whole lines, unless a piece of a line could not be taken back.
func (l *logFile) write(lines []byte) (n int, err error) {
	n, err = l.f.Write(lines)
	n = max(0, min(n, len(lines)))
	l.size += int64(n)
	if err == nil {
		return n, nil
	}
	l.stale = true
	whole := bytes.LastIndexByte(lines[:n], '\n') + 1
	if torn := int64(n - whole); torn > 0 && l.f.Truncate(l.size-torn) == nil {
		l.size -= torn
		n = whole
	}
	return n, err
}

// rotate goes on in a new file.
func (l *logFile) rotate() error {
	if err := l.folder.rotate(); err != nil {
		return err
	}
	l.close()
	_, err := l.ensure()
	return err
}
