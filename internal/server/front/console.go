// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/edge/rpchttp"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// callerHeader names the caller as whom an operator calls.
const callerHeader = "Outrigger-Caller"

// callIDHeader tells the page the number of its call, by which the API knows it.
const callIDHeader = "Outrigger-Call-Id"

// callPath is in front of the path of an edge.
const callPath = admin.ConsolePath + "/call"

// Console returns the console for the admin listener, with the handler of its page.
func (f *Front) Console(page http.Handler) *admin.Console {
	out := &admin.Console{Page: page, Call: f.inConsole(), OwnNames: f.operators.ownNames()}
	if s := f.operators.sessions; s != nil {
		out.SignIn, out.SignOut = http.HandlerFunc(s.signIn), http.HandlerFunc(s.signOut)
		return out
	}
	if config.HasOpenAdmin(f.opts.Config.GetListeners()) {
		out.Off = "there is no console: operators do not authenticate, and the admin listener is beyond loopback; set --admin-tokens, " +
			"or --admin 127.0.0.1:9901"
	}
	return out
}

// IsSignedIn reports whether an operator's request has a session in the console, which it can end.
func (f *Front) IsSignedIn(ctx context.Context) bool { return ctx.Value(signedInKey{}) != nil }

// Callers returns the names as which the operator of a request may call tools; an empty name is the caller without
// authentication. If there are none, refusal says why, and what to configure.
func (f *Front) Callers(ctx context.Context) (names []string, refusal string) {
	hasOperators, isOpen := f.operators.auth != nil, !f.Authenticates()
	who := identity.FromContext(ctx)
	switch {
	case !hasOperators && isOpen:
		return []string{""}, ""
	case !hasOperators:
		return nil, "callers authenticate, and operators do not: to call tools in the console, set --admin-tokens, " +
			"and name entries of the callers file in calls_as of an operator"
	case !slices.Contains(who.Facts().Groups, string(admin.RoleOperate)):
		return nil, "operator " + who.Name() + " needs the role operate to call tools (--admin-tokens)"
	}
	if isOpen {
		names = append(names, "")
	}
	for _, name := range callsAs(who) {
		if f.authn.named(name) != nil {
			names = append(names, name)
		}
	}
	switch {
	case len(names) > 0:
		return names, ""
	case f.authn.book == nil:
		return nil, "callers authenticate without a callers file, so there is no entry as which an operator could call tools; set --tokens"
	case len(callsAs(who)) > 0:
		return nil, "no name in calls_as of operator " + who.Name() + " is an entry of the callers file"
	}
	return nil, "operator " + who.Name() + " may call tools as no caller: name entries of the callers file in its calls_as (--admin-tokens)"
}

// named returns the caller of an entry of the callers file, nil if there is none, or callers are not those of the file.
func (d *authenticator) named(name string) *identity.Identity {
	if d.opts.Authenticator != nil {
		return nil
	}
	return d.book.Named(name)
}

// inConsole runs requests for /mcp and /rpc in process, for operators: with the same bounds and steps as on the main listener, and
// as the caller that the request names.
func (f *Front) inConsole() http.Handler {
	calls := f.answering.wrap(sparing(f.opts.Slow.named(f.table), f.shed))
	if f.opts.Tracer.IsOn() {
		calls = telemetry.HTTPHandler(calls, telemetry.HTTPOptions{Tracer: f.opts.Tracer, Route: f.route, Edge: f.table.name})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, callPath)
		if path != mcphttp.Path && path != rpchttp.Path {
			admin.Refuse(w, http.StatusNotFound, "calls are at "+callPath+mcphttp.Path+" and "+callPath+rpchttp.Path)
			return
		}
		who, refusal := f.callAs(r)
		if refusal != "" {
			admin.Refuse(w, http.StatusForbidden, refusal)
			return
		}
		began := func(id uint64) { w.Header().Set(callIDHeader, strconv.FormatUint(id, 10)) }
		calls.ServeHTTP(w, f.asCall(r, path, who, began))
	})
}

// callAs is the caller that a request names, nil for one without authentication, or why the operator may not call as it.
func (f *Front) callAs(r *http.Request) (who *identity.Identity, refusal string) {
	names, refusal := f.Callers(r.Context())
	if refusal != "" {
		return nil, refusal
	}
	asked := r.Header.Values(callerHeader)
	switch {
	case len(asked) > 1:
		return nil, "send one " + callerHeader
	case len(asked) == 0:
		asked = []string{""}
	}
	if !slices.Contains(names, asked[0]) {
		if asked[0] == "" {
			return nil, "callers authenticate: name one of these in " + callerHeader + ": " + strings.Join(names, ", ")
		}
		return nil, "you may not call tools as this caller: calls_as of an operator names those that exist (--admin-tokens)"
	}
	if asked[0] == "" {
		return nil, ""
	}
	if who = f.authn.named(asked[0]); who == nil {
		return nil, "the callers file has just lost this entry"
	}
	return who, ""
}

// asCall is the request as its edge gets it. Nothing of the operator's own credentials is in it.
func (f *Front) asCall(r *http.Request, path string, who *identity.Identity, began func(id uint64)) *http.Request {
	from := &identity.Console{Began: began, Operator: localOperator}
	if f.operators.auth != nil {
		from.Operator = identity.FromContext(r.Context()).Name()
	}
	r = f.authn.auth.Admit(r.WithContext(identity.WithConsole(r.Context(), from)), who)
	r.Header.Del("Cookie")
	r.Header.Del(callerHeader)
	at := *r.URL
	at.Path, at.RawPath = path, ""
	r.URL, r.RequestURI = &at, at.RequestURI()
	return r
}
