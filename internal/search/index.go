// SPDX-License-Identifier: Apache-2.0

package search

import (
	"math"
	"strings"
	"sync"
)

// Document is one thing to be found. Every field is text, which is split into words.
type Document struct {
	// Name is the name without its group.
	Name string
	// Group is what the name belongs to.
	Group string
	// Summary says in a sentence what it is, and Text is prose.
	Summary, Text string
	// Types are names of messages. Inputs and Outputs are names of fields, Notes what is said about inputs, Remarks what is said about
	// outputs, and Values those of enums.
	Types, Inputs, Outputs, Notes, Remarks, Values []string
}

// Index is a set of documents, ready to be searched. It is immutable.
type Index struct {
	// terms are the stems of all words, each with its number.
	terms    map[string]int32
	postings [][]posting
	// letters are the letters of each term as bits, and spelled the terms by number: for typing errors.
	letters []uint64
	spelled []string
	// named is the number of words of each document's name.
	named []float32
	// intents are what the verb of each document's name does.
	intents []intent
	words   *thesaurus
	// pool has what a search needs, one accumulator each.
	pool sync.Pool
}

// posting is what a term adds to the score of a document.
type posting struct {
	doc int32
	// isName is set if the name has the word, isPlural if it has it in the plural only: then it is no verb. isSummary is set
	// if the summary has it.
	isName, isPlural, isSummary bool
	impact                      float32
}

// The fields of a document.
const (
	inName = iota
	inGroup
	inSummary
	inText
	inTypes
	inInputs
	inOutputs
	inNotes
	inRemarks
	inValues
	fields
)

// weights are how much a word counts in each field.
func weights() [fields]float64 {
	return [fields]float64{inName: 6, inGroup: 0.9, inSummary: 1.5, inText: 0.3, inTypes: 0.4, inInputs: 0.5, inOutputs: 0.2, inNotes: 0.12, inRemarks: 0.1, inValues: 0.07}
}

// The parameters of BM25: how fast more of a word stops to count, and how much longer fields count less.
const (
	saturation = 1.1
	lengthPart = 0.5
)

// formWeight is what the exact form of a word adds, as a part of what the word itself counts: "tables" is a little more
// the name of ListTables than of GetTable.
const formWeight = 0.6

// formMark precedes an exact form among the terms. No word contains it.
const formMark = "="

// read is one document while the index is made.
type read struct {
	counts  map[int32]*[fields]float64
	plurals map[int32]bool
	lengths [fields]float64
}

// New returns an index of documents. A search returns their places in docs.
func New(docs []Document) *Index {
	x := &Index{terms: map[string]int32{}, named: make([]float32, len(docs)), intents: make([]intent, len(docs)), words: newThesaurus()}
	all := make([]read, len(docs))
	var total [fields]float64
	for i := range docs {
		all[i] = x.read(&docs[i])
		for f := range fields {
			total[f] += all[i].lengths[f]
		}
		x.intents[i] = x.words.intentOfName(docs[i].Name)
		x.named[i] = float32(all[i].lengths[inName])
	}
	x.weigh(all, total)
	x.spelled, x.letters = make([]string, len(x.postings)), make([]uint64, len(x.postings))
	for term, id := range x.terms {
		if term[0] != formMark[0] {
			x.spelled[id], x.letters[id] = term, lettersOf(term)
		}
	}
	x.pool.New = func() any { return newScores(len(docs)) }
	return x
}

// Len returns the number of documents.
func (x *Index) Len() int { return len(x.named) }

// read counts the words of a document.
func (x *Index) read(d *Document) read {
	r := read{counts: map[int32]*[fields]float64{}, plurals: map[int32]bool{}}
	x.count(&r, inName, d.Name)
	x.count(&r, inGroup, d.Group)
	x.count(&r, inSummary, d.Summary)
	x.count(&r, inText, d.Text)
	x.countAll(&r, inTypes, d.Types)
	x.countAll(&r, inInputs, d.Inputs)
	x.countAll(&r, inOutputs, d.Outputs)
	x.countAll(&r, inNotes, d.Notes)
	x.countAll(&r, inRemarks, d.Remarks)
	x.countAll(&r, inValues, d.Values)
	return r
}

func (x *Index) countAll(r *read, field int, texts []string) {
	for _, text := range texts {
		x.count(r, field, text)
	}
}

func (x *Index) count(r *read, field int, text string) {
	for word := range words(text) {
		if x.words.stops[word] {
			continue
		}
		s := stem(word)
		id := x.add(r, field, s, 1)
		if field == inName {
			x.add(r, field, formMark+word, formWeight)
			if isPlural, ok := r.plurals[id]; isPlural || !ok {
				r.plurals[id] = s != word && strings.HasSuffix(word, "s")
			}
		}
		r.lengths[field]++
	}
}

func (x *Index) add(r *read, field int, term string, n float64) int32 {
	id, ok := x.terms[term]
	if !ok {
		id = int32(len(x.terms))
		x.terms[term] = id
	}
	counts := r.counts[id]
	if counts == nil {
		counts = new([fields]float64)
		r.counts[id] = counts
	}
	counts[field] += n
	return id
}

// weigh makes the postings: all of the score that does not depend on the query.
func (x *Index) weigh(all []read, total [fields]float64) {
	x.postings = make([][]posting, len(x.terms))
	with := make([]int, len(x.terms))
	for i := range all {
		for id := range all[i].counts {
			with[id]++
		}
	}
	weight, n := weights(), float64(len(all))
	for i := range all {
		for id, counts := range all[i].counts {
			frequency := 0.0
			for f := range fields {
				if counts[f] > 0 {
					mean := total[f] / n
					frequency += weight[f] * counts[f] / (1 - lengthPart + lengthPart*all[i].lengths[f]/mean)
				}
			}
			rarity := math.Log(1 + (n-float64(with[id])+0.5)/(float64(with[id])+0.5))
			x.postings[id] = append(x.postings[id], posting{
				doc: int32(i), isName: counts[inName] > 0, isPlural: all[i].plurals[id], isSummary: counts[inSummary] > 0,
				impact: float32(rarity * frequency * (saturation + 1) / (frequency + saturation)),
			})
		}
	}
}
