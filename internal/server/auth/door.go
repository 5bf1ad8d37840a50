// SPDX-License-Identifier: Apache-2.0

// Package auth assembles who may come in at the main listener: the callers file, the
// certificates of both sides of the listener, and the authenticator that they make. It
// has the files read again when they change.
package auth

import (
	"context"
	"fmt"
	"net/http"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/httpauth"
	"github.com/outrigger-mcp/outrigger/internal/metrics"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/server/settings"
	"github.com/outrigger-mcp/outrigger/internal/tlsfiles"
)

// Options are what a [Door] is made of.
type Options struct {
	Config *configv1.Config
	// Refuse answers a request that is not let in, in the words of its edge.
	Refuse func(http.ResponseWriter, *http.Request, *errmap.Error)
	// Authenticator, where set, finds out who calls in place of the configuration.
	Authenticator access.Authenticator
	// Catalog returns the tools of now, nil before there are any.
	Catalog func() *catalog.Catalog
	Watcher *reload.Watcher
	Log     *zap.Logger
}

// Door is who may come in at the main listener: what is read of the files of
// callers and certificates. Make one with [Open].
type Door struct {
	opts Options
	auth *httpauth.Door
	// book is nil where no file names callers, tls where the listener is plain.
	book *access.Book
	tls  *tlsfiles.Server
	// grants is what of the book is about no tool.
	grants grants
}

// Open reads who may come in.
func Open(o Options) (*Door, error) {
	d := &Door{opts: o}
	d.watch() // before anything is read, so that no change slips between
	if files := o.Config.GetListeners().GetTls(); files != nil {
		var err error
		if d.tls, err = settings.ListenerTLS(files); err != nil {
			return nil, fmt.Errorf("TLS on the listener: %w", err)
		}
	}
	options := httpauth.Options{Subject: settings.SubjectHeader(o.Config), Refuse: o.Refuse, Log: o.Log.Named("access")}
	if d.tls != nil && d.tls.AsksCallers() {
		options.Who, options.Names = access.Certificates{}, d.tls.Names
	}
	if path := o.Config.GetAccess().GetTokensFile(); path != "" {
		entries, err := settings.Callers(path)
		if err != nil {
			return nil, err
		}
		d.book = access.NewBook(entries)
		options.Who = d.book
		o.Log.Info("caller authentication enabled", zap.Int("callers", d.book.Len()))
	}
	if o.Authenticator != nil {
		options.Who = o.Authenticator
	}
	d.auth = httpauth.New(options)
	return d, nil
}

// TLS is what callers see on the main listener; nil where it is plain.
func (d *Door) TLS() *tlsfiles.Server { return d.tls }

// Wrap returns a handler that lets through to next what may come in.
func (d *Door) Wrap(next http.Handler) http.Handler { return d.auth.Wrap(next) }

// watch has the files of callers and certificates read again when they
// change. Files that cannot be used leave the last good ones in use.
func (d *Door) watch() {
	if path := d.opts.Config.GetAccess().GetTokensFile(); path != "" {
		d.opts.Watcher.Add("callers", func(context.Context) reload.Outcome { return d.rereadCallers(path) }, path)
	}
	if tls := d.opts.Config.GetListeners().GetTls(); tls != nil {
		files := []string{tls.GetCertFile(), tls.GetKeyFile()}
		if authorities := tls.GetClientCaFile(); authorities != "" {
			files = append(files, authorities)
		}
		d.opts.Watcher.Add("listener_tls", func(context.Context) reload.Outcome { return d.rereadTLS() }, files...)
	}
}

// rereadCallers reads the callers file again.
func (d *Door) rereadCallers(path string) reload.Outcome {
	entries, err := settings.Callers(path)
	if err != nil {
		d.opts.Log.Error("callers file reload failed; keeping the last good one", zap.Error(err))
		return reload.Refused
	}
	d.opts.Log.Info("callers file reloaded", zap.Int("callers", len(entries)), zap.Int("ended", d.book.Replace(entries)))
	if now := d.opts.Catalog(); now != nil {
		d.CheckGrants(now)
	}
	return reload.Applied
}

// rereadTLS reads the certificates of the listener again.
func (d *Door) rereadTLS() reload.Outcome {
	if err := d.tls.Reload(); err != nil {
		d.opts.Log.Error("certificate reload failed; keeping the last good certificates", zap.String("side", "listener"), zap.Error(err))
		return reload.Refused
	}
	d.opts.Log.Info("certificates reloaded", zap.String("side", "listener"))
	return reload.Applied
}

// badCertificate is the reason of a handshake that failed because of the name in the
// caller's certificate.
const badCertificate = "certificate"

// Metrics are who was not let in, for a scrape.
func (d *Door) Metrics() *metrics.Door {
	out := &metrics.Door{Refused: func(reason string) uint64 {
		if reason == badCertificate {
			return d.tls.Refused()
		}
		return d.auth.Refused(access.Reason(reason))
	}}
	for _, why := range access.Reasons() {
		out.Reasons = append(out.Reasons, string(why))
	}
	if d.tls != nil {
		out.Reasons = append(out.Reasons, badCertificate)
		out.Expires = d.tls.Expires
	}
	return out
}
