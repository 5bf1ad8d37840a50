// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/report"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// versions compares each catalog with the one before, and reports schemas that break their callers, or may, without saying so
// in the tool's version. What changed since the last process, the catalog lock tells.
type versions struct {
	metrics *export.Page
	log     *zap.Logger
	// next holds the oldest catalog that has not been compared and the newest.
	next chan [2]*catalog.Catalog
}

// offer takes a catalog and the one before, and returns at once: a comparison derives schemas.
func (v *versions) offer(old, now *catalog.Catalog) {
	if old == nil {
		return
	}
	select {
	case waiting := <-v.next:
		old = waiting[0]
	default:
	}
	v.next <- [2]*catalog.Catalog{old, now}
}

// run compares catalogs until ctx ends.
func (v *versions) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case pair := <-v.next:
			findings := report.VersionFindings(ctx, pair[0], pair[1], report.DiffLimits{})
			v.metrics.BreakingChanges(len(findings))
			for _, f := range findings {
				v.log.Warn("breaking change under an unchanged major version", zap.String(logkey.CanonicalTool, f.Tool), zap.String("finding", f.String()))
			}
		}
	}
}
