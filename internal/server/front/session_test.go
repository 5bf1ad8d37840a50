// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

const (
	oliveToken = "canary-olive-4Hq81mXb5TnW"
	ritaToken  = "canary-rita-9Kd02mXq77Zaa"
)

// desk is the sign-in of a console, and a page behind it.
type desk struct {
	*sessions

	page    http.Handler
	changes []trail.Change
	log     *observer.ObservedLogs
}

func entry(name, token string, groups ...string) identity.Entry {
	return identity.Entry{Grant: identity.Grant{Name: name}, Tokens: []identity.Digest{sha256.Sum256([]byte(token))}, Groups: groups}
}

func newDesk() *desk {
	core, logged := observer.New(zapcore.DebugLevel)
	d := &desk{log: logged}
	var mu sync.Mutex
	d.sessions = newSessions(identity.NewBook([]identity.Entry{entry("olive", oliveToken, "read", "operate"), entry("rita", ritaToken, "read")}), zap.New(core),
		func(c trail.Change) {
			mu.Lock()
			defer mu.Unlock()
			d.changes = append(d.changes, c)
		})
	auth := identity.NewMiddleware(identity.MiddlewareOptions{Who: d.book, Refuse: func(w http.ResponseWriter, _ *http.Request, err *errmap.Error) {
		admin.Refuse(w, http.StatusUnauthorized, err.Error())
	}})
	d.page = d.wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %v", identity.FromContext(r.Context()).Name(), (*Front)(nil).IsSignedIn(r.Context()))
	}), auth)
	return d
}

// request is one of a page of the console, unless it is changed.
func request(method, url, body string, header ...string) *http.Request {
	r := httptest.NewRequest(method, url, strings.NewReader(body))
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			r.Header.Del(header[i])
		}
	}
	return r
}

// signedIn signs in and returns the cookie as a browser sends it.
func (d *desk) signedIn(t *testing.T, token string) string {
	t.Helper()
	w := httptest.NewRecorder()
	d.signIn(w, request("POST", "http://127.0.0.1:9901/console/sign-in", `{"token":"`+token+`"}`))
	if cookies := w.Result().Cookies(); w.Code == http.StatusNoContent && len(cookies) == 1 {
		return cookies[0].Name + "=" + cookies[0].Value
	}
	t.Fatalf("sign-in: %d %s %v", w.Code, w.Body, w.Header())
	return ""
}

// ask sends a request of a page to the API and returns what came of it.
func (d *desk) ask(cookie string, header ...string) string {
	return d.send("http://127.0.0.1:9901/outrigger.admin.v1.AdminService/GetServer", append([]string{"Cookie", cookie}, header...)...)
}

func (d *desk) send(url string, header ...string) string {
	w := httptest.NewRecorder()
	d.page.ServeHTTP(w, request("POST", url, "", header...))
	if w.Code != http.StatusOK {
		return w.Result().Status[:3]
	}
	return w.Body.String()
}

