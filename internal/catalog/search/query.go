// SPDX-License-Identifier: Apache-2.0

package search

import (
	"math/bits"
	"slices"
	"strings"
)

// maxQueryBytes is the maximum size of a query. Search ignores what is behind it; callers refuse longer queries.
const maxQueryBytes = 1024

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
	if len(query) > maxQueryBytes {
		query = strings.ToValidUTF8(query[:maxQueryBytes], "")
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
	for _, verb := range x.words.reading {
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

const (
	// maxSimilar bounds the terms that one mistyped word may mean.
	maxSimilar = 6
	// twoTypos is the number of letters from which a word may have two errors, oneTypo that for one error.
	oneTypo, twoTypos = 4, 8
	// minPrefix is the number of letters from which a word may be the beginning of another.
	minPrefix = 4
)

// lettersOf is the set of a word's letters. Two words that differ by n errors differ by at most 2n letters.
func lettersOf(word string) uint64 {
	var out uint64
	for i := range len(word) {
		out |= 1 << (word[i] & 63)
	}
	return out
}

// similar are the terms that a word may be a mistyped form of, or the beginning of.
func (x *Index) similar(word string) []weighed {
	most := 0
	switch {
	case len(word) >= twoTypos:
		most = 2
	case len(word) >= oneTypo:
		most = 1
	}
	if most == 0 {
		return nil
	}
	var out []weighed
	letters := lettersOf(word)
	for id, term := range x.spelled {
		if len(word) >= minPrefix && len(term) > len(word) && strings.HasPrefix(term, word) {
			out = append(out, weighed{term: int32(id), weight: prefixWeight})
			continue
		}
		if abs(len(term)-len(word)) > most || term == "" || bits.OnesCount64(letters^x.letters[id]) > 2*most {
			continue
		}
		switch distance(word, term, most) {
		case 1:
			out = append(out, weighed{term: int32(id), weight: oneTypoWeight})
		case 2:
			if most == 2 {
				out = append(out, weighed{term: int32(id), weight: twoTyposWeight})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b weighed) int {
		switch {
		case a.weight > b.weight:
			return -1
		case a.weight < b.weight:
			return 1
		}
		return strings.Compare(x.spelled[a.term], x.spelled[b.term])
	})
	return out[:min(len(out), maxSimilar)]
}

// How much the score of a tool is worth that does something else than the query wants.
const (
	// excludedSaid is for a tool that reads where the query wants an effect, or creates where it wants to delete, and the other
	// way round.
	excludedSaid = 0.4
	// excludedUnsaid is for a tool with an effect where the query has no verb.
	excludedUnsaid = 0.9
	// otherEffect is for another effect, which may still be meant: to update where the query wants to add.
	otherEffect = 0.9
)

// wish is what a query wants done.
type wish struct {
	intent intent
	// isSaid is set if the query has a verb for it. One without a verb is a noun or a question, which mostly wants to read.
	isSaid bool
}

// factor is what the score of a tool is worth for the wish.
func (w wish) factor(tool intent) float32 {
	isOpposite := w.intent == reads || tool == reads || w.intent == creates && tool == deletes || w.intent == deletes && tool == creates
	switch {
	case w.intent == 0 || tool == 0 || w.intent&tool != 0:
		return 1
	case !isOpposite:
		return otherEffect
	case w.isSaid:
		return excludedSaid
	default:
		return excludedUnsaid
	}
}

// wishOf reads the first verb of a query.
func (t *thesaurus) wishOf(query []string) wish {
	isQuestion := len(query) > 0 && t.questions[query[0]]
	for len(query) > 0 && t.openers[query[0]] {
		query = query[1:]
	}
	if len(query) == 0 {
		return wish{}
	}
	first, second := query[0], ""
	if len(query) > 1 {
		second = query[1]
	}
	isPlural := strings.HasSuffix(first, "s") && stem(first) != first
	if of := t.intents[stem(first)]; of != 0 && !isPlural && !isParticiple(first) {
		return wish{of, true}
	}
	switch {
	case isQuestion || t.determiners[first]:
		return wish{reads, false}
	case t.determiners[second] && !t.prepositions[first]:
		return wish{effects, true}
	case t.verbs[stem(first)] && !isPlural && !isParticiple(first) && second != "" && !t.after[second]:
		return wish{} // a verb, or a noun: "schedule daily backups"
	default:
		return wish{reads, false}
	}
}
