// SPDX-License-Identifier: Apache-2.0

package fieldmask

import (
	"fmt"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// The bounds of a mask.
const (
	// MaxBytes is the maximum size of its text.
	MaxBytes = 8192
	// MaxPaths is the maximum number of its paths, and MaxDepth that of the names in one.
	MaxPaths = 256
	MaxDepth = 32
)

// Mask selects members of JSON documents. It is immutable. Nil selects all.
type Mask struct{ root *node }

// node says which members of the objects in one place are selected.
type node struct {
	all     bool
	members map[string]*node
	// isKept is set where no path selects the place, but the schema requires it.
	isKept bool
	// each is for the members that have no node of their own; nil for none.
	each *node
}

// New reads a mask for the documents of a schema. Faults are sentences that say what is wrong, and what to write instead; with any
// of them there is no mask. Members that the schema requires are selected too, so that what the mask leaves is valid. An empty
// text is the mask that selects all, which is nil.
func New(text string, of schema.View) (mask *Mask, faults []string) {
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
	root := newNode(of)
	for _, path := range paths {
		if fault := root.add(path, of, nil); fault != "" {
			faults = append(faults, fault)
		}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	if root.all {
		return nil, nil
	}
	return &Mask{root: root}, nil
}

// typeMember is the member of a google.protobuf.Any without which nobody can read it.
const typeMember = "@type"

// newNode is the node of a place of which nothing is selected, but for what has to be there.
func newNode(of schema.View) *node {
	for of.IsArray() {
		of = of.Elements()
	}
	n := &node{members: map[string]*node{typeMember: {all: true, isKept: true}}}
	if of.IsFixed() {
		n.all = true // its rules may need any of them
	}
	for _, name := range of.Required() {
		n.members[name] = &node{all: true, isKept: true}
	}
	return n
}

// add adds a path to what is selected of a place. It returns what is wrong with the path.
func (n *node) add(path []string, of schema.View, before []string) string {
	for of.IsArray() {
		of = of.Elements()
		if len(path) > 0 && path[0] == Every {
			before, path = append(before, path[0]), path[1:]
		}
	}
	if len(path) == 0 || len(path) == 1 && path[0] == Every {
		n.all = true
		return ""
	}
	name := path[0]
	switch {
	case of.IsScalar():
		return fmt.Sprintf("%s has no fields, so %s cannot be selected", shown(before), shown(append(before, path...)))
	case name == Every && (of.IsMap() || !of.IsClosed() && len(of.Names()) == 0):
		if n.each == nil {
			below, _ := of.Member("")
			n.each = newNode(below)
		}
		below, _ := of.Member("")
		return n.each.add(path[1:], below, append(before, name))
	case name == Every:
		return fmt.Sprintf("%s is not a map, so %s has to name one of its fields%s", shown(before), shown(append(before, name)), among(of.Names()))
	}
	below, isKnown := of.Member(name)
	if !isKnown && of.IsKnown() {
		if camel := lowerCamel(name); camel != name {
			if other, ok := of.Member(camel); ok {
				name, below, isKnown = camel, other, true
			}
		}
		if !isKnown && of.IsClosed() {
			return unknown(name, of, before)
		}
	}
	at := n.members[name]
	if at == nil || at.isKept {
		at = newNode(below)
		n.members[name] = at
	}
	return at.add(path[1:], below, append(before, name))
}

// maxNamed is how many names an error lists.
const maxNamed = 12

// unknown is what is wrong with a name that the schema does not have.
func unknown(name string, of schema.View, before []string) string {
	known := of.Names()
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
	return m.root.append(dst, document)
}

func (n *node) append(dst, value []byte) []byte {
	if n.all || len(value) == 0 {
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
			dst = n.append(dst, element)
		}
		return append(dst, ']')
	case '{':
		dst = append(dst, '{')
		isFirst := true
		for name, member := range jsontext.Fields(value) {
			below := n.members[string(name)]
			if below == nil {
				below = n.each
			}
			if below == nil {
				continue
			}
			if !isFirst {
				dst = append(dst, ',')
			}
			isFirst = false
			dst = append(jsontext.AppendText(dst, name), ':')
			dst = below.append(dst, member)
		}
		return append(dst, '}')
	}
	return append(dst, value...)
}
