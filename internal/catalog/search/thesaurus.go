// SPDX-License-Identifier: Apache-2.0

package search

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"
)

//go:embed thesaurus.txt
var thesaurusText string

// embedded is the thesaurus that all indexes share. A test makes sure that its text has no bad line.
var embedded = sync.OnceValue(func() *thesaurus {
	t, _ := readThesaurus(thesaurusText)
	return t
})

// thesaurus is what is known about words apart from the documents. It is immutable once it is read.
type thesaurus struct {
	stops map[string]bool
	// alike are the stems that a stem represents besides itself.
	alike   map[string][]synonym
	phrases []phrase
	// verbs are the stems of verbs, and intents what they do.
	verbs   map[string]bool
	intents map[string]intent
	// questions are the words that questions begin with, answers the stems of what they ask for, and reading the verbs of tools
	// that answer them.
	questions map[string]bool
	answers   map[string][]string
	reading   []string
	// What else the place of a word is read from.
	determiners, openers, prepositions, after map[string]bool
}

// synonym is a stem that another one represents.
type synonym struct {
	stem            string
	isVerb, isLoose bool
}

type phrase struct{ from, to []string }

// section is what a section of the text means: read takes the words of a line, and in a section of pairs those behind "=" too.
type section struct {
	read   func(words, to []string)
	isPair bool
}

// readThesaurus reads the format of thesaurus.txt. It leaves out bad lines, and names all of them in its error.
func readThesaurus(text string) (*thesaurus, error) {
	t := &thesaurus{
		stops: map[string]bool{}, alike: map[string][]synonym{}, verbs: map[string]bool{}, intents: map[string]intent{},
		questions: map[string]bool{}, answers: map[string][]string{},
		determiners: map[string]bool{}, openers: map[string]bool{}, prepositions: map[string]bool{}, after: map[string]bool{},
	}
	sections := t.sections()
	var in section
	var bad []error
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		var err error
		switch name, isHead := strings.CutPrefix(line, "["); {
		case line == "", line[0] == '#':
		case isHead:
			var ok bool
			if in, ok = sections[strings.TrimSuffix(name, "]")]; !ok {
				err = fmt.Errorf("there is no section %s", line)
			}
		default:
			err = in.line(line)
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("thesaurus, line %d: %w", n, err))
		}
	}
	return t, errors.Join(bad...)
}

// line reads one line of the section.
func (s section) line(line string) error {
	left, right, isPair := strings.Cut(line, "=")
	from, to := strings.Fields(left), strings.Fields(right)
	switch {
	case s.read == nil:
		return errors.New("it is in no section")
	case isPair != s.isPair && isPair:
		return errors.New(`a line of this section has no "="`)
	case isPair != s.isPair, isPair && (len(from) == 0 || len(to) == 0):
		return errors.New(`a line of this section has words, "=", and the words that they mean`)
	}
	for _, word := range slices.Concat(from, to) {
		if strings.ContainsFunc(word, func(r rune) bool { return !isWordRune(r) || unicode.IsUpper(r) }) {
			return fmt.Errorf("%q is not a word in lower case", word)
		}
	}
	s.read(from, to)
	return nil
}

// sections are the sections that a text may have.
func (t *thesaurus) sections() map[string]section {
	alike := func(kind synonym) section { return section{read: func(words, _ []string) { t.learn(words, kind) }} }
	in := func(set map[string]bool) section {
		return section{read: func(words, _ []string) {
			for _, word := range words {
				set[word] = true
			}
		}}
	}
	do := func(what intent) section {
		return section{read: func(words, _ []string) {
			for _, word := range words {
				t.intents[stem(word)] |= what
			}
		}}
	}
	return map[string]section{
		"verbs": alike(synonym{isVerb: true}), "near verbs": alike(synonym{isVerb: true, isLoose: true}),
		"nouns": alike(synonym{}), "near nouns": alike(synonym{isLoose: true}),
		"reads": do(reads), "creates": do(creates), "changes": do(changes), "deletes": do(deletes), "acts": do(acts), "writes": do(effects),
		"stop words": in(t.stops), "questions": in(t.questions), "determiners": in(t.determiners), "openers": in(t.openers),
		"prepositions": in(t.prepositions), "after": in(t.after),
		"reading verbs": {read: func(words, _ []string) { t.reading = append(t.reading, words...) }},
		"phrases":       {isPair: true, read: func(from, to []string) { t.phrases = append(t.phrases, phrase{from, to}) }},
		"answers":       {isPair: true, read: t.answer},
	}
}

// learn makes synonyms of the words of a group. What is known as close is not loose as well.
func (t *thesaurus) learn(group []string, kind synonym) {
	var stems []string
	for _, word := range group {
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

// answer learns what questions ask for that begin with one of the words.
func (t *thesaurus) answer(questions, to []string) {
	for _, question := range questions {
		for _, word := range to {
			t.answers[question] = append(t.answers[question], stem(word))
		}
	}
}

// intent is what a verb does to what it is about, as a set: some verbs may do one thing or another. A query that wants to
// remove something is seldom answered by a tool that creates it, although both have the same noun.
type intent uint8

const (
	reads intent = 1 << iota
	creates
	changes
	deletes
	acts // any other effect: to start, to stop, to send

	effects = creates | changes | deletes | acts
)

// intentOfName is that of the verbs that a name begins with, once the nouns in front of them are passed: LeaseGrant,
// CheckAndMutateRow.
func (t *thesaurus) intentOfName(name string) intent {
	var out intent
	for word := range words(name) {
		of := t.intents[stem(word)]
		switch {
		case of != 0 && !strings.HasSuffix(word, "s") && !isParticiple(word):
			out |= of
		case out != 0 && word != "and":
			return out
		}
	}
	return out
}
