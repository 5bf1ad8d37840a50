// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/server/lifecycle"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
)

// ready is what /readyz says: whether calls can be answered, and what that
// depends on.
func (a *App) ready() (bool, []admin.Check) {
	status, life := a.live.Status(), a.life.Status()
	draining := a.bridge.Flights().Draining() || life.State >= lifecycle.Draining
	checks := []admin.Check{
		{Name: "catalog", OK: status.Ready, Detail: catalogDetail(status)},
		{Name: "draining", OK: !draining, Detail: fmt.Sprintf("%d requests in flight", a.bridge.Flights().InFlight())},
	}
	checks = append(checks, a.backend.Checks()...)
	checks = append(checks, admin.Check{
		Name: "lifecycle", OK: life.State == lifecycle.Ready, Info: true,
		Detail: fmt.Sprintf("%v for %v: %s", life.State, time.Since(life.Since).Round(time.Second), cmp.Or(life.Why, "since startup")),
	})
	for _, source := range status.Sources {
		detail := fmt.Sprintf("%d services in %d files, loaded in %v", source.Services, source.Files, source.Took.Round(time.Millisecond))
		if source.Err != nil {
			detail = source.Err.Error()
		}
		checks = append(checks, admin.Check{Name: source.Name, OK: source.Err == nil, Detail: detail, Info: true})
	}
	now := a.live.Current()
	checks = slices.Concat(checks, a.says.Changes(now), a.reloadChecks(), a.front.Checks(), a.ruleChecks(), a.says.Lock(now), a.shared.Checks())
	recording := true
	if check, ok := a.auditCheck(); ok {
		checks, recording = append(checks, check), check.OK || check.Info
	}
	return life.State == lifecycle.Ready && status.Ready && !draining && recording, checks
}

func catalogDetail(status catalog.Status) string {
	if status.Why != "" {
		return status.Why
	}
	return "loaded " + status.Loaded.UTC().Format(time.RFC3339)
}

// reloadChecks say how the files are doing, for /readyz?verbose. They decide
// nothing: what is in use is good.
func (a *App) reloadChecks() []admin.Check {
	var out []admin.Check
	for _, s := range a.watcher.Status() {
		if s.Files == 0 {
			continue
		}
		check := admin.Check{Name: "reload " + s.Group, OK: !s.Failing(), Info: true, Detail: "not reloaded since startup"}
		if !s.Tried.IsZero() {
			check.Detail = fmt.Sprintf("reloaded at %s: %v", s.Tried.UTC().Format("2006-01-02T15:04:05Z"), s.Last)
		}
		if s.Group == "configuration" {
			if waiting := a.reloader.FieldsWaiting(); len(waiting) > 0 {
				check.OK = false
				check.Detail += "; needs a restart: " + strings.Join(waiting, ", ")
			}
		}
		out = append(out, check)
	}
	return out
}

// reloadMetrics are the same for a scrape.
func (a *App) reloadMetrics() *export.Reloads {
	return &export.Reloads{Status: a.watcher.Status, Refused: func() int { return len(a.reloader.FieldsWaiting()) }}
}
