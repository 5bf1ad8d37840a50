// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"fmt"
	"net/http"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/identity/behalf"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
)

// behalfOf is in whose name a backend is called. It is empty where the caller's name
// is in a header, or nowhere.
type behalfOf struct {
	// keep keeps the caller's token for the exchange, and keys serves the keys of signed tokens; each is nil in the other modes.
	keep func(context.Context, string) context.Context
	keys http.Handler

	maker tokenMaker
	// group has the files of the maker's secret for the watcher, what names it in the log.
	group, what string
	close       func()
}

// tokenMaker makes the tokens of calls.
type tokenMaker interface {
	bridge.OnBehalf
	Stats() behalf.Stats
	Files() []string
	Reload() (changed bool, err error)
}

// openBehalf makes what speaks for callers.
func openBehalf(cfg *configv1.Config, log *zap.Logger) (behalfOf, error) {
	i := cfg.GetBackend().GetIdentity()
	switch i.GetMode() {
	case "exchange":
		challenge := "" // for callers whose token the authorization server no longer accepts
		if oauth := cfg.GetAccess().GetOauth(); identity.HasOAuth(oauth) {
			challenge = `Bearer error="invalid_token", resource_metadata="` + identity.MetadataURL(oauth.GetResource()) + `"`
		}
		x, err := behalf.NewExchanger(i, challenge, log)
		if err != nil {
			return behalfOf{}, fmt.Errorf("backend.identity: %w", err)
		}
		return behalfOf{maker: x, group: "exchange_secret", what: "client secret", keep: behalf.WithToken, close: x.Close}, nil
	case "signed":
		s, err := behalf.NewSigner(i)
		if err != nil {
			return behalfOf{}, fmt.Errorf("backend.identity: %w", err)
		}
		return behalfOf{maker: s, group: "signing_keys", what: "signing keys", keys: s}, nil
	}
	return behalfOf{}, nil
}

// source returns what the pipeline asks, nil where it asks nothing.
func (b behalfOf) source() bridge.OnBehalf {
	if b.maker == nil {
		return nil
	}
	return b.maker
}

// stop ends what was made.
func (b behalfOf) stop() {
	if b.close != nil {
		b.close()
	}
}

// Keep returns what keeps a caller's token for an exchange; nil where no backend is called with one.
func (b *Backends) Keep() func(context.Context, string) context.Context {
	for _, s := range b.all {
		if s.behalf.keep != nil {
			return s.behalf.keep
		}
	}
	return nil
}

// Keys serves the keys of signed tokens, which all backends share; nil where none is called with one.
func (b *Backends) Keys() http.Handler {
	for _, s := range b.all {
		if s.behalf.keys != nil {
			return s.behalf.keys
		}
	}
	return nil
}

// Identity counts what was made in the name of callers, for all backends together; nil in the modes that make nothing.
func (b *Backends) Identity() func() export.Identity {
	var makers []tokenMaker
	for _, s := range b.all {
		if s.behalf.maker != nil {
			makers = append(makers, s.behalf.maker)
		}
	}
	if makers == nil {
		return nil
	}
	return func() export.Identity {
		var sum behalf.Stats
		for _, m := range makers {
			sum = sum.With(m.Stats())
		}
		return export.Identity(sum)
	}
}

// WatchIdentity has the client secrets and signing keys read again when they change.
func (b *Backends) WatchIdentity(watcher *reload.Watcher, log *zap.Logger) {
	for _, s := range b.all {
		s.behalf.watch(watcher, s.group(s.behalf.group), log)
	}
}

// watch has the client secret or the signing keys read again when they change. What cannot be read leaves the last good one in
// use. The log shows nothing of it.
func (b behalfOf) watch(watcher *reload.Watcher, group string, log *zap.Logger) {
	if b.maker == nil || len(b.maker.Files()) == 0 {
		return
	}
	reread := reload.Keep(log, b.what+" reload failed; keeping the last good one", b.what+" reloaded", func() ([]zap.Field, error) {
		changed, err := b.maker.Reload()
		if err == nil && !changed {
			err = reload.ErrUnchanged
		}
		return nil, err
	})
	watcher.Add(group, reread, b.maker.Files()...)
	reread(context.Background()) // they were read before they were watched
}

// CheckIdentity makes what speaks for callers before a port opens, so that its errors are
// reported together with all others. What is missing is reported by the rules of its message.
func CheckIdentity(cfg *configv1.Config, report func(path, message string)) {
	i := cfg.GetBackend().GetIdentity()
	switch url := i.GetExchange().GetTokenUrl(); {
	case i.GetMode() == "exchange" && url != "":
		if err := behalf.CheckURL(url); err != nil {
			report("backend.identity.exchange.token_url", err.Error())
			return
		}
		x, err := behalf.NewExchanger(i, "", zap.NewNop())
		if err != nil {
			report("backend.identity.exchange", err.Error())
			return
		}
		x.Close()
	case i.GetMode() == "signed" && i.GetSigned().GetKeyFile() != "":
		if _, err := behalf.NewSigner(i); err != nil {
			report("backend.identity.signed.key_file", err.Error())
			return
		}
	default:
		return
	}
	checkOneAuthorization(cfg.GetBackend(), report)
	checkIdentityPlaintext(cfg.GetBackend(), report)
}

// checkOneAuthorization refuses two values for one header. A header file is read again
// while the sidecar runs; the credentials of the caller win over it then.
func checkOneAuthorization(b *configv1.Backend, report func(path, message string)) {
	const twice = "calls have the caller's credentials in the authorization header (backend.identity); remove one of the two"
	for _, one := range backend.CredentialParts(b) {
		if backend.SetsHeader(one.Of, "Authorization") {
			report(one.Path, twice)
		}
	}
}

// checkIdentityPlaintext refuses to send tokens over a network without TLS.
func checkIdentityPlaintext(b *configv1.Backend, report func(path, message string)) {
	target, err := backend.ParseTarget(b.GetUrl())
	if err == nil && !target.IsPrivate() && !b.GetCredentials().GetAllowPlaintext() {
		report("backend.url", backend.ErrPlaintextCredentials.Error())
	}
}
