// SPDX-License-Identifier: Apache-2.0

package search

import (
	"slices"
	"strings"
)

// MaxQueryBytes is the maximum size of a query. Search ignores what is behind it; callers refuse longer queries.
const MaxQueryBytes = 1024

// thesaurus is what is known about words apart from the documents.
type thesaurus struct {
	stops map[string]bool
	// alike are the stems that a stem stands for besides itself.
	alike   map[string][]synonym
	phrases []phrase
	// verbs are the stems of verbs, and questions the words that questions begin with.
	verbs, questions map[string]bool
}

// synonym is a stem that another one stands for.
type synonym struct {
	stem   string
	isVerb bool
}

type phrase struct{ from, to []string }

func newThesaurus() *thesaurus {
	t := &thesaurus{stops: stopWords(), alike: map[string][]synonym{}, verbs: map[string]bool{}, questions: map[string]bool{}}
	for _, word := range questions() {
		t.questions[word] = true
	}
	isVerb := true
	for _, group := range synonyms() {
		if group == nouns {
			isVerb = false
			continue
		}
		var stems []string
		for word := range strings.FieldsSeq(group) {
			if s := stem(word); !slices.Contains(stems, s) {
				stems = append(stems, s)
			}
		}
		for _, s := range stems {
			if isVerb {
				t.verbs[s] = true
			}
			for _, other := range stems {
				if of := (synonym{other, isVerb}); other != s && !slices.Contains(t.alike[s], of) {
					t.alike[s] = append(t.alike[s], of)
				}
			}
		}
	}
	for from, to := range phrases() {
		t.phrases = append(t.phrases, phrase{strings.Fields(from), strings.Fields(to)})
	}
	slices.SortFunc(t.phrases, func(a, b phrase) int { return slices.Compare(a.from, b.from) })
	return t
}

// concept is what one word of a query may mean: the terms, of which the best one counts in each document.
type concept struct {
	weight float32
	isForm bool // of the exact form of a word
	// isImplied is set for what the query does not say. It adds to documents that are found without it.
	isImplied bool
	terms     []weighed
}

type weighed struct {
	term   int32
	weight float32
	// isAlike is set for a synonym, which counts in names and summaries only: prose has too many words.
	isAlike bool
	// isVerb is set for a synonym that is a verb, which is none where it is in the plural: ReadChanges changes nothing.
	isVerb bool
}

// How much a term counts for a word of the query that is not the same.
const (
	alikeWeight    = 0.65
	prefixWeight   = 0.6
	oneTypoWeight  = 0.75
	twoTyposWeight = 0.5
)

// impliedWeight is what a verb counts that the query only implies, and impliedOther what the less likely one counts beside the
// other. It is little: what it changes is how much of a name is in the query.
const (
	impliedWeight = 0.05
	impliedOther  = 0.7
)

// parse turns a query into what it may mean.
func (x *Index) parse(query string) []concept {
	if len(query) > MaxQueryBytes {
		query = strings.ToValidUTF8(query[:MaxQueryBytes], "")
	}
	said := slices.Collect(words(query))
	asked := x.words.replaced(said)
	var out []concept
	seen := map[string]bool{}
	first := ""
	for _, word := range asked {
		if x.words.stops[word] || seen[word] {
			continue
		}
		if first == "" {
			first = word
		}
		seen[word] = true
		out = x.meanings(out, word)
	}
	if first != "" && (x.words.questions[said[0]] || !x.words.verbs[stem(first)]) {
		out = x.implied(out, first)
	}
	return out
}

// implied adds what a question, or a query that begins with no verb, wants: to read. "The state of a workflow" and
// GetWorkflow have all words of the name in common then. A query that begins with a plural wants a list.
func (x *Index) implied(out []concept, first string) []concept {
	c := concept{weight: impliedWeight, isImplied: true}
	list, one := float32(impliedOther), float32(1)
	if strings.HasSuffix(first, "s") && stem(first) != first {
		list, one = one, list
	}
	add := func(verb string, weight float32) {
		for _, t := range x.known(nil, stem(verb), weight) {
			t.isAlike, t.isVerb = true, true
			c.terms = append(c.terms, t)
		}
	}
	add("list", list)
	for _, verb := range readingVerbs() {
		add(verb, one)
	}
	if len(c.terms) == 0 {
		return out
	}
	return append(out, c)
}

// replaced puts the words in the place of phrases that they mean.
func (t *thesaurus) replaced(in []string) []string {
	out := make([]string, 0, len(in))
next:
	for at := 0; at < len(in); {
		for _, p := range t.phrases {
			if at+len(p.from) <= len(in) && slices.Equal(in[at:at+len(p.from)], p.from) {
				out = append(out, p.to...)
				at += len(p.from)
				continue next
			}
		}
		out = append(out, in[at])
		at++
	}
	return out
}

// meanings appends the concepts of one word.
func (x *Index) meanings(out []concept, word string) []concept {
	s := stem(word)
	c := concept{weight: 1}
	c.terms = x.known(c.terms, s, 1)
	for _, other := range x.words.alike[s] {
		if id, ok := x.terms[other.stem]; ok {
			c.terms = append(c.terms, weighed{term: id, weight: alikeWeight, isAlike: true, isVerb: other.isVerb})
		}
	}
	if isParticiple(word) {
		c.weight = participleWeight
	}
	if len(c.terms) == 0 {
		if first, second, ok := x.compound(word); ok {
			return x.meanings(x.meanings(out, first), second)
		}
		c.terms = x.similar(s)
	}
	if len(c.terms) > 0 {
		out = append(out, c)
	}
	if form := x.known(nil, formMark+word, 1); form != nil {
		out = append(out, concept{weight: formWeight, terms: form, isForm: true})
	}
	return out
}

// participleWeight is what a form of a verb counts that describes something.
const participleWeight = 0.4

// isParticiple reports whether a word is a form of a verb that describes something: "a deleted table", "a running job".
func isParticiple(word string) bool {
	return len(word) > minStem+2 && (strings.HasSuffix(word, "ed") || strings.HasSuffix(word, "ing")) && stem(word) != word
}

func (x *Index) known(dst []weighed, term string, weight float32) []weighed {
	if id, ok := x.terms[term]; ok {
		return append(dst, weighed{term: id, weight: weight})
	}
	return dst
}

// compound splits a word in two that the documents have: "changelog".
func (x *Index) compound(word string) (first, second string, ok bool) {
	for at := minStem; at+minStem <= len(word); at++ {
		first, second = word[:at], word[at:]
		if x.knows(first) && x.knows(second) {
			return first, second, true
		}
	}
	return "", "", false
}

func (x *Index) knows(word string) bool {
	_, ok := x.terms[stem(word)]
	return ok
}
