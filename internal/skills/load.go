// SPDX-License-Identifier: Apache-2.0

package skills

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// maxReads bounds how often folders are read until two reads agree.
const maxReads = 5

// errUnsteady is the error for folders that change all the time.
var errUnsteady = errors.New("the files of the skills change while they are read")

// Load reads the skills in folders. The path of a skill is that of its folder below the one that is given, so
// team/deploy/SKILL.md is skill://team/deploy/SKILL.md. It reads until two reads agree, so that a set never has files of
// two versions. The error is an *Error with all faults.
func Load(ctx context.Context, folders []string, l Limits) (*Set, error) {
	before, err := loadOnce(ctx, folders, l)
	for range maxReads {
		if err != nil {
			return nil, err
		}
		var now *Set
		if now, err = loadOnce(ctx, folders, l); err == nil && now.digest == before.digest {
			return now, nil
		}
		before = now
	}
	if err == nil {
		err = errUnsteady
	}
	return nil, err
}

// loader makes one set.
type loader struct {
	ctx    context.Context //nolint:containedctx // reading goes on no longer than it
	limits Limits
	faults faults
	set    *Set
	bytes  int64 // of all files
	// of is the folder that has a skill, by the skill's path.
	of map[string]string
}

func loadOnce(ctx context.Context, folders []string, l Limits) (*Set, error) {
	r := &loader{
		ctx:    ctx,
		limits: l.withDefaults(), of: map[string]string{},
		set: &Set{files: map[string]*File{}, directories: map[string]*Directory{}, skills: map[string]*outriggerv1.Skill{}},
	}
	for i, folder := range folders {
		r.folder(i, folder)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := r.faults.any(); err != nil {
		return nil, err
	}
	r.set.finish()
	return r.set, nil
}

var errNoFolder = errors.New("not a folder")

// openFolder opens a folder. A pipe is not opened, which would wait for a writer.
func openFolder(name string) (*os.Root, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, errNoFolder
	}
	return os.OpenRoot(name)
}

// folder reads the skills of one folder.
func (r *loader) folder(index int, name string) {
	root, err := openFolder(name)
	if err != nil {
		why := "cannot be read: " + reason(err)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			why = "does not exist"
		case errors.Is(err, errNoFolder):
			why = "is a file; give the folder that has the folders of the skills"
		}
		r.faults.add(index, name, "%s", why)
		return
	}
	defer func() { _ = root.Close() }()
	most := r.limits.maxEntries()
	w := &walker{ctx: r.ctx, root: root, folder: index, shown: name, left: most, most: most, faults: &r.faults}
	top, err := w.walk(".", 0)
	r.set.Hidden += w.hidden
	if err != nil || top == nil {
		return
	}
	if top.child(FileName) != nil {
		w.fault(FileName, "a skill needs a folder with its name; give the folder above that")
		return
	}
	if !r.find(w, top, nil) {
		w.fault(".", "has no skill: no folder in it has a file %s", FileName)
	}
}

// found is a skill on the way from the root to a node.
type found struct {
	entry *outriggerv1.Skill
	bytes int64
}

// find reads what belongs to the skills around a folder, and to those in it. It reports whether there is one in it.
func (r *loader) find(w *walker, n *node, around []*found) bool {
	has := false
	if n.path != "." {
		if skill := r.skill(w, n); skill != nil {
			around, has = append(slices.Clip(around), skill), true
		}
		if len(around) > 0 {
			r.directory(n)
		}
	}
	for _, c := range n.nodes {
		switch {
		case c.isFolder:
			has = r.find(w, c, around) || has
		case len(around) > 0:
			r.file(w, c, around)
		default:
			r.set.Outside = append(r.set.Outside, w.show(c.path))
		}
	}
	return has
}

// skill returns the skill whose folder a node is; nil if it is none.
func (r *loader) skill(w *walker, n *node) *found {
	file := n.child(FileName)
	if file == nil || file.isFolder {
		for _, c := range n.nodes {
			if strings.EqualFold(c.name, FileName) {
				w.fault(c.path, "must be a file with the name %s", FileName)
			}
		}
		return nil
	}
	if first, _, _ := strings.Cut(n.path, "/"); first != "" {
		if err := checkAuthority(first); err != nil {
			w.fault(n.path, "%s", err)
		}
	}
	if other, ok := r.of[n.path]; ok {
		w.fault(n.path, "the folder %s has a skill with the same path", other)
	}
	r.of[n.path] = w.shown
	uri := URI(n.path + "/" + FileName)
	if len(r.set.skills) == r.limits.MaxSkills {
		w.fault(n.path, "there are more than %d skills (--max-skills)", r.limits.MaxSkills)
	}
	out := &found{entry: &outriggerv1.Skill{Uri: uri}}
	r.set.skills[uri] = out.entry
	return out
}

