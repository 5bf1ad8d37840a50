// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/program/types"
)

// maxMeant bounds the fields that an unknown one is compared with by its words.
const maxMeant = 500

// meantField is the field that a writer most likely meant by one that a message does not have: a near spelling, the same words, its
// beginning, or a field of one of its messages. typ is nil for what is no message.
func (c *checker) meantField(t *types.Type, name string, known []string) string {
	if near := nearest(name, known); near != "" {
		return near
	}
	if t != nil {
		if same := sameWords(t, name); same != "" {
			return same
		}
	}
	if begun := begunBy(name, known); begun != "" || t == nil {
		return begun
	}
	looked := 0
	for _, f := range t.Fields() {
		if f.Type == nil || f.Type.Kind != types.Message {
			continue
		}
		if looked += len(f.Type.Fields()) + 1; looked > maxMeant {
			break
		}
		if inner := f.Type.Field(name); inner != nil {
			return f.Name + "." + inner.Name
		}
	}
	return ""
}

// leastBegun is how long the beginning of a name has to be that says which one is meant.
const leastBegun = 3

// begunBy is the only known name that begins with another; empty if there is none, or several.
func begunBy(name string, known []string) (found string) {
	if len(name) < leastBegun {
		return ""
	}
	for _, one := range known[:min(len(known), maxMeant)] {
		if strings.HasPrefix(one, name) {
			if found != "" {
				return ""
			}
			found = one
		}
	}
	return found
}

// meantMember is meantField for an argument, whose messages are dicts.
func (c *checker) meantMember(t *types.Type, name string) string {
	meant := c.meantField(t, name, namesOf(t))
	if outer, inner, isNested := strings.Cut(meant, "."); isNested {
		return outer + `={"` + inner + `": …}`
	}
	return meant
}

// sameWords is the only field with the words of a name in another order or number, with more words before or after them, or else with the
// same last word; empty if there is none, or several.
func sameWords(t *types.Type, name string) string {
	want := wordsOf(name)
	if len(want) == 0 || len(t.Fields()) > maxMeant {
		return ""
	}
	for _, isAlike := range [...]func(have []string) bool{
		func(have []string) bool { return sameSet(have, want) },
		func(have []string) bool {
			return len(have) > len(want) && slices.Equal(have[len(have)-len(want):], want)
		},
		func(have []string) bool { return len(have) > len(want) && slices.Equal(have[:len(want)], want) },
		func(have []string) bool {
			return len(want) > len(have) && slices.Equal(want[len(want)-len(have):], have)
		},
		func(have []string) bool { return len(want) > len(have) && slices.Equal(want[:len(have)], have) },
		func(have []string) bool {
			return len(want) > 1 && len(have) > 0 && have[len(have)-1] == want[len(want)-1]
		},
		func(have []string) bool { return len(want) > 1 && len(have) > 0 && have[0] == want[0] },
	} {
		found := ""
		for _, f := range t.Fields() {
			if !isAlike(wordsOf(f.Name)) {
				continue
			}
			if found != "" {
				found = ""
				break
			}
			found = f.Name
		}
		if found != "" {
			return found
		}
	}
	return ""
}

// maxWords bounds the words of a name that are looked at.
const maxWords = 8

// wordsOf are the words of a name in either spelling, in lower case and in the singular.
func wordsOf(name string) []string {
	if len(name) > maxText {
		return nil
	}
	var b strings.Builder
	for i, r := range name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	words := strings.FieldsFunc(strings.ToLower(b.String()), func(r rune) bool { return r == '_' })
	if len(words) > maxWords {
		return nil
	}
	for i, word := range words {
		words[i] = singular(word)
	}
	return words
}

func singular(word string) string {
	switch {
	case len(word) > 3 && strings.HasSuffix(word, "ies"):
		return strings.TrimSuffix(word, "ies") + "y"
	case len(word) > 2 && strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss"):
		return strings.TrimSuffix(word, "s")
	}
	return word
}

// sameSet reports whether two lists have the same words in any order.
func sameSet(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}