// TestSignIn: what is taken, and that no answer has anything of a token.
func TestSignIn(t *testing.T) {
	t.Parallel()
	d := newDesk()
	for _, tt := range []struct {
		name, body string
		header     []string
		want       int
	}{
		{"a token", `{"token":"` + oliveToken + `"}`, nil, 204},
		{"with space around it, as it was copied", `{"token":" ` + oliveToken + `\n"}`, nil, 204},
		{"an unknown token", `{"token":"` + oliveToken + `x"}`, nil, 401},
		{"a short token", `{"token":"x"}`, nil, 401},
		{"an empty token", `{"token":""}`, nil, 401},
		{"no token", `{}`, nil, 400},
		{"a number", `{"token":7}`, nil, 400},
		{"no JSON", `token=x`, nil, 400},
		{"a form", `{"token":"` + oliveToken + `"}`, []string{"Content-Type", "text/plain"}, 415},
		{"no kind", `{"token":"` + oliveToken + `"}`, []string{"Content-Type", ""}, 415},
		{"compressed", `{"token":"` + oliveToken + `"}`, []string{"Content-Encoding", "gzip"}, 415},
		{"a large body", `{"token":"` + strings.Repeat("x", maxSignInBytes) + `"}`, nil, 413},
	} {
		w := httptest.NewRecorder()
		d.signIn(w, request("POST", "http://127.0.0.1:9901/console/sign-in", tt.body, tt.header...))
		if w.Code != tt.want || (w.Header().Get("Set-Cookie") != "") != (tt.want == 204) || strings.Contains(w.Body.String(), "canary") {
			t.Errorf("%s: %d %s %v, want %d", tt.name, w.Code, w.Body, w.Header(), tt.want)
		}
	}
	for _, line := range d.log.All() {
		if strings.Contains(fmt.Sprint(line.Message, line.ContextMap()), "canary") {
			t.Errorf("a token is in the log: %v", line)
		}
	}
	if d.log.FilterMessage("sign-in refused").Len() == 0 {
		t.Error("the log has no line of the refused ones")
	}
	if len(d.changes) != 2 || d.changes[0].Kind != "sign_in" || d.changes[0].Who.Name != "olive" || d.changes[0].Who.Address != "192.0.2.1" {
		t.Errorf("the trail has %+v", d.changes)
	}
}

// TestCookie: what a browser hears of the cookie, by how it reaches the listener.
func TestCookie(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, url, origin, want string }{
		{"port-forward", "http://127.0.0.1:9901/", "", "outrigger_console_9901=ID; Path=/; Max-Age=28800; HttpOnly; SameSite=Strict"},
		{"another sidecar on the same host", "http://127.0.0.1:9902/", "", "outrigger_console_9902=ID; Path=/; Max-Age=28800; HttpOnly; SameSite=Strict"},
		{"TLS", "https://pod/", "", "__Host-outrigger_console=ID; Path=/; Max-Age=28800; HttpOnly; Secure; SameSite=Strict"},
		{"a proxy that ends TLS", "http://pod/", "https://pod", "__Host-outrigger_console=ID; Path=/; Max-Age=28800; HttpOnly; Secure; SameSite=Strict"},
	} {
		d := newDesk()
		r := request("POST", tt.url, `{"token":"`+oliveToken+`"}`, "Origin", tt.origin)
		if strings.HasPrefix(tt.url, "https") {
			r.TLS = &tls.ConnectionState{}
		}
		w := httptest.NewRecorder()
		d.signIn(w, r)
		cookie := w.Result().Cookies()[0]
		if got := strings.Replace(w.Header().Get("Set-Cookie"), cookie.Value, "ID", 1); got != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.name, got, tt.want)
		}
		if len(cookie.Value) != 43 { // 256 bits
			t.Errorf("%s: %q", tt.name, cookie.Value)
		}
		again := request("POST", tt.url+"console/call/mcp", "", "Cookie", cookie.Name+"="+cookie.Value)
		again.TLS = r.TLS
		page := httptest.NewRecorder()
		if d.page.ServeHTTP(page, again); page.Body.String() != "olive true" {
			t.Errorf("%s: the cookie is not heeded: %d %s", tt.name, page.Code, page.Body)
		}
	}
}

