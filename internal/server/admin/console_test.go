// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/server/admin"
)

// named answers with a name.
func named(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })
}

// roles are operators by the text in Authorization, which is the role.
type roles struct{}

type roleKey struct{}

func (roles) Authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		role := r.Header.Get("Authorization")
		if role == "" {
			admin.Refuse(w, http.StatusUnauthorized, "who?")
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), roleKey{}, role)))
	})
}

func (roles) Name(context.Context) string { return "olive" }

func (roles) Has(ctx context.Context, role admin.Role) bool {
	has := ctx.Value(roleKey{})
	return has == string(role) || has == string(admin.RoleOperate)
}

const api = "/outrigger.admin.v1.AdminService/"

func consoleOptions(operators admin.Operators, off string) admin.Options {
	return admin.Options{
		Operators: operators, Handlers: map[string]http.Handler{api: named("api"), "/outrigger.v1.ToolService/": named("tools")},
		Console: &admin.Console{Off: off, OwnNames: operators != nil, Page: named("page"), SignIn: named("in"), SignOut: named("out"), Call: named("call")},
	}
}

// TestConsole: who gets what of the console, on what requests. What is not answered with its text gets a status.
func TestConsole(t *testing.T) {
	t.Parallel()
	cross := []string{"Sec-Fetch-Site", "cross-site"}
	visit := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	own, foreign := []string{"Origin", "http://pod:9901"}, []string{"Origin", "http://evil.example"}
	for _, tt := range []struct {
		name, method, path, role string
		header                   []string
		// What comes of it without operators from this machine and from another one, and with operators.
		local, remote, operators string
	}{
		{"the page", "GET", "/console", "", nil, "page", "404", "page"},
		{"a route", "GET", "/console/try/lab.echo", "", nil, "page", "404", "page"},
		{"a link on another site", "GET", "/console/try/lab.echo", "", visit, "page", "404", "page"},
		{"a frame on another site", "GET", "/console", "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, "403", "403", "403"},
		{"a script on another site", "GET", "/console/app.js", "", cross, "403", "403", "403"},
		{"a fetch of another site", "GET", "/console", "", append([]string{"Sec-Fetch-Mode", "cors"}, cross...), "403", "403", "403"},
		{"a form on another site", "POST", "/console", "", append(visit, foreign...), "403", "403", "403"},
		{"a link to a call", "GET", "/console/call/mcp", "operate", visit, "403", "403", "403"},
		{"a link to the sign-in", "GET", "/console/sign-in", "", visit, "403", "403", "403"},
		{"a link to another page", "GET", "/trust", "read", visit, "403", "403", "403"},
		{"a link that goes on", "GET", "/console//call/mcp", "operate", visit, "307", "307", "307"},
		{"signing in", "POST", "/console/sign-in", "", nil, "in", "404", "in"},
		{"signing in by its page", "POST", "/console/sign-in", "", own, "403", "403", "in"},
		{"signing in by another page", "POST", "/console/sign-in", "", foreign, "403", "403", "403"},
		{"signing in by another port", "POST", "/console/sign-in", "", []string{"Origin", "http://pod:3000"}, "403", "403", "403"},
		{"signing out", "POST", "/console/sign-out", "", nil, "out", "404", "out"},
		{"signing out by a link", "GET", "/console/sign-out", "", nil, "405", "404", "405"},
		{"a call", "POST", "/console/call/mcp", "operate", nil, "call", "404", "call"},
		{"a call by a page", "POST", "/console/call/mcp", "operate", own, "403", "403", "call"},
		{"a call by another page", "POST", "/console/call/mcp", "operate", foreign, "403", "403", "403"},
		{"a call by a reader", "POST", "/console/call/mcp", "read", nil, "call", "404", "403"},
		{"a call by a stranger", "POST", "/console/call/mcp", "", nil, "call", "404", "401"},
		{"the API", "POST", api + "Watch", "read", nil, "api", "404", "api"},
		{"the API by a page", "POST", api + "Watch", "read", own, "403", "403", "api"},
		{"the API for a stranger", "POST", api + "Watch", "", nil, "api", "404", "401"},
		{"the tools", "POST", "/outrigger.v1.ToolService/ListTools", "read", nil, "tools", "tools", "tools"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for place, want := range map[string]string{"local": tt.local, "remote": tt.remote, "operators": tt.operators, "off": "404"} {
				o, address := consoleOptions(nil, ""), "127.0.0.1:5001"
				switch place {
				case "remote":
					address = "192.0.2.7:5001"
				case "operators":
					o, address = consoleOptions(roles{}, ""), "192.0.2.7:5001"
				case "off":
					o = consoleOptions(nil, "there is none here")
					if tt.local == "403" || tt.local == "307" || tt.local == "tools" {
						want = tt.local
					}
				}
				r := httptest.NewRequest(tt.method, "http://pod:9901"+tt.path, nil)
				r.RemoteAddr = address
				for i := 0; i < len(tt.header); i += 2 {
					r.Header.Set(tt.header[i], tt.header[i+1])
				}
				if tt.role != "" {
					r.Header.Set("Authorization", tt.role)
				}
				w := httptest.NewRecorder()
				admin.New(o).Handler().ServeHTTP(w, r)
				got := w.Body.String()
				if w.Code != http.StatusOK {
					got = w.Result().Status[:3]
				}
				if got != want {
					t.Errorf("%s: %q %s, want %q", place, got, w.Body, want)
				}
				if place == "off" && want == "404" && !strings.Contains(w.Body.String(), "there is none here") {
					t.Errorf("it does not say why: %s", w.Body)
				}
			}
		})
	}
}

