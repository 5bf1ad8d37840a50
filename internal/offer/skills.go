// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/structpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Skills are the skills in some folders: a skill is a folder with a SKILL.md, whose YAML frontmatter has its name and description.
// Make one with [openSkills]. A nil Skills has none.
type Skills struct {
	folders []string
	limits  skillLimits
	current atomic.Pointer[SkillSet]
}

// openSkills reads the skills in folders.
func openSkills(folders []string, l skillLimits) (*Skills, error) {
	set, err := loadSkills(context.Background(), folders, l)
	if err != nil {
		return nil, err
	}
	s := &Skills{folders: folders, limits: l}
	s.current.Store(set)
	return s, nil
}

// Current returns the skills in use.
func (s *Skills) Current() *SkillSet {
	if s == nil {
		return &SkillSet{}
	}
	return s.current.Load()
}

// Reload reads the folders again. It returns the URIs of the files that changed, and whether anything did. After an error,
// the skills in use stay.
func (s *Skills) Reload(ctx context.Context) (changed []string, isNew bool, err error) {
	before := s.Current()
	now, err := loadSkills(ctx, s.folders, s.limits)
	if err != nil || now.digest == before.digest {
		return nil, false, err
	}
	s.current.Store(now)
	return now.Changed(before), true, nil
}

// SkillSet is all skills of some folders at one moment. It never changes, and neither do the messages that it returns.
type SkillSet struct {
	// Outside are the files that belong to no skill, which no one can read. Hidden counts the files and folders whose names
	// begin with a dot.
	Outside []string
	Hidden  int

	files       map[string]*skillFile
	directories map[string]*skillDirectory
	skills      map[string]*outriggerv1.Skill
	listed      []*outriggerv1.Skill
	resources   []*outriggerv1.Resource
	digest      [sha256.Size]byte
}

// skillFile is a file of a skill.
type skillFile struct {
	resource *outriggerv1.Resource
	data     []byte
}

// skillDirectory is a folder of a skill.
type skillDirectory struct {
	resource *outriggerv1.Resource
	children []string // URIs
}

// finish orders what lists show.
func (s *SkillSet) finish() {
	sum := sha256.New()
	for _, uri := range sortedKeys(s.skills) {
		skill := s.skills[uri]
		s.listed = append(s.listed, skill)
		for _, f := range skill.GetResources() {
			_, _ = sum.Write([]byte(f.GetUri() + " " + f.GetDigest() + "\n")) // a hash never fails
		}
	}
	for _, uri := range sortedKeys(s.files) {
		s.resources = append(s.resources, s.files[uri].resource)
	}
	for _, uri := range sortedKeys(s.directories) {
		_, _ = sum.Write([]byte(uri + "\n"))
	}
	sum.Sum(s.digest[:0])
}

// IsEmpty reports whether there is no skill.
func (s *SkillSet) IsEmpty() bool { return len(s.listed) == 0 }

// Skills returns the entries of all skills, in the order of their URIs.
func (s *SkillSet) Skills() []*outriggerv1.Skill { return s.listed }

// Skill returns the entry of the skill with this SKILL.md.
func (s *SkillSet) Skill(uri string) (*outriggerv1.Skill, bool) {
	skill, ok := s.skills[uri]
	return skill, ok
}

// Resources returns the resources of all files, in the order of their URIs.
func (s *SkillSet) Resources() []*outriggerv1.Resource { return s.resources }

// File returns the file with this URI. URIs are compared as they are: each file has exactly one.
func (s *SkillSet) File(uri string) (*skillFile, bool) {
	f, ok := s.files[uri]
	return f, ok
}

// IsFile reports whether the URI is that of a file of a skill.
func (s *SkillSet) IsFile(uri string) bool {
	_, ok := s.File(uri)
	return ok
}

// Size returns the size of the file in bytes.
func (f *skillFile) Size() int { return len(f.data) }

// Contents returns the content of the file: a text if it is UTF-8, else bytes.
func (f *skillFile) Contents() *outriggerv1.ResourceContents {
	out := &outriggerv1.ResourceContents{Uri: f.resource.GetUri(), MimeType: f.resource.GetMimeType()}
	if utf8.Valid(f.data) {
		out.Data = &outriggerv1.ResourceContents_Text{Text: string(f.data)}
	} else {
		out.Data = &outriggerv1.ResourceContents_Blob{Blob: f.data}
	}
	return out
}

// IsDirectory reports whether the URI is that of a folder of a skill.
func (s *SkillSet) IsDirectory(uri string) bool {
	_, ok := s.directories[uri]
	return ok
}

// Directory returns what is directly in a folder, by name: the files that the caller may read, and the folders that have
// any below them or are empty. isFound is unset if there is no such folder. mayRead is unset if there are files below it and the caller may read
// none.
func (s *SkillSet) Directory(uri string, may func(uri string) bool) (children []*outriggerv1.Resource, isFound, mayRead bool) {
	if !s.IsDirectory(uri) {
		return nil, false, false
	}
	if !s.isVisible(uri, may) {
		return nil, true, false
	}
	for _, child := range s.directories[uri].children {
		if f, ok := s.files[child]; ok && may(child) {
			children = append(children, f.resource)
		} else if d, ok := s.directories[child]; ok && s.isVisible(child, may) {
			children = append(children, d.resource)
		}
	}
	return children, true, true
}

