// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/server/admin"
)

// ledger is a trust switch that remembers who used it.
type ledger struct {
	mu    sync.Mutex
	state string
	who   []string
}

func (l *ledger) Trust() (string, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state, uint64(len(l.who))
}

func (l *ledger) SetTrust(who, state string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if state != "trusted" && state != "untrusted" {
		return "", errors.New("trust: want untrusted or trusted")
	}
	before := l.state
	l.state, l.who = state, append(l.who, who)
	return before, nil
}

// trustRequest is a request to /trust from this machine, unless edited.
func trustRequest(method, body string, edit func(*http.Request)) *http.Request {
	r := httptest.NewRequest(method, "http://127.0.0.1:9901/trust", strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:5001"
	r.Header.Set("Content-Type", "application/json")
	if edit != nil {
		edit(r)
	}
	return r
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func peer(address string) func(*http.Request) {
	return func(r *http.Request) { r.RemoteAddr = address }
}

func TestTrustIsShownAndChanged(t *testing.T) {
	t.Parallel()
	l := &ledger{state: "untrusted"}
	h := admin.New(admin.Options{Trust: l}).Handler()
	for _, step := range []struct {
		method, body string
		edit         func(*http.Request)
		want         string
	}{
		{"GET", "", nil, `{"trust":"untrusted","changes":0}`},
		{"POST", `{"trust":"trusted"}`, nil, `{"trust":"trusted","before":"untrusted","changes":1}`},
		{"GET", "", peer("[::1]:9"), `{"trust":"trusted","changes":1}`},
		{"POST", " {\n \"trust\" : \"untrusted\" }\n", peer("[::ffff:127.0.0.1]:7"), `{"trust":"untrusted","before":"trusted","changes":2}`},
		{"POST", `{"trust":"trusted"}`, header("Content-Type", "application/json; charset=utf-8"), `{"trust":"trusted","before":"untrusted","changes":3}`},
		{"POST", `{"trust":"trusted"}`, header("Origin", "http://127.0.0.1:9901"), `{"trust":"trusted","before":"trusted","changes":4}`},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, trustRequest(step.method, step.body, step.edit))
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: %d %v", step.method, step.body, w.Code, w.Header())
		}
		if diff := cmp.Diff(step.want+"\n", w.Body.String()); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", step.method, step.body, diff)
		}
	}
	want := []string{"127.0.0.1:5001", "[::ffff:127.0.0.1]:7", "127.0.0.1:5001", "127.0.0.1:5001"}
	if diff := cmp.Diff(want, l.who); diff != "" {
		t.Errorf("who changed it (-want +got):\n%s", diff)
	}
}

