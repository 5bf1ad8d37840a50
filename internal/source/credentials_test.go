// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// signed is a server whose certificate a private CA has signed.
func signed(t *testing.T, by *tlstest.Authority, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(answer)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{by.Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1"}}).Certificate(t)}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func remote(t *testing.T, ref string, o source.FetchOptions) source.Source {
	t.Helper()
	from, err := source.ParseFetcher(ref, o)
	if err != nil {
		t.Fatal(err)
	}
	return source.NewRemote(from, source.Limits{})
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAPrivateCA is read at each fetch: a new one is used by a source that is there already.
func TestAPrivateCA(t *testing.T) {
	t.Parallel()
	first, second := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	answer := plain(setOf(t, "a.proto"))
	old, fresh := signed(t, first, answer), signed(t, second, answer)
	file := filepath.Join(t.TempDir(), "ca.pem")
	options := source.FetchOptions{Config: &configv1.Catalog{FetchCaFile: file}}
	fromOld, fromNew := remote(t, old.URL+"/api.binpb", options), remote(t, fresh.URL+"/api.binpb", options)
	load := func(from source.Source, want string) {
		t.Helper()
		_, err := from.Load(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	load(fromOld, "CA file: open ")
	for _, ca := range []*tlstest.Authority{first, second} {
		pem, err := os.ReadFile(ca.File)
		if err != nil {
			t.Fatal(err)
		}
		put(t, file, string(pem))
		if ca == first {
			load(fromOld, "")
			load(fromNew, "certificate")
		} else {
			load(fromOld, "certificate")
			load(fromNew, "")
		}
	}
	if err := options.CheckCAFile(); err != nil {
		t.Errorf("error %v", err)
	}
	put(t, file, "no certificate")
	load(fromNew, "contains no certificate")
	if err := options.CheckCAFile(); err == nil || !strings.Contains(err.Error(), "contains no certificate") {
		t.Errorf("error %v", err)
	}
	load(remote(t, old.URL+"/api.binpb", source.FetchOptions{}), "certificate")
}

// TestCredentialsOfServers: each gets its own, as the file has them at the time of the fetch.
func TestCredentialsOfServers(t *testing.T) {
	t.Parallel()
	wants := "Bearer one"
	answer := func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != wants {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write(setOf(t, "a.proto"))
	}
	s := serve(t, answer)
	host := strings.TrimPrefix(s.URL, "https://")
	options := s.options()
	options.Config = &configv1.Catalog{FetchCredentialsFile: filepath.Join(t.TempDir(), "credentials")}
	from := remote(t, s.URL+"/api.binpb", options)
	for _, tc := range []struct{ file, wants, fails string }{
		{host + " bearer one", "Bearer one", ""},
		{"\ufeff# who asks\n\n  example.com\tBasic other:s3cret\n" + host + "   BEARER\ttwo  \n", "Bearer two", ""},
		{host + " basic ann:of secret words", "Basic YW5uOm9mIHNlY3JldCB3b3Jkcw==", ""},
		{"example.com bearer one\n127.0.0.1 bearer one\n", "", ""}, // another port is another server
		{"", "", ""},
		{"example.com bearer s3cret", "Bearer s3cret", "the server answered 401 Unauthorized; credentials of servers are in the file that --descriptors-credentials names"},
		{host + " bearer", "", ":1: want a line such as"},
		{"bearer s3cret", "", ":1: want a line such as"},
		{"\nhttps://" + host + " bearer s3cret", "", ":2: want a line such as"},
		{"ann@" + host + " bearer s3cret", "", ":1: want a line such as"},
		{host + "/path bearer s3cret", "", ":1: want a line such as"},
		{host + " bearer a s3cret", "", ":1: the token contains a space"},
		{host + " bearer s3cret\x00", "", ":1: the secret has a control character"},
		{host + " basic s3cret", "", ":1: want USER:PASSWORD after basic"},
		{host + " digest s3cret", "", ":1: the scheme must be bearer or basic"},
		{"h.example bearer s3cret\nH.example:443 bearer s3cret", "", ":2: the host has credentials on an earlier line"},
		{strings.Repeat("#", 64<<10+1), "", "has more than 65536 bytes"},
	} {
		put(t, options.Config.FetchCredentialsFile, tc.file)
		wants = tc.wants
		_, err := from.Load(t.Context())
		if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
			t.Errorf("%.80q: error %v, want %q", tc.file, err, tc.fails)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%.80q: the error has a secret: %v", tc.file, err)
		}
		if checked := options.CheckCredentialsFile(); (checked != nil) != (tc.fails != "" && !strings.Contains(tc.fails, "401")) {
			t.Errorf("%.80q: checked with the error %v", tc.file, checked)
		}
	}
	if err := os.Remove(options.Config.FetchCredentialsFile); err != nil {
		t.Fatal(err)
	}
	if err := options.CheckCredentialsFile(); err == nil {
		t.Error("a file that is missing passes")
	}
	options.Config.FetchCredentialsFile = t.TempDir()
	if err := options.CheckCredentialsFile(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: error %v", err)
	}
}

// TestTooManyCredentials: the bound of the servers in a file.
func TestTooManyCredentials(t *testing.T) {
	t.Parallel()
	options := source.FetchOptions{Config: &configv1.Catalog{FetchCredentialsFile: filepath.Join(t.TempDir(), "credentials")}}
	var text strings.Builder
	for i := range 256 {
		text.WriteString("h" + strings.Repeat("x", i/26) + string(rune('a'+i%26)) + ".example bearer t\n")
	}
	put(t, options.Config.FetchCredentialsFile, text.String())
	if err := options.CheckCredentialsFile(); err != nil {
		t.Errorf("256: error %v", err)
	}
	put(t, options.Config.FetchCredentialsFile, text.String()+"one.more.example bearer t\n")
	if err := options.CheckCredentialsFile(); err == nil || !strings.Contains(err.Error(), ":257: more than 256 hosts") {
		t.Errorf("257: error %v", err)
	}
}

// TestRedirectsCarryNoCredentials to another server, even on the same host or on one that has other credentials; nor the URL, which
// may be signed.
func TestRedirectsCarryNoCredentials(t *testing.T) {
	t.Parallel()
	ca := tlstest.NewAuthority(t)
	var atOther, atHome []http.Header
	other := signed(t, ca, func(w http.ResponseWriter, r *http.Request) {
		atOther = append(atOther, r.Header)
		if back := r.URL.Query().Get("back"); back != "" {
			http.Redirect(w, r, back, http.StatusTemporaryRedirect)
			return
		}
		_, _ = w.Write(setOf(t, "a.proto"))
	})
	var home *httptest.Server
	home = signed(t, ca, func(w http.ResponseWriter, r *http.Request) {
		atHome = append(atHome, r.Header)
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL+"/api.binpb", http.StatusFound)
		case "/around":
			http.Redirect(w, r, other.URL+"/x?back="+url.QueryEscape(home.URL+"/api.binpb"), http.StatusFound)
		case "/within":
			http.Redirect(w, r, "/api.binpb", http.StatusMovedPermanently)
		default:
			_, _ = w.Write(setOf(t, "a.proto"))
		}
	})
	options := source.FetchOptions{Config: &configv1.Catalog{FetchCaFile: ca.File, FetchCredentialsFile: filepath.Join(t.TempDir(), "credentials")}}
	put(t, options.Config.FetchCredentialsFile, strings.TrimPrefix(home.URL, "https://")+" bearer mine\n"+strings.TrimPrefix(other.URL, "https://")+" bearer theirs\n")
	for path, want := range map[string][2]int{"/within": {2, 0}, "/away": {1, 1}, "/around": {2, 1}} {
		atHome, atOther = nil, nil
		if _, err := remote(t, home.URL+path+"?signature", options).Load(t.Context()); err != nil {
			t.Fatalf("%s: error %v", path, err)
		}
		if len(atHome) != want[0] || len(atOther) != want[1] {
			t.Errorf("%s: %d and %d requests", path, len(atHome), len(atOther))
		}
		for _, h := range atHome {
			if h.Get("Authorization") != "Bearer mine" {
				t.Errorf("%s: Authorization %q at home", path, h.Get("Authorization"))
			}
		}
		for _, h := range atOther {
			if h.Get("Authorization") != "" || h.Get("Referer") != "" {
				t.Errorf("%s: elsewhere, Authorization %q and Referer %q", path, h.Get("Authorization"), h.Get("Referer"))
			}
		}
	}
}
