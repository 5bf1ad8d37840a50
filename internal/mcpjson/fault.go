// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"fmt"
	"strconv"
	"strings"
)

// InvalidError means that a message cannot be written, or a value cannot be read.
type InvalidError struct {
	// Path is a JSON Pointer (RFC 6901) to the fault; empty for the whole.
	// When writing, it leads through the message by its JSON names
	// ("/content/0/image/mime_type") and into free-form JSON text. When reading, it
	// leads through the value.
	Path string
	// Reason is one short sentence that says what to change. It repeats nothing
	// from the value.
	Reason string
}

// Error returns the reason, with the path if there is one.
func (e *InvalidError) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return e.Path + ": " + e.Reason
}

// UnsupportedError means that the caller's revision of MCP cannot express a question.
// The message is valid: a client of a newer revision could be asked.
type UnsupportedError struct {
	Revision Revision
	// Feature is the missing feature, such as "elicitation with a URL".
	Feature string
}

// Error names the feature and the revision.
func (e *UnsupportedError) Error() string {
	return "MCP " + e.Revision.String() + " has no " + e.Feature
}

const (
	// maxTrail is more than the levels of the deepest message or value that is
	// translated: a resource with icons, in a tool's result, in a conversation,
	// in one of several questions. Deeper ones would only lose the end of a path.
	maxTrail = 16
	// maxPathBytes bounds a path: names in it can come from a sender, and paths
	// go into replies and logs.
	maxPathBytes = 512
)

// segment is one step of a path: an index, or a name where the index is negative.
type segment struct {
	name  string
	index int
}

// trail is where the work is, and the first thing that went wrong. Later faults
// are dropped: one is enough to refuse, and later ones may follow from it.
type trail struct {
	segments [maxTrail]segment // an array, so that a good message pays no allocation for it
	depth    int
	err      error
}

func (t *trail) enter(name string) { t.push(segment{name: name, index: -1}) }

func (t *trail) item(i int) { t.push(segment{index: i}) }

func (t *trail) push(s segment) {
	if t.depth < maxTrail {
		t.segments[t.depth] = s
	}
	t.depth++
}

func (t *trail) leave() { t.depth-- }

// fail keeps a fault of what is here.
func (t *trail) fail(format string, args ...any) { t.failBelow("", format, args...) }

// failIn keeps a fault of the member with this name.
func (t *trail) failIn(name, format string, args ...any) {
	t.enter(name)
	t.fail(format, args...)
	t.leave()
}

// failBelow keeps a fault of something below, to which the pointer leads.
func (t *trail) failBelow(pointer, format string, args ...any) {
	if t.err != nil {
		return
	}
	path := t.path()
	if len(path)+len(pointer) <= maxPathBytes {
		path += pointer
	}
	t.err = &InvalidError{Path: path, Reason: fmt.Sprintf(format, args...)}
}

// path is the pointer to what is here, cut at whole segments where it is long.
func (t *trail) path() string {
	var b strings.Builder
	for _, s := range t.segments[:min(t.depth, maxTrail)] {
		step := strconv.Itoa(s.index)
		if s.index < 0 {
			step = pointerEscaper().Replace(s.name)
		}
		if b.Len()+1+len(step) > maxPathBytes {
			break
		}
		b.WriteByte('/')
		b.WriteString(step)
	}
	return b.String()
}

// pointerEscaper escapes a segment of a JSON Pointer (RFC 6901, section 3).
func pointerEscaper() *strings.Replacer { return strings.NewReplacer("~", "~0", "/", "~1") }
