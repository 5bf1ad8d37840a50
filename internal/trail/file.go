// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// file is the part of [os.File] that a disk uses.
type file interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
	Stat() (os.FileInfo, error)
}

// fileMode: lines tell who called what, so they are for their owner only.
const fileMode = 0o600

func openFile(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, fileMode)
	if err != nil {
		return nil, err // not f: a nil *os.File is no nil file
	}
	return f, nil
}

// location names the files of a disk, and rotates them.
type location interface {
	current() string
	// restore makes again what the current file is in, where that is gone.
	restore() error
	// setAside renames the current file to the next of those that are full.
	setAside() error
}

// disk is a file of lines that is rotated, or a stream. It belongs to the goroutine that writes.
type disk struct {
	place location
	out   io.Writer // the stream; nil for a file
	open  func(path string) (file, error)
	// what is the beginning of its errors.
	what string
	// max is the size at which the file is rotated.
	max int64
	// syncs: a file is synced before it is set aside.
	syncs bool
	// continues: the rest of a line follows a piece of it that could not be taken back. Otherwise the line is begun again
	// on its own line.
	continues bool

	f     file        // nil: to be opened
	about os.FileInfo // of f
	size  int64
	// torn: the file ends with a piece of a line.
	torn bool
	// stale, after a failed write, makes ensure open the file anew: on some file systems a
	// handle stays broken when the path is not.
	stale bool
	// unsynced: something was written since the last sync.
	unsynced bool
	// limit is the size at which the file is rotated now; it grows where rotation fails.
	limit int64
}

// ensure opens the file where it is not open, or not at its path any more: somebody removed or moved it, and what is
// written would be lost. It tells whether it is another file than before. The old one is held open until then, because a
// new file may get the number of one that is gone.
func (d *disk) ensure() (replaced bool, err error) {
	if d.out != nil {
		return false, nil
	}
	path := d.place.current()
	if d.f != nil && !d.stale {
		if now, err := os.Stat(path); err == nil && os.SameFile(now, d.about) {
			return false, nil
		}
	}
	if err := d.place.restore(); err != nil {
		return false, err
	}
	// A pipe without a reader would hold the process in open.
	if now, err := os.Stat(path); err == nil && now.Mode()&(os.ModeNamedPipe|os.ModeSocket|os.ModeDir) != 0 {
		return false, errors.New("not a regular file")
	}
	f, err := d.open(path)
	if err != nil {
		return false, fmt.Errorf("%sopen the file: %w", d.what, err)
	}
	about, err := f.Stat()
	if err != nil {
		return false, errors.Join(fmt.Errorf("%sopen the file: %w", d.what, err), f.Close())
	}
	replaced = d.f == nil || !os.SameFile(d.about, about)
	d.close()
	d.f, d.about, d.size, d.stale = f, about, about.Size(), false
	d.torn = (replaced || !d.continues) && isTorn(path, d.size)
	syncDir(path)
	return replaced, nil
}

// isTorn reports whether a file ends with a piece of a line.
func isTorn(path string, size int64) bool {
	if size == 0 {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return true // a line too many breaks nothing
	}
	defer func() { _ = f.Close() }()
	var last [1]byte
	_, err = f.ReadAt(last[:], size-1)
	return err != nil || last[0] != '\n'
}

// syncDir makes the name of a file durable. File systems that cannot do that say so, and
// have nothing better.
func syncDir(path string) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return
	}
	_ = dir.Sync()
	_ = dir.Close()
}

// write appends lines. After an error the first n bytes are there; they are whole lines, unless a piece of one could not be
// taken back that the rest is to follow.
func (d *disk) write(lines []byte) (n int, err error) {
	if d.out != nil {
		n, err = d.out.Write(lines)
		return max(0, min(n, len(lines))), err
	}
	if d.torn {
		if _, err := d.f.Write([]byte{'\n'}); err != nil {
			d.stale = true
			return 0, err
		}
		d.torn = false
		d.size++
	}
	n, err = d.f.Write(lines)
	n = max(0, min(n, len(lines)))
	d.size += int64(n)
	d.unsynced = d.unsynced || n > 0
	if err == nil {
		return n, nil
	}
	d.stale = true
	whole := bytes.LastIndexByte(lines[:n], '\n') + 1
	switch piece := int64(n - whole); {
	case piece == 0:
	case d.f.Truncate(d.size-piece) == nil:
		d.size -= piece
	case d.continues:
		return n, err
	default:
		d.torn = true
	}
	return whole, err
}

