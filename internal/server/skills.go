// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/offer"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// maxOutsideShown bounds the files that one line names.
const maxOutsideShown = 20

// openSkills reads the folders of skills, and watches their files.
func (a *App) openSkills() error {
	if len(a.cfg.GetCatalog().GetSkills()) == 0 {
		return nil
	}
	// Watched before they are read, so that no change is missed.
	a.watcher.AddTree("skills", a.rereadSkills, offer.SkillPaths(a.cfg))
	var err error
	if a.skills, err = offer.OpenSkills(a.cfg); err != nil {
		return err
	}
	a.log.Info("skills loaded", skillFields(a.skills.Current())...)
	return nil
}

// rereadSkills reads the folders again. Those with a fault leave the last good skills in use.
func (a *App) rereadSkills(ctx context.Context) reload.Outcome {
	changed, isNew, err := a.skills.Reload(ctx)
	switch {
	case err != nil:
		a.log.Error("skills rejected; keeping the last good ones", logkey.Error(err))
		return reload.Refused
	case !isNew:
		return reload.Unchanged
	}
	a.log.Info("skills reloaded", append(skillFields(a.skills.Current()), zap.Int("changed_files", len(changed)))...)
	a.publish(notify.Change{Kind: notify.ResourcesListChanged})
	for _, uri := range changed {
		a.publish(notify.Change{Kind: notify.ResourceUpdated, URI: uri})
	}
	return reload.Applied
}

// skillFields say what there is, and what is no part of it.
func skillFields(set *offer.SkillSet) []zap.Field {
	fields := []zap.Field{zap.Int("skills", len(set.Skills())), zap.Int("files", len(set.Resources()))}
	if set.Hidden > 0 {
		fields = append(fields, zap.Int("hidden_entries", set.Hidden))
	}
	if n := len(set.Outside); n > 0 {
		fields = append(fields, zap.Int("files_outside", n), zap.Strings("outside", set.Outside[:min(n, maxOutsideShown)]))
	}
	return fields
}
