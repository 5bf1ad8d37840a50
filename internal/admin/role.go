// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"net/http"
)

// Role is what an operator may do.
type Role string

// The roles. An operator with RoleOperate also has RoleRead.
const (
	// RoleRead permits reading: metrics, descriptions, trust, tools.
	RoleRead Role = "read"
	// RoleOperate permits changes: drain, refresh, trust, registrations. It also permits
	// profiles, because they cost CPU time.
	RoleOperate Role = "operate"
)

// Operators authenticates operators. Implementations are safe for concurrent use.
type Operators interface {
	// Authenticate returns a handler that passes authenticated operators to next, and
	// refuses all others.
	Authenticate(next http.Handler) http.Handler
	// Name returns the name of the operator of an authenticated request, "" of another.
	Name(ctx context.Context) string
	// Has reports whether the operator of an authenticated request has a role.
	Has(ctx context.Context, role Role) bool
}

// May reports whether the operator of a request has a role. Without authentication every
// operator has all.
func (a *Admin) May(ctx context.Context, role Role) bool {
	return a.options.Operators == nil || a.options.Operators.Has(ctx, role)
}

// Operator returns who sent a request, for logs and the audit trail: the name of the
// authenticated operator, else the address of the peer.
func (a *Admin) Operator(ctx context.Context, peer string) string {
	if a.options.Operators == nil {
		return peer
	}
	return a.options.Operators.Name(ctx)
}

// as lets requests through whose operator has a role.
func (a *Admin) as(role Role, next http.HandlerFunc) http.Handler {
	if a.options.Operators == nil {
		return next
	}
	return a.options.Operators.Authenticate(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.mayOr403(w, r, role) {
			next(w, r)
		}
	}))
}

// mayOr403 answers a request whose operator lacks a role.
func (a *Admin) mayOr403(w http.ResponseWriter, r *http.Request, role Role) bool {
	if a.May(r.Context(), role) {
		return true
	}
	Refuse(w, http.StatusForbidden, "operator "+a.Operator(r.Context(), r.RemoteAddr)+" needs the role "+string(role)+" (--admin-tokens)")
	return false
}

// Refuse answers a request that is not carried out, with a reason.
func Refuse(w http.ResponseWriter, status int, reason string) { refuse(w, refusal{status, reason}) }

// isCrossSite holds for requests that a web page of another site made, as browsers tell
// (Fetch Metadata, section 2.1). A page that an operator only looks at must not reach the
// listener at all: a GET has no Origin, and a profile costs CPU time.
func isCrossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return true
}

// ownSite refuses requests of other sites, on every page.
func ownSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isCrossSite(r) || !isOwnPage(r) {
			Refuse(w, http.StatusForbidden, "cross-site requests may not use the admin listener")
			return
		}
		next.ServeHTTP(w, r)
	})
}
