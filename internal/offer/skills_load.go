// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// skillLimits bound what is read of skills. Zero fields have their defaults.
type skillLimits struct {
	// MaxSkills is the maximum number of skills of all folders, MaxTotalBytes the maximum
	// size of their files. All of it is held in memory.
	MaxSkills     int
	MaxTotalBytes int64
	// MaxFiles and MaxBytes bound one skill.
	MaxFiles int
	MaxBytes int64
	// MaxFileBytes is the maximum size of one file, which is one result; zero is MaxBytes.
	MaxFileBytes int64
}

const (
	// maxDepth bounds the folders within folders.
	maxDepth = 16
	// maxFolderLinks bounds the symbolic links to folders that are followed.
	maxFolderLinks = 256
	// maxURI is the maximum length of a URI in the contract.
	maxURI = 8192
	// maxFrontmatter bounds the frontmatter of one skill: each list of skills repeats it.
	maxFrontmatter = 64 << 10
	// maxNameChars and maxDescriptionChars are those of the Agent Skills specification.
	maxNameChars        = 64
	maxDescriptionChars = 1024
	// maxValueDepth bounds the nesting of the frontmatter.
	maxValueDepth = 16
	// maxFaults bounds the faults that one error names.
	maxFaults = 20
)

func (l skillLimits) withDefaults() skillLimits {
	defaults.Fill(&l.MaxSkills, defaults.SkillLimitsMaxSkills)
	defaults.Fill(&l.MaxFiles, defaults.SkillLimitsMaxFiles)
	defaults.Fill(&l.MaxBytes, int64(defaults.SkillLimitsMaxBytes))
	defaults.Fill(&l.MaxTotalBytes, int64(defaults.SkillLimitsMaxTotalBytes))
	defaults.Fill(&l.MaxFileBytes, l.MaxBytes)
	return l
}

// maxEntries bounds the files and folders that are looked at.
func (l skillLimits) maxEntries() int { return 2 * l.MaxSkills * l.MaxFiles }

// skillFault is one thing that is wrong with a folder of skills.
type skillFault struct {
	// Folder is the index of the folder, Path the file or folder with the fault, to show.
	Folder int
	Path   string
	// Reason says what is wrong, and what to do.
	Reason string
}

// String returns the path and the reason.
func (f skillFault) String() string { return f.Path + ": " + f.Reason }

// skillsError has the faults of all folders, at most 20. More counts the others.
type skillsError struct {
	Faults []skillFault
	More   int
}

// Error implements error.
func (e *skillsError) Error() string {
	texts := make([]string, len(e.Faults), len(e.Faults)+1)
	for i, f := range e.Faults {
		texts[i] = f.String()
	}
	if e.More > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(texts, "; ")
}

func (e *skillsError) add(folder int, path, format string, args ...any) {
	if len(e.Faults) == maxFaults {
		e.More++
		return
	}
	e.Faults = append(e.Faults, skillFault{Folder: folder, Path: path, Reason: fmt.Sprintf(format, args...)})
}

// maxReads bounds how often folders are read until two reads agree.
const maxReads = 5

// errUnsteady is the error for folders that change all the time.
var errUnsteady = errors.New("the files of the skills change while they are read")

// loadSkills reads the skills in folders. The path of a skill is that of its folder below the one that is given, so
// team/deploy/SKILL.md is skill://team/deploy/SKILL.md. It reads until two reads agree, so that a set never has files of
// two versions. The error is a *skillsError with all faults.
func loadSkills(ctx context.Context, folders []string, l skillLimits) (*SkillSet, error) {
	before, err := loadSkillsOnce(ctx, folders, l)
	for range maxReads {
		if err != nil {
			return nil, err
		}
		var now *SkillSet
		if now, err = loadSkillsOnce(ctx, folders, l); err == nil && now.digest == before.digest {
			return now, nil
		}
		before = now
	}
	if err == nil {
		err = errUnsteady
	}
	return nil, err
}

// skillLoader loads one set of skills.
type skillLoader struct {
	ctx    context.Context //nolint:containedctx // reading goes on no longer than it
	limits skillLimits
	faults skillsError
	set    *SkillSet
	bytes  int64 // of all files
	// of is the folder that has a skill, by the skill's path.
	of map[string]string
}

