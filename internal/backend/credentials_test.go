// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/structpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

const testToken = "s3cr3t-t0ken-of-the-sidecar"

// guarded is a server that wants a credential on every request, as gRPC
// interceptors and HTTP middleware do, and remembers requests without it.
type guarded struct {
	*remote
	mu    sync.Mutex
	token string
	bad   []string // requests without the right credentials
}

func serveGuarded(t *testing.T, protocols *http.Protocols, wrap func(http.Handler) http.Handler) *guarded {
	t.Helper()
	g := &guarded{token: testToken}
	mux := echoMux()
	unary(mux, healthProcedure, echo)
	mux.Handle(streamProcedure, connect.NewServerStreamHandler(streamProcedure,
		func(_ context.Context, req *connect.Request[rawMessage], s *connect.ServerStream[rawMessage]) error {
			return s.Send(req.Msg)
		}, connect.WithCodec(rawCodec{})))
	unary(mux, failProcedure, func(_ context.Context, req *connect.Request[rawMessage]) (*connect.Response[rawMessage], error) {
		e := connect.NewError(connect.CodePermissionDenied, fmt.Errorf("%s may not do this", req.Header().Get("Authorization")))
		d, err := connect.NewErrorDetail(structpb.NewStringValue("token " + testToken))
		if err != nil {
			return nil, err
		}
		e.AddDetail(d)
		e.Meta().Set("X-Request-Id", "for "+testToken)
		return nil, e
	})
	g.remote = servePeer(t, wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		ok := slices.Equal(r.Header.Values("Authorization"), []string{"Bearer " + g.token}) && r.Header.Get("X-Tenant") == "shop"
		if !ok && r.Method != "PRI" { // how HTTP/2 begins, which HTTP/1 takes for a request
			g.bad = append(g.bad, fmt.Sprint(r.URL.Path, r.Header["Authorization"], r.Header["X-Tenant"]))
		}
		g.mu.Unlock()
		if !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})), protocols)
	return g
}

const (
	streamProcedure = "/test.v1.Echo/Watch"
	failProcedure   = "/test.v1.Echo/Fail"
)

// rotate changes the token that is wanted.
func (g *guarded) rotate(token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.token = token
}

func (g *guarded) refused() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.bad)
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCredentialsGoWithEveryRequest, whatever the protocol, and whatever the
// request is for: a backend that wants them wants them everywhere.
func TestCredentialsGoWithEveryRequest(t *testing.T) {
	t.Parallel()
	all := func(h http.Handler) http.Handler { return h }
	for _, tt := range []struct {
		name, scheme string
		protocols    *http.Protocols
		wrap         func(http.Handler) http.Handler
		want         Protocol
	}{
		{"grpc", "grpc", clearProtocols(false, true), all, ProtocolGRPC},
		{"grpc found by probing", "http", clearProtocols(true, true), all, ProtocolGRPC},
		{"connect", "connect+http", clearProtocols(true, true), all, ProtocolConnect},
		{"connect found by probing", "http", clearProtocols(true, false),
			func(h http.Handler) http.Handler { return only(ProtocolConnect, h) }, ProtocolConnect},
		{"grpc-web", "grpcweb+http", clearProtocols(true, false), all, ProtocolGRPCWeb},
		{"grpc-web found by probing", "http", clearProtocols(true, false),
			func(h http.Handler) http.Handler { return only(ProtocolGRPCWeb, h) }, ProtocolGRPCWeb},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := serveGuarded(t, tt.protocols, tt.wrap)
			c := newClient(t, g.as(tt.scheme), Options{
				Config: &configv1.Backend{
					Metadata:    &configv1.Metadata{Static: map[string]string{"x-tenant": "shop"}},
					Credentials: &configv1.BackendCredentials{TokenFile: writeFile(t, testToken+"\n")},
				},
			})
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
			defer cancel()
			if err := c.Probe(ctx, echoProcedure); err != nil {
				t.Fatal(err)
			}
			if err := c.Ping(ctx); err != nil || c.Protocol() != tt.want {
				t.Fatalf("ping: %v over %v", err, c.Protocol())
			}
			// A caller's headers of the same names do not get through.
			own := http.Header{"Authorization": {"Bearer caller"}, "X-Tenant": {"other"}, "X-Trace": {"1"}}
			answer, err := c.Call(ctx, echoProcedure, []byte("hello"), own)
			if err != nil || string(answer.Body) != "hello" || answer.Header.Get("X-Trace") != "1" {
				t.Fatalf("call: %v, %+v", err, answer)
			}
			if own.Get("Authorization") != "Bearer caller" || own.Get("X-Tenant") != "other" {
				t.Errorf("the caller's header was changed: %v", own)
			}
			if _, err := c.Stream(ctx, streamProcedure, []byte("hello"), own, func([]byte) error { return nil }); err != nil {
				t.Fatalf("stream: %v", err)
			}
			if bad := g.refused(); len(bad) > 0 {
				t.Errorf("requests without credentials: %v", bad)
			}
			e, err := c.Streams(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if !tt.protocols.UnencryptedHTTP2() {
				return // without it there are no streams of requests
			}
			other := connect.NewClient[rawMessage, rawMessage](e.HTTPClient, e.BaseURL+echoProcedure, append(e.Options, connect.WithCodec(rawCodec{}))...)
			message := rawMessage("hello")
			if _, err := other.CallUnary(ctx, connect.NewRequest(&message)); err != nil {
				t.Fatalf("endpoint: %v", err)
			}
			if bad := g.refused(); len(bad) > 0 {
				t.Errorf("requests without credentials: %v", bad)
			}
		})
	}
}

