// SPDX-License-Identifier: Apache-2.0

package content

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// The bounds of a mask.
const (
	// MaxBytes is the maximum size of its text.
	MaxBytes = 8192
	// maxPaths is the maximum number of its paths, and maxMaskDepth that of the names in one.
	maxPaths     = 256
	maxMaskDepth = 32
	// maxNames is the maximum number of names in all paths.
	maxNames = 1024
	// maxFaults is how many faults are told.
	maxFaults = 8
)

// Mask selects members of JSON documents. It is immutable. Nil selects all.
//
// A path names members as they are in the JSON document, or as they are in the Protobuf message ("next_page_token"). It goes
// through the elements of lists and needs no mark for them; "*" represents all entries of a map, or all elements of a list. An
// entry of a map is named by its key, between backquotes if it is not a plain word. A path selects all that is below its last
// member. What a path selects that is not in a document is left out, as any unset field is.
type Mask struct{ root *node }

// node says which members of the objects in one place are selected.
type node struct {
	all     bool
	members map[string]*node
	// isKept is set where no path selects the place, but the schema requires it.
	isKept bool
	// each is for every member, also for those that have a node of their own; nil for none.
	each *node
}

// newMask reads a mask for the documents of a schema. Faults are sentences that say what is wrong, and what to write instead; with any
// of them there is no mask. Members that the schema requires are selected too, so that what the mask leaves is valid. An empty
// text is the mask that selects all, which is nil. member is empty, or the member of a larger document that the reader gets
// such a document as: then each path begins with its name.
func newMask(text string, of schema.View, member string) (mask *Mask, faults []string) {
	if len(text) > MaxBytes {
		return nil, []string{fmt.Sprintf("the mask has %d bytes; at most %d are read", len(text), MaxBytes)}
	}
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	paths, fault := split(text)
	if fault != "" {
		return nil, []string{fault}
	}
	names := 0
	for _, path := range paths {
		names += len(path)
	}
	if names > maxNames {
		return nil, []string{fmt.Sprintf("the paths of the mask have %d names; at most %d are read", names, maxNames)}
	}
	r := &maskReader{places: map[*byte]*maskPlace{}}
	at := r.place(of)
	root := r.node(at)
	for _, path := range paths {
		var fault string
		switch {
		case member == "":
			fault = r.add(root, path, at, nil)
		case path[0] == member:
			fault = r.add(root, path[1:], at, []string{member})
		default:
			fault = r.outside(path, at, member)
		}
		if fault == "" {
			continue
		}
		if len(faults) == maxFaults {
			return nil, append(faults, "more paths are wrong")
		}
		faults = append(faults, fault)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	if root.all {
		return nil, nil
	}
	return &Mask{root: root}, nil
}

// maskReader reads masks. It asks the schema once about each place, however many names lead there: a schema may have a megabyte, and
// refer to itself.
type maskReader struct{ places map[*byte]*maskPlace }

// maskPlace is what the schema says of a place. Of a list it is what it says of the elements.
type maskPlace struct {
	view schema.View
	// lists is how many lists are around the place.
	lists                                       int
	isKnown, isScalar, isMap, isClosed, isFixed bool
	required, names                             []string
	members                                     map[string]schema.View
}

// maxLists bounds how many lists are in one another. What is deeper is taken for a place of which nothing is known: a list of
// JSON Schema may contain itself.
const maxLists = 32

func (r *maskReader) place(of schema.View) *maskPlace {
	lists := 0
	for of.IsArray() {
		if lists++; lists > maxLists {
			of, lists = schema.View{}, 0
			break
		}
		of = of.Elements()
	}
	at := of.At()
	if at == nil {
		return &maskPlace{view: of, lists: lists, isFixed: of.IsFixed()}
	}
	known := r.places[at]
	if known == nil {
		known = &maskPlace{
			view: of, isKnown: of.IsKnown(), isScalar: of.IsScalar(), isMap: of.IsMap(), isClosed: of.IsClosed(), isFixed: of.IsFixed(),
			required: of.Required(), names: of.Names(), members: of.Properties(),
		}
		r.places[at] = known
	}
	if lists > 0 {
		within := *known
		within.lists = lists
		return &within
	}
	return known
}

// member is the place of a member, and whether the schema describes it.
func (r *maskReader) member(of *maskPlace, name string) (*maskPlace, bool) {
	if view, ok := of.members[name]; ok {
		return r.place(view), true
	}
	view, isKnown := of.view.Member(name)
	return r.place(view), isKnown
}

// node is the node of a place of which nothing is selected, but for what has to be there.
func (r *maskReader) node(of *maskPlace) *node {
	n := &node{members: map[string]*node{typeMember: {all: true, isKept: true}}}
	if of.isFixed {
		n.all = true // its rules may need any of them
	}
	for _, name := range of.required {
		n.members[name] = &node{all: true, isKept: true}
	}
	return n
}

// add adds a path to what is selected of a place. It returns what is wrong with the path.
func (r *maskReader) add(n *node, path []string, of *maskPlace, before []string) string {
	for range of.lists {
		if len(path) > 0 && path[0] == anyEntry {
			before, path = append(before, path[0]), path[1:]
		}
	}
	if len(path) == 0 || len(path) == 1 && path[0] == anyEntry {
		n.all = true
		return ""
	}
	name := path[0]
	switch {
	case of.isScalar:
		return fmt.Sprintf("%s has no fields, so %s cannot be selected", shown(before), shown(append(before, path...)))
	case name == anyEntry && (of.isMap || !of.isClosed && len(of.names) == 0):
		below, _ := r.member(of, "")
		if n.each == nil {
			n.each = r.node(below)
		}
		return r.add(n.each, path[1:], below, append(before, name))
	case name == anyEntry:
		return fmt.Sprintf("%s is not a map, so %s has to name one of its fields%s", shown(before), shown(append(before, name)), among(of.names))
	}
	below, isKnown := r.member(of, name)
	if !isKnown && of.isKnown {
		if camel := lowerCamel(name); camel != name {
			if other, ok := r.member(of, camel); ok {
				name, below, isKnown = camel, other, true
			}
		}
		if !isKnown && of.isClosed {
			return unknown(name, of.names, before)
		}
	}
	at := n.members[name]
	if at == nil || at.isKept {
		at = r.node(below)
		n.members[name] = at
	}
	return r.add(at, path[1:], below, append(before, name))
}

// outside is what is wrong with a path that does not begin with a member.
func (r *maskReader) outside(path []string, of *maskPlace, member string) string {
	example := path
	if _, ok := of.members[path[0]]; !ok && len(of.names) > 0 {
		example = of.names[:1]
	}
	return fmt.Sprintf("%s does not begin with %s; write paths such as %s", shown(path), member, shown(append([]string{member}, example...)))
}

// maxNamed is how many names an error lists.
const maxNamed = 12

// unknown is what is wrong with a name that the schema does not have.
func unknown(name string, known, before []string) string {
	path := shown(append(before, name))
	if near := schema.Nearest(name, known); near != "" {
		return fmt.Sprintf("the result has no field %s; did you mean %s?", path, shown(append(before, near)))
	}
	return fmt.Sprintf("the result has no field %s%s", path, among(known))
}

// among lists what could have been written; empty where nothing could.
func among(known []string) string {
	if len(known) == 0 {
		return ""
	}
	more := ""
	if len(known) > maxNamed {
		more = fmt.Sprintf(" and %d more", len(known)-maxNamed)
		known = known[:maxNamed]
	}
	return "; there are " + strings.Join(known, ", ") + more
}

// Append appends a document without what is not selected. The document is checked JSON; its numbers and texts are copied as they
// are.
func (m *Mask) Append(dst, document []byte) []byte {
	if m == nil {
		return append(dst, document...)
	}
	w := maskWriter{scratch: make([]*node, 1, 2*maxMaskDepth)}
	w.scratch[0] = m.root
	return w.append(dst, document, 0)
}

// maskWriter writes what is selected of one document. A member may be named by itself and as one of all entries, so that each place has
// several nodes, and has what any of them selects: scratch has those of all places around the current one.
type maskWriter struct{ scratch []*node }

// append appends a value whose nodes begin at a place of the scratch space.
func (w *maskWriter) append(dst, value []byte, from int) []byte {
	if len(value) == 0 || slices.ContainsFunc(w.scratch[from:], func(n *node) bool { return n.all }) {
		return append(dst, value...)
	}
	switch value[0] {
	case '[':
		dst = append(dst, '[')
		isFirst := true
		for element := range jsontext.Elements(value) {
			if !isFirst {
				dst = append(dst, ',')
			}
			isFirst = false
			dst = w.append(dst, element, from)
		}
		return append(dst, ']')
	case '{':
		dst = append(dst, '{')
		isFirst := true
		to := len(w.scratch)
		for name, member := range jsontext.Fields(value) {
			for i := from; i < to; i++ {
				w.below(w.scratch[i], name)
			}
			if len(w.scratch) == to {
				continue
			}
			if !isFirst {
				dst = append(dst, ',')
			}
			isFirst = false
			dst = append(jsontext.AppendText(dst, name), ':')
			dst = w.append(dst, member, to)
			w.scratch = w.scratch[:to]
		}
		return append(dst, '}')
	}
	return append(dst, value...)
}

// below adds the nodes of a member.
func (w *maskWriter) below(n *node, name []byte) {
	if own := n.members[string(name)]; own != nil {
		w.scratch = append(w.scratch, own)
	}
	if n.each != nil {
		w.scratch = append(w.scratch, n.each)
	}
}

// anyEntry is in a path for all entries of a map.
const anyEntry = "*"

// joinPath is a path as a mask writes it. It reports false for one that no mask can name.
func joinPath(path []string) (text string, ok bool) {
	if len(path) == 0 || len(path) > maxMaskDepth {
		return "", false
	}
	var out strings.Builder
	for i, name := range path {
		if i > 0 {
			out.WriteByte('.')
		}
		switch {
		case name == anyEntry || isPlain(name):
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
		if paths = append(paths, path); len(paths) > maxPaths {
			return nil, fmt.Sprintf("the mask has more than %d paths", maxPaths)
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
		if path = append(path, name); len(path) > maxMaskDepth {
			return nil, "", fmt.Sprintf("a path in the mask has more than %d names", maxMaskDepth)
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

// maxPathShown bounds what an error repeats of a path.
const maxPathShown = 256

// shown is a path as an error shows it.
func shown(path []string) string {
	if len(path) == 0 {
		return "the result"
	}
	text := strings.Join(path, ".")
	if len(text) > maxPathShown {
		text = strings.ToValidUTF8(text[:maxPathShown], "") + "..."
	}
	return strconv.Quote(text)
}
