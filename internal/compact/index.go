// SPDX-License-Identifier: Apache-2.0

package compact

import (
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/search"
)

// Index finds the tools of one catalog by words. It is immutable.
type Index struct {
	tools []*catalog.Tool
	words *search.Index
}

// NewIndex returns an index of the tools that the catalog offers.
func NewIndex(cat *catalog.Catalog) *Index {
	tools := cat.Tools()
	docs := make([]search.Document, len(tools))
	for i, t := range tools {
		docs[i] = document(t)
	}
	return &Index{tools: tools, words: search.New(docs)}
}

// Search returns the tools that match a query best, the best one first, at most limit of them. visible says which tools
// the caller may see; nil is all.
func (x *Index) Search(query string, limit int, visible func(*catalog.Tool) bool) []*catalog.Tool {
	var may func(int) bool
	if visible != nil {
		may = func(doc int) bool { return visible(x.tools[doc]) }
	}
	hits := x.words.Search(query, limit, may)
	out := make([]*catalog.Tool, len(hits))
	for i, hit := range hits {
		out[i] = x.tools[hit.Doc]
	}
	return out
}
