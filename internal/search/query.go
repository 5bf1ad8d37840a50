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
	// verbs are the stems of verbs, and intents what they do.
	verbs   map[string]bool
	intents map[string]intent
	// questions are the words that questions begin with, and answers the stems of what they ask for.
	questions map[string]bool
	answers   map[string][]string
	// What else the place of a word is read from. See intent.go.
	determiners, openers, prepositions, after map[string]bool
}

// synonym is a stem that another one stands for.
type synonym struct {
	stem            string
	isVerb, isLoose bool
}

type phrase struct{ from, to []string }

func newThesaurus() *thesaurus {
	t := &thesaurus{
		stops: stopWords(), alike: map[string][]synonym{}, verbs: map[string]bool{}, intents: map[string]intent{}, answers: map[string][]string{},
		questions: set(questions), determiners: set(determiners), openers: set(openers), prepositions: set(prepositions), after: set(after),
	}
	t.learn(verbSynonyms(), synonym{isVerb: true})
	t.learn(nounSynonyms(), synonym{})
	t.learn(looseVerbSynonyms(), synonym{isVerb: true, isLoose: true})
	t.learn(looseNounSynonyms(), synonym{isLoose: true})
	for of, verbs := range intents() {
		for verb := range strings.FieldsSeq(verbs) {
			t.intents[stem(verb)] |= of
		}
	}
	for question, answer := range answers() {
		for word := range strings.FieldsSeq(answer) {
			t.answers[question] = append(t.answers[question], stem(word))
		}
	}
	for from, to := range phrases() {
		t.phrases = append(t.phrases, phrase{strings.Fields(from), strings.Fields(to)})
	}
	slices.SortFunc(t.phrases, func(a, b phrase) int { return slices.Compare(a.from, b.from) })
	return t
}

// learn makes synonyms of the words of each group. What is known as close is not loose as well.
func (t *thesaurus) learn(groups []string, kind synonym) {
	for _, group := range groups {
		var stems []string
		for word := range strings.FieldsSeq(group) {
			if s := stem(word); !slices.Contains(stems, s) {
				stems = append(stems, s)
			}
		}
		for _, s := range stems {
			if kind.isVerb {
				t.verbs[s] = true
			}
			for _, other := range stems {
				isKnown := func(known synonym) bool { return known.stem == other && known.isVerb == kind.isVerb }
				if other != s && !slices.ContainsFunc(t.alike[s], isKnown) {
					t.alike[s] = append(t.alike[s], synonym{other, kind.isVerb, kind.isLoose})
				}
			}
		}
	}
}

func set(words string) map[string]bool {
	out := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		out[word] = true
	}
	return out
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
	alikeWeight    = 0.75
	looseWeight    = 0.25
	prefixWeight   = 0.6
	oneTypoWeight  = 0.75
	twoTyposWeight = 0.5
	// participleVerb and laterVerb are what is left of that for a synonym of a verb, where the word describes something ("a
	// running job") or is not at the place of a verb ("a key of the store").
	participleVerb = 0.4
	laterVerb      = 0.7
)

// How much a word of the query counts by its place.
const (
	// verbWeight is for the verb that a query begins with, and afterWeight for what is behind the first preposition.
	verbWeight  = 0.9
	afterWeight = 0.5
	// participleWeight is for a form of a verb that describes something, and exactWeight for the exact form of a word besides
	// the word.
	participleWeight = 0.9
	exactWeight      = 0.45
)

// How much counts what the query only implies.
const (
	// impliedWeight is for a verb that reads, and impliedOther what the less likely one counts beside the other. It is little:
	// what it changes is how much of a name is in the query.
	impliedWeight = 0.1
	impliedOther  = 0.25
	// answerWeight is for what a question asks for.
	answerWeight = 0.8
)

// parse turns a query into what it may mean, and what it wants.
func (x *Index) parse(query string) ([]concept, wish) {
	if len(query) > MaxQueryBytes {
		query = strings.ToValidUTF8(query[:MaxQueryBytes], "")
	}
	said := slices.Collect(words(query))
	asked := x.words.replaced(said)
	wants := x.words.wishOf(asked)
	var out []concept
	seen := map[string]bool{}
	first, before, isAfter := "", "", false
	for _, word := range asked {
		isVerbPlace := first == "" || before == "to" || before == "and" || before == "or"
		before = word
		isAfter = isAfter || first != "" && x.words.after[word]
		if x.words.stops[word] || seen[word] {
			continue
		}
		seen[word] = true
		weight := float32(1)
		switch {
		case first == "" && wants.isSaid:
			weight = verbWeight
		case isAfter:
			weight = afterWeight
		}
		if first == "" {
			first = word
		}
		known := len(out)
		out = x.meanings(out, word, isVerbPlace)
		for i := known; i < len(out); i++ {
			out[i].weight *= weight
		}
	}
	if first != "" && (x.words.questions[said[0]] || !x.words.verbs[stem(first)]) {
		out = x.answers(x.implied(out, first), said)
	}
	return out, wants
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

// answers adds what the word asks for that a question begins with: "who" for users. "How do I" and "can I" ask for a tool.
func (x *Index) answers(out []concept, said []string) []concept {
	if len(said) > 1 && (said[0] == "how" && (said[1] == "do" || said[1] == "can" || said[1] == "to") || said[0] == "can" && said[1] == "i") {
		return out
	}
	c := concept{weight: answerWeight, isImplied: true}
	for _, s := range x.words.answers[said[0]] {
		for _, t := range x.known(nil, s, 1) {
			t.isAlike = true
			c.terms = append(c.terms, t)
		}
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

// meanings appends the concepts of one word. isVerbPlace is set where a verb may be.
func (x *Index) meanings(out []concept, word string, isVerbPlace bool) []concept {
	s := stem(word)
	c := concept{weight: 1}
	c.terms = x.known(c.terms, s, 1)
	isDescribing := isParticiple(word)
	for _, other := range x.words.alike[s] {
		weight := float32(alikeWeight)
		if other.isLoose {
			weight = looseWeight
		}
		if other.isVerb && isDescribing {
			weight *= participleVerb
		}
		if other.isVerb && !isVerbPlace {
			weight *= laterVerb
		}
		if id, ok := x.terms[other.stem]; ok {
			c.terms = append(c.terms, weighed{term: id, weight: weight, isAlike: true, isVerb: other.isVerb})
		}
	}
	if isDescribing {
		c.weight = participleWeight
	}
	if len(c.terms) == 0 {
		if first, second, ok := x.compound(word); ok {
			return x.meanings(x.meanings(out, first, isVerbPlace), second, isVerbPlace)
		}
		c.terms = x.similar(s)
	}
	if len(c.terms) > 0 {
		out = append(out, c)
	}
	if form := x.known(nil, formMark+word, 1); form != nil {
		out = append(out, concept{weight: exactWeight, terms: form, isForm: true})
	}
	return out
}

// isParticiple reports whether a word is a form of a verb that describes something: "a deleted table", "a running job".
func isParticiple(word string) bool {
	return len(word) > minStem+1 && (strings.HasSuffix(word, "ed") || strings.HasSuffix(word, "ing")) && stem(word) != word
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