// TestATokenIsReadAgain without a new client; a file that cannot be used leaves
// the old token.
func TestATokenIsReadAgain(t *testing.T) {
	t.Parallel()
	g := serveGuarded(t, clearProtocols(true, true), func(h http.Handler) http.Handler { return h })
	path := writeFile(t, testToken)
	c := newClient(t, g.as("grpc"), Options{
		Config: &configv1.Backend{
			Metadata:    &configv1.Metadata{StaticFile: writeFile(t, "# ours\n\nX-Tenant: shop\n")},
			Credentials: &configv1.BackendCredentials{TokenFile: path},
		},
	})
	call := func() error {
		_, err := c.Call(t.Context(), echoProcedure, nil, nil)
		return err
	}
	if changed, err := c.ReloadCredentials(); changed || err != nil || len(c.CredentialFiles()) != 2 {
		t.Fatalf("nothing changed: %v, %v, %v", changed, err, c.CredentialFiles())
	}
	if err := os.WriteFile(path, []byte("  \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, err := c.ReloadCredentials(); changed || err == nil {
		t.Fatalf("an empty token: %v, %v", changed, err)
	}
	if err := call(); err != nil {
		t.Fatalf("with the token from before: %v", err)
	}
	g.rotate("another-token")
	if e := failure(t, call()); e.Code != connect.CodeUnauthenticated {
		t.Fatalf("with an old token: %v", e)
	}
	if err := os.WriteFile(path, []byte("another-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, err := c.ReloadCredentials(); !changed || err != nil {
		t.Fatalf("a new token: %v, %v", changed, err)
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
}

// TestABackendThatRepeatsTheCredentialIsMasked: errors go to callers and to logs.
func TestABackendThatRepeatsTheCredentialIsMasked(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"grpc", "connect+http", "grpcweb+http"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			g := serveGuarded(t, clearProtocols(true, true), func(h http.Handler) http.Handler { return h })
			o := Options{Config: &configv1.Backend{Metadata: &configv1.Metadata{Static: map[string]string{"x-tenant": "shop"}}, Credentials: &configv1.BackendCredentials{TokenFile: writeFile(t, testToken)}}}
			c, idle := newClient(t, g.as(scheme), o), newClient(t, g.as(scheme), o)
			_, err := c.Call(t.Context(), failProcedure, nil, nil)
			e := failure(t, err)
			all := fmt.Sprintf("%v %+v %v %v %s", e, errors.Unwrap(e), e.Header, e.Trailer, e.Details[0].GetValue())
			if strings.Contains(all, testToken) || e.Code != connect.CodePermissionDenied || !strings.Contains(e.Message, "may not do this") {
				t.Errorf("shown: %s", all)
			}
			if detail, err := e.Details[0].UnmarshalNew(); err != nil {
				t.Errorf("the detail is broken: %v, %v", detail, err)
			}
			if got := c.Mask(fmt.Errorf("list: %w", connect.NewError(connect.CodeUnauthenticated, errors.New("bad "+testToken)))); strings.Contains(got.Error(), testToken) || connect.CodeOf(got) != connect.CodeUnauthenticated {
				t.Errorf("masked: %v", got)
			}
			// One without goroutines: formatting reads every field.
			o.Config.Metadata.Static["authorization"] = testToken
			if text := fmt.Sprintf("%v %+v %#v %v %#v", idle, idle, idle, o, o); strings.Contains(text, testToken) {
				t.Errorf("formatted: %s", text)
			}
		})
	}
}

