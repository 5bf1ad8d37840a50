// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge/backend"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/reload"
)

// credentialOptions are what the sidecar shows the backend.
func credentialOptions(b *configv1.Backend) backend.CredentialOptions {
	return backend.CredentialOptions{
		Headers: b.GetMetadata().GetStatic(), HeaderFile: b.GetMetadata().GetStaticFile(),
		TokenFile: b.GetCredentials().GetTokenFile(), Scheme: b.GetCredentials().GetScheme(),
		AllowPlaintext: b.GetCredentials().GetAllowPlaintext(),
	}
}

// checkCredentials reads the files of the backend's credentials before a port
// opens, so that what is wrong with them is reported with everything else.
func checkCredentials(cfg *configv1.Config, report func(path, message string)) {
	b := cfg.GetBackend()
	target, err := backend.ParseTarget(b.GetUrl())
	if err != nil {
		return // there is no backend, or it is the demo on loopback, or the URL is refused by itself
	}
	all := credentialOptions(b)
	for _, one := range [...]struct {
		path    string
		options backend.CredentialOptions
	}{
		{"backend.metadata.static", backend.CredentialOptions{Headers: all.Headers}},
		{"backend.metadata.static_file", backend.CredentialOptions{HeaderFile: all.HeaderFile}},
		{"backend.credentials.token_file", backend.CredentialOptions{TokenFile: all.TokenFile, Scheme: all.Scheme}},
	} {
		one.options.AllowPlaintext = true
		if err := one.options.Check(target); err != nil {
			report(one.path, err.Error())
			return
		}
	}
	switch err := all.Check(target); {
	case errors.Is(err, backend.ErrPlaintextCredentials):
		report("backend.url", err.Error())
	case err != nil:
		report("backend.credentials", err.Error()) // each part is well by itself
	}
}

// watchCredentials has the files of the backend's credentials read again when they
// change. Files that cannot be used leave the last good ones in use.
func (a *app) watchCredentials() {
	if a.client == nil || len(a.client.CredentialFiles()) == 0 {
		return
	}
	a.watcher.Add("backend_credentials", a.rereadCredentials, a.client.CredentialFiles()...)
	a.rereadCredentials(context.Background()) // they were read before they were watched
}

// rereadCredentials reads the files again. The log names no value.
func (a *app) rereadCredentials(context.Context) reload.Outcome {
	changed, err := a.client.ReloadCredentials()
	switch {
	case err != nil:
		a.log.Error("backend credentials reload failed; keeping the last good ones", zap.Error(err))
		return reload.Refused
	case !changed:
		return reload.Unchanged
	}
	a.log.Info("backend credentials reloaded")
	a.refresher.begin("credentials") // it may be what a backend waits for that refused the old ones
	return reload.Applied
}
