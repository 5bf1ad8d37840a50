// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/server"
)

const issuer = "https://login.example.com/"

// bearers authenticates the tokens of the test: who has one is the subject in it. They
// stand for the access tokens of an authorization server.
type bearers struct{}

func (bearers) Authenticate(_ context.Context, shown identity.Credentials) (*identity.Identity, error) {
	subject, _, ok := strings.Cut(strings.TrimPrefix(shown.Token, mark), "/")
	if !ok {
		return nil, identity.Refuse(identity.Unknown)
	}
	every := []string{"*"}
	return identity.NewIdentityOf(identity.Grant{Name: issuer + "#" + subject, Tools: every, Resources: every, Prompts: every, Trust: identity.Trusted},
		identity.Facts{Source: identity.SourceOAuth, Issuer: issuer, Subject: subject, ClientID: "planner"}), nil
}

// mark begins every token of the test. Nothing else in the world looks like it, and it looks otherwise when it is
// percent-encoded.
const mark = "canary+of-a-caller+"

// canary is the token of an edge.
func canary(subject string) string { return mark + subject + "/" + rand.Text() + "=" }

// forms are the ways in which the mark of a token could be somewhere.
func forms() []string {
	out := []string{mark, url.QueryEscape(mark), hex.EncodeToString([]byte(mark))}
	for shift := range 3 {
		// Whole groups of four digits are the same whatever is around the text.
		text := strings.Repeat("x", shift) + mark
		out = append(out, base64.StdEncoding.EncodeToString([]byte(text[:len(text)/3*3]))[4:])
	}
	return out
}

// exchangedFor is the token that the authorization server of the test gives for another.
func exchangedFor(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "for-" + hex.EncodeToString(sum[:8])
}

// received is a request that reached the backend.
type received struct {
	path          string
	authorization []string
	subject       []string
}

// journal is all that was seen somewhere, as text by its place.
type journal struct {
	mu    sync.Mutex
	texts map[string]*bytes.Buffer
	calls []received
}

func (j *journal) note(place, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.texts[place] == nil {
		j.texts[place] = new(bytes.Buffer)
	}
	j.texts[place].WriteString(text + "\n")
}

// Write is a place for log lines.
func (j *journal) Write(p []byte) (int, error) {
	j.note("the log", string(p))
	return len(p), nil
}

// received returns what reached the backend.
func (j *journal) received() []received {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]received(nil), j.calls...)
}

// search fails where a token is.
func (j *journal) search(t *testing.T) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for place, noted := range j.texts {
		text := noted.String()
		for _, form := range forms() {
			if at := strings.Index(text, form); at >= 0 {
				t.Errorf("a token is in %s:\n...%q", place, text[max(at-200, 0):min(at+len(form)+100, len(text))])
			}
		}
	}
}

// tap is a proxy in front of the backend that takes note of everything in the requests:
// headers, messages and trailers.
func (j *journal) tap(t *testing.T, backend string) string {
	t.Helper()
	to, err := url.Parse(backend)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: mcptest.Client(t, 2).Transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
	}
	return mcptest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		j.mu.Lock()
		j.calls = append(j.calls, received{path: r.URL.Path, authorization: r.Header["Authorization"], subject: r.Header["X-Outrigger-Subject"]})
		j.mu.Unlock()
		j.note("what the backend gets", fmt.Sprint(r.Method, r.URL, r.Host, r.Header))
		r.Body = &noted{ReadCloser: r.Body, journal: j, place: "what the backend gets"}
		defer func() { j.note("what the backend gets", fmt.Sprint(r.Trailer)) }()
		proxy.ServeHTTP(w, r)
	}))
}

// noted is a body that is taken note of when it ends.
type noted struct {
	io.ReadCloser
	journal *journal
	place   string
	text    bytes.Buffer
}

func (n *noted) Read(p []byte) (int, error) {
	size, err := n.ReadCloser.Read(p)
	n.text.Write(p[:size])
	return size, err
}

func (n *noted) Close() error {
	n.journal.note(n.place, n.text.String())
	return n.ReadCloser.Close()
}

// caller is a client with a token. It takes note of every answer.
type caller struct {
	next    http.RoundTripper
	token   string
	journal *journal
}

// RoundTrip implements [http.RoundTripper].
func (c *caller) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.Header["Authorization"] == nil {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	r.Header.Set("X-Outrigger-Subject", "root") // a caller does not name itself
	r.Header.Set("X-Tenant", "shop")
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	c.journal.note("an answer to a caller", fmt.Sprint(resp.Status, resp.Header))
	resp.Body = &answerBody{noted: noted{ReadCloser: resp.Body, journal: c.journal, place: "an answer to a caller"}, resp: resp}
	return resp, nil
}

type answerBody struct {
	noted
	resp *http.Response
}

func (b *answerBody) Close() error {
	b.journal.note(b.place, fmt.Sprint(b.resp.Trailer))
	return b.noted.Close()
}

