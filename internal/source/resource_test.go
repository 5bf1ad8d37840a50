// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/source"
)

// setOf is a descriptor set with a file of this name.
func setOf(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{Name: new(name)}}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func digestOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// server is an HTTPS server whose answer can be changed.
type server struct {
	*httptest.Server

	mu     sync.Mutex
	answer http.HandlerFunc
	asked  []*http.Request
}

func serve(t *testing.T, answer http.HandlerFunc) *server {
	t.Helper()
	s := &server{answer: answer}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r)
		answer := s.answer
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) now(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *server) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*http.Request(nil), s.asked...)
}

func (s *server) options() source.FetchOptions {
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return source.FetchOptions{CAs: pool}
}

// source is a source of what the server has at this path and fragment.
func (s *server) source(t *testing.T, path string, l source.Limits) source.Conditional {
	t.Helper()
	from, err := source.ParseFetcher(s.URL+path, s.options())
	if err != nil {
		t.Fatal(err)
	}
	return source.NewRemote(from, l).(source.Conditional)
}

// plain answers with a body, without an ETag.
func plain(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }
}

// tagged answers with an ETag, as file servers do.
func tagged(etag string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", etag)
		http.ServeContent(w, r, "api.binpb", time.Time{}, bytes.NewReader(body))
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	pin := strings.Repeat("ab", 32)
	for _, tc := range []struct{ ref, name, fails string }{
		{"https://example.com/api.binpb", "descriptor set https://example.com/api.binpb", ""},
		{"https://example.com/api.binpb?token=secret#sha256=" + pin, "descriptor set https://example.com/api.binpb", ""},
		{"https://example.com/api.binpb#sha256=" + strings.ToUpper(pin), "descriptor set https://example.com/api.binpb", ""},
		{"http://127.0.0.1:8080/api.binpb", "descriptor set http://127.0.0.1:8080/api.binpb", ""},
		{"http://[::1]/api.binpb", "descriptor set http://[::1]/api.binpb", ""},
		{"http://localhost/api.binpb", "descriptor set http://localhost/api.binpb", ""},
		{"http://example.com/api.binpb", "", "must be https"},
		{"https:///api.binpb", "", "has no host"},
		{"https://user:secret@example.com/api.binpb", "", "must not have a user or password"},
		{"https://example.com/api.binpb#v1", "", "must be sha256= and 64 hexadecimal digits"},
		{"https://example.com/api.binpb#sha256=abc", "", "must be sha256= and 64 hexadecimal digits"},
		{"https://example.com/api.binpb#sha512=" + pin, "", "must be sha256= and 64 hexadecimal digits"},
		{"oci://example.com/team/api@sha256:" + pin, "OCI artifact example.com/team/api@sha256:" + pin, ""},
		{"oci://127.0.0.1:5000/api:v1@sha256:" + pin, "OCI artifact 127.0.0.1:5000/api:v1@sha256:" + pin, ""},
		{"oci://example.com/api:v1", "", "because a tag can be moved to something else: add @sha256:DIGEST, as `oras resolve example.com/api:v1` prints it"},
		{"oci://example.com/api", "", "must have a digest"},
		{"oci://example.com", "", "must be oci://HOST/REPOSITORY@sha256:DIGEST"},
		{"oci://user:secret@example.com/api@sha256:" + pin, "", "must be oci://HOST/REPOSITORY@sha256:DIGEST"},
		{"oci://example.com/API@sha256:" + pin, "", "must be oci://HOST/REPOSITORY@sha256:DIGEST"},
		{"oci://example.com/api@sha256:" + pin[1:], "", "must be oci://HOST/REPOSITORY@sha256:DIGEST"},
		{"oci://example.com/api@sha256:" + pin + "?x", "", "must be oci://HOST/REPOSITORY@sha256:DIGEST"},
		{"oci://example.com/api@sha512:" + pin + pin, "", "sha256"},
		{"ftp://example.com/api.binpb", "", `cannot be fetched by "ftp"`},
		{"https://example.com/%zz", "", "is no URL"},
		{"https://example.com/" + strings.Repeat("x", 5000), "", "at most 4096 bytes"},
	} {
		from, err := source.ParseFetcher(tc.ref, source.FetchOptions{})
		switch {
		case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%s: error %v, want %q", tc.ref, err, tc.fails)
		case tc.fails == "" && err != nil:
			t.Errorf("%s: error %v", tc.ref, err)
		case tc.fails == "" && from.Name() != tc.name:
			t.Errorf("%s: %s", tc.ref, from.Name())
		}
	}
}

