// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
)

// operators authenticates the clients of the admin listener.
type operators struct {
	// auth and book are nil without an operators file, tls without TLS.
	auth *identity.Middleware
	book *identity.Book
	tls  *keys.Server
	// sessions are those of the console; nil without an operators file.
	sessions *sessions
}

// openOperators reads the operators file and the certificates of the admin listener, and
// watches them for changes.
func openOperators(o Options) (*operators, error) {
	d := &operators{}
	listeners := o.Config.GetListeners()
	path, files := listeners.GetAdminTokensFile(), listeners.GetAdminTls()
	if path != "" {
		o.Watcher.Add("operators", reload.Keep(o.Log, "operators file reload failed; keeping the last good one", "operators file reloaded", func() ([]zap.Field, error) {
			entries, err := readOperators(path)
			if err != nil {
				return nil, err
			}
			return []zap.Field{zap.Int("operators", len(entries)), zap.Int("ended", d.book.Replace(entries))}, nil
		}), path)
	}
	if files != nil {
		var err error
		if d.tls, err = keys.NewServer(files); err != nil {
			return nil, fmt.Errorf("TLS on the admin listener: %w", err)
		}
		o.Watcher.Add("admin_tls", reload.Certificates(o.Log, "admin", d.tls.Reload), d.tls.Files()...)
	}
	if path == "" {
		return d, nil
	}
	entries, err := readOperators(path)
	if err != nil {
		return nil, err
	}
	d.book = identity.NewBook(entries)
	options := identity.MiddlewareOptions{Who: d.book, Refuse: refuseOperator, Log: o.Log.Named("admin")}
	if d.tls != nil && d.tls.AsksCallers() {
		options.Names = d.tls.Names
	}
	d.auth = identity.NewMiddleware(options)
	d.sessions = newSessions(d.book, o.Log.Named("admin"), o.Changed)
	o.Log.Info("operator authentication enabled", zap.Int("operators", d.book.Len()))
	return d, nil
}

// ownNames reports whether pages of the admin listener count as its own under any name: where operators authenticate, and not by
// certificates, which browsers show to any name.
func (d *operators) ownNames() bool { return d.auth != nil && (d.tls == nil || !d.tls.AsksCallers()) }

// Operators returns what the admin listener asks about its operators, nil if they need not
// authenticate.
func (f *Front) Operators() admin.Operators {
	if f.operators.auth == nil {
		return nil
	}
	return roles{f.operators}
}

// roles implements [admin.Operators]. The roles of an operator are the groups of its
// identity.
type roles struct{ of *operators }

// Authenticate implements [admin.Operators]: by the headers and the certificate of a request, and on the console also by a session.
func (r roles) Authenticate(next http.Handler) http.Handler {
	return r.of.sessions.wrap(next, r.of.auth)
}

// Name implements [admin.Operators].
func (roles) Name(ctx context.Context) string { return identity.FromContext(ctx).Name() }

// Has implements [admin.Operators].
func (roles) Has(ctx context.Context, role admin.Role) bool {
	return slices.Contains(identity.FromContext(ctx).Facts().Groups, string(role))
}

// refuseOperator answers a request without valid credentials.
func refuseOperator(w http.ResponseWriter, _ *http.Request, err *errmap.Error) {
	shown := err.JSONRPC(errmap.About{})
	shown.SetHeaders(w.Header())
	admin.Refuse(w, shown.HTTPStatus, shown.Message)
}