func loadSkillsOnce(ctx context.Context, folders []string, l skillLimits) (*SkillSet, error) {
	r := &skillLoader{
		ctx:    ctx,
		limits: l.withDefaults(), of: map[string]string{},
		set: &SkillSet{files: map[string]*skillFile{}, directories: map[string]*skillDirectory{}, skills: map[string]*outriggerv1.Skill{}},
	}
	for i, folder := range folders {
		r.folder(i, folder)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(r.faults.Faults) > 0 {
		return nil, &r.faults
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
func (r *skillLoader) folder(index int, name string) {
	root, err := openFolder(name)
	if err != nil {
		why := "cannot be read: " + reasonOf(err)
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
	w := &skillWalker{ctx: r.ctx, root: root, folder: index, shown: name, left: most, most: most, faults: &r.faults}
	top, err := w.walk(".", 0)
	r.set.Hidden += w.hidden
	if err != nil || top == nil {
		return
	}
	if top.child(skillFileName) != nil {
		w.fault(skillFileName, "a skill needs a folder with its name; give the folder above that")
		return
	}
	if !r.find(w, top, nil) {
		w.fault(".", "has no skill: no folder in it has a file %s", skillFileName)
	}
}

// foundSkill is a skill on the way from the root to a node.
type foundSkill struct {
	entry *outriggerv1.Skill
	bytes int64
}

// find reads what belongs to the skills around a folder, and to those in it. It reports whether there is one in it.
func (r *skillLoader) find(w *skillWalker, n *skillNode, around []*foundSkill) bool {
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
func (r *skillLoader) skill(w *skillWalker, n *skillNode) *foundSkill {
	file := n.child(skillFileName)
	if file == nil || file.isFolder {
		for _, c := range n.nodes {
			if strings.EqualFold(c.name, skillFileName) {
				w.fault(c.path, "must be a file with the name %s", skillFileName)
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
	uri := skillURI(n.path + "/" + skillFileName)
	if len(r.set.skills) == r.limits.MaxSkills {
		w.fault(n.path, "there are more than %d skills (--max-skills)", r.limits.MaxSkills)
	}
	out := &foundSkill{entry: &outriggerv1.Skill{Uri: uri}}
	r.set.skills[uri] = out.entry
	return out
}

// directory adds a folder of a skill, with the resources of what is in it.
func (r *skillLoader) directory(n *skillNode) {
	d := &skillDirectory{resource: &outriggerv1.Resource{Uri: skillURI(n.path), Name: n.name, MimeType: directoryType}}
	for _, c := range n.nodes {
		d.children = append(d.children, skillURI(c.path))
	}
	r.set.directories[d.resource.Uri] = d
}

// file reads a file of one skill, and of those around it.
func (r *skillLoader) file(w *skillWalker, n *skillNode, around []*foundSkill) {
	most := r.limits.MaxFileBytes
	switch {
	case n.size > most:
		w.fault(n.path, "has %d bytes; a result may have %d (--max-result-bytes)", n.size, most)
		return
	case len(skillURI(n.path)) > maxURI:
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
		w.fault(n.path, "cannot be read: %s", reasonOf(err))
		return
	}
	sum, size := sha256.Sum256(data), int64(len(data))
	f := &skillFile{data: data, resource: &outriggerv1.Resource{Uri: skillURI(n.path), Name: n.name, MimeType: mediaType(n.name, data), Size: &size}}
	if n.name == skillFileName {
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
func (r *skillLoader) admit(w *skillWalker, n *skillNode, s *foundSkill) bool {
	l, p := r.limits, path.Dir(strings.TrimPrefix(s.entry.GetUri(), skillScheme))
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
func (r *skillLoader) frontmatter(w *skillWalker, n *skillNode, f *skillFile) {
	front, err := parseFrontmatter(f.data)
	if err != nil {
		w.fault(n.path, "%s", err)
		return
	}
	if folder := path.Base(path.Dir(n.path)); folder != front.Name {
		w.fault(n.path, "the name is %q and the folder is %q; make them equal", front.Name, shorten(folder))
		return
	}
	f.resource.Name, f.resource.Description = front.Name, front.Description
	r.set.skills[f.resource.Uri].FrontmatterForm = &outriggerv1.Skill_FrontmatterJson{FrontmatterJson: front.JSON}
}

// skillPaths returns all files and folders of the given folders, for those who watch them. It has no more than may be read, and
// what cannot be read is left out.
func skillPaths(folders []string, l skillLimits) []string {
	var out []string
	l = l.withDefaults()
	for i, folder := range folders {
		out = append(out, folder)
		root, err := openFolder(folder)
		if err != nil {
			continue
		}
		w := &skillWalker{ctx: context.Background(), root: root, folder: i, shown: folder, left: l.maxEntries(), most: l.maxEntries(), faults: &skillsError{}}
		if top, err := w.walk(".", 0); err == nil && top != nil {
			out = append(out, w.below(top)...)
		}
		_ = root.Close()
	}
	return out
}

func (w *skillWalker) below(n *skillNode) (out []string) {
	for _, c := range n.nodes {
		out = append(out, w.show(c.path))
		out = append(out, w.below(c)...)
	}
	return out
}

// sortedKeys are the keys of a map in order.
func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// skillNode is a file or a folder. Folders have the nodes in them, by name.
type skillNode struct {
	name     string
	path     string // from the root, "." for the root itself
	isFolder bool
	size     int64
	nodes    []*skillNode
}

// child returns the node with a name, nil if there is none.
func (n *skillNode) child(name string) *skillNode {
	for _, c := range n.nodes {
		if c.name == name {
			return c
		}
	}
	return nil
}

// skillWalker looks at a folder without reading files. All of its paths go through an os.Root, which follows no link out of
// the folder.
type skillWalker struct {
	root   *os.Root
	folder int
	shown  string          // the folder, as it was given
	ctx    context.Context //nolint:containedctx // a walk goes on no longer than it
	left   int             // files and folders that may still be looked at
	most   int
	links  int           // to folders, that were followed
	above  []fs.FileInfo // the folders from the root to the one that is looked at
	hidden int
	faults *skillsError
}

var errTooMany = errors.New("too many files")

// show is a path for people.
func (w *skillWalker) show(p string) string { return path.Join(w.shown, p) }

func (w *skillWalker) fault(p, format string, args ...any) {
	w.faults.add(w.folder, w.show(p), format, args...)
}

// walk returns a folder and everything in it.
func (w *skillWalker) walk(p string, depth int) (*skillNode, error) {
	out := &skillNode{name: path.Base(p), path: p, isFolder: true}
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
func (w *skillWalker) entries(p string) ([]string, error) {
	f, err := w.root.Open(p)
	if err != nil {
		w.fault(p, "cannot be read: %s", reasonOf(err))
		return nil, nil
	}
	defer func() { _ = f.Close() }()
	names, err := f.Readdirnames(w.left + w.most) // hidden ones are not counted
	if err != nil && !errors.Is(err, io.EOF) {
		w.fault(p, "cannot be read: %s", reasonOf(err))
	}
	slices.Sort(names)
	return names, nil
}

// look returns the node of one entry; nil if it has a fault.
func (w *skillWalker) look(p, name string, depth int) (*skillNode, error) {
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
	return &skillNode{name: name, path: p, size: info.Size()}, nil
}

// repeated says why a folder is not walked: a link leads to where the walk is already.
func (w *skillWalker) repeated(info fs.FileInfo) string {
	if slices.ContainsFunc(w.above, func(above fs.FileInfo) bool { return os.SameFile(above, info) }) {
		return "is a symbolic link to a folder that it is in; remove it"
	}
	return ""
}

// unreachable says why an entry cannot be looked at.
func (w *skillWalker) unreachable(p string, err error) string {
	if info, failed := w.root.Lstat(p); failed == nil && info.Mode()&fs.ModeSymlink != 0 {
		if errors.Is(err, fs.ErrNotExist) {
			return "is a symbolic link to nothing"
		}
		return "is a symbolic link out of the folder, an absolute one, or one that leads in a circle; copy what it points to"
	}
	return "cannot be read: " + reasonOf(err)
}

// reasonOf is an error without the path, which is shown beside it.
func reasonOf(err error) string {
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

// mediaTypes are the media types by which files are known. They are not the system's, so that every replica says the same.
//
//nolint:gochecknoglobals // a table that is never changed
var mediaTypes = map[string]string{
	".md": markdownType, ".markdown": markdownType,
	".json": "application/json",
	".yaml": "application/yaml", ".yml": "application/yaml",
	".toml": "application/toml",
	".xml":  "application/xml",
	".csv":  "text/csv",
	".html": "text/html", ".htm": "text/html",
	".css": "text/css",
	".js":  "text/javascript", ".mjs": "text/javascript",
	".py":  "text/x-python",
	".sh":  "application/x-sh",
	".svg": "image/svg+xml",
	".png": "image/png",
	".jpg": "image/jpeg", ".jpeg": "image/jpeg",
	".gif":  "image/gif",
	".webp": "image/webp",
	".pdf":  "application/pdf",
	".zip":  "application/zip",
	".wasm": "application/wasm",
}

// mediaType is the media type of a file, by its name, else by its content.
func mediaType(name string, data []byte) string {
	if known, ok := mediaTypes[strings.ToLower(path.Ext(name))]; ok {
		return known
	}
	if utf8.Valid(data) {
		return "text/plain"
	}
	return "application/octet-stream"
}
