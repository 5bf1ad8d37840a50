// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"fmt"
	"net/http"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/server/upstream"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
)

// authenticator authenticates the callers of the main listener, by the callers file,
// certificates and access tokens.
type authenticator struct {
	opts Options
	auth *identity.Middleware
	// book is nil without a callers file, tls without TLS.
	book *identity.Book
	tls  *keys.Server
	// knowsProcesses: callers on the Unix socket are known by their processes.
	knowsProcesses bool
	// oauth is nil without an issuer.
	oauth *identity.Verifier
	// grants has the globs of the callers file that match no tool.
	grants grants
}

// openAuthenticator reads the callers file and the certificates, and watches them for changes. refuse rejects an unauthenticated
// request in the protocol of its edge.
func openAuthenticator(o Options, refuse func(http.ResponseWriter, *http.Request, *errmap.Error)) (*authenticator, error) {
	d := &authenticator{opts: o}
	d.watch() // before anything is read, so that no change is missed
	if files := o.Config.GetListeners().GetTls(); files != nil {
		var err error
		if d.tls, err = keys.NewServer(files); err != nil {
			return nil, fmt.Errorf("TLS on the listener: %w", err)
		}
	}
	options := identity.MiddlewareOptions{
		Subject: upstream.SubjectHeader(o.Config), Unnamed: !upstream.NamesCaller(o.Config),
		Keep: o.Keep, Refuse: refuse, Log: o.Log.Named("access"),
	}
	if d.tls != nil && d.tls.AsksCallers() {
		options.Who, options.Names = identity.Certificates{}, d.tls.Names
	}
	if d.knowsProcesses = config.HasExperiment(o.Config, config.UnixSocket); d.knowsProcesses {
		options.Process = processOf
		if options.Who == nil {
			options.Who = identity.Processes{}
		}
	}
	if path := o.Config.GetAccess().GetTokensFile(); path != "" {
		entries, err := readCallers(path, d.knowsProcesses)
		if err != nil {
			return nil, err
		}
		d.book = identity.NewBook(entries)
		options.Who = d.book
		o.Log.Info("caller authentication enabled", zap.Int("callers", d.book.Len()))
	}
	if err := d.openOAuth(&options); err != nil {
		return nil, err
	}
	if o.Authenticator != nil {
		options.Who = o.Authenticator
	}
	d.auth = identity.NewMiddleware(options)
	return d, nil
}

// openOAuth puts the resource server in front of the callers file and the certificates.
func (d *authenticator) openOAuth(options *identity.MiddlewareOptions) error {
	o, on, err := identity.OAuthOptions(d.opts.Config.GetAccess().GetOauth())
	if err != nil || !on || d.opts.Authenticator != nil {
		return err
	}
	o.Scope = func() string { return d.opts.Scopes.First(d.opts.Catalog()) }
	o.Book, o.NoToken, o.Log = d.book, options.Who, d.opts.Log.Named("oauth")
	if d.oauth, err = identity.NewVerifier(o); err != nil {
		return fmt.Errorf("access.oauth: %w", err)
	}
	options.Who, options.Reasons = d.oauth, identity.VerifierReasons()
	d.opts.Log.Info("OAuth resource server enabled", zap.String("resource", o.Resource), zap.Int("issuers", len(o.Issuers)))
	return nil
}

// Run keeps the keys of issuers fresh until ctx ends.
func (f *Front) Run(ctx context.Context) {
	if oauth := f.authn.oauth; oauth != nil {
		oauth.Run(ctx)
	}
}

// watch reloads the callers file and the certificates when they change. If a
// file is invalid, the last good one stays in use.
func (d *authenticator) watch() {
	if path := d.opts.Config.GetAccess().GetTokensFile(); path != "" {
		reread := reload.Keep(d.opts.Log, "callers file reload failed; keeping the last good one", "callers file reloaded", func() ([]zap.Field, error) {
			entries, err := readCallers(path, d.knowsProcesses)
			if err != nil {
				return nil, err
			}
			return []zap.Field{zap.Int("callers", len(entries)), zap.Int("ended", d.book.Replace(entries))}, nil
		})
		d.opts.Watcher.Add("callers", func(ctx context.Context) reload.Outcome {
			out := reread(ctx)
			if now := d.opts.Catalog(); now != nil && out == reload.Applied {
				d.checkGrants(now)
			}
			return out
		}, path)
	}
	if tls := d.opts.Config.GetListeners().GetTls(); tls != nil {
		files := []string{tls.GetCertFile(), tls.GetKeyFile()}
		if authorities := tls.GetClientCaFile(); authorities != "" {
			files = append(files, authorities)
		}
		d.opts.Watcher.Add("listener_tls", reload.Certificates(d.opts.Log, "listener", func() error { return d.tls.Reload() }), files...)
	}
}

// badCertificate is the reason of a handshake that failed because of the name in the
// client certificate.
const badCertificate = "certificate"

// Authentication returns the metrics of rejected requests and of the certificate's expiry.
func (f *Front) Authentication() *export.Authentication {
	d := f.authn
	out := &export.Authentication{Refused: func(reason string) uint64 {
		if reason == badCertificate {
			return d.tls.Refused()
		}
		return d.auth.Refused(identity.Reason(reason))
	}}
	reasons := identity.Reasons()
	if d.oauth != nil {
		reasons = append(reasons, identity.VerifierReasons()...)
		out.OAuth = d.oauth.Stats
	}
	for _, why := range reasons {
		out.Reasons = append(out.Reasons, string(why))
	}
	if d.tls != nil {
		out.Reasons = append(out.Reasons, badCertificate)
		out.Expires = d.tls.Expires
	}
	return out
}