func FuzzReference(f *testing.F) {
	f.Add("https://example.com/api.binpb#sha256=" + strings.Repeat("0", 64))
	f.Add("oci://example.com/api:v1@sha256:" + strings.Repeat("0", 64))
	f.Add("http://[::1]:0/")
	f.Fuzz(func(t *testing.T, ref string) {
		from, err := source.ParseFetcher(ref, source.FetchOptions{})
		if (from == nil) == (err == nil) {
			t.Fatalf("%v, error %v", from, err)
		}
		if err == nil && strings.ContainsAny(from.Name(), "?#\n") {
			t.Errorf("the name is %q", from.Name())
		}
	})
}

func TestAnETagSavesTheTransfer(t *testing.T) {
	t.Parallel()
	s := serve(t, tagged(`"1"`, setOf(t, "a.proto")))
	from := s.source(t, "/api.binpb", source.Limits{})
	first, err := from.LoadUnless(t.Context(), nil)
	if err != nil || len(first.Files) != 1 || first.Static {
		t.Fatalf("%v, error %v", first, err)
	}
	if again, err := from.LoadUnless(t.Context(), first.Revision); again != nil || err != nil {
		t.Errorf("unchanged: %v, error %v", again, err)
	}
	if asked := s.requests(); len(asked) != 2 || asked[0].Header.Get("If-None-Match") != "" || asked[1].Header.Get("If-None-Match") != `"1"` {
		t.Errorf("%d requests, the last with %q", len(asked), asked[len(asked)-1].Header.Get("If-None-Match"))
	}
	s.now(tagged(`"2"`, setOf(t, "a.proto")))
	if again, err := from.LoadUnless(t.Context(), first.Revision); again != nil || err != nil {
		t.Errorf("the same with another ETag: %v, error %v", again, err)
	}
	s.now(tagged(`"3"`, setOf(t, "b.proto")))
	next, err := from.LoadUnless(t.Context(), first.Revision)
	if err != nil || next.Files[0].GetName() != "b.proto" {
		t.Fatalf("%v, error %v", next, err)
	}
	s.now(plain(setOf(t, "b.proto")))
	if again, err := from.LoadUnless(t.Context(), next.Revision); again != nil || err != nil {
		t.Errorf("the same without an ETag: %v, error %v", again, err)
	}
}

