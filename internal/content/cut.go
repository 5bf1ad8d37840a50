// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"slices"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Cut is one place where something was left out.
type Cut struct {
	// Path is a JSON Pointer. It names a list or a map that is shorter, or a member that is not there.
	Path string
	// IsMember is set for a member that was left out.
	IsMember bool
	// Kept and Of count the elements of a list or a map: those that are left, and those that there were.
	Kept, Of int
}

const (
	// maxCuts is how many places are reported. All that follow are counted.
	maxCuts = 16
	// maxDepth bounds how deep a document is cut; what is below stays or goes as a whole.
	maxDepth = 128
	// manyMembers is from how many members on an object without a schema is taken for a map, whose entries are left out from
	// the end, and not for a message, whose largest members are.
	manyMembers = 64
)

// CutReport says what was left out of a document.
type CutReport struct {
	// Cuts are the first places.
	Cuts []Cut
	// More counts the others.
	More int
}

// AppendCut appends a document with at most budget bytes, and says what was left out. The document is checked compact JSON. It
// reports false, and appends nothing, if the schema does not let enough of it go.
func AppendCut(dst, document []byte, budget int, of schema.View) (out []byte, report CutReport, ok bool) {
	c := &cutter{}
	body, ok := c.value(document, budget, of, "", 0)
	if !ok || len(body) > budget {
		return dst, CutReport{}, false
	}
	return append(dst, body...), c.report, true
}

// cutter cuts one document.
type cutter struct{ report CutReport }

func (c *cutter) note(cut Cut) {
	if len(c.report.Cuts) == maxCuts {
		c.report.More++
		return
	}
	c.report.Cuts = append(c.report.Cuts, cut)
}

// value is a value of at most budget bytes. It reports false, and has noted nothing, where there is none.
func (c *cutter) value(value []byte, budget int, of schema.View, path string, depth int) ([]byte, bool) {
	const brackets = 2
	switch {
	case len(value) <= budget:
		return value, true
	case budget < brackets || depth >= maxDepth || of.IsFixed() || len(value) == 0:
		return nil, false
	}
	before := c.report
	var out []byte
	ok := false
	switch value[0] {
	case '[':
		out, ok = c.array(value, budget, of.Elements(), path, depth)
	case '{':
		out, ok = c.object(value, budget, of, path, depth)
	}
	if !ok {
		before.Cuts = slices.Clip(before.Cuts)
		c.report = before
	}
	return out, ok
}

// array keeps the first elements. Where not even the first one fits, it is cut itself, so that the reader sees what kind of
// elements there are.
func (c *cutter) array(array []byte, budget int, of schema.View, path string, depth int) ([]byte, bool) {
	out := []byte{'['}
	kept, all := 0, 0
	isFull := false
	for element := range jsontext.Elements(array) {
		all++
		if isFull {
			continue
		}
		left := budget - len(out) - 1 // and a comma, or the bracket
		if kept > 0 {
			left--
		}
		if len(element) > left {
			isFull = true
			if kept > 0 {
				continue
			}
			first, ok := c.value(element, left, of, path+"/0", depth+1)
			if !ok {
				continue
			}
			element = first
		}
		if kept > 0 {
			out = append(out, ',')
		}
		out = append(out, element...)
		kept++
	}
	if kept < all {
		c.note(Cut{Path: path, Kept: kept, Of: all})
	}
	return append(out, ']'), true
}

// cutMember is one member of an object.
type cutMember struct {
	name       []byte // decoded
	quoted     []byte // with its colon
	value      []byte
	isRequired bool
	isLeftOut  bool
}

// brackets is the least size of a member that can be cut; 0 for one that cannot.
func (m *cutMember) brackets() int {
	if len(m.value) > 0 && (m.value[0] == '[' || m.value[0] == '{') {
		return len(m.quoted) + len("[],")
	}
	return 0
}

func (c *cutter) object(object []byte, budget int, of schema.View, path string, depth int) ([]byte, bool) {
	required := of.Required()
	var members []cutMember
	for name, value := range jsontext.Fields(object) {
		name = bytes.Clone(name)
		members = append(members, cutMember{
			name: name, quoted: append(jsontext.AppendText(nil, name), ':'), value: value,
			isRequired: string(name) == typeMember || slices.Contains(required, string(name)),
		})
	}
	isMap := of.IsMap() || len(members) > manyMembers && len(of.Names()) == 0
	if isMap {
		c.entries(members, budget, of, path, depth)
	} else if !c.members(members, budget, of, path, depth) {
		return nil, false
	}
	out := []byte{'{'}
	for i := range members {
		if members[i].isLeftOut {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, members[i].quoted...), members[i].value...)
	}
	return append(out, '}'), true
}

// typeMember is the member of a google.protobuf.Any without which no one can read it.
const typeMember = "@type"

// entries keeps the first entries of a map.
func (c *cutter) entries(members []cutMember, budget int, of schema.View, path string, depth int) {
	size, kept := 1, 0
	isFull := false
	for i := range members {
		m := &members[i]
		left := budget - size - len(m.quoted) - 1
		if kept > 0 {
			left--
		}
		if !isFull && len(m.value) > left {
			isFull = true
			if kept == 0 {
				below, _ := of.Member(string(m.name))
				if first, ok := c.value(m.value, left, below, schema.AppendPointer(path, string(m.name)), depth+1); ok {
					m.value = first
					kept++
					continue
				}
			}
		}
		if isFull {
			m.isLeftOut = true
			continue
		}
		if kept > 0 {
			size++
		}
		size += len(m.quoted) + len(m.value)
		kept++
	}
	if kept < len(members) {
		c.note(Cut{Path: path, Kept: kept, Of: len(members)})
	}
}

// members divides the budget among the members of an object, the smallest first, so that what one does not need is for the larger
// ones. Lists, maps and messages get equal shares, and are cut to them. Other values cannot be cut: they get what is left beside the
// brackets of the rest, or are left out. It reports false where what is required does not fit.
func (c *cutter) members(members []cutMember, budget int, of schema.View, path string, depth int) bool {
	bySize := make([]int, len(members))
	for i := range bySize {
		bySize[i] = i
	}
	size := func(i int) int { return len(members[i].quoted) + len(members[i].value) + 1 }
	slices.SortStableFunc(bySize, func(a, b int) int { return size(a) - size(b) })
	left := budget - 1 // one bracket; the other is where the last comma would be
	reserved := 0      // for the brackets of what comes
	for i := range members {
		reserved += members[i].brackets()
	}
	for n, i := range bySize {
		m := &members[i]
		reserved -= m.brackets()
		share := left - reserved
		if m.brackets() > 0 {
			share = min(share, max(left/(len(bySize)-n), m.brackets()))
		}
		if size(i) <= share {
			left -= size(i)
			continue
		}
		here := schema.AppendPointer(path, string(m.name))
		var cut []byte
		ok := false
		// The schema is asked only where something is left to cut: for each member it is read once more.
		if m.brackets() > 0 && m.brackets() <= share {
			below, _ := of.Member(string(m.name))
			cut, ok = c.value(m.value, share-len(m.quoted)-1, below, here, depth+1)
		}
		switch {
		case ok:
			m.value = cut
			left -= size(i)
		case m.isRequired:
			if left -= size(i); left < 0 {
				return false
			}
		default:
			m.isLeftOut = true
			c.note(Cut{Path: here, IsMember: true})
		}
	}
	return true
}
