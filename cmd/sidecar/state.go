// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/bridge/seal"
	"github.com/outrigger-mcp/outrigger/internal/reload"
)

// openSealer makes the sealer for what callers bring back.
func (a *app) openSealer() error {
	path := a.cfg.GetState().GetKeyFile()
	options := seal.Options{TTL: a.cfg.GetState().GetTtl().AsDuration()}
	if path != "" {
		keys, err := seal.LoadKeys(path)
		if err != nil {
			return fmt.Errorf("--state-key: %w", err)
		}
		options.Keys = keys
	}
	a.sealer = seal.New(options)
	return nil
}

// watchKeys has the key file read again when it changes. Keys are rotated by
// adding the new one behind the old on every replica first, so that seconds do
// not matter. Keys that cannot be read leave the last good ones in use.
func (a *app) watchKeys() {
	path := a.cfg.GetState().GetKeyFile()
	if path == "" {
		return
	}
	a.watcher.Add("state_keys", func(context.Context) reload.Outcome {
		keys, err := seal.LoadKeys(path)
		if err != nil {
			a.log.Error("sealing keys reload failed; keeping the last good ones", zap.Error(err))
			return reload.Refused
		}
		a.sealer.Replace(keys)
		a.log.Info("sealing keys reloaded", zap.Int("keys", keys.Len()))
		return reload.Applied
	}, path)
}

// warnOfRandomKey says that what callers bring back is understood by this
// process alone, where there is something to bring back.
func (a *app) warnOfRandomKey(now *catalog.Catalog) {
	if a.cfg.GetState().GetKeyFile() != "" || a.keyWarned {
		return
	}
	seals := now.Description() != nil || a.cfg.GetDestructive() == "confirm" ||
		len(now.Tools()) > int(a.cfg.GetLimits().GetMaxPageEntries())
	if !seals {
		return
	}
	a.keyWarned = true
	a.log.Warn("sealed state uses a random key, which other replicas and later processes cannot open; set --state-key to share one")
}
