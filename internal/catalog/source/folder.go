// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
)

// folder is a Source that reads all descriptor sets of a folder.
type folder struct {
	path   string
	limits Limits
}

const (
	// maxFolderReads bounds how often a folder is read until nothing changes meanwhile.
	maxFolderReads = 5
	// maxFolderEntries bounds a folder: more is a folder of something else.
	maxFolderEntries = 4096
	// configMapData is the link through which kubelet swaps all files of a mounted ConfigMap at once.
	configMapData = "..data"
)

// errUnsteady is the error for a folder that changes all the time.
var errUnsteady = errors.New("the files change while they are read")

// NewDescriptorFolder returns a source that reads the descriptor sets directly in a folder on every load: files whose names
// [IsSetName] accepts, in the order of their names. Folders in it and hidden files are not read, and other files are named
// in a warning. A load never has files of two versions of the folder.
//
// Errors are *Error and permanent, since only another folder can help; a folder that keeps changing is the exception.
func NewDescriptorFolder(path string, l Limits) Source {
	return &folder{path: path, limits: l.withDefaults()}
}

func (f *folder) Name() string { return "descriptor folder " + f.path }

func (f *folder) Load(ctx context.Context) (*Loaded, error) { return f.LoadUnless(ctx, nil) }

// LoadUnless implements Conditional.
func (f *folder) LoadUnless(ctx context.Context, before *Revision) (*Loaded, error) {
	fail := func(err error) error {
		return &Error{Source: f.Name(), Step: "read folder", Permanent: true, Cause: err}
	}
	for range maxFolderReads {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		found, err := f.look()
		if err == nil && before.Is(found.digest) {
			return nil, nil
		}
		var out *Loaded
		if err == nil {
			out, err = readSets(ctx, f.Name(), found.sets(f.limits), f.limits)
		}
		now, errNow := f.look()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && errNow != nil:
			return nil, fail(err)
		case errNow != nil || now.digest != found.digest:
			continue // it was swapped meanwhile
		case err != nil:
			return nil, fail(err)
		}
		if len(found.ignored) > 0 {
			out.Warnings = append(out.Warnings, Warning{f.Name(), fmt.Sprintf("%s %s not read: names of descriptor sets end in %s",
				shown.ClipList(found.ignored), shown.Plural(len(found.ignored), "is", "are"), strings.Join(setSuffixes(), ", "))})
		}
		out.Revision = &Revision{Digest: found.digest}
		return out, nil
	}
	return nil, &Error{Source: f.Name(), Step: "read folder", Cause: errUnsteady}
}

// found is what a folder has at one time.
type found struct {
	dir            string // without links
	names, ignored []string
	digest         Digest
}

// sets are the descriptor sets.
func (s found) sets(l Limits) []set {
	out := make([]set, 0, len(s.names))
	for _, name := range s.names {
		out = append(out, set{name, func() (io.ReadCloser, error) { return openBounded(filepath.Join(s.dir, name), l.MaxBytes) }})
	}
	return out
}

// look lists the folder and takes the digest of what is in it.
func (f *folder) look() (found, error) {
	out, err := listFolder(f.path)
	switch {
	case err != nil:
		return found{}, err
	case len(out.names) == 0:
		return found{}, fmt.Errorf("it has no descriptor set: no name ends in %s", strings.Join(setSuffixes(), ", "))
	}
	sum := newSummer()
	sum.texts(out.ignored...)
	left := int64(f.limits.MaxBytes)
	for _, name := range out.names {
		digest, n, err := hashFile(filepath.Join(out.dir, name), left)
		if err != nil {
			return found{}, err
		}
		if left -= n; left < 0 {
			return found{}, fmt.Errorf("its files have more than %d bytes, the limit for one source (limits.max_descriptor_bytes)", f.limits.MaxBytes)
		}
		sum.texts(name)
		sum.add(digest[:])
	}
	out.digest = sum.sum()
	return out, nil
}

// hashFile takes the digest of a file, and of no more than a byte over what it may have.
func hashFile(path string, most int64) (Digest, int64, error) {
	in, err := os.Open(path)
	if err != nil {
		return Digest{}, 0, err
	}
	defer func() { _ = in.Close() }()
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(in, most+1))
	return Digest(sum.Sum(nil)), n, err
}

// listFolder lists a folder. The link of a ConfigMap is followed once, so that all files are of one version.
func listFolder(path string) (found, error) {
	out := found{dir: path}
	if target, err := filepath.EvalSymlinks(filepath.Join(path, configMapData)); err == nil {
		out.dir = target
	}
	dir, err := os.Open(out.dir)
	if err != nil {
		return found{}, err
	}
	defer func() { _ = dir.Close() }()
	entries, err := dir.Readdirnames(maxFolderEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return found{}, err
	}
	if len(entries) > maxFolderEntries {
		return found{}, fmt.Errorf("it has more than %d entries; give a folder with descriptor sets only", maxFolderEntries)
	}
	byName := make(map[string]fs.FileMode, len(entries))
	for _, name := range entries {
		if strings.HasPrefix(name, ".") {
			continue
		}
		info, err := os.Stat(filepath.Join(out.dir, name))
		if err != nil {
			return found{}, err
		}
		byName[name] = info.Mode()
	}
	for _, name := range shown.SortedKeys(byName) {
		switch mode := byName[name]; {
		case mode.IsRegular() && IsSetName(name):
			out.names = append(out.names, name)
		default:
			out.ignored = append(out.ignored, name)
		}
	}
	return out, nil
}

// FolderFiles returns the paths of the descriptor sets of a folder, sorted, for those who watch them; none where it cannot be
// read.
func FolderFiles(path string) []string {
	listed, err := listFolder(path)
	if err != nil {
		return nil
	}
	if listed.dir != path {
		// kubelet makes the links to new files after the swap, which would be a second change.
		path = filepath.Join(path, configMapData)
	}
	out := make([]string, 0, len(listed.names))
	for _, name := range listed.names {
		out = append(out, filepath.Join(path, name))
	}
	return out
}
