// SPDX-License-Identifier: Apache-2.0

package fieldmask

import (
	"fmt"
	"strconv"
	"strings"
)

// Every stands in a path for all entries of a map.
const Every = "*"

// Join is a path as a mask writes it. It reports false for one that no mask can name.
func Join(path []string) (text string, ok bool) {
	if len(path) == 0 || len(path) > MaxDepth {
		return "", false
	}
	var out strings.Builder
	for i, name := range path {
		if i > 0 {
			out.WriteByte('.')
		}
		switch {
		case name == Every || isPlain(name):
			out.WriteString(name)
		case strings.Contains(name, "`"):
			return "", false
		default:
			out.WriteString("`" + name + "`")
		}
	}
	return out.String(), true
}

// isPlain reports whether a name needs no backquotes.
func isPlain(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
		case i > 0 && ('0' <= c && c <= '9' || c == '-'):
		default:
			return false
		}
	}
	return name != ""
}

// split reads the paths of a mask. fault says what is wrong with it; empty if nothing is.
func split(text string) (paths [][]string, fault string) {
	for rest := text; ; {
		path, tail, fault := readPath(strings.TrimLeft(rest, " \t"))
		if fault != "" {
			return nil, fault
		}
		if paths = append(paths, path); len(paths) > MaxPaths {
			return nil, fmt.Sprintf("the mask has more than %d paths", MaxPaths)
		}
		if tail == "" {
			return paths, ""
		}
		rest = tail[1:] // behind the comma
	}
}

// readPath reads one path. rest begins with the comma behind it, or is empty.
func readPath(text string) (path []string, rest, fault string) {
	for rest = text; ; rest = rest[1:] {
		var name string
		if strings.HasPrefix(rest, "`") {
			end := strings.IndexByte(rest[1:], '`')
			if end < 0 {
				return nil, "", "a backquote in the mask is not closed"
			}
			name, rest = rest[1:1+end], rest[1+end+1:]
		} else {
			end := strings.IndexAny(rest, ".,`")
			if end < 0 {
				end = len(rest)
			}
			name, rest = rest[:end], rest[end:]
			if rest == "" || rest[0] == ',' {
				name = strings.TrimRight(name, " \t")
			}
			if name == "" {
				return nil, "", "a path in the mask is empty, or has an empty name; write paths such as items.name, separated by commas"
			}
		}
		if path = append(path, name); len(path) > MaxDepth {
			return nil, "", fmt.Sprintf("a path in the mask has more than %d names", MaxDepth)
		}
		switch {
		case rest == "" || rest[0] == ',':
			return path, rest, ""
		case rest[0] != '.':
			return nil, "", "a name in the mask is followed by " + strconv.QuoteToASCII(rest[:1]) + "; a dot or a comma comes between names"
		}
	}
}

// lowerCamel is the JSON name that protoc gives to a field.
func lowerCamel(name string) string {
	if strings.IndexByte(name, '_') < 0 {
		return name
	}
	out := make([]byte, 0, len(name))
	upper := false
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_':
			upper = true
			continue
		case upper && 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		}
		upper = false
		out = append(out, c)
	}
	return string(out)
}

// maxShown bounds what an error repeats of a path.
const maxShown = 256

// shown is a path as an error shows it.
func shown(path []string) string {
	if len(path) == 0 {
		return "the result"
	}
	text := strings.Join(path, ".")
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "..."
	}
	return strconv.Quote(text)
}