// TestSessions: what the cookie of a session is good for, and on which requests.
func TestSessions(t *testing.T) {
	t.Parallel()
	d := newDesk()
	olive, rita := d.signedIn(t, oliveToken), d.signedIn(t, ritaToken)
	const host = "http://127.0.0.1:9901"
	for _, tt := range []struct {
		name, path, cookie string
		header             []string
		want               string
	}{
		{"the API", "/outrigger.admin.v1.AdminService/Watch", olive, nil, "olive true"},
		{"another operator beside", "/outrigger.admin.v1.AdminService/Watch", rita, nil, "rita true"},
		{"a call", "/console/call/mcp", olive, nil, "olive true"},
		{"a browser that tells the origin alone", "/console/call/mcp", olive, []string{"Sec-Fetch-Site", "", "Origin", host}, "olive true"},
		{"no cookie", "/console/call/mcp", "", nil, "401"},
		{"another cookie", "/console/call/mcp", "outrigger_console_9901=" + strings.Repeat("A", 43), nil, "401"},
		{"that of another port", "/console/call/mcp", strings.Replace(olive, "9901", "9902", 1), nil, "401"},
		{"no sign of a page", "/console/call/mcp", olive, []string{"Sec-Fetch-Site", ""}, "403"},
		{"another origin", "/console/call/mcp", olive, []string{"Sec-Fetch-Site", "", "Origin", "http://127.0.0.1:3000"}, "403"},
		{"another site", "/console/call/mcp", olive, []string{"Sec-Fetch-Site", "cross-site", "Origin", host}, "403"},
		{"another port of the site", "/console/call/mcp", olive, []string{"Sec-Fetch-Site", "same-site"}, "403"},
		{"an address that was typed", "/console/call/mcp", olive, []string{"Sec-Fetch-Site", "none"}, "403"},
		{"drain", "/drain", olive, nil, "401"},
		{"trust", "/trust", olive, nil, "401"},
		{"a profile", "/debug/pprof/heap", olive, nil, "401"},
		{"registration", "/outrigger.v1.ToolService/RegisterTool", olive, nil, "401"},
		{"metrics", "/metrics", olive, nil, "401"},
		{"a path that begins the same", "/consoles", olive, nil, "401"},
		{"a token wins", "/console/call/mcp", olive, []string{"Authorization", "Bearer " + ritaToken}, "rita false"},
		{"an unknown token wins", "/console/call/mcp", olive, []string{"Authorization", "Bearer " + ritaToken + "x"}, "401"},
	} {
		if got := d.send(host+tt.path, append([]string{"Cookie", tt.cookie}, tt.header...)...); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestSignOut ends the session at the sidecar, also for a copy of the cookie, and no other session.
func TestSignOut(t *testing.T) {
	t.Parallel()
	d := newDesk()
	first, second := d.signedIn(t, oliveToken), d.signedIn(t, oliveToken)
	out := func(header ...string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		d.signOut(w, request("POST", "http://127.0.0.1:9901/console/sign-out", "", header...))
		return w
	}
	if w := out("Cookie", first, "Sec-Fetch-Site", "cross-site"); w.Code != http.StatusForbidden || d.ask(first) != "olive true" {
		t.Errorf("another site signs out: %d", w.Code)
	}
	w := out("Cookie", first)
	if w.Code != http.StatusNoContent || !strings.HasPrefix(w.Header().Get("Set-Cookie"), "outrigger_console_9901=; Path=/; Max-Age=0") {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if got := d.ask(first); got != "401" {
		t.Errorf("the session goes on: %s", got)
	}
	if got := d.ask(second); got != "olive true" {
		t.Errorf("the other session has ended: %s", got)
	}
	if w := out(); w.Code != http.StatusNoContent {
		t.Errorf("without a session: %d", w.Code)
	}
	if kinds := fmt.Sprint(d.changes[2].Kind, len(d.changes)); kinds != "sign_out 3" && kinds != "sign_out3" {
		t.Errorf("the trail has %+v", d.changes)
	}
}

// TestSessionsEnd: after their time, with their entry, and when there are too many; what is open in them ends too.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		olive, rita := d.signedIn(t, oliveToken), d.signedIn(t, ritaToken)
		time.Sleep(sessionLasts - time.Second)
		if got := d.ask(olive); got != "olive true" {
			t.Errorf("before the end: %s", got)
		}
		ended := d.stream(olive)
		time.Sleep(2 * time.Second)
		if got := d.ask(olive) + d.ask(rita); got != "401401" {
			t.Errorf("after the end: %s", got)
		}
		if cause := <-ended; !errors.Is(cause, errSignedOut) {
			t.Errorf("a stream ended with %v", cause)
		}
		synctest.Wait()
		if len(d.byID) != 0 {
			t.Errorf("%d sessions are kept", len(d.byID))
		}
		// An entry that changes: the role of one operator. The other one does not notice.
		olive, rita = d.signedIn(t, oliveToken), d.signedIn(t, ritaToken)
		byCookie, byToken := d.stream(olive), d.streamOf("Authorization", "Bearer "+oliveToken)
		d.book.Replace([]identity.Entry{entry("olive", oliveToken, "read"), entry("rita", ritaToken, "read")})
		if got := d.ask(olive) + ", " + d.ask(rita); got != "401, rita true" {
			t.Errorf("a changed entry: %s", got)
		}
		<-byCookie
		if cause := <-byToken; !errors.Is(cause, identity.ErrRevoked) {
			t.Errorf("a stream ended with %v", cause)
		}
		d.book.Replace([]identity.Entry{entry("olive", oliveToken, "read")})
		if got := d.ask(rita); got != "401" {
			t.Errorf("a removed entry: %s", got)
		}
		// Too many: the oldest ends.
		d.book.Replace([]identity.Entry{entry("olive", oliveToken, "read"), entry("rita", ritaToken, "read")})
		other, first := d.signedIn(t, ritaToken), d.signedIn(t, oliveToken)
		for range maxOwn {
			time.Sleep(time.Second)
			d.signedIn(t, oliveToken)
		}
		last := d.signedIn(t, oliveToken)
		synctest.Wait()
		if got := d.ask(first) + ", " + d.ask(last) + ", " + d.ask(other); got != "401, olive true, rita true" || len(d.byID) != maxOwn+1 {
			t.Errorf("too many: %s, %d sessions", got, len(d.byID))
		}
		// Whatever another port of the host has set beside it, the browser's own session counts; of two there is none.
		name, _, _ := strings.Cut(last, "=")
		for cookies, want := range map[string]string{
			name + "=junk; " + last: "olive true", last + "; " + name + "=junk": "olive true", other + "; " + last: "401", last + "; " + last: "olive true",
		} {
			if got := d.ask(cookies); got != want {
				t.Errorf("%s: %s", cookies, got)
			}
		}
	})
}

