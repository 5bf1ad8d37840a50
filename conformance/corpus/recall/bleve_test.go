// SPDX-License-Identifier: Apache-2.0

package recall_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/blevesearch/bleve/v2"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/en"
	index "github.com/blevesearch/bleve_index_api"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/catalog/search"
)

// oracle is bleve: BM25 of others, with English stems and stop words. It ranks the same tools.
type oracle struct {
	index bleve.Index
	tools []*catalog.Tool
}

// oracleFields are the fields of its documents, and how much each counts.
func oracleFields() map[string]float64 {
	return map[string]float64{"name": 4, "text": 1, "inputs": 1}
}

func newOracle(t *testing.T, analyzer string, docs []map[string]string) bleve.Index {
	t.Helper()
	mapping := bleve.NewIndexMapping()
	mapping.DefaultAnalyzer, mapping.ScoringModel = analyzer, index.BM25Scoring
	x, err := bleve.New(filepath.Join(t.TempDir(), "index"), mapping)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	batch := x.NewBatch()
	for i, doc := range docs {
		if err := batch.Index(strconv.Itoa(i), doc); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Batch(batch); err != nil {
		t.Fatal(err)
	}
	return x
}

// oracleOf has the words of names apart, because bleve does not split them where the case changes.
func oracleOf(t *testing.T, cat *catalog.Catalog) oracle {
	t.Helper()
	o := oracle{tools: cat.Tools()}
	var docs []map[string]string
	for _, tool := range o.tools {
		doc := map[string]string{"name": apart(tool.Name) + " " + apart(simple(tool)), "inputs": ""}
		if !tool.Undescribed {
			doc["text"] = tool.Description
		}
		fields := tool.Method.Descriptor.Input().Fields()
		for i := range fields.Len() {
			doc["inputs"] += " " + apart(string(fields.Get(i).Name()))
		}
		docs = append(docs, doc)
	}
	o.index = newOracle(t, "en", docs)
	return o
}

// search returns the tools that bleve finds, best first.
func (o oracle) search(t *testing.T, text string) []*catalog.Tool {
	t.Helper()
	var found []*catalog.Tool
	for _, n := range find(t, o.index, text, 10, oracleFields()) {
		found = append(found, o.tools[n])
	}
	return found
}

func apart(name string) string {
	var out strings.Builder
	for i, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			r = ' '
		case i > 0 && unicode.IsUpper(r):
			out.WriteByte(' ')
		}
		out.WriteRune(r)
	}
	return out.String()
}

// find returns the documents that bleve finds, best first.
func find(t *testing.T, x bleve.Index, text string, most int, fields map[string]float64) []int {
	t.Helper()
	either := bleve.NewDisjunctionQuery()
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		match := bleve.NewMatchQuery(text)
		match.SetField(field)
		match.SetBoost(fields[field])
		either.AddQuery(match)
	}
	found, err := x.Search(bleve.NewSearchRequestOptions(either, most, 0, false))
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, hit := range found.Hits {
		n, err := strconv.Atoi(hit.ID)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

// TestAgainstBleve: with the same tools and queries, the search finds what is meant at least as often as a BM25 with stems
// that others wrote.
func TestAgainstBleve(t *testing.T) {
	t.Parallel()
	comments := newCommentReader()
	for name, reader := range map[string]*commentReader{"reflection": nil, "with comments": comments} {
		var ours, theirs figure
		for _, api := range slices.Sorted(maps.Keys(apis())) {
			cat := catalogOf(t, apis()[api], reader)
			x, o := compact.NewIndex(cat), oracleOf(t, cat)
			for _, q := range queriesOf(t, api) {
				if !q.isFigure() {
					continue
				}
				ours.add(rank(q, x.Search(q.Query, 10, nil)))
				theirs.add(rank(q, o.search(t, q.Query)))
			}
		}
		t.Logf("%s: %v; bleve: %v", name, ours, theirs)
		if ours.first < theirs.first || ours.third < theirs.third {
			t.Errorf("%s: %v; bleve has %v", name, ours, theirs)
		}
	}
}

// TestFindsWhatBleveFinds: a tool whose description has a word is found by that word, as bleve finds it.
func TestFindsWhatBleveFinds(t *testing.T) {
	t.Parallel()
	tools := catalogOf(t, apis()["etcd"], newCommentReader()).Tools()
	var docs []search.Document
	var same []map[string]string
	vocabulary := map[string]bool{}
	for _, tool := range tools {
		docs, same = append(docs, search.Document{Text: tool.Description}), append(same, map[string]string{"text": tool.Description})
		for _, word := range strings.FieldsFunc(strings.ToLower(tool.Description), func(r rune) bool { return !unicode.IsLetter(r) }) {
			vocabulary[word] = true
		}
	}
	x, o := search.New(docs), newOracle(t, "en", same)
	for _, word := range slices.Sorted(maps.Keys(vocabulary)) {
		var ours []int
		for _, hit := range x.Search(word, len(docs), nil, nil) {
			ours = append(ours, hit.Doc)
		}
		if len(ours) == 0 {
			continue // a stop word of ours
		}
		for _, n := range find(t, o, word, len(docs), map[string]float64{"text": 1}) {
			if !slices.Contains(ours, n) {
				t.Errorf("%q is in the description of %s, which is not found", word, tools[n].Name)
			}
		}
	}
	if len(vocabulary) < 100 {
		t.Errorf("%d words", len(vocabulary))
	}
}
