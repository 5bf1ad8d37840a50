// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
)

// origin is what the catalog in use was built of; the token of a load guards it.
type origin struct {
	by        *plan
	revisions []*revision // of the sources of by, nil for those that cannot tell
	kept      *kept
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
	from := origin{by: by, revisions: make([]*revision, len(by.sources))}
	if l.built.by == by {
		from = l.built
	}
	used := l.built.used()
	loads, statuses, err = loadAll(ctx, by.sources, from.revisions, used, from.kept.linkage())
	if err != nil || !slices.ContainsFunc(loads, func(load *source.Loaded) bool { return load != nil }) {
		return nil, statuses, err
	}
	// One has changed, so that a catalog is built. Of the others it needs what it does not have.
	for i, load := range loads {
		if load != nil {
			continue
		}
		if known := from.kept.loads[i]; known != nil && len(known.Revision.Needed) == 0 {
			loads[i] = known
			continue
		}
		some, status, failed := loadAll(ctx, by.sources[i:i+1], []*revision{nil}, used, nil)
		loads[i], statuses[i], err = some[0], status[0], errors.Join(err, failed)
	}
	return loads, statuses, err
}

// build builds a catalog of loads, on top of the one in use where it was made in the same way. Where that does not come
// out, it is done again from nothing: that costs more, and depends on nothing else.
func (l *Live) build(ctx context.Context, made *origin, loads []*source.Loaded, statuses []SourceStatus) (*Catalog, error) {
	var before *kept
	if l.built.by == made.by {
		before = l.built.kept
	}
	fresh, now, err := build(loads, made.by.build, before)
	if err != nil && before != nil {
		all, again, failed := loadAll(ctx, made.by.sources, make([]*revision, len(loads)), usedBy(loads), nil)
		copy(loads, all)
		copy(statuses, again)
		if failed != nil {
			return nil, failed
		}
		fresh, now, err = build(loads, made.by.build, nil)
	}
	if errors.Is(err, ErrEmpty) {
		err = &emptyError{cause: err, isStatic: allStatic(loads)}
	}
	made.kept, made.revisions = now, revisionsOf(loads, statuses)
	return fresh, err
}

// used are the revisions of the sources, for those of another plan to find their own.
func (o *origin) used() []*source.Revision {
	var out []*source.Revision
	for _, r := range o.revisions {
		if r != nil {
			out = append(out, r.load)
		}
	}
	return out
}

// usedBy are the revisions of loads.
func usedBy(loads []*source.Loaded) []*source.Revision {
	var out []*source.Revision
	for _, load := range loads {
		if load.Revision != nil {
			out = append(out, load.Revision)
		}
	}
	return out
}

// loadAll loads all sources at the same time, and brings nil for those that are unchanged. Those without a revision bring
// all, with the help of the revisions that are used. It fails if one fails: half a catalog would look like a change.
func loadAll(ctx context.Context, sources []source.Source, revisions []*revision, used []*source.Revision, before *keptFiles) ([]*source.Loaded, []SourceStatus, error) {
	loads := make([]*source.Loaded, len(sources))
	statuses := make([]SourceStatus, len(sources))
	errs := make([]error, len(sources))
	var all sync.WaitGroup
	for i, s := range sources {
		all.Go(func() {
			start := time.Now()
			if before := revisions[i].of(); before != nil {
				loads[i], errs[i] = source.Load(ctx, s, before)
			} else {
				loads[i], errs[i] = source.Recall(ctx, s, used)
			}
			statuses[i] = SourceStatus{Name: s.Name(), At: start, Took: time.Since(start), Err: errs[i]}
			switch load := loads[i]; {
			case load == nil && errs[i] == nil && revisions[i] != nil:
				before := revisions[i].status
				statuses[i].Files, statuses[i].Services, statuses[i].Tools = before.Files, before.Services, before.Tools
			case load != nil:
				statuses[i].Files, statuses[i].Services = len(load.Files)+len(load.Same), countServices(load, before)
				if load.Native != nil {
					statuses[i].Tools = len(load.Native.Tools)
				}
			}
		})
	}
	all.Wait()
	return loads, statuses, errors.Join(errs...)
}

func countServices(load *source.Loaded, before *keptFiles) int {
	if load.Services != nil {
		return len(load.Services)
	}
	n := 0
	for _, f := range load.Files {
		n += len(f.GetService())
	}
	for _, path := range load.Same {
		if f := before.file(path); f != nil {
			n += f.descriptor.Services().Len()
		}
	}
	return n
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