// directory adds a folder of a skill, with the resources of what is in it.
func (r *loader) directory(n *node) {
	d := &Directory{resource: &outriggerv1.Resource{Uri: URI(n.path), Name: n.name, MimeType: DirectoryType}}
	for _, c := range n.nodes {
		d.children = append(d.children, URI(c.path))
	}
	r.set.directories[d.resource.Uri] = d
}

// file reads a file of one skill, and of those around it.
func (r *loader) file(w *walker, n *node, around []*found) {
	most := r.limits.MaxFileBytes
	switch {
	case n.size > most:
		w.fault(n.path, "has %d bytes; a result may have %d (--max-result-bytes)", n.size, most)
		return
	case len(URI(n.path)) > maxURI:
		w.fault(n.path, "its URI would have more than %d bytes", maxURI)
		return
	}
	for _, s := range around {
		if !r.admit(w, n, s) {
			return
		}
	}
	if r.bytes += n.size; r.bytes > r.limits.MaxTotalBytes {
		if r.bytes-n.size <= r.limits.MaxTotalBytes { // said once
			w.fault(n.path, "all skills together have more than %d bytes (--max-skills-bytes)", r.limits.MaxTotalBytes)
		}
		return
	}
	data, err := readFile(w.root, n.path, n.size)
	if err != nil {
		w.fault(n.path, "cannot be read: %s", reason(err))
		return
	}
	sum, size := sha256.Sum256(data), int64(len(data))
	f := &File{data: data, resource: &outriggerv1.Resource{Uri: URI(n.path), Name: n.name, MimeType: mediaType(n.name, data), Size: &size}}
	if n.name == FileName {
		r.frontmatter(w, n, f)
	}
	r.set.files[f.resource.Uri] = f
	for _, s := range around {
		s.entry.Resources = append(s.entry.Resources, &outriggerv1.SkillFile{
			Uri: f.resource.Uri, Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: &size,
		})
	}
}

// admit counts a file for a skill, and reports whether the skill may have it.
func (r *loader) admit(w *walker, n *node, s *found) bool {
	l, p := r.limits, path.Dir(strings.TrimPrefix(s.entry.GetUri(), Scheme))
	if len(s.entry.GetResources()) == l.MaxFiles {
		w.fault(n.path, "the skill %s has more than %d files (--max-skill-files)", p, l.MaxFiles)
		return false
	}
	if s.bytes += n.size; s.bytes > l.MaxBytes {
		if s.bytes-n.size <= l.MaxBytes {
			w.fault(n.path, "the skill %s has more than %d bytes (--max-skill-bytes)", p, l.MaxBytes)
		}
		return false
	}
	return true
}

// frontmatter reads that of a SKILL.md. Its resource has the skill's name and description.
func (r *loader) frontmatter(w *walker, n *node, f *File) {
	front, err := ParseFrontmatter(f.data)
	if err != nil {
		w.fault(n.path, "%s", err)
		return
	}
	if folder := path.Base(path.Dir(n.path)); folder != front.Name {
		w.fault(n.path, "the name is %q and the folder is %q; make them equal", front.Name, cut(folder))
		return
	}
	f.resource.Name, f.resource.Description = front.Name, front.Description
	r.set.skills[f.resource.Uri].FrontmatterForm = &outriggerv1.Skill_FrontmatterJson{FrontmatterJson: front.JSON}
}

// Paths returns all files and folders of the given folders, for those who watch them. It has no more than may be read, and
// what cannot be read is left out.
func Paths(folders []string, l Limits) []string {
	var out []string
	l = l.withDefaults()
	for i, folder := range folders {
		out = append(out, folder)
		root, err := openFolder(folder)
		if err != nil {
			continue
		}
		w := &walker{ctx: context.Background(), root: root, folder: i, shown: folder, left: l.maxEntries(), most: l.maxEntries(), faults: &faults{}}
		if top, err := w.walk(".", 0); err == nil && top != nil {
			out = append(out, w.below(top)...)
		}
		_ = root.Close()
	}
	return out
}

func (w *walker) below(n *node) (out []string) {
	for _, c := range n.nodes {
		out = append(out, w.show(c.path))
		out = append(out, w.below(c)...)
	}
	return out
}

// sorted returns the keys of a map in order.
func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
