// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"os"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// openTrail opens the audit trail. A trail that was asked for and cannot be opened ends
// the start: callers do not wait yet, and an operator does.
func (a *App) openTrail() error {
	c := a.cfg.GetAudit()
	if path := c.GetPath(); path == "" || path == "off" {
		return nil
	}
	fsync, err := trail.ParseSync(c.GetFsync())
	if err != nil {
		return err
	}
	a.trail, err = trail.OpenAudit(trail.AuditOptions{
		Path: c.GetPath(), Out: os.Stdout, MaxFileBytes: c.GetMaxFileBytes(), MaxFiles: int(c.GetMaxFiles()),
		Fsync: fsync, FsyncInterval: c.GetFsyncInterval().AsDuration(), MaxQueuedBytes: int(c.GetMaxQueuedBytes()),
		Required: c.GetRequired(), Payloads: c.GetPayloads(), MaxPayloadBytes: int(c.GetMaxPayloadBytes()),
		Redact:        append(trail.RedactNames(a.cfg.GetRecord()), c.GetRedact()...),
		Deterministic: a.cfg.GetDeterministic(), Log: a.log.Named("audit"),
	})
	if err != nil {
		return fmt.Errorf("--audit: %w", err)
	}
	a.watcher.OnOutcome(a.auditReload)
	return nil
}

// auditStart writes the line of a process that begins to serve: what is missing at the end
// of a trail, a kill explains.
func (a *App) auditStart() {
	a.trail.Change(trail.Change{Kind: "start", Who: trail.OfProcess(), After: a.opts.Version})
}

// auditDrain writes the line of a drain that begins.
func (a *App) auditDrain() {
	who := trail.OfProcess()
	if operator := a.drainedBy.Load(); operator != nil {
		who = trail.OfOperator(*operator)
	}
	a.trail.Change(trail.Change{Kind: "drain", Who: who, Detail: a.life.Status().Why})
}

// auditReload writes the line of a changed file.
func (a *App) auditReload(group string, o reload.Outcome) {
	change := trail.Change{Kind: "reload", Who: trail.OfFile(), After: group, Detail: o.String()}
	if o == reload.Refused {
		change.Code = string(errmap.InvalidParams)
	}
	a.trail.Change(change)
}

// auditRefresh writes the line of POST /refresh.
func (a *App) auditRefresh(who string, out admin.Refreshed) {
	change := trail.Change{Kind: "refresh", Who: trail.OfOperator(who), After: out.Fingerprint}
	if !out.OK {
		change.Code = string(errmap.Unavailable)
	}
	a.trail.Change(change)
}

// auditCheck is what /readyz says of the trail. One that is required decides: calls are
// refused while it cannot be written.
func (a *App) auditCheck() (admin.Check, bool) {
	if !a.trail.IsOn() {
		return admin.Check{}, false
	}
	s := a.trail.Stats()
	check := admin.Check{
		Name: "audit", OK: !s.Failing, Info: !a.trail.IsRequired(),
		Detail: fmt.Sprintf("%d lines written, %d dropped, %d bytes queued", s.Written, s.Dropped, s.Queued),
	}
	if s.Failing {
		check.Detail = "cannot be written: " + s.Failure + "; " + check.Detail
	}
	return check, true
}
