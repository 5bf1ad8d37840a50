// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/server/lifecycle"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
)

// maxHeldShown bounds the tools that /readyz?verbose names.
const maxHeldShown = 10

// ready is what /readyz says: whether calls can be answered, and what that
// depends on.
func (a *App) ready() (bool, []admin.Check) {
	status, life := a.live.Status(), a.life.Status()
	draining := a.bridge.Flights().Draining() || life.State >= lifecycle.Draining
	checks := []admin.Check{
		{Name: "catalog", OK: status.Ready, Detail: catalogDetail(status)},
		{Name: "draining", OK: !draining, Detail: fmt.Sprintf("%d requests in flight", a.bridge.Flights().InFlight())},
	}
	if a.backend.guard != nil {
		s := a.backend.guard.Stats()
		answer, isAnswering := "", true
		for _, need := range life.Needs {
			if need.Name == needAnswer && !need.OK {
				answer, isAnswering = need.Why+"; ", false
			}
		}
		checks = append(checks, admin.Check{
			Name: "backend", OK: isAnswering && s.Breaker == backend.BreakerClosed,
			Detail: answer + fmt.Sprintf("circuit breaker %v, opened %d times; %d calls rejected, %d retried", s.Breaker, s.Opened, s.Held, s.Repeated),
		})
		for i, held := range s.Tools {
			if i == maxHeldShown {
				checks = append(checks, admin.Check{Name: "tools", Info: true, Detail: fmt.Sprintf("%d more circuit breakers are not closed", len(s.Tools)-i+s.MoreTools)})
				break
			}
			checks = append(checks, admin.Check{Name: "tool " + held.Tool, Info: true, Detail: fmt.Sprintf("circuit breaker %v: calls time out", held.State)})
		}
	}
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
	if cat := a.live.Current(); cat != nil {
		detail := fmt.Sprintf("%d tools, unchanged since startup", len(cat.Tools()))
		if last := a.lastChange.Load(); last != nil {
			detail = fmt.Sprintf("%d tools; last change at %s: %s", len(cat.Tools()), last.at.UTC().Format(time.RFC3339), last.text)
		}
		checks = append(checks, admin.Check{Name: "tool changes", OK: true, Info: true, Detail: detail})
	}
	checks = append(append(append(checks, a.reloadChecks()...), a.authn.Checks()...), a.ruleChecks()...)
	checks = append(checks, a.lockChecks()...)
	if check, ok := a.sharedCheck(); ok {
		checks = append(checks, check)
	}
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
