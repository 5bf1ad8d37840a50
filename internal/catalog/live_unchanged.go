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
	by        *plan
	revisions []*revision // of the sources of by, nil for those that cannot tell
}

// revision is what to recognise the next load of a source by, and what this one counted.
type revision struct {
	load   *source.Revision
	status SourceStatus
}

// of is the source's own part; nil where there is no revision.
func (m *revision) of() *source.Revision {
	if m == nil {
		return nil
	}
	return m.load
}

// loadSources loads by a plan. It brings nothing where all sources bring what the catalog in use was built of.
func (l *Live) loadSources(ctx context.Context, by *plan) (loads []*source.Loaded, statuses []SourceStatus, err error) {
	revisions := make([]*revision, len(by.sources))
	if l.built.by == by {
		revisions = l.built.revisions
	}
	loads, statuses, err = loadAll(ctx, by.sources, revisions)
	if err != nil || !slices.Contains(loads, nil) {
		return loads, statuses, err
	}
	if !slices.ContainsFunc(loads, func(load *source.Loaded) bool { return load != nil }) {
		return nil, statuses, nil
	}
	// One has changed, so that a catalog is built, which needs them all.
	for i, load := range loads {
		if load == nil {
			some, status, failed := loadAll(ctx, by.sources[i:i+1], []*revision{nil})
			loads[i], statuses[i], err = some[0], status[0], errors.Join(err, failed)
		}
	}
	return loads, statuses, err
}

// revisionsOf are what to recognise loads by.
func revisionsOf(loads []*source.Loaded, statuses []SourceStatus) []*revision {
	out := make([]*revision, len(loads))
	for i, load := range loads {
		if load.Revision != nil {
			out[i] = &revision{load.Revision, statuses[i]}
		}
	}
	return out
}
