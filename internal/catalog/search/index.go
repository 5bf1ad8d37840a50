// SPDX-License-Identifier: Apache-2.0

// Package search ranks short documents, such as descriptions of tools, by how well they match a query in words.
//
// An [Index] is made once from all documents and never changes. Its score is BM25 over weighted fields: the words of a
// name count most, then those of its group, of texts, of field names and of enum values. A query matches word forms
// ("backups", "backing up"), synonyms of common verbs and nouns ("remove" finds "delete"; near words count less), and
// words with typing errors if they match nothing else. What the query wants done is read from its first verb: what only
// reads is not the answer to "remove". What a query only describes, behind a preposition or as a participle, counts less.
//
// The package knows nothing of tools, catalogs or permissions: its caller says which documents may be found. Everything is
// safe for concurrent use.
package search

import (
	"cmp"
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
	// apart is the impact without what the document says of outputs.
	apart float32
}

// impactFor is the impact in a search that does not look at the outputs of partial documents.
func (p *posting) impactFor(partial func(doc int) bool) float32 {
	if partial != nil && p.apart != p.impact && partial(int(p.doc)) {
		return p.apart
	}
	return p.impact
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
	x := &Index{terms: map[string]int32{}, named: make([]float32, len(docs)), intents: make([]intent, len(docs)), words: embedded()}
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
	for field, texts := range [fields][]string{
		inName: {d.Name}, inGroup: {d.Group}, inSummary: {d.Summary}, inText: {d.Text},
		inTypes: d.Types, inInputs: d.Inputs, inOutputs: d.Outputs, inNotes: d.Notes, inRemarks: d.Remarks, inValues: d.Values,
	} {
		for _, text := range texts {
			x.count(&r, field, text)
		}
	}
	return r
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
			frequency, outputs := 0.0, 0.0
			for f := range fields {
				if counts[f] > 0 {
					mean := total[f] / n
					part := weight[f] * counts[f] / (1 - lengthPart + lengthPart*all[i].lengths[f]/mean)
					if frequency += part; f == inOutputs || f == inRemarks {
						outputs += part
					}
				}
			}
			rarity := math.Log(1 + (n-float64(with[id])+0.5)/(float64(with[id])+0.5))
			p := posting{
				doc: int32(i), isName: counts[inName] > 0, isPlural: all[i].plurals[id], isSummary: counts[inSummary] > 0,
				impact: float32(rarity * frequency * (saturation + 1) / (frequency + saturation)),
			}
			if p.apart = p.impact; outputs > 0 {
				rest := max(0, frequency-outputs)
				p.apart = float32(rarity * rest * (saturation + 1) / (rest + saturation))
			}
			if outputs == frequency {
				p.apart = 0 // whatever the rounding
			}
			x.postings[id] = append(x.postings[id], p)
		}
	}
}

// Hit is a document that was found.
type Hit struct {
	// Doc is its place among the documents of the index.
	Doc   int
	Score float32
}

// scores is what one search adds up, by document.
type scores struct {
	sum, best, named, met []float32
	bestIsName            []bool
	touched               []int32 // by the query
	current               []int32 // by the concept at hand
}

func newScores(docs int) *scores {
	return &scores{
		sum: make([]float32, docs), best: make([]float32, docs), named: make([]float32, docs), met: make([]float32, docs), bestIsName: make([]bool, docs),
		touched: make([]int32, 0, docs), current: make([]int32, 0, docs),
	}
}

// namePart and queryPart are how much of a score depends on how many words of the name are in the query, and how many words
// of the query the document has.
const (
	namePart  = 0.65
	queryPart = 0.77
)

// Search returns the documents that match a query best, the best one first, at most limit of them. Equal ones are in the
// order of the index. visible says which documents may be found; nil is all. partial says which of them are not found by what they say
// of outputs; nil is none.
func (x *Index) Search(query string, limit int, visible, partial func(doc int) bool) []Hit {
	if limit <= 0 {
		return nil
	}
	concepts, wants := x.parse(query)
	s, _ := x.pool.Get().(*scores)
	var total float32
	for i := range concepts {
		s.add(x, &concepts[i], partial)
		if !concepts[i].isForm {
			total += concepts[i].weight
		}
	}
	out := make([]Hit, 0, limit)
	for _, doc := range s.touched {
		score := s.sum[doc]
		if n := x.named[doc]; n > 0 {
			score *= 1 - namePart + namePart*min(1, s.named[doc]/n)
		}
		if total > 0 {
			score *= 1 - queryPart + queryPart*s.met[doc]/total
		}
		score *= wants.factor(x.intents[doc])
		out = insert(out, Hit{int(doc), score}, visible)
		s.sum[doc], s.named[doc], s.met[doc] = 0, 0, 0
	}
	s.touched = s.touched[:0]
	x.pool.Put(s)
	return out
}

// add adds what a concept says of each document: what its best term says.
func (s *scores) add(x *Index, c *concept, partial func(doc int) bool) {
	for _, t := range c.terms {
		for _, p := range x.postings[t.term] {
			if t.isAlike && (!p.isName && !p.isSummary || t.isVerb && p.isPlural) {
				continue
			}
			if c.isImplied && s.sum[p.doc] == 0 {
				continue
			}
			score := p.impactFor(partial) * t.weight
			if score == 0 {
				continue
			}
			if s.best[p.doc] == 0 {
				s.current = append(s.current, p.doc)
			}
			if score > s.best[p.doc] {
				s.best[p.doc], s.bestIsName[p.doc] = score, p.isName
			}
		}
	}
	for _, doc := range s.current {
		if s.sum[doc] == 0 {
			s.touched = append(s.touched, doc)
		}
		s.sum[doc] += s.best[doc] * c.weight
		if !c.isForm {
			if s.bestIsName[doc] {
				s.named[doc]++
			}
			s.met[doc] += c.weight
		}
		s.best[doc], s.bestIsName[doc] = 0, false
	}
	s.current = s.current[:0]
}

// insert puts a hit among the best ones, if it is one of them. It asks last whether the document may be seen, because
// that may cost more than the rest.
func insert(best []Hit, h Hit, visible func(int) bool) []Hit {
	if len(best) == cap(best) && before(best[len(best)-1], h) {
		return best
	}
	if visible != nil && !visible(h.Doc) {
		return best
	}
	if len(best) < cap(best) {
		best = append(best, h)
	} else {
		best[len(best)-1] = h
	}
	for i := len(best) - 1; i > 0 && before(best[i], best[i-1]); i-- {
		best[i], best[i-1] = best[i-1], best[i]
	}
	return best
}

// before reports whether a is to be shown before b.
func before(a, b Hit) bool {
	return cmp.Or(-cmp.Compare(a.Score, b.Score), cmp.Compare(a.Doc, b.Doc)) < 0
}
