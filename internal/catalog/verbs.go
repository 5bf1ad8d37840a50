// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	_ "embed" // the verbs
	"strings"
	"sync"
)

//go:embed verbs.txt
var verbsText string

// verbTable is verbs.txt: the verbs that destroy, and the words in front of a verb that are looked past.
type verbTable struct {
	destroy, past map[string]bool
}

var verbs = sync.OnceValue(func() verbTable {
	t := verbTable{destroy: map[string]bool{}, past: map[string]bool{}}
	for line := range strings.Lines(verbsText) {
		line = strings.TrimSpace(line)
		switch past, ok := strings.CutPrefix(line, "+ "); {
		case line == "", line[0] == '#':
		case ok:
			t.past[past] = true
		default:
			t.destroy[line] = true
		}
	}
	return t
})

// IsDestroying reports whether the word, in lower case, is a verb that destroys.
func IsDestroying(word string) bool { return verbs().destroy[word] }

// DestroyingVerb returns the verb of a name if that destroys, else "". The first verb of a name says what it does:
// DeleteImage, MemberRemove and BatchDelete destroy, ListDeleted and UpdateDeletePolicy do not.
func DestroyingVerb(name string) string {
	for _, word := range nameWords(name) {
		switch {
		case verbs().destroy[word]:
			return word
		case isVerb(word) && !verbs().past[word]:
			return ""
		}
	}
	return ""
}

// nameWords are the words of a method's or a tool's name, in lower case.
func nameWords(name string) []string {
	plain := strings.NewReplacer(".", "_", "-", "_", "/", "_").Replace(name)
	out := words(plain)
	for i, w := range out {
		out[i] = strings.ToLower(w)
	}
	return out
}

// UnmarkedVerb returns the verb that would mark the tool as destructive if the catalog were not built from declarations
// alone; "" if there is none.
func (t *Tool) UnmarkedVerb() string {
	if a := t.Annotations; a.Destructive != nil || t.Metadata.Destructive || a.ReadOnly != nil && *a.ReadOnly {
		return ""
	}
	names := []string{string(t.Method.Descriptor.Name()), t.Name[strings.LastIndexByte(t.Name, '.')+1:]}
	if t.Native {
		names = []string{t.NativeName}
	}
	for _, name := range names {
		if verb := DestroyingVerb(name); verb != "" {
			return verb
		}
	}
	return ""
}

// markVerb marks a tool that declares neither that it destroys nor that it does not, if its name, or that of its method,
// has a verb that destroys.
func (t *Tool) markVerb() {
	if verb := t.UnmarkedVerb(); verb != "" {
		yes := true
		t.Verb, t.Annotations.Destructive = verb, &yes
	}
}
