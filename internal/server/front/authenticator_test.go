// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/server/front"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// interval is how often files are looked at.
const interval = 5 * time.Second

// opened is an authenticator whose files are watched.
type opened struct {
	*front.Front
	t       *testing.T
	watcher *reload.Watcher
	log     *observer.ObservedLogs
	now     *catalog.Catalog
}

// open opens an authenticator, and watches its files until the end of the test.
func open(t *testing.T, cfg *configv1.Config, who identity.Authenticator) *opened {
	t.Helper()
	core, logged := observer.New(zapcore.InfoLevel)
	o := &opened{t: t, watcher: reload.NewWatcher(interval), log: logged}
	made, err := front.OpenAuthenticator(front.Options{
		Config: cfg, Authenticator: who, Watcher: o.watcher, Log: zap.New(core), Catalog: func() *catalog.Catalog { return o.now },
	}, func(w http.ResponseWriter, _ *http.Request, _ *errmap.Error) { w.WriteHeader(http.StatusUnauthorized) })
	if err != nil {
		t.Fatal(err)
	}
	o.Front = made
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o.watcher.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return o
}

// passes waits until the files have been looked at.
func (o *opened) passes() {
	time.Sleep(2 * interval)
	synctest.Wait()
}

// last is what came of the last reading of a group of files.
func (o *opened) last(group string) string {
	for _, s := range o.watcher.Status() {
		if s.Group == group && !s.Tried.IsZero() {
			return s.Last.String()
		}
	}
	return "not read"
}

// ask sends a request with a token, "" for none, and returns its status and the name of
// its caller.
func (o *opened) ask(token string) (status int, name string) {
	handler := o.Authenticated(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who := identity.FromContext(r.Context()); who != nil {
			name = who.Name()
		}
		w.WriteHeader(http.StatusOK)
	}))
	r := httptest.NewRequest(http.MethodPost, "/rpc", http.NoBody)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code, name
}

// tokenOf is the token of a caller.
func tokenOf(name string) string { return strings.Repeat(name, 43)[:43] }

// callers is a file of callers, with tools that each may call.
func callers(tools map[string]string) string {
	text := "callers:\n"
	for _, name := range []string{"ann", "bob"} {
		if glob, ok := tools[name]; ok {
			digest := sha256.Sum256([]byte(tokenOf(name)))
			text += fmt.Sprintf("- name: %s\n  token_sha256: [%s]\n  tools: [\"%s\"]\n", name, hex.EncodeToString(digest[:]), glob)
		}
	}
	return text
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// withTokens is a configuration with a file of callers.
func withTokens(path string) *configv1.Config {
	cfg := config.Defaults(config.Serve)
	cfg.Access.TokensFile = path
	return cfg
}

// TestCallersAreReloaded changes the file of callers while requests come.
func TestCallersAreReloaded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "callers.yaml")
		write(t, path, callers(map[string]string{"ann": "*"}))
		d := open(t, withTokens(path), nil)
		for _, step := range []struct {
			name, file, outcome, says string
			ann, bob                  int
		}{
			{"at the start", "", "not read", "caller authentication enabled", 200, 401},
			{"one more", callers(map[string]string{"ann": "*", "bob": "*"}), "applied", "callers file reloaded", 200, 200},
			{"what is no file of callers", "callers: [{name: 7 8}]", "refused", "callers file reload failed; keeping the last good one", 200, 200},
			{"one less", callers(map[string]string{"bob": "*"}), "applied", "callers file reloaded", 401, 200},
		} {
			if step.file != "" {
				write(t, path, step.file)
				d.passes()
			}
			if got := d.last("callers"); got != step.outcome {
				t.Errorf("%s: %s, want %s", step.name, got, step.outcome)
			}
			if d.log.FilterMessage(step.says).Len() == 0 {
				t.Errorf("%s: the log does not say %q", step.name, step.says)
			}
			for name, want := range map[string]int{"ann": step.ann, "bob": step.bob} {
				status, who := d.ask(tokenOf(name))
				if status != want || want == 200 && who != name {
					t.Errorf("%s: %s got %d as %q, want %d", step.name, name, status, who, want)
				}
			}
			d.log.TakeAll()
		}
		if status, _ := d.ask(""); status != 401 {
			t.Errorf("without a token: %d", status)
		}
		m := d.Authentication()
		for reason, want := range map[string]uint64{"missing": 1, "malformed": 0, "unknown": 2} {
			if got := m.Refused(reason); got != want {
				t.Errorf("%d are refused as %s, want %d", got, reason, want)
			}
		}
		if len(m.Reasons) != 3 || m.Expires != nil {
			t.Errorf("a plain listener has %v", m.Reasons)
		}
	})
}