// TestSignInWithoutOperators: there is nothing to sign in to, and the answer says so.
func TestSignInWithoutOperators(t *testing.T) {
	t.Parallel()
	o := consoleOptions(nil, "")
	o.Console.SignIn, o.Console.SignOut = nil, nil
	for _, path := range []string{"/console/sign-in", "/console/sign-out"} {
		r := httptest.NewRequest(http.MethodPost, path, nil)
		r.RemoteAddr = "[::1]:5001"
		w := httptest.NewRecorder()
		admin.New(o).Handler().ServeHTTP(w, r)
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "--admin-tokens") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestOrigins: which requests a page of the same origin has sent, as far as browsers say.
func TestOrigins(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, url string
		header    http.Header
		want      bool
	}{
		{"a program", "http://pod:9901/", http.Header{}, false},
		{"a page", "http://pod:9901/", http.Header{"Origin": {"http://pod:9901"}}, true},
		{"a page over TLS", "https://pod:9901/", http.Header{"Origin": {"https://pod:9901"}}, true},
		{"behind what ends TLS", "http://pod/", http.Header{"Origin": {"https://pod"}}, true},
		{"a plain page of the name", "https://pod:9901/", http.Header{"Origin": {"http://pod:9901"}}, false},
		{"another port", "http://pod:9901/", http.Header{"Origin": {"http://pod:3000"}}, false},
		{"another name", "http://pod:9901/", http.Header{"Origin": {"http://evil:9901"}}, false},
		{"no origin", "http://pod:9901/", http.Header{"Origin": {"null"}}, false},
		{"two origins", "http://pod:9901/", http.Header{"Origin": {"http://pod:9901", "http://evil"}}, false},
		{"a read of the page", "http://pod:9901/", http.Header{"Sec-Fetch-Site": {"same-origin"}}, true},
		{"a page of the same site", "http://pod:9901/", http.Header{"Sec-Fetch-Site": {"same-site"}}, false},
		{"an address that was typed", "http://pod:9901/", http.Header{"Sec-Fetch-Site": {"none"}}, false},
		{"another site in the name of this one", "http://pod:9901/", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"http://pod:9901"}}, false},
		{"two sites", "http://pod:9901/", http.Header{"Sec-Fetch-Site": {"same-origin", "cross-site"}}, false},
	} {
		r := httptest.NewRequest(http.MethodPost, tt.url, nil)
		r.Header = tt.header
		if got := admin.IsSameOrigin(r); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestApprovalsAreForOperators: who reaches the calls that wait, without operators from this machine and from another one, and with
// operators.
func TestApprovalsAreForOperators(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, method, path, role string
		header                   []string
		local, remote, operators int
	}{
		{"a list", "GET", "/approvals", "read", nil, 200, 403, 200},
		{"a decision", "POST", "/approvals/a/deny", "operate", nil, 200, 403, 200},
		{"no credentials", "GET", "/approvals", "", nil, 200, 403, 401},
		{"a link on another site", "GET", "/approvals", "read", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 403, 403, 403},
		{"a decision by another page", "POST", "/approvals/a/approve", "operate", []string{"Origin", "http://evil.example"}, 403, 403, 403},
	} {
		ask := func(operators admin.Operators, from string) int {
			o := consoleOptions(operators, "")
			o.Approvals = named("approvals").ServeHTTP
			r := httptest.NewRequest(tt.method, "http://pod:9901"+tt.path, nil)
			r.RemoteAddr = from
			for i := 0; i < len(tt.header); i += 2 {
				r.Header.Set(tt.header[i], tt.header[i+1])
			}
			if tt.role != "" {
				r.Header.Set("Authorization", tt.role)
			}
			w := httptest.NewRecorder()
			admin.New(o).Handler().ServeHTTP(w, r)
			return w.Code
		}
		if local, remote, with := ask(nil, "127.0.0.1:1"), ask(nil, "192.0.2.1:1"), ask(roles{}, "192.0.2.1:1"); local != tt.local || remote != tt.remote || with != tt.operators {
			t.Errorf("%s: %d, %d, %d; want %d, %d, %d", tt.name, local, remote, with, tt.local, tt.remote, tt.operators)
		}
	}
}