// sync syncs what was written.
func (d *disk) sync() error {
	if d.f == nil || !d.unsynced {
		return nil
	}
	if err := d.f.Sync(); err != nil && !isUnsyncable(d.about) {
		return err
	}
	d.unsynced = false
	return nil
}

// isUnsyncable holds for pipes and devices, which have nothing to sync.
func isUnsyncable(about os.FileInfo) bool { return !about.Mode().IsRegular() }

// close forgets the file. Its error tells nothing new: every write was checked, and
// sync is called where it matters.
func (d *disk) close() {
	if d.f != nil {
		_ = d.f.Close()
		d.f = nil
	}
}

// Files returns the files of a path that exist, the oldest first: those that were set
// aside, NAME.1 and so on, and the current one.
func Files(path string) ([]string, error) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return nil, err
	}
	var numbers []int
	isThere := false
	for _, e := range entries {
		if e.Name() == base {
			isThere = true
		} else if n := numberOf(e.Name(), base); n > 0 && !e.IsDir() {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	var files []string
	for _, n := range numbers {
		files = append(files, path+"."+strconv.Itoa(n))
	}
	if isThere {
		files = append(files, path)
	}
	return files, nil
}

// numberOf is the number of a file that was set aside, 0 for others.
func numberOf(name, base string) int {
	digits, ok := strings.CutPrefix(name, base+".")
	if !ok || digits == "" || digits[0] == '0' {
		return 0
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// newest is the highest number among the files that were set aside.
func newest(files []string) int {
	for _, path := range slices.Backward(files) {
		if n, err := strconv.Atoi(strings.TrimPrefix(filepath.Ext(path), ".")); err == nil {
			return n
		}
	}
	return 0
}

// isFull reports whether a line of this size belongs in the next file, behind so many bytes that are yet to be written.
func (d *disk) isFull(before, size int) bool {
	at := d.size + int64(before)
	return d.out == nil && at > 0 && at+int64(size) > d.limit
}

// rotate sets the file aside and continues in a new one.
func (d *disk) rotate() error {
	d.limit = d.max
	var err error
	if d.syncs {
		err = d.sync()
	}
	if err == nil {
		err = d.place.setAside()
	}
	if err != nil {
		d.limit += d.size // until then the old file grows, and no line is lost
		return err
	}
	d.close() // or lines would go on into it if the new one cannot be opened
	_, err = d.ensure()
	return err
}

// numberedFile is the place of a file whose older ones are NAME.1, NAME.2 and so on.
type numberedFile struct {
	path string
	// rotated is the number of the newest file that was set aside.
	rotated int
}

func (n *numberedFile) current() string { return n.path }

func (n *numberedFile) restore() error { return nil }

func (n *numberedFile) setAside() error {
	n.rotated++
	next := n.path + "." + strconv.Itoa(n.rotated)
	_, err := os.Lstat(next)
	if err == nil { // another process has it
		return &fs.PathError{Op: "rename", Path: next, Err: fs.ErrExist}
	}
	if err = os.Rename(n.path, next); err != nil {
		n.rotated--
	}
	return err
}

// prune removes the oldest files until no more than most are left.
func (n *numberedFile) prune(most int) error {
	files, err := Files(n.path)
	if err != nil {
		return err
	}
	var failed []error
	for _, path := range files[:max(len(files)-most, 0)] {
		if path != n.path {
			failed = append(failed, removed(path))
		}
	}
	return errors.Join(failed...)
}

// removed removes a file that may be gone.
func removed(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
