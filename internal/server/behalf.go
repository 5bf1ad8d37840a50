// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net/http"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/identity/behalf"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// onBehalf is in whose name the backend is called. Both are nil where the caller's name
// is in a header, or nowhere.
type onBehalf struct {
	exchanger *behalf.Exchanger
	signer    *behalf.Signer
}

func openBehalf(cfg *configv1.Config, log *zap.Logger) (onBehalf, error) {
	var out onBehalf
	var err error
	i := cfg.GetBackend().GetIdentity()
	switch i.GetMode() {
	case "exchange":
		challenge := "" // for callers whose token the authorization server no longer accepts
		if oauth := cfg.GetAccess().GetOauth(); identity.HasOAuth(oauth) {
			challenge = `Bearer error="invalid_token", resource_metadata="` + identity.MetadataURL(oauth.GetResource()) + `"`
		}
		out.exchanger, err = behalf.NewExchanger(i, challenge, log)
	case "signed":
		out.signer, err = behalf.NewSigner(i)
	}
	if err != nil {
		return onBehalf{}, fmt.Errorf("backend.identity: %w", err)
	}
	return out, nil
}

// source is what the pipeline asks, nil where it asks nothing.
func (o onBehalf) source() bridge.OnBehalf {
	switch {
	case o.exchanger != nil:
		return o.exchanger
	case o.signer != nil:
		return o.signer
	}
	return nil
}

// keep keeps the caller's token for the exchange. Nothing else may have it.
func (o onBehalf) keep() func(context.Context, string) context.Context {
	if o.exchanger == nil {
		return nil
	}
	return behalf.WithToken
}

// keys serves the keys of signed tokens; nil without any.
func (o onBehalf) keys() http.Handler {
	if o.signer == nil {
		return nil
	}
	return o.signer
}

// metrics counts what was made; nil in the modes that make nothing.
func (o onBehalf) metrics() func() export.Identity {
	var stats func() behalf.Stats
	switch {
	case o.exchanger != nil:
		stats = o.exchanger.Stats
	case o.signer != nil:
		stats = o.signer.Stats
	default:
		return nil
	}
	return func() export.Identity { return export.Identity(stats()) }
}

func (o onBehalf) close() {
	if o.exchanger != nil {
		o.exchanger.Close()
	}
}

// watchBehalf has the client secret or the signing keys read again when they change.
// What cannot be read leaves the last good one in use.
func (a *App) watchBehalf() {
	switch o := a.behalf; {
	case o.exchanger != nil && len(o.exchanger.Files()) > 0:
		a.watchSecrets("exchange_secret", "client secret", o.exchanger.Reload, o.exchanger.Files())
	case o.signer != nil:
		a.watchSecrets("signing_keys", "signing keys", o.signer.Reload, o.signer.Files())
	}
}

func (a *App) watchSecrets(group, what string, again func() (bool, error), files []string) {
	reread := a.reread(what, again)
	a.watcher.Add(group, reread, files...)
	reread(context.Background()) // they were read before they were watched
}

// reread reads a file of secrets again. The log shows nothing of it.
func (a *App) reread(what string, again func() (bool, error)) func(context.Context) reload.Outcome {
	return func(context.Context) reload.Outcome {
		changed, err := again()
		switch {
		case err != nil:
			a.log.Error(what+" reload failed; keeping the last good one", logkey.Error(err))
			return reload.Refused
		case !changed:
			return reload.Unchanged
		}
		a.log.Info(what + " reloaded")
		return reload.Applied
	}
}