// TestWhatIsPinned is fetched once, and never used when it is something else.
func TestWhatIsPinned(t *testing.T) {
	t.Parallel()
	body := setOf(t, "a.proto")
	s := serve(t, plain(body))
	from := s.source(t, "/api.binpb#sha256="+digestOf(body), source.Limits{})
	first, err := from.LoadUnless(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.now(plain(setOf(t, "b.proto")))
	if again, err := from.LoadUnless(t.Context(), first.Revision); again != nil || err != nil || len(s.requests()) != 1 {
		t.Errorf("%v, error %v, %d requests", again, err, len(s.requests()))
	}
	_, err = from.Load(t.Context())
	if err == nil || !strings.Contains(err.Error(), digestOf(setOf(t, "b.proto"))) || !strings.Contains(err.Error(), digestOf(body)+" is pinned") {
		t.Errorf("error %v", err)
	}
}

func TestWhatServersAnswer(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(setOf(t, "packed.proto"))
	_ = w.Close()
	var bomb bytes.Buffer
	w = gzip.NewWriter(&bomb)
	_, _ = w.Write(make([]byte, 1<<20))
	_ = w.Close()
	far := serve(t, plain(setOf(t, "far.proto")))
	unsafe := "http://192.0.2.1/api.binpb"
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		limits source.Limits
		want   string // the file, or a part of the error
	}{
		{"a set", plain(setOf(t, "a.proto")), source.Limits{}, "a.proto"},
		{"a gzipped set", plain(packed.Bytes()), source.Limits{}, "packed.proto"},
		{"nothing there", http.NotFound, source.Limits{}, "fetch: the server answered 404 Not Found"},
		{"not modified, unasked", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, source.Limits{}, "answered 304 Not Modified"},
		{"an error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret", http.StatusInternalServerError) }, source.Limits{}, "answered 500"},
		{"an empty body", plain(nil), source.Limits{}, "decode: api.binpb: the file is empty"},
		{"a page", plain([]byte("<!doctype html><html></html>")), source.Limits{}, "decode: api.binpb: "},
		{"a body that is too large, announced", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "2000000")
			w.WriteHeader(http.StatusOK)
		}, source.Limits{MaxBytes: 1000}, "more than 1000 bytes, the limit for one source (limits.max_descriptor_bytes)"},
		{"a body that is too large, in pieces", func(w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				_, _ = w.Write(make([]byte, 100))
				_ = http.NewResponseController(w).Flush()
			}
		}, source.Limits{MaxBytes: 1000}, "more than 1000 bytes"},
		{"a body that is too large once unpacked", plain(bomb.Bytes()), source.Limits{MaxBytes: 10_000}, "more than 10000 bytes"},
		{"a body that is cut", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("short"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, source.Limits{}, "read the response: "},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api.binpb" {
				http.Redirect(w, r, "/moved.binpb", http.StatusFound)
				return
			}
			_, _ = w.Write(setOf(t, "moved.proto"))
		}, source.Limits{}, "moved.proto"},
		{"a redirect that has no TLS", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, unsafe+"?secret", http.StatusFound) }, source.Limits{},
			unsafe + ": must be https; http is for loopback only"},
		{"redirects without end", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, source.Limits{}, "more than 5 redirects"},
		{"a redirect to a host whose certificate is not accepted", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, strings.Replace(far.URL, "127.0.0.1", "localhost", 1), http.StatusFound)
		}, source.Limits{}, "certificate"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			loaded, err := serve(t, tc.answer).source(t, "/api.binpb?secret", tc.limits).Load(t.Context())
			if err == nil {
				if got := loaded.Files[0].GetName(); got != tc.want {
					t.Errorf("%s, want %s", got, tc.want)
				}
				return
			}
			var failed *source.Error
			var fetchError *source.FetchError
			if !errors.As(err, &failed) || failed.Permanent || !errors.As(err, &fetchError) {
				t.Errorf("error %#v", err)
			}
			if !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestAServerThatHangs, before its header and within its body.
func TestAServerThatHangs(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"header": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"body": func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprint(w, "x")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := serve(t, answer).source(t, "/api.binpb", source.Limits{FetchTimeout: 200 * time.Millisecond})
			_, err := from.Load(t.Context())
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no complete response within 200ms (catalog.fetch_timeout)") {
				t.Errorf("error %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := from.Load(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: error %v", err)
			}
		})
	}
}

// TestCertificatesAreChecked: the system does not know the server's.
func TestCertificatesAreChecked(t *testing.T) {
	t.Parallel()
	s := serve(t, plain(setOf(t, "a.proto")))
	from, err := source.ParseFetcher(s.URL+"/api.binpb", source.FetchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := source.NewRemote(from, source.Limits{}).Load(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") || len(s.requests()) > 0 {
		t.Errorf("error %v", err)
	}
}
