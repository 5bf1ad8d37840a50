// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/bridge/seal"
)

// keyPoll is how often the file with the sealing keys is looked at. Keys are
// rotated by adding the new one behind the old on every replica first, so that
// seconds do not matter.
const keyPoll = 10 * time.Second

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

// watchKeys reads the key file again when it changes, until ctx ends. Keys that
// cannot be read leave the last good ones in use.
func (a *app) watchKeys(ctx context.Context) {
	path := a.cfg.GetState().GetKeyFile()
	if path == "" {
		return
	}
	ticker := time.NewTicker(keyPoll)
	defer ticker.Stop()
	seen := fileVersion(path)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := fileVersion(path)
		if now == seen {
			continue
		}
		seen = now
		keys, err := seal.LoadKeys(path)
		if err != nil {
			a.log.Error("the sealing keys were changed and cannot be read; the last good ones stay in use", zap.Error(err))
			continue
		}
		a.sealer.Replace(keys)
		a.log.Info("sealing keys read again", zap.Int("keys", keys.Len()))
	}
}

// fileVersion tells one state of a file from another; a file that is not there
// has one too.
func fileVersion(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
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
	a.log.Warn("request states, cursors and task ids are sealed with a random key, which no other replica and no later " +
		"process can open; --state-key gives all replicas the same")
}
