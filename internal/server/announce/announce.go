// SPDX-License-Identifier: Apache-2.0

// Package announce says what operators should know of each catalog: its tools, what is odd about it, which clients do not take
// it, and how it differs from the one before and from its lock. It says so in the log, the metrics, the audit trail and
// /readyz.
package announce

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/listcost"
	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/report"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// Options are what an [Announcer] has of its process.
type Options struct {
	Config *configv1.Config
	// Milestones is Log, or a quieter logger if a Narrator reports the same. Noted is Log for lines that many requests can cause.
	Log, Milestones, Noted *zap.Logger
	// Embedded means that the process belongs to another program: its memory is not released.
	Embedded bool
}

// Announcer announces the catalogs of one process. Make one with [New].
type Announcer struct {
	// Lists says what the lists of tools cost.
	Lists *listcost.Meter

	opts    Options
	trail   *trail.Audit
	metrics *export.Page
	// lastChange is the newest change of the tools; nil before the first.
	lastChange atomic.Pointer[toolChange]
	// next holds the oldest catalog that has not been compared and the newest.
	next chan [2]*catalog.Catalog
}

// New returns an Announcer.
func New(o Options) *Announcer {
	a := &Announcer{opts: o, next: make(chan [2]*catalog.Catalog, 1)}
	a.Lists = listcost.NewMeter(listcost.BudgetOf(o.Config.GetCatalog()), a.listTooLarge)
	return a
}

// Tell sets where changes are counted and audited, before the first catalog is announced. The trail is nil without one.
func (a *Announcer) Tell(metrics *export.Page, to *trail.Audit) { a.metrics, a.trail = metrics, to }

// Catalog says what a catalog is, what is odd about it, and which tools differ from
// the one before. start is when the process did.
func (a *Announcer) Catalog(old, now *catalog.Catalog, start time.Time) {
	for _, w := range now.Warnings() {
		if old != nil && slices.Contains(old.Warnings(), w) {
			continue // it was said when it was new
		}
		a.opts.Log.Warn("catalog warning", zap.String("subject", w.Subject), zap.String("warning", w.Text))
	}
	fields := []zap.Field{
		zap.Int("tools", len(now.Tools())), zap.String("fingerprint", shortFingerprint(now.Fingerprint())), zap.Duration("uptime_ms", time.Since(start)),
	}
	if old != nil {
		a.announceChange(now.Since(old), fields)
		a.offer(old, now)
		return
	}
	a.opts.Milestones.Info("ready", fields...)
	a.warnOfClients(now)
	if !a.opts.Embedded {
		if _, err := peer.ReleaseMemory(); err != nil {
			a.opts.Log.Debug("releasing memory failed", logkey.Error(err))
		}
	}
}

// toolChange is a change of the tools, for /readyz.
type toolChange struct {
	at   time.Time
	text string
}

// announceChange says which tools are other ones: in the log, the metrics, the audit trail
// and /readyz. A tool that is gone is a warning, because its callers fail from now on.
func (a *Announcer) announceChange(change catalog.Change, fields []zap.Field) {
	level := zap.InfoLevel
	for _, part := range [...]struct {
		key   string
		names []string
	}{{"removed", change.RemovedNames()}, {"added", change.AddedNames()}, {"changed", change.ChangedNames()}} {
		if len(part.names) > 0 {
			fields = append(fields, zap.Strings(part.key, part.names))
		}
	}
	if len(change.Removed) > 0 {
		level = zap.WarnLevel
	}
	a.opts.Log.Log(level, "catalog changed", fields...)
	a.metrics.ToolChanges(len(change.Added), len(change.Removed), len(change.Changed))
	text := change.String()
	if text == "" {
		return // of resources or the description alone
	}
	a.lastChange.Store(&toolChange{time.Now(), text})
	a.trail.Change(trail.Change{Kind: "catalog", Who: trail.OfProcess(), Detail: text})
}

