// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/fieldmask"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/truncate"
)

const (
	// looked is how many elements of a list are looked at for their fields: those of a oneof differ between elements. maxLooked is how
	// many members are looked at in all.
	looked    = 8
	maxLooked = 512
	// maxBelow is how many objects deep a field may be below the place of a cut.
	maxBelow = 3
	// tries is how many masks are applied to the whole before there is no example.
	tries = 4
	// worthwhile is the part of the whole that a good example saves.
	worthwhile = 5
	// maxExample bounds the text of an example, and longValue the size of a value that is not worth being asked for by itself.
	maxExample = 256
	longValue  = 256
)

// Example returns a field mask with one path of a document that was cut, as an example for its reader: if possible the path of a name or
// an id within a list or map that was cut. The schema has the path, and the document is smaller with it, if possible by a fifth. The
// mask is empty if there is no such path.
func Example(of schema.View, whole []byte, cuts []truncate.Cut) string {
	bySize := slices.Clone(cuts)
	slices.SortStableFunc(bySize, func(a, b truncate.Cut) int {
		return cmp.Or(
			cmp.Compare(boolean(a.IsMember), boolean(b.IsMember)),
			cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/")),
			cmp.Compare(b.Of-b.Kept, a.Of-a.Kept),
		)
	})
	var tried []string
	best, least := "", len(whole)
	for i := range bySize {
		for _, path := range pathsAt(of, whole, &bySize[i]) {
			text, ok := fieldmask.Join(path)
			if !ok || len(text) > maxExample || slices.Contains(tried, text) {
				continue
			}
			if len(tried) == tries {
				return best
			}
			tried = append(tried, text)
			mask, faults := fieldmask.New(text, of)
			if len(faults) > 0 || mask == nil {
				continue
			}
			size := len(mask.Append(nil, whole))
			if size < least {
				best, least = text, size
			}
			if size <= len(whole)-len(whole)/worthwhile {
				return text
			}
		}
	}
	return best
}

// boolean is a bool in an order.
func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// level is an object or an array on the way to a place, with its path in a mask.
type level struct {
	path  []string
	value []byte
	of    schema.View
}

// pathsAt are the paths that teach something about a cut, the best ones first: fields within the place, then fields beside it and
// beside what it is in.
func pathsAt(of schema.View, whole []byte, cut *truncate.Cut) [][]string {
	levels := []level{{value: whole, of: of}}
	for token := range pointer(cut.Path) {
		at := levels[len(levels)-1]
		next, ok := at.member(token)
		if !ok {
			return nil
		}
		levels = append(levels, next)
	}
	var out [][]string
	if at := levels[len(levels)-1]; !cut.IsMember {
		out = at.fields(jsontext.IsObject(at.value))
	}
	for _, at := range slices.Backward(levels[:len(levels)-1]) {
		if jsontext.IsObject(at.value) && !at.of.IsMap() {
			out = append(out, at.fields(false)...)
		}
	}
	return out
}

// pointer yields the names in a JSON Pointer.
func pointer(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if text == "" {
			return
		}
		for token := range strings.SplitSeq(text[1:], "/") {
			if !yield(strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")) {
				return
			}
		}
	}
}

// member is the level that a name in a JSON Pointer leads to. A mask goes through lists by itself, and through maps with "*".
func (l level) member(token string) (level, bool) {
	if !jsontext.IsObject(l.value) {
		index, err := strconv.Atoi(token)
		if err != nil {
			return level{}, false
		}
		for element := range jsontext.Elements(l.value) {
			if index--; index < 0 {
				return level{path: l.path, value: element, of: l.of.Elements()}, true
			}
		}
		return level{}, false
	}
	value, ok := jsontext.Lookup(l.value, token)
	below, _ := l.of.Member(token)
	if l.of.IsMap() {
		token = fieldmask.Every
	}
	return level{path: append(slices.Clip(l.path), token), value: value, of: below}, ok
}

// field is a field of a message, or of the messages of a list.
type field struct {
	path []string
	rank int
}

// fields are the paths of scalar fields below a level, the best ones first. isMap tells a map from a message.
func (l level) fields(isMap bool) [][]string {
	s := scalars{left: maxLooked}
	s.below(l, isMap, maxBelow)
	slices.SortStableFunc(s.found, func(a, b field) int { return cmp.Compare(a.rank, b.rank) })
	out := make([][]string, len(s.found))
	for i := range s.found {
		out[i] = s.found[i].path
	}
	return out
}

// scalars finds scalar fields.
type scalars struct {
	found []field
	// left is how many members may still be looked at.
	left int
}

// below looks below a level. depth is how many objects deep the fields may be.
func (s *scalars) below(l level, isMap bool, depth int) {
	n := 0
	for element := range jsontext.Elements(l.value) {
		if n++; n > looked {
			return
		}
		s.below(level{path: l.path, value: element, of: l.of.Elements()}, false, depth)
	}
	isMap = isMap || l.of.IsMap()
	for name, value := range jsontext.Members(l.value) {
		n++
		if s.left--; s.left < 0 || isMap && n > looked {
			return
		}
		of, _ := l.of.Member(name)
		if isMap {
			name = fieldmask.Every
		}
		path := append(slices.Clip(l.path), name)
		switch {
		case isNested(value):
			if depth > 0 {
				s.below(level{path: path, value: value, of: of}, false, depth-1)
			}
		case isMap, jsontext.IsNull(value), name == typeMember:
		case len(value) > longValue:
			s.found = append(s.found, field{path, last})
		default:
			s.found = append(s.found, field{path, rankOf(name) + perLevel*(maxBelow-depth)})
		}
	}
}

// isNested reports whether a value has members or elements.
func isNested(value []byte) bool { return len(value) > 0 && (value[0] == '{' || value[0] == '[') }

// typeMember is the member of a google.protobuf.Any that every mask selects.
const typeMember = "@type"

// Ranks of fields, from 0 for the best one.
const (
	// perLevel is what each level below the place of the cut adds.
	perLevel = 5
	// worst is that of a name that says nothing: behind all that do.
	worst = perLevel * (maxBelow + 1)
	// last is that of a value that is too long to be an example.
	last = 2 * worst
)

// rankOf tells how well a name identifies what it is in: 0 is best.
func rankOf(name string) int {
	flat := strings.ToLower(strings.ReplaceAll(name, "_", ""))
	switch flat {
	case "name":
		return 0
	case "id":
		return 1
	case "displayname", "title", "label", "key", "code", "uid", "uuid", "uri":
		return 2
	}
	switch {
	case strings.HasSuffix(flat, "name"):
		return 3
	case strings.HasSuffix(name, "Id"), strings.HasSuffix(name, "ID"), strings.HasSuffix(name, "_id"):
		return 4
	}
	return worst
}