// stream opens a request that lasts as long as it may, and tells why it has ended.
func (d *desk) stream(cookie string) chan error { return d.streamOf("Cookie", cookie) }

func (d *desk) streamOf(header ...string) chan error {
	ended := make(chan error, 1)
	auth := identity.NewMiddleware(identity.MiddlewareOptions{Who: d.book, Refuse: func(http.ResponseWriter, *http.Request, *errmap.Error) { ended <- nil }})
	opened := make(chan struct{})
	h := d.wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(opened)
		<-r.Context().Done()
		ended <- context.Cause(r.Context())
	}), auth)
	go h.ServeHTTP(httptest.NewRecorder(), request("GET", "http://127.0.0.1:9901/console/call/mcp", "", header...))
	<-opened
	return ended
}

// TestSignInsAreBounded: those who guess get ten answers a second, and a token is taken meanwhile.
func TestSignInsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		counts := map[int]int{}
		for range 100 {
			w := httptest.NewRecorder()
			d.signIn(w, request("POST", "http://127.0.0.1:9901/console/sign-in", `{"token":"`+ritaToken+`x"}`))
			counts[w.Code]++
		}
		if counts[401] != maxSignIns || counts[429] != 100-maxSignIns {
			t.Errorf("%v", counts)
		}
		d.signedIn(t, oliveToken) // no one keeps an operator out
		if lines := d.log.FilterMessage("sign-in refused").Len(); lines > maxSignIns {
			t.Errorf("%d lines", lines)
		}
	})
}

// TestWhoMayOnlyReadDecidesNothing: an operator whose role was changed is no approver any more.
func TestWhoMayOnlyReadDecidesNothing(t *testing.T) {
	t.Parallel()
	book := identity.NewBook([]identity.Entry{entry("olive", oliveToken, "read", "operate"), entry("rita", ritaToken, "read")})
	f := &Front{operators: &operators{auth: &identity.Middleware{}, book: book}}
	for name, want := range map[string]bool{"olive": true, "rita": false, "none": false} {
		if _, got := f.ApproverNamed(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
	book.Replace([]identity.Entry{entry("olive", oliveToken, "read")})
	if _, ok := f.ApproverNamed("olive"); ok {
		t.Error("a changed role")
	}
}