// TestCredentialsInTheClear are refused where others could read them.
func TestCredentialsInTheClear(t *testing.T) {
	t.Parallel()
	token := &configv1.Backend{Credentials: &configv1.BackendCredentials{TokenFile: writeFile(t, testToken)}}
	for _, tt := range []struct {
		target string
		o      *configv1.Backend
		want   error
	}{
		{"http://127.0.0.1:1", token, nil},
		{"http://[::1]:1", token, nil},
		{"grpc://localhost:1", token, nil},
		{"unix:///run/app.sock", token, nil},
		{"https://example.org:1", token, nil},
		{"grpcs://10.0.0.1:1", token, nil},
		{"http://10.0.0.1:1", token, ErrPlaintextCredentials},
		{"grpc://spicedb:50051", token, ErrPlaintextCredentials},
		{"grpc://127.0.0.1.example.org:50051", token, ErrPlaintextCredentials},
		{"connect+http://[2001:db8::1]:1", token, ErrPlaintextCredentials},
		{"grpc://spicedb:50051", &configv1.Backend{Credentials: &configv1.BackendCredentials{TokenFile: token.Credentials.TokenFile, AllowPlaintext: true}}, nil},
		{"grpc://spicedb:50051", &configv1.Backend{Metadata: &configv1.Metadata{Static: map[string]string{"x-tenant": "shop"}}}, nil},
		{"grpc://spicedb:50051", &configv1.Backend{Metadata: &configv1.Metadata{Static: map[string]string{"x-api-key": "a"}}}, ErrPlaintextCredentials},
		{"grpc://spicedb:50051", &configv1.Backend{Metadata: &configv1.Metadata{Static: map[string]string{"x-custom": "0123456789abcdef0123"}}}, ErrPlaintextCredentials},
	} {
		target, err := ParseTarget(tt.target)
		if err != nil {
			t.Fatal(err)
		}
		c, err := New(target, Options{Config: tt.o})
		if !errors.Is(err, tt.want) {
			t.Errorf("%s with %v: %v, want %v", tt.target, tt.o.GetMetadata().GetStatic(), err, tt.want)
		}
		if c != nil {
			_ = c.Close()
		}
	}
}

// TestWhatIsNoCredentialFile is refused, without a word of what it holds.
func TestWhatIsNoCredentialFile(t *testing.T) {
	t.Parallel()
	target, err := ParseTarget("grpc://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	header := func(text string) *configv1.Backend {
		return &configv1.Backend{Metadata: &configv1.Metadata{StaticFile: writeFile(t, text)}}
	}
	token := func(text string) *configv1.Backend {
		return &configv1.Backend{Credentials: &configv1.BackendCredentials{TokenFile: writeFile(t, text)}}
	}
	long := strings.Repeat("a", maxCredentialBytes)
	var many strings.Builder
	for i := range maxCredentialHeaders + 1 {
		fmt.Fprintf(&many, "x-%d: %s\n", i, testToken)
	}
	for name, tt := range map[string]struct {
		o    *configv1.Backend
		want string
	}{
		"no file":               {&configv1.Backend{Credentials: &configv1.BackendCredentials{TokenFile: "/nonexistent/token"}}, "no such file"},
		"a folder":              {&configv1.Backend{Metadata: &configv1.Metadata{StaticFile: t.TempDir()}}, "not a regular file"},
		"an empty token":        {token("\n"), "the file is empty"},
		"two tokens":            {token(testToken + "\n" + testToken), "more than one line"},
		"a token with a scheme": {token("Bearer " + testToken), "to set the scheme, use backend.credentials.scheme"},
		"a token that is text":  {token(testToken + "é"), "not printable ASCII"},
		"a long token":          {token(testToken + long), "more than 16384 bytes"},
		"a huge token":          {token(long + long + testToken), "has more than"},
		"no headers":            {header("# " + testToken + "\n"), "no header"},
		"no colon":              {header("x-a: b\n" + testToken + "\n"), ":2: want a line such as"},
		"a value for a name":    {header("Bearer " + testToken + ": x\n"), ":1: want a line such as"},
		"no value":              {header("x-a:\n"), "x-a has no value"},
		"a pseudo header":       {header(":authority: " + testToken), ":1: want a line such as"},
		"a connection header":   {header("Connection: " + testToken), "reserved by the protocol"},
		"the host":              {header("host: " + testToken), "reserved by the protocol"},
		"a header of gRPC":      {header("grpc-timeout: " + testToken), "reserved by the protocol"},
		"the content type":      {header("content-type: " + testToken), "reserved by the protocol"},
		"the proxy":             {header("proxy-authorization: " + testToken), "reserved by the protocol"},
		"twice":                 {header("x-a: " + testToken + "\nX-A: " + testToken), "x-a"},
		"a control character":   {header("x-a: " + testToken + "\x01"), "not printable ASCII"},
		"binary that is none":   {header("x-a-bin: " + testToken), "is not base64"},
		"many":                  {header(many.String()), "more than 64 headers"},
		"authorization twice": {&configv1.Backend{
			Credentials: &configv1.BackendCredentials{TokenFile: writeFile(t, testToken)},
			Metadata:    &configv1.Metadata{Static: map[string]string{"authorization": testToken}},
		}, "authorization is given twice"},
	} {
		err := checkAt(tt.o, target)
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), testToken) {
			t.Errorf("%s: shown: %v", name, err)
		}
	}
	for name, o := range map[string]*configv1.Backend{
		"base64":            header("x-a-bin: aGVsbG8=\nx-b-bin: aGVsbG8"),
		"windows":           header("\xef\xbb\xbfx-a: b\r\nx-c: d: e\r\n"),
		"a token with ends": token(testToken + "\r\n"),
	} {
		if err := checkAt(o, target); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func checkAt(b *configv1.Backend, target Target) error {
	_, err := readCredentials(b, target)
	return err
}