// shortFingerprint is enough of a fingerprint to tell two catalogs apart at a
// glance; /describe has all of it.
func shortFingerprint(fingerprint string) string {
	const digits = 12
	return fingerprint[:min(digits, len(fingerprint))]
}

// offer takes a catalog and the one before, and returns at once: a comparison derives schemas.
func (a *Announcer) offer(old, now *catalog.Catalog) {
	select {
	case waiting := <-a.next:
		old = waiting[0]
	default:
	}
	a.next <- [2]*catalog.Catalog{old, now}
}

// Run compares each catalog with the one before until ctx ends, and reports schemas that break their callers, or may, without
// saying so in the tool's version. What changed since the last process, the catalog lock tells.
func (a *Announcer) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case pair := <-a.next:
			findings := report.VersionFindings(ctx, pair[0], pair[1], report.DiffLimits{})
			a.metrics.BreakingChanges(len(findings))
			for _, f := range findings {
				a.opts.Log.Warn("breaking change under an unchanged major version", zap.String(logkey.CanonicalTool, f.Tool), zap.String("finding", f.String()))
			}
		}
	}
}

// listTooLarge logs that a list of tools exceeds its budget. It is called once for each version of the catalog.
func (a *Announcer) listTooLarge(l listcost.List) {
	dearest := make([]string, len(l.Dearest))
	for i, t := range l.Dearest {
		dearest[i] = fmt.Sprintf("%s (%d bytes)", t.Name, t.Bytes)
	}
	a.opts.Noted.Warn("list of tools exceeds its budget: leave tools out with --exclude, set --output-schemas none or --catalog-mode compact, or raise --list-budget-bytes and --list-budget-tokens",
		zap.Int("tools", l.Tools), zap.Int("list_bytes", l.Bytes), zap.Int("list_tokens", l.Tokens),
		zap.Int("budget_bytes", a.Lists.Budget().InBytes()), zap.Strings("dearest_tools", dearest))
}

// maxDriftShown bounds the tools that one line names of each kind: a catalog may have
// changed as a whole.
const maxDriftShown = 20

// Drifted logs how the tools differ from the catalog lock. It is called once for each
// difference.
func (a *Announcer) Drifted(d lock.Drift) {
	if d.IsNone() {
		a.opts.Log.Info("catalog matches its lock")
		return
	}
	changed := make([]string, len(d.Changed))
	for i, c := range d.Changed {
		changed[i] = c.String()
	}
	a.opts.Log.Warn("catalog differs from its lock", zap.Stringer("drift", d), zap.Strings("tools_added", firstTools(d.Added)),
		zap.Strings("tools_removed", firstTools(d.Removed)), zap.Strings("tools_changed", firstTools(changed)))
}

// firstTools shortens a list of tools, and says how many it leaves out.
func firstTools(tools []string) []string {
	if len(tools) <= maxDriftShown {
		return tools
	}
	return append(tools[:maxDriftShown:maxDriftShown], fmt.Sprintf("and %d more", len(tools)-maxDriftShown))
}

// Changes says how the tools have changed, for /readyz?verbose.
func (a *Announcer) Changes(now *catalog.Catalog) []admin.Check {
	if now == nil {
		return nil
	}
	detail := fmt.Sprintf("%d tools, unchanged since startup", len(now.Tools()))
	if last := a.lastChange.Load(); last != nil {
		detail = fmt.Sprintf("%d tools; last change at %s: %s", len(now.Tools()), last.at.UTC().Format(time.RFC3339), last.text)
	}
	return []admin.Check{{Name: "tool changes", OK: true, Info: true, Detail: detail}}
}

// Lock says whether the tools match the catalog lock, for /readyz?verbose.
func (a *Announcer) Lock(now *catalog.Catalog) []admin.Check {
	if now == nil {
		return nil
	}
	drift, isLocked := now.Drift()
	if !isLocked {
		return nil
	}
	check := admin.Check{Name: "catalog lock", OK: drift.IsNone(), Info: true, Detail: "the tools match"}
	if !drift.IsNone() {
		check.Detail = drift.String()
	}
	return []admin.Check{check}
}
