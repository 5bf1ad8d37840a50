// SPDX-License-Identifier: Apache-2.0

package skills

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// node is a file or a folder. Folders have the nodes in them, by name.
type node struct {
	name     string
	path     string // from the root, "." for the root itself
	isFolder bool
	size     int64
	nodes    []*node
}

// child returns the node with a name, nil if there is none.
func (n *node) child(name string) *node {
	for _, c := range n.nodes {
		if c.name == name {
			return c
		}
	}
	return nil
}

// walker looks at a folder without reading files. All of its paths go through an os.Root, which follows no link out of
// the folder.
type walker struct {
	root   *os.Root
	folder int
	shown  string          // the folder, as it was given
	ctx    context.Context //nolint:containedctx // a walk goes on no longer than it
	left   int             // files and folders that may still be looked at
	most   int
	links  int           // to folders, that were followed
	above  []fs.FileInfo // the folders from the root to the one that is looked at
	hidden int
	faults *faults
}

var errTooMany = errors.New("too many files")

// show is a path for people.
func (w *walker) show(p string) string { return path.Join(w.shown, p) }

func (w *walker) fault(p, format string, args ...any) {
	w.faults.add(w.folder, w.show(p), format, args...)
}

// walk returns a folder and everything in it.
func (w *walker) walk(p string, depth int) (*node, error) {
	out := &node{name: path.Base(p), path: p, isFolder: true}
	if depth > maxDepth {
		w.fault(p, "folders are more than %d levels deep", maxDepth)
		return out, nil
	}
	self, err := w.root.Stat(p)
	if err != nil {
		w.fault(p, "%s", w.unreachable(p, err))
		return out, nil
	}
	w.above = append(w.above, self)
	defer func() { w.above = w.above[:len(w.above)-1] }()
	entries, err := w.entries(p)
	if err != nil {
		return nil, err
	}
	for _, name := range entries {
		if err := w.ctx.Err(); err != nil {
			return nil, err
		}
		if strings.HasPrefix(name, ".") {
			w.hidden++
			continue
		}
		if w.left--; w.left < 0 {
			w.fault(".", "it has more than %d files and folders", w.most)
			return nil, errTooMany
		}
		if n, err := w.look(path.Join(p, name), name, depth); err != nil {
			return nil, err
		} else if n != nil {
			out.nodes = append(out.nodes, n)
		}
	}
	return out, nil
}

// entries are the names in a folder, sorted.
func (w *walker) entries(p string) ([]string, error) {
	f, err := w.root.Open(p)
	if err != nil {
		w.fault(p, "cannot be read: %s", reason(err))
		return nil, nil
	}
	defer func() { _ = f.Close() }()
	names, err := f.Readdirnames(w.left + w.most) // hidden ones are not counted
	if err != nil && !errors.Is(err, io.EOF) {
		w.fault(p, "cannot be read: %s", reason(err))
	}
	slices.Sort(names)
	return names, nil
}

// look returns the node of one entry; nil if it has a fault.
func (w *walker) look(p, name string, depth int) (*node, error) {
	if err := checkFileName(name); err != nil {
		w.faults.add(w.folder, fmt.Sprintf("%q", w.show(p)), "%s", err)
		return nil, nil
	}
	info, err := w.root.Stat(p) // follows links within the folder
	switch {
	case err != nil:
		w.fault(p, "%s", w.unreachable(p, err))
		return nil, nil
	case info.IsDir():
		if why := w.repeated(info); why != "" {
			w.fault(p, "%s", why)
			return nil, nil
		}
		if own, err := w.root.Lstat(p); err == nil && own.Mode()&fs.ModeSymlink != 0 {
			if w.links++; w.links > maxFolderLinks {
				w.fault(".", "has more than %d symbolic links to folders; copy what they point to", maxFolderLinks)
				return nil, errTooMany
			}
		}
		return w.walk(p, depth+1)
	case !info.Mode().IsRegular():
		w.fault(p, "is neither a file nor a folder")
		return nil, nil
	}
	return &node{name: name, path: p, size: info.Size()}, nil
}

// repeated says why a folder is not walked: a link leads to where the walk is already.
func (w *walker) repeated(info fs.FileInfo) string {
	if slices.ContainsFunc(w.above, func(above fs.FileInfo) bool { return os.SameFile(above, info) }) {
		return "is a symbolic link to a folder that it is in; remove it"
	}
	return ""
}

// unreachable says why an entry cannot be looked at.
func (w *walker) unreachable(p string, err error) string {
	if info, failed := w.root.Lstat(p); failed == nil && info.Mode()&fs.ModeSymlink != 0 {
		if errors.Is(err, fs.ErrNotExist) {
			return "is a symbolic link to nothing"
		}
		return "is a symbolic link out of the folder, an absolute one, or one that leads in a circle; copy what it points to"
	}
	return "cannot be read: " + reason(err)
}

// reason is an error without the path, which is shown beside it.
func reason(err error) string {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err.Error()
	}
	return err.Error()
}

// readFile reads a file of at most so many bytes.
func readFile(root *os.Root, p string, most int64) ([]byte, error) {
	f, err := root.Open(p)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("is no regular file any more")
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("has more than %d bytes", most)
	}
	return data, err
}