// authorizationServer answers exchanges. It is not polite: its errors repeat the token.
func authorizationServer(t *testing.T) (tokenURL string, asked func() int) {
	t.Helper()
	var mu sync.Mutex
	seen := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := r.PostFormValue("subject_token")
		mu.Lock()
		seen[token]++
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.Contains(token, "rejected"):
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"error":"invalid_grant","error_description":"bad token %s"}`, token)
		case strings.Contains(token, "away"):
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = fmt.Fprintf(w, "no idea about %s", token)
		default:
			_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":300}`, exchangedFor(token))
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(seen)
	}
}

// signingKey writes a key file.
func signingKey(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// sidecar is a sidecar under test and what can be seen of it.
type sidecar struct {
	*journal
	mode           string
	rig            *mcptest.Rig
	url, operators string
	records        string // and the audit trail
	spans          *spanRig
	asked          func() int
}

// startSidecar starts a sidecar in a mode that logs and records all it can.
func startSidecar(t *testing.T, mode string) *sidecar {
	t.Helper()
	s := &sidecar{mode: mode, journal: &journal{texts: map[string]*bytes.Buffer{}}, records: t.TempDir(), spans: newExporter()}
	trail := filepath.Join(s.records, "audit.jsonl")
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(s.journal), zap.DebugLevel)
	var tokenURL string
	tokenURL, s.asked = authorizationServer(t)
	s.rig = mcptest.Start(t, mcptest.Options{
		Native: mcptest.Desk(), Log: zap.New(core), Between: func(backend string) string { return s.tap(t, backend) },
		Change: func(o *server.Options) { o.Authenticator, o.Tracer = bearers{}, s.spans.tracer() },
		Configure: func(c *configv1.Config) {
			c.Record.Dir, c.Record.Payloads = proto.String(s.records), true
			c.Audit = &configv1.Audit{Path: proto.String(trail), Fsync: proto.String("never"), Payloads: true}
			c.Log.Calls, c.Log.MaxCallsPerSecond = proto.String("all"), proto.Int32(100000)
			c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "outrigger.demo.v1.Lab/Sleep", Tool: &configv1.ToolOptions{
				TaskSupport: "optional", TaskAfter: durationpb.New(20 * time.Millisecond),
			}})
			c.Backend.Metadata.Inbound, c.Backend.Metadata.Outbound = []string{"x-*", "traceparent", "a*", "p*", "d*"}, []string{"x-*"}
			i := c.Backend.Identity
			i.Mode = proto.String(mode)
			i.Exchange.TokenUrl, i.Exchange.Audience = tokenURL, []string{"shop"}
			i.Signed.KeyFile, i.Signed.Issuer, i.Signed.Audience = signingKey(t), "https://sidecar.example.com", "shop"
		},
	})
	s.url, s.operators = s.rig.Serve(t), s.rig.Operators(t)
	return s
}

// client is an HTTP client of a caller.
func (s *sidecar) client(t *testing.T, version int, token string) *http.Client {
	t.Helper()
	return &http.Client{Transport: &caller{next: mcptest.Client(t, version).Transport, token: token, journal: s.journal}}
}

// pages takes note of every page that operators can read.
func (s *sidecar) pages(t *testing.T) {
	t.Helper()
	for _, page := range []string{
		"startupz", "livez", "readyz?verbose", "metrics", "describe", "jwks", "nothing", "trust",
		"debug/pprof/", "debug/pprof/cmdline", "debug/pprof/symbol", "debug/pprof/profile?seconds=1", "debug/pprof/trace?seconds=1",
		"debug/pprof/heap", "debug/pprof/heap?debug=1", "debug/pprof/heap?gc=1", "debug/pprof/allocs", "debug/pprof/allocs?debug=1",
		"debug/pprof/goroutine", "debug/pprof/goroutine?debug=1", "debug/pprof/goroutine?debug=2", "debug/pprof/threadcreate?debug=1",
		"debug/pprof/block?debug=1", "debug/pprof/mutex?debug=1",
	} {
		s.note("page "+page, get(t, s.operators+"/"+page))
	}
}

// get reads a page.
func get(t *testing.T, url string) string {
	t.Helper()
	resp := open(t.Context(), t, mcptest.Client(t, 1), http.MethodGet, url, "")
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || len(text) == 0 {
		t.Fatalf("%s: %d bytes, %v", url, len(text), err)
	}
	return string(unzipped(t, text))
}

// unzipped is a text out of its gzip form, where it has one.
func unzipped(t *testing.T, text []byte) []byte {
	t.Helper()
	if !bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		return text
	}
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// files takes note of the run records, the audit trail and the spans.
func (s *sidecar) files(t *testing.T) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(s.records, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		found += len(text)
		s.note("record "+filepath.Base(path), string(unzipped(t, text)))
		return err
	})
	if err != nil || found == 0 {
		t.Fatalf("%d bytes of records, %v", found, err)
	}
	spans := s.spans.exporter.GetSpans()
	if len(spans) == 0 {
		t.Fatal("no spans")
	}
	for _, span := range spans {
		s.note("a span", fmt.Sprint(span.Name, span.Attributes, span.Events, span.Links, span.Status))
	}
}
