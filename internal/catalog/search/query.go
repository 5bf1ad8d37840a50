// SPDX-License-Identifier: Apache-2.0

package search

import (
	"iter"
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
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

// minStem is the number of letters that a stem must have left.
const minStem = 3

// stem reduces the forms of an English word to one: "backups" to "backup", "creating" and "creation" to what "create"
// becomes. It is light: it removes inflections and the most common derivations. A stem need not be a word.
func stem(word string) string {
	switch word {
	case "used", "uses", "using", "usage":
		return "use"
	case "diff", "diffs", "differ", "difference", "differences":
		return "differ"
	}
	if !isASCII(word) || len(word) <= minStem {
		return word
	}
	switch word {
	case "settings", "setting":
		return "setting" // not what one sets, but what is set
	case "status", "alias", "access", "this", "https", "redis", "kubernetes", "news":
		return word
	}
	word = strings.TrimSuffix(word, "'s")
	word = singular(word)
	word = strings.TrimSuffix(word, "ship")
	word = withoutPast(word)
	word = derived(word)
	if n := len(word); n > minStem && word[n-1] == 'e' {
		word = word[:n-1]
	}
	if n := len(word); n > minStem+1 && word[n-1] == 'l' && word[n-2] == 'l' {
		word = word[:n-1] // cancelled, cancel
	}
	if n := len(word); n > minStem+1 && strings.HasSuffix(word, "is") {
		word = word[:n-1] + "z" // authorise, authorize
	}
	return word
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func singular(w string) string {
	n := len(w)
	switch {
	case strings.HasSuffix(w, "ies") && n > minStem+1:
		return w[:n-3] + "y"
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "xes"), strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "shes"):
		return w[:n-2]
	case strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), strings.HasSuffix(w, "is"):
		return w
	case strings.HasSuffix(w, "s") && n > minStem:
		return w[:n-1]
	}
	return w
}

// withoutPast removes the endings -ing and -ed.
func withoutPast(w string) string {
	if base, ok := strings.CutSuffix(w, "ied"); ok && len(base) >= minStem-1 {
		return base + "y"
	}
	base, ok := strings.CutSuffix(w, "ing")
	if !ok {
		base, ok = strings.CutSuffix(w, "ed")
	}
	if !ok || len(base) < minStem || !strings.ContainsAny(base, "aeiouy") {
		return w
	}
	if n := len(base); n > minStem && base[n-1] == base[n-2] && !strings.ContainsRune("lsz", rune(base[n-1])) {
		return base[:n-1] // running
	}
	return base
}

// derived removes the endings -ically, -ic, -ization, -ation, -ate, -ion and -ment.
func derived(w string) string {
	w = strings.TrimSuffix(w, "ally")
	if base, ok := strings.CutSuffix(w, "ic"); ok && len(base) > minStem+1 {
		return base
	}
	// Of short words the same is left of all forms by what follows: "creat" of create, creating and creation.
	for _, ending := range []string{"ation", "at", "ate"} {
		if base, ok := strings.CutSuffix(w, ending); ok && len(base) > minStem {
			return base
		}
	}
	if base, ok := strings.CutSuffix(w, "ion"); ok && len(base) > minStem && strings.ContainsRune("st", rune(base[len(base)-1])) {
		return base
	}
	if base, ok := strings.CutSuffix(w, "ment"); ok && len(base) > minStem {
		return base
	}
	return w
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
	var rows Distance
	letters := lettersOf(word)
	for id, term := range x.spelled {
		if len(word) >= minPrefix && len(term) > len(word) && strings.HasPrefix(term, word) {
			out = append(out, weighed{term: int32(id), weight: prefixWeight})
			continue
		}
		if term == "" || bits.OnesCount64(letters^x.letters[id]) > 2*most {
			continue
		}
		switch rows.Between(word, term, most) {
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

// Distance counts errors between two texts. Its zero value is ready for use, and it keeps its memory from text to text.
type Distance struct{ before, last, next []int }

// Between returns the number of letters that are missing, extra, wrong, or exchanged with the next one (optimal string
// alignment). It gives up with most+1 as soon as there are more than most.
func (d *Distance) Between(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	width := len(b) + 1
	if cap(d.last) < width {
		d.before, d.last, d.next = make([]int, width), make([]int, width), make([]int, width)
	}
	before, last, next := d.before[:width], d.last[:width], d.next[:width]
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		least := i
		for j := 1; j < width; j++ {
			wrong := last[j-1]
			if a[i-1] != b[j-1] {
				wrong++
			}
			next[j] = min(last[j]+1, next[j-1]+1, wrong)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
			least = min(least, next[j])
		}
		if least > most {
			return most + 1
		}
		before, last, next = last, next, before
	}
	return min(last[width-1], most+1)
}

// maxWord is the maximum size of a word in bytes. The rest of a longer one is a word by itself.
const maxWord = 48

// words returns the words of a text in lower case. They end where letters and digits end, and where camel case begins a
// new one: "ListTables2", "list_tables2" and "list tables 2" are the same words.
func words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(text) > 0 {
			start := strings.IndexFunc(text, isWordRune)
			if start < 0 {
				return
			}
			text = text[start:]
			n := wordEnd(text)
			if !yield(strings.ToLower(text[:n])) {
				return
			}
			text = text[n:]
		}
	}
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// wordEnd returns where the word ends that text begins with.
func wordEnd(text string) int {
	before, size := utf8.DecodeRuneInString(text)
	for at := size; at < len(text); {
		r, n := utf8.DecodeRuneInString(text[at:])
		switch {
		case !isWordRune(r), at+n > maxWord, unicode.IsUpper(r) && !unicode.IsUpper(before), unicode.IsDigit(r) != unicode.IsDigit(before):
			return at
		case unicode.IsUpper(r):
			// The last capital of "JSONWeb" begins a word; that of "SLOs" does not.
			next, _ := utf8.DecodeRuneInString(text[at+n:])
			if unicode.IsLower(next) && !isPlural(text[at+n:]) {
				return at
			}
		}
		before, at = r, at+n
	}
	return len(text)
}

// isPlural reports whether all that is left of a word is an "s".
func isPlural(rest string) bool {
	if !strings.HasPrefix(rest, "s") {
		return false
	}
	r, _ := utf8.DecodeRuneInString(rest[1:])
	return !isWordRune(r)
}
