// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/logkey"
	"github.com/outrigger-mcp/outrigger/internal/reload"
)

// Files are the files of the backend's credentials and certificates, which are read
// again when they change. Files that cannot be used leave the last good ones in use.
type Files struct {
	Client    *backend.Client
	Watcher   *reload.Watcher
	Refresher *Refresher
	Log       *zap.Logger
}

// WatchTLS has the certificates read again when they change. group is their name in metrics,
// side that of the peer in the log.
func (f *Files) WatchTLS(group, side string) {
	if f.Client == nil || len(f.Client.TLSFiles()) == 0 {
		return
	}
	f.Watcher.Add(group, func(context.Context) reload.Outcome { return f.rereadTLS(side) }, f.Client.TLSFiles()...)
	// They were read before they were watched.
	if err := f.Client.ReloadTLS(); err != nil {
		f.Log.Error("certificate reload failed; keeping the last good certificates", zap.String("side", side), logkey.Error(err))
	}
}

// rereadTLS reads the certificates again.
func (f *Files) rereadTLS(side string) reload.Outcome {
	if err := f.Client.ReloadTLS(); err != nil {
		f.Log.Error("certificate reload failed; keeping the last good certificates", zap.String("side", side), logkey.Error(err))
		return reload.Refused
	}
	f.Log.Info("certificates reloaded", zap.String("side", side))
	return reload.Applied
}

// WatchCredentials has the files of the backend's credentials read again when they
// change.
func (f *Files) WatchCredentials() {
	if f.Client == nil || len(f.Client.CredentialFiles()) == 0 {
		return
	}
	f.Watcher.Add("backend_credentials", f.rereadCredentials, f.Client.CredentialFiles()...)
	f.rereadCredentials(context.Background()) // they were read before they were watched
}

// rereadCredentials reads the files again. The log names no value.
func (f *Files) rereadCredentials(context.Context) reload.Outcome {
	changed, err := f.Client.ReloadCredentials()
	switch {
	case err != nil:
		f.Log.Error("backend credentials reload failed; keeping the last good ones", logkey.Error(err))
		return reload.Refused
	case !changed:
		return reload.Unchanged
	}
	f.Log.Info("backend credentials reloaded")
	f.Refresher.Begin("credentials") // it may be what a backend waits for that refused the old ones
	return reload.Applied
}