func TestTrustRefusesBadInput(t *testing.T) {
	t.Parallel()
	const good = `{"trust":"trusted"}`
	for _, tc := range []struct {
		name, method, body string
		edit               func(*http.Request)
		status             int
		want               string
	}{
		{"another machine", "POST", good, peer("192.0.2.9:80"), 403, "from this machine"},
		{"another machine only looks", "GET", "", peer("[2001:db8::1]:80"), 403, "from this machine"},
		{"another machine that says it is this one", "POST", good, func(r *http.Request) {
			r.RemoteAddr = "192.0.2.9:80"
			r.Header.Set("X-Forwarded-For", "127.0.0.1")
			r.Header.Set("Forwarded", "for=127.0.0.1")
			r.Host = "localhost"
		}, 403, "from this machine"},
		{"a peer without an address", "POST", good, peer("@"), 403, "from this machine"},
		{"no peer", "POST", good, peer(""), 403, "from this machine"},
		{"put", "PUT", good, nil, 405, "use GET or POST"},
		{"delete", "DELETE", "", nil, 405, "use GET or POST"},
		{"options", "OPTIONS", "", nil, 405, "use GET or POST"},
		{"a page of another site", "POST", good, header("Origin", "https://evil.example"), 403, "cross-site"},
		{"a page without an origin", "POST", good, header("Origin", "null"), 403, "cross-site"},
		{"a page of another port", "POST", good, header("Origin", "http://127.0.0.1:8080"), 403, "cross-site"},
		{"a rebound name", "POST", good, func(r *http.Request) {
			r.Host = "evil.example:9901"
			r.Header.Set("Origin", "http://evil.example:9901")
		}, 403, "cross-site"},
		{"two origins", "POST", good, func(r *http.Request) {
			r.Header["Origin"] = []string{"http://127.0.0.1:9901", "https://evil.example"}
		}, 403, "cross-site"},
		{"no content type", "POST", good, func(r *http.Request) { r.Header.Del("Content-Type") }, 415, "application/json"},
		{"a form", "POST", "trust=trusted", header("Content-Type", "application/x-www-form-urlencoded"), 415, "application/json"},
		{"text", "POST", good, header("Content-Type", "text/plain"), 415, "application/json"},
		{"a broken content type", "POST", good, header("Content-Type", "application/json; ="), 415, "application/json"},
		{"compressed", "POST", good, header("Content-Encoding", "gzip"), 415, "Content-Encoding"},
		{"too large", "POST", `{"trust":"` + strings.Repeat("t", 1024) + `"}`, nil, 413, "larger than 1024 bytes"},
		{"largest", "POST", `{"trust":"trust"}` + strings.Repeat(" ", 1024-17), nil, 400, "want untrusted or trusted"},
		{"empty", "POST", "", nil, 400, "not JSON"},
		{"not JSON", "POST", "trusted", nil, 400, "not JSON"},
		{"cut short", "POST", `{"trust":"trusted"`, nil, 400, "not JSON"},
		{"more than one value", "POST", good + good, nil, 400, "not JSON"},
		{"null", "POST", "null", nil, 400, "not an object"},
		{"a list", "POST", `["trusted"]`, nil, 400, "not an object"},
		{"a string", "POST", `"trusted"`, nil, 400, "not an object"},
		{"nothing said", "POST", `{}`, nil, 400, "trust is missing"},
		{"null for trust", "POST", `{"trust":null}`, nil, 400, "not a string"},
		{"true for trust", "POST", `{"trust":true}`, nil, 400, "not a string"},
		{"an object for trust", "POST", `{"trust":{"trust":"trusted"}}`, nil, 400, "not a string"},
		{"unknown state", "POST", `{"trust":"yes"}`, nil, 400, "want untrusted or trusted"},
		{"another case", "POST", `{"trust":"Trusted"}`, nil, 400, "want untrusted or trusted"},
		{"unknown member", "POST", `{"trust":"trusted","for":"1h"}`, nil, 400, `unknown member \"for\"`},
		{"a name in another case", "POST", `{"Trust":"trusted"}`, nil, 400, `unknown member \"Trust\"`},
		{"a long unknown member", "POST", `{"` + strings.Repeat("x", 900) + `":1}`, nil, 400, "unknown member"},
		{"twice", "POST", `{"trust":"untrusted","trust":"trusted"}`, nil, 400, "appears twice"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := &ledger{state: "untrusted"}
			w := httptest.NewRecorder()
			admin.New(admin.Options{Trust: l}).Handler().ServeHTTP(w, trustRequest(tc.method, tc.body, tc.edit))
			got := w.Body.String()
			if w.Code != tc.status || !strings.Contains(got, tc.want) || !strings.HasPrefix(got, `{"error":"`) || len(got) > 300 {
				t.Errorf("got %d %s, want %d with %q", w.Code, got, tc.status, tc.want)
			}
			if state, _ := l.Trust(); state != "untrusted" || len(l.who) > 0 {
				t.Errorf("it was changed to %s", state)
			}
			if tc.status == 405 && !cmp.Equal(w.Header().Values("Allow"), []string{"GET", "HEAD", "POST"}) {
				t.Errorf("Allow: %v", w.Header().Values("Allow"))
			}
		})
	}
}

func TestTrustIsForOperatorsOnly(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.Handler{
		"health listener": admin.New(admin.Options{Trust: &ledger{}}).HealthHandler(),
		"no gate":         admin.New(admin.Options{}).Handler(),
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, trustRequest("POST", `{"trust":"trusted"}`, nil))
		if w.Code != http.StatusNotFound {
			t.Errorf("%s: status %d", name, w.Code)
		}
	}
}

func FuzzTrustBody(f *testing.F) {
	for _, seed := range []string{`{"trust":"trusted"}`, `{"trust":"untrusted"}`, `{}`, `[]`, `{"a":{}}`, `{"trust":1e9}`, "{\"trust\":\"\xff\"}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		l := &ledger{state: "start"}
		w := httptest.NewRecorder()
		admin.New(admin.Options{Trust: l}).Handler().ServeHTTP(w, trustRequest("POST", body, nil))
		state, changes := l.Trust()
		if (w.Code == http.StatusOK) != (changes == 1) {
			t.Errorf("%q: status %d and %d changes", body, w.Code, changes)
		}
		if changes == 1 && !strings.Contains(body, "trust") || (state != "start" && state != "trusted" && state != "untrusted") {
			t.Errorf("%q sets %q", body, state)
		}
	})
}
