// SPDX-License-Identifier: Apache-2.0

package skills

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// Scheme begins the URIs of all skills that come from folders.
	Scheme = "skill://"
	// FileName is the name of the file that makes a folder a skill.
	FileName = "SKILL.md"
	// DirectoryType is the media type of directories.
	DirectoryType = "inode/directory"
	// MarkdownType is the media type of SKILL.md.
	MarkdownType = "text/markdown"
)

// URI returns the URI of a path, whose segments are separated by "/". All characters but the unreserved ones of RFC 3986
// are percent-encoded, so that one path has one URI.
func URI(path string) string {
	const digits = "0123456789ABCDEF"
	out := make([]byte, 0, len(Scheme)+len(path))
	out = append(out, Scheme...)
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
			return fmt.Errorf("the folder %q begins the path of a skill: use letters, digits, '-', '.', '_' and '~' in its name", cut(segment))
		}
	}
	return nil
}
