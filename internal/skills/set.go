// SPDX-License-Identifier: Apache-2.0

package skills

import (
	"crypto/sha256"
	"slices"
	"unicode/utf8"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Set is all skills of some folders at one moment. It never changes, and neither do the messages that it returns. A nil
// Set is empty.
type Set struct {
	// Outside are the files that belong to no skill, which nobody can read. Hidden counts the files and folders whose names
	// begin with a dot.
	Outside []string
	Hidden  int

	files       map[string]*File
	directories map[string]*Directory
	skills      map[string]*outriggerv1.Skill
	listed      []*outriggerv1.Skill
	resources   []*outriggerv1.Resource
	digest      [sha256.Size]byte
}

// File is a file of a skill.
type File struct {
	resource *outriggerv1.Resource
	data     []byte
}

// Directory is a folder of a skill.
type Directory struct {
	resource *outriggerv1.Resource
	children []string // URIs
}

// finish orders what lists show.
func (s *Set) finish() {
	sum := sha256.New()
	for _, uri := range sorted(s.skills) {
		skill := s.skills[uri]
		s.listed = append(s.listed, skill)
		for _, f := range skill.GetResources() {
			_, _ = sum.Write([]byte(f.GetUri() + " " + f.GetDigest() + "\n")) // a hash never fails
		}
	}
	for _, uri := range sorted(s.files) {
		s.resources = append(s.resources, s.files[uri].resource)
	}
	for _, uri := range sorted(s.directories) {
		_, _ = sum.Write([]byte(uri + "\n"))
	}
	sum.Sum(s.digest[:0])
}

// IsEmpty reports whether there is no skill.
func (s *Set) IsEmpty() bool { return s == nil || len(s.listed) == 0 }

// Skills returns the entries of all skills, in the order of their URIs.
func (s *Set) Skills() []*outriggerv1.Skill {
	if s == nil {
		return nil
	}
	return s.listed
}

// Skill returns the entry of the skill with this SKILL.md.
func (s *Set) Skill(uri string) (*outriggerv1.Skill, bool) {
	if s == nil {
		return nil, false
	}
	skill, ok := s.skills[uri]
	return skill, ok
}

// Resources returns the resources of all files, in the order of their URIs.
func (s *Set) Resources() []*outriggerv1.Resource {
	if s == nil {
		return nil
	}
	return s.resources
}

// File returns the file with this URI. URIs are compared as they are: each file has exactly one.
func (s *Set) File(uri string) (*File, bool) {
	if s == nil {
		return nil, false
	}
	f, ok := s.files[uri]
	return f, ok
}

// IsFile reports whether the URI is that of a file of a skill.
func (s *Set) IsFile(uri string) bool {
	_, ok := s.File(uri)
	return ok
}

// Size returns the size of the file in bytes.
func (f *File) Size() int { return len(f.data) }

// Contents returns the content of the file: a text if it is UTF-8, else bytes.
func (f *File) Contents() *outriggerv1.ResourceContents {
	out := &outriggerv1.ResourceContents{Uri: f.resource.GetUri(), MimeType: f.resource.GetMimeType()}
	if utf8.Valid(f.data) {
		out.Data = &outriggerv1.ResourceContents_Text{Text: string(f.data)}
	} else {
		out.Data = &outriggerv1.ResourceContents_Blob{Blob: f.data}
	}
	return out
}

// IsDirectory reports whether the URI is that of a folder of a skill.
func (s *Set) IsDirectory(uri string) bool {
	if s == nil {
		return false
	}
	_, ok := s.directories[uri]
	return ok
}

// Directory returns what is directly in a folder, by name: the files that the caller may read, and the folders that have
// any below them or are empty. isFound is unset if there is no such folder. mayRead is unset if there are files below it and the caller may read
// none.
func (s *Set) Directory(uri string, may func(uri string) bool) (children []*outriggerv1.Resource, isFound, mayRead bool) {
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
func (s *Set) isVisible(uri string, may func(uri string) bool) bool {
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
func (s *Set) Changed(before *Set) []string {
	now, old := s.digests(), before.digests()
	out := map[string]bool{}
	for uri, digest := range now {
		if old[uri] != digest {
			out[uri] = true
		}
	}
	for uri := range old {
		if _, ok := now[uri]; !ok {
			out[uri] = true
		}
	}
	return sorted(out)
}

func (s *Set) digests() map[string]string {
	out := map[string]string{}
	for _, skill := range s.Skills() {
		for _, f := range skill.GetResources() {
			out[f.GetUri()] = f.GetDigest()
		}
	}
	return out
}
