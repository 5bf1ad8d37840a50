// SPDX-License-Identifier: Apache-2.0

package search

import "cmp"

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
// order of the index. visible says which documents may be found; nil is all.
func (x *Index) Search(query string, limit int, visible func(doc int) bool) []Hit {
	if limit <= 0 {
		return nil
	}
	concepts, wants := x.parse(query)
	s, _ := x.pool.Get().(*scores)
	var total float32
	for i := range concepts {
		s.add(x, &concepts[i])
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
func (s *scores) add(x *Index, c *concept) {
	for _, t := range c.terms {
		for _, p := range x.postings[t.term] {
			if t.isAlike && (!p.isName && !p.isSummary || t.isVerb && p.isPlural) {
				continue
			}
			if c.isImplied && s.sum[p.doc] == 0 {
				continue
			}
			score := p.impact * t.weight
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
