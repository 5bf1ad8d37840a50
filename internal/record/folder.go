// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

const (
	eventsStem = "events" // of the names of files
	callsStem  = "calls"
	latestName = ".latest"
	// folderLayout sorts as text by time; milliseconds keep apart what a
	// restart loop makes.
	folderLayout = "20060102T150405.000Z"

	// folderMode and fileMode: a record tells who called what, so it is for
	// its owner only.
	folderMode = 0o700
	fileMode   = 0o600

	// maxNameTries is for two runs that begin in the same millisecond and draw
	// the same of 2^32 ids.
	maxNameTries = 8
)

var (
	runName     = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}\.[0-9]{3}Z-[0-9a-f]{8}$`)
	rotatedName = regexp.MustCompile(`^(events|calls)\.([1-9][0-9]{0,17})\.jsonl$`)
)

// folder is where a run leaves its files of one kind.
type folder struct {
	base string // of all runs
	name string
	stem string // of the files: eventsStem or callsStem
	// rotated is the number of the last file that was set aside.
	rotated int
}

// newFolder makes the folder of a run. An error says which step failed.
func newFolder(o *Options) (*folder, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("run records: directory %q: %w", o.Dir, err)
	}
	f := &folder{base: filepath.Join(dir, "mcp_server", "envelope_validation"), stem: eventsStem}
	if err := os.MkdirAll(f.base, folderMode); err != nil {
		return nil, fmt.Errorf("run records: create the directory of all runs: %w", err)
	}
	if o.Deterministic {
		return f, f.reuse(runFolderName(deterministicStart, 0))
	}
	for range maxNameTries {
		f.name = runFolderName(o.Now(), rand.Uint32()) //nolint:gosec // a name, no secret
		if err = os.Mkdir(f.path(), folderMode); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("run records: create the directory of the run: %w", err)
	}
	return f, nil
}

func runFolderName(start time.Time, id uint32) string {
	return start.UTC().Format(folderLayout) + fmt.Sprintf("-%08x", id)
}

// reuse takes a folder that may be there already, and empties it of records.
func (f *folder) reuse(name string) error {
	f.name = name
	if err := os.MkdirAll(f.path(), folderMode); err != nil {
		return fmt.Errorf("run records: create the directory of the run: %w", err)
	}
	for _, kind := range []*folder{f.with(eventsStem), f.with(callsStem)} {
		files, err := kind.files()
		if err != nil {
			return fmt.Errorf("run records: read the directory of the run: %w", err)
		}
		for _, old := range files {
			if err := os.Remove(old.path); err != nil {
				return fmt.Errorf("run records: remove an earlier run: %w", err)
			}
		}
	}
	return nil
}

// with is the same folder, for files of another kind.
func (f *folder) with(stem string) *folder {
	return &folder{base: f.base, name: f.name, stem: stem}
}

func (f *folder) path() string    { return filepath.Join(f.base, f.name) }
func (f *folder) current() string { return filepath.Join(f.base, f.name, f.stem+".jsonl") }

// restore makes the folder again if somebody removed it, and .latest with it.
func (f *folder) restore() error {
	if _, err := os.Stat(f.path()); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(f.path(), folderMode); err != nil {
		return fmt.Errorf("recreate the directory of the run: %w", err)
	}
	if _, err := os.Stat(filepath.Join(f.base, latestName)); errors.Is(err, fs.ErrNotExist) {
		_ = f.link() // lines can be written without it
	}
	return nil
}

// link points .latest at the run: a link under a name of its own is renamed, so
// that a reader finds the old one or the new one and never none.
func (f *folder) link() error {
	own := filepath.Join(f.base, latestName+"."+f.name)
	if err := os.Remove(own); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(f.name, own); err != nil {
		return err
	}
	if err := os.Rename(own, filepath.Join(f.base, latestName)); err != nil {
		return errors.Join(err, os.Remove(own))
	}
	return nil
}

// rotate sets the current file aside under the next number.
func (f *folder) rotate() error {
	next := filepath.Join(f.path(), f.stem+"."+strconv.Itoa(f.rotated+1)+".jsonl")
	if err := os.Rename(f.current(), next); err != nil {
		return err
	}
	f.rotated++
	return nil
}

// prune removes the oldest files of its kind of all runs until no more than most are
// left, and folders that are empty then. The run's own current file stays, and what
// this package did not make is not touched.
func (f *folder) prune(most int) error {
	entries, err := os.ReadDir(f.base) // sorted by name, so by time
	if err != nil {
		return err
	}
	var files []runFile
	var failed []error
	for _, e := range entries {
		if !e.IsDir() || !runName.MatchString(e.Name()) {
			continue
		}
		run := folder{base: f.base, name: e.Name(), stem: f.stem}
		list, err := run.files()
		if err != nil {
			failed = append(failed, err)
		}
		files = append(files, list...)
	}
	files = slices.DeleteFunc(files, func(old runFile) bool { return old.path == f.current() })
	for _, old := range files[:max(len(files)-(most-1), 0)] {
		if err := os.Remove(old.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, err)
		}
		if dir := filepath.Dir(old.path); dir != f.path() {
			_ = os.Remove(dir) // refused while there is anything in it
		}
	}
	return errors.Join(failed...)
}

// runFile is one file of a run; number is 0 for the current one.
type runFile struct {
	path   string
	number int
}

// files returns the files of its kind of the run, the oldest first. A folder that
// is gone has none.
func (f *folder) files() ([]runFile, error) {
	entries, err := os.ReadDir(f.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var files []runFile
	for _, e := range entries {
		path := filepath.Join(f.path(), e.Name())
		switch m := rotatedName.FindStringSubmatch(e.Name()); {
		case e.IsDir():
		case path == f.current():
			files = append(files, runFile{path: path})
		case m != nil && m[1] == f.stem:
			n, err := strconv.Atoi(m[2])
			if err != nil {
				return nil, err
			}
			files = append(files, runFile{path: path, number: n})
		}
	}
	slices.SortFunc(files, func(a, b runFile) int {
		if (a.number == 0) != (b.number == 0) {
			return cmp.Compare(b.number, a.number)
		}
		return cmp.Compare(a.number, b.number)
	})
	return files, nil
}
