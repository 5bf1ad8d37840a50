// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"slices"

	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
)

// origin is what the catalog in use was built of; the token of a load guards it.
type origin struct {
	by    *plan
	marks []*mark // of the sources of by, nil for those that cannot tell
}

// mark is what to recognise the next load of a source by, and what this one counted.
type mark struct {
	load   *source.Mark
	status SourceStatus
}

// of is the source's own part; nil where there is no mark.
func (m *mark) of() *source.Mark {
	if m == nil {
		return nil
	}
	return m.load
}

// loadSources loads by a plan. It brings nothing where all sources bring what the catalog in use was built of.
func (l *Live) loadSources(ctx context.Context, by *plan) (loads []*source.Loaded, statuses []SourceStatus, err error) {
	marks := make([]*mark, len(by.sources))
	if l.built.by == by {
		marks = l.built.marks
	}
	loads, statuses, err = loadAll(ctx, by.sources, marks)
	if err != nil || !slices.Contains(loads, nil) {
		return loads, statuses, err
	}
	if !slices.ContainsFunc(loads, func(load *source.Loaded) bool { return load != nil }) {
		return nil, statuses, nil
	}
	// One has changed, so that a catalog is built, which needs them all.
	for i, load := range loads {
		if load == nil {
			some, status, failed := loadAll(ctx, by.sources[i:i+1], []*mark{nil})
			loads[i], statuses[i], err = some[0], status[0], errors.Join(err, failed)
		}
	}
	return loads, statuses, err
}

// marksOf are what to recognise loads by.
func marksOf(loads []*source.Loaded, statuses []SourceStatus) []*mark {
	out := make([]*mark, len(loads))
	for i, load := range loads {
		if load.Mark != nil {
			out[i] = &mark{load.Mark, statuses[i]}
		}
	}
	return out
}
