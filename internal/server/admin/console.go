// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net/http"
	"net/url"
	"strings"
)

// Paths of the console.
const (
	ConsolePath     = "/console"
	consoleCallPath = ConsolePath + "/call/"
	signInPath      = ConsolePath + "/sign-in"
	signOutPath     = ConsolePath + "/sign-out"
	apiPath         = "/outrigger.admin.v1.AdminService/"
)

// Console is the console, below [ConsolePath]. Its API is one of [Options.Handlers].
type Console struct {
	// Off, if set, is why there is no console: its requests, and those of its API, get 404 with this text.
	Off string
	// Page serves the page, without authentication: it has no secrets.
	Page http.Handler
	// SignIn and SignOut begin and end the session of an operator. Nil where operators do not authenticate.
	SignIn, SignOut http.Handler
	// OwnNames is set if pages of the listener are its own under any name, because a page of another name has none of the operators'
	// credentials.
	OwnNames bool
	// Call serves the calls of operators with [RoleOperate], at /console/call/.
	Call http.Handler
}

// IsConsole reports whether a request is for the console or its API: for what the session of a browser is good.
func IsConsole(r *http.Request) bool {
	return r.URL.Path == ConsolePath || strings.HasPrefix(r.URL.Path, ConsolePath+"/") || strings.HasPrefix(r.URL.Path, apiPath)
}

// IsVisit reports whether a request is that of a browser that opens the page of the console, maybe by a link on another site: links
// to tools and to calls are for chats and tickets. It gets a document without secrets, and carries no cookie of a session.
func IsVisit(r *http.Request) bool {
	path := r.URL.Path
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && len(r.Header.Values("Origin")) == 0 &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" &&
		(path == ConsolePath || strings.HasPrefix(path, ConsolePath+"/")) &&
		!strings.HasPrefix(path, consoleCallPath) && path != signInPath && path != signOutPath
}

// IsSameOrigin reports whether a browser says that a page of this very origin sent a request, by Sec-Fetch-Site or by Origin.
func IsSameOrigin(r *http.Request) bool {
	if sites := r.Header.Values("Sec-Fetch-Site"); len(sites) > 0 {
		return len(sites) == 1 && sites[0] == "same-origin"
	}
	origins := r.Header.Values("Origin")
	return len(origins) == 1 && isOrigin(origins[0], r)
}

// isOrigin reports whether an origin is the one that a request was sent to. Behind what ends TLS, the page has https and the
// listener does not.
func isOrigin(text string, r *http.Request) bool {
	origin, err := url.Parse(text)
	return err == nil && strings.EqualFold(origin.Host, r.Host) && (origin.Scheme == "https" || origin.Scheme == "http" && r.TLS == nil)
}
