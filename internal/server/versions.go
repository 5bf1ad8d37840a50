// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/compat"
	"github.com/outrigger-mcp/outrigger/internal/logkey"
	"github.com/outrigger-mcp/outrigger/internal/metrics"
)

// versions compares each catalog with the one before, also across restarts,
// and reports schemas that break their callers without saying so in the tool's
// version. The last catalog is kept in the folder of run records, so that
// nothing is compared where nothing is recorded.
type versions struct {
	store   compat.Store
	metrics *metrics.Metrics
	log     *zap.Logger
	// next holds the newest catalog that has not been looked at.
	next chan *catalog.Catalog
}

func newVersions(dir, version string, m *metrics.Metrics, log *zap.Logger) *versions {
	if dir == "" || dir == "off" {
		return nil
	}
	return &versions{store: compat.Store{Dir: dir, Version: version}, metrics: m, log: log, next: make(chan *catalog.Catalog, 1)}
}

// offer takes a catalog to look at and returns at once; one that is already
// waiting is skipped, because the newest is what callers meet.
func (v *versions) offer(cat *catalog.Catalog) {
	if v == nil {
		return
	}
	select {
	case <-v.next:
	default:
	}
	v.next <- cat
}

// run looks at catalogs until ctx ends.
func (v *versions) run(ctx context.Context) {
	if v == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case cat := <-v.next:
			v.compare(ctx, cat)
		}
	}
}

func (v *versions) compare(ctx context.Context, cat *catalog.Catalog) {
	findings, err := v.store.Watch(ctx, cat)
	if ctx.Err() != nil {
		return // the next process compares
	}
	if err != nil {
		// A read-only folder is told once, by the run records.
		v.log.Info("comparison with the previous catalog failed", logkey.Error(err))
	}
	v.metrics.BreakingChanges(len(findings))
	for _, f := range findings {
		v.log.Warn("breaking change under an unchanged major version", zap.String(logkey.CanonicalTool, f.Tool), zap.String("finding", f.String()))
	}
}