// isVisible reports whether a caller may see a folder.
func (s *SkillSet) isVisible(uri string, may func(uri string) bool) bool {
	children := s.directories[uri].children
	if len(children) == 0 {
		return may(uri)
	}
	return slices.ContainsFunc(children, func(child string) bool {
		if _, ok := s.directories[child]; ok {
			return s.isVisible(child, may)
		}
		return may(child)
	})
}

// Changed returns the URIs of the files that differ between two sets or that only one of them has, in order.
func (s *SkillSet) Changed(before *SkillSet) []string {
	out := s.digests()
	for uri, digest := range before.digests() {
		if out[uri] == digest {
			delete(out, uri)
		} else {
			out[uri] = digest
		}
	}
	return sortedKeys(out)
}

func (s *SkillSet) digests() map[string]string {
	out := map[string]string{}
	for _, skill := range s.Skills() {
		for _, f := range skill.GetResources() {
			out[f.GetUri()] = f.GetDigest()
		}
	}
	return out
}

const (
	// skillScheme begins the URIs of all skills that come from folders.
	skillScheme = "skill://"
	// skillFileName is the name of the file that makes a folder a skill.
	skillFileName = "SKILL.md"
	// directoryType is the media type of directories.
	directoryType = "inode/directory"
	// markdownType is the media type of SKILL.md.
	markdownType = "text/markdown"
)

// skillURI is the URI of a path, whose segments are separated by "/". All characters but the unreserved ones of RFC 3986
// are percent-encoded, so that one path has one URI.
func skillURI(path string) string {
	const digits = "0123456789ABCDEF"
	out := make([]byte, 0, len(skillScheme)+len(path))
	out = append(out, skillScheme...)
	for i := range len(path) {
		if c := path[i]; c == '/' || isUnreserved(c) {
			out = append(out, c)
		} else {
			out = append(out, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(out)
}

func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// checkFileName says why a file or folder cannot have a URI. The name is a single segment.
func checkFileName(name string) error {
	switch {
	case !utf8.ValidString(name):
		return errors.New("its name is not UTF-8")
	case strings.ContainsFunc(name, unicode.IsControl):
		return errors.New("its name has control characters")
	case strings.ContainsRune(name, '\\'):
		return errors.New("its name has a backslash, which other systems take for a separator")
	}
	return nil
}

// checkAuthority holds the first segment of a skill's path against what the place of a host in a URI admits.
func checkAuthority(segment string) error {
	for i := range len(segment) {
		if !isUnreserved(segment[i]) {
			return fmt.Errorf("the folder %q begins the path of a skill: use letters, digits, '-', '.', '_' and '~' in its name", shorten(segment))
		}
	}
	return nil
}

// checkSkill holds the entry of a skill against the rules of the extension that the contract's own do not have: the name is that
// of the folder, and the files are complete and below it, within the limits.
func checkSkill(s *outriggerv1.Skill) error {
	folder, ok := strings.CutSuffix(s.GetUri(), "/"+skillFileName)
	if !ok {
		return fmt.Errorf("skill %s: the URI does not end in /%s", shorten(s.GetUri()), skillFileName)
	}
	name, description := skillNamed(s)
	switch {
	case checkSkillName(name) != nil:
		return fmt.Errorf("skill %s: %w", shorten(s.GetUri()), checkSkillName(name))
	case name != path.Base(folder):
		return fmt.Errorf("skill %s: the name in its frontmatter is %q", shorten(s.GetUri()), shorten(name))
	case description == "":
		return fmt.Errorf("skill %s: its frontmatter has no description", shorten(s.GetUri()))
	case s.GetDynamic() && len(s.GetResources()) > 0:
		return fmt.Errorf("skill %s: it is dynamic and has digests", shorten(s.GetUri()))
	case s.GetDynamic():
		return nil
	}
	if err := checkSkillFiles(s, folder); err != nil {
		return fmt.Errorf("skill %s: %w", shorten(s.GetUri()), err)
	}
	return nil
}

func checkSkillFiles(s *outriggerv1.Skill, folder string) error {
	seen, size := map[string]bool{}, int64(0)
	for _, f := range s.GetResources() {
		switch {
		case seen[f.GetUri()]:
			return fmt.Errorf("the file %s is listed twice", shorten(f.GetUri()))
		case !strings.HasPrefix(f.GetUri(), folder+"/"):
			return fmt.Errorf("the file %s is not in its folder", shorten(f.GetUri()))
		}
		seen[f.GetUri()] = true
		size += f.GetSize()
	}
	most := skillLimits{}.withDefaults()
	switch {
	case !seen[s.GetUri()]:
		return errors.New("its files lack " + skillFileName)
	case len(seen) > most.MaxFiles:
		return fmt.Errorf("it has %d files; the limit is %d", len(seen), most.MaxFiles)
	case size > most.MaxBytes:
		return fmt.Errorf("its files have %d bytes; the limit is %d", size, most.MaxBytes)
	}
	return nil
}

// skillNamed is the name and the description in the frontmatter of an entry.
func skillNamed(s *outriggerv1.Skill) (name, description string) {
	if fields := s.GetFrontmatter().GetFields(); fields != nil {
		return textIn(fields["name"]), textIn(fields["description"])
	}
	for key, raw := range jsontext.Members(s.GetFrontmatterJson()) {
		switch key {
		case "name":
			name, _ = jsontext.Text(raw)
		case "description":
			description, _ = jsontext.Text(raw)
		}
	}
	return name, description
}

func textIn(v *structpb.Value) string { return v.GetStringValue() }