// TestWhoIsAsked: an authenticator of the program's own is asked before the file, and
// without either all callers come in.
func TestWhoIsAsked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "callers.yaml")
	write(t, path, callers(map[string]string{"ann": "*"}))
	own := asks(func(shown identity.Credentials) (*identity.Identity, error) {
		if shown.Token != "own" {
			return nil, identity.Refuse(identity.Unknown)
		}
		return identity.NewIdentity(identity.Grant{Name: "carol"}), nil
	})
	for name, tt := range map[string]struct {
		cfg    *configv1.Config
		who    identity.Authenticator
		status map[string]int
		caller string
	}{
		"a file":            {withTokens(path), nil, map[string]int{tokenOf("ann"): 200, "own": 401, "": 401}, "ann"},
		"the program's own": {withTokens(path), own, map[string]int{tokenOf("ann"): 401, "own": 200, "": 401}, "carol"},
		"nothing":           {config.Defaults(config.Serve), nil, map[string]int{tokenOf("ann"): 200, "own": 200, "": 200}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t, tt.cfg, tt.who)
			for token, want := range tt.status {
				if status, caller := d.ask(token); status != want || status == 200 && caller != tt.caller {
					t.Errorf("%q: %d as %q, want %d as %q", token, status, caller, want, tt.caller)
				}
			}
		})
	}
}

// asks is a function as an authenticator.
type asks func(identity.Credentials) (*identity.Identity, error)

// Authenticate implements [identity.Authenticator].
func (a asks) Authenticate(_ context.Context, shown identity.Credentials) (*identity.Identity, error) {
	return a(shown)
}

// TestNothingOpensWithFaultyFiles: the error names what is wrong.
func TestNothingOpensWithFaultyFiles(t *testing.T) {
	t.Parallel()
	faulty := filepath.Join(t.TempDir(), "callers.yaml")
	write(t, faulty, "callers: [{name: 7 8}]")
	tls := config.Defaults(config.Serve)
	tls.Listeners.Tls = &configv1.ListenerTls{CertFile: "none.pem", KeyFile: "none.key"}
	for want, cfg := range map[string]*configv1.Config{
		"callers[0]: ": withTokens(faulty), "no-such-file": withTokens("no-such-file"), "TLS on the listener: ": tls,
	} {
		_, err := front.OpenAuthenticator(front.Options{Config: cfg, Watcher: reload.NewWatcher(0), Log: zap.NewNop(), Catalog: func() *catalog.Catalog { return nil }}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}

// TestCertificatesAreReloaded replaces the listener's certificate between handshakes.
func TestCertificatesAreReloaded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		authority, stranger := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
		hosts := tlstest.Leaf{Hosts: []string{"tools.example"}}
		pair := authority.Issue(t, hosts)
		known := authority.Issue(t, tlstest.Leaf{URIs: []string{"spiffe://example/ann"}}).Certificate(t)
		foreign := stranger.Issue(t, tlstest.Leaf{URIs: []string{"spiffe://example/ann"}}).Certificate(t)
		other := authority.Issue(t, tlstest.Leaf{URIs: []string{"spiffe://example/eve"}}).Certificate(t)
		cfg := config.Defaults(config.Serve)
		cfg.Listeners.Tls = &configv1.ListenerTls{
			CertFile: pair.CertFile, KeyFile: pair.KeyFile, ClientCaFile: authority.File, ClientUris: []string{"spiffe://example/ann"},
		}
		d := open(t, cfg, nil)
		shake := func(caller tls.Certificate) (serial string, err error) {
			return handshake(t, d.TLS().Config(), &tls.Config{
				RootCAs: authority.Pool, ServerName: "tools.example", Certificates: []tls.Certificate{caller}, MinVersion: tls.VersionTLS13,
			})
		}
		first, err := shake(known)
		if err != nil {
			t.Fatal(err)
		}
		for name, caller := range map[string]tls.Certificate{"another authority": foreign, "another name": other} {
			if _, err := shake(caller); err == nil {
				t.Errorf("a caller of %s came in", name)
			}
		}
		m := d.Authentication()
		if got := m.Refused("certificate"); got != 1 { // the other never got to its name
			t.Errorf("%d certificates are refused for their name, want 1", got)
		}
		expires := m.Expires()

		authority.Reissue(t, pair, tlstest.Leaf{Hosts: hosts.Hosts, Life: 2 * time.Hour})
		d.passes()
		second, err := shake(known)
		if err != nil || second == first || d.last("listener_tls") != "applied" || !m.Expires().After(expires) {
			t.Errorf("after a new certificate: %v, %s; it is the same: %t", err, d.last("listener_tls"), second == first)
		}

		write(t, pair.KeyFile, "no key")
		d.passes()
		if third, err := shake(known); err != nil || third != second || d.last("listener_tls") != "refused" {
			t.Errorf("after a faulty key: %v, %s; it is the same: %t", err, d.last("listener_tls"), third == second)
		}
		if lines := d.log.FilterMessage("certificate reload failed; keeping the last good certificates").All(); len(lines) != 1 || lines[0].ContextMap()["side"] != "listener" {
			t.Errorf("the log has %v", d.log.All())
		}
	})
}

// handshake connects over memory, and returns the serial number that the server showed.
func handshake(t *testing.T, server, client *tls.Config) (string, error) {
	t.Helper()
	near, far := net.Pipe()
	defer func() { _ = near.Close() }()
	served := make(chan error, 1)
	go func() {
		conn := tls.Server(far, server)
		defer func() { _ = far.Close() }()
		err := conn.HandshakeContext(context.Background())
		if err == nil {
			_, err = conn.Write([]byte("x")) // a client of TLS 1.3 has not heard of a refusal before it reads
		}
		served <- err
	}()
	conn := tls.Client(near, client)
	_, err := conn.Read(make([]byte, 1))
	_ = near.Close()
	if err = errors.Join(err, <-served); err != nil {
		return "", err
	}
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}
