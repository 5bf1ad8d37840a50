// SPDX-License-Identifier: Apache-2.0

package linefile

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

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

// isFull reports whether a line of this size belongs in the next file.
func (d *disk) isFull(size int) bool {
	return d.opts.Out == nil && d.size > 0 && d.size+int64(size) > d.limit
}

// rotate sets the file aside, whole and synced, and continues in a new one.
func (d *disk) rotate() error {
	d.limit = d.opts.MaxFileBytes
	err := d.setAside()
	if err != nil {
		d.limit += d.size // until then the old file grows, and no line is lost
		return err
	}
	return d.ensure()
}

func (d *disk) setAside() error {
	if d.opts.Sync != SyncNever {
		if err := d.sync(); err != nil {
			return err
		}
	}
	next := d.opts.Path + "." + strconv.Itoa(d.rotated+1)
	if _, err := os.Lstat(next); err == nil {
		d.rotated++ // another process has it
		return &fs.PathError{Op: "rename", Path: next, Err: fs.ErrExist}
	}
	if err := os.Rename(d.opts.Path, next); err != nil {
		return err
	}
	d.rotated++
	return nil
}

// prune removes the oldest files until no more than MaxFiles are left.
func (d *disk) prune() error {
	if d.opts.MaxFiles <= 0 || d.opts.Out != nil {
		return nil
	}
	files, err := Files(d.opts.Path)
	if err != nil {
		return err
	}
	var failed []error
	for _, path := range files[:max(len(files)-d.opts.MaxFiles, 0)] {
		if path == d.opts.Path {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
