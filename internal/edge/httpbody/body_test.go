// SPDX-License-Identifier: Apache-2.0

package httpbody_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpbody"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = 1 << 10

func zipped(t testing.TB, plain []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// unsized hides the length of a body, as chunked transfer does.
type unsized struct{ io.Reader }

func TestRead(t *testing.T) {
	t.Parallel()
	small, full := []byte(`{"a":1}`), bytes.Repeat([]byte("x"), limit)
	over := append(bytes.Clone(full), 'x')
	bomb := zipped(t, bytes.Repeat([]byte{0}, 1<<20))
	hollow := bytes.Repeat(zipped(t, nil), limit) // unpacks to nothing at all
	js := "application/json"
	for _, tc := range []struct {
		name     string
		method   string
		types    []string
		encoding []string
		body     []byte
		chunked  bool
		want     []byte
		code     errmap.Code
	}{
		{name: "small", types: []string{js}, body: small, want: small},
		{name: "small and chunked", types: []string{js}, body: small, chunked: true, want: small},
		{name: "empty", types: []string{js}, body: []byte{}, want: []byte{}},
		{name: "of the limit", types: []string{js}, body: full, want: full},
		{name: "of the limit and chunked", types: []string{js}, body: full, chunked: true, want: full},
		{name: "over the limit", types: []string{js}, body: over, code: errmap.PayloadTooLarge},
		{name: "over the limit and chunked", types: []string{js}, body: over, chunked: true, code: errmap.PayloadTooLarge},
		{name: "GET", method: http.MethodGet, types: []string{js}, code: errmap.MethodNotAllowed},
		{name: "PUT", method: http.MethodPut, types: []string{js}, body: small, code: errmap.MethodNotAllowed},
		{name: "HEAD", method: http.MethodHead, code: errmap.MethodNotAllowed},
		{name: "OPTIONS", method: http.MethodOptions, code: errmap.MethodNotAllowed},
		{name: "UTF-8", types: []string{"Application/JSON; charset=UTF-8"}, body: small, want: small},
		{name: "another parameter", types: []string{"application/json; profile=x"}, body: small, want: small},
		{name: "no content type", body: small, code: errmap.UnsupportedMediaType},
		{name: "text", types: []string{"text/plain"}, body: small, code: errmap.UnsupportedMediaType},
		{name: "a form", types: []string{"application/x-www-form-urlencoded"}, body: small, code: errmap.UnsupportedMediaType},
		{name: "JSON of a kind", types: []string{"application/vnd.api+json"}, body: small, code: errmap.UnsupportedMediaType},
		{name: "UTF-8 without its hyphen", types: []string{"application/json; charset=utf8"}, body: small, want: small},
		{name: "another charset", types: []string{"application/json; charset=latin1"}, body: small, code: errmap.UnsupportedMediaType},
		{name: "no media type", types: []string{"application/json; ="}, body: small, code: errmap.UnsupportedMediaType},
		{name: "identity", types: []string{js}, encoding: []string{"identity"}, body: small, want: small},
		{name: "gzip", types: []string{js}, encoding: []string{"GZip"}, body: zipped(t, small), want: small},
		{name: "gzip of the limit", types: []string{js}, encoding: []string{"gzip"}, body: zipped(t, full), want: full},
		{name: "gzip, chunked", types: []string{js}, encoding: []string{"gzip"}, body: zipped(t, small), chunked: true, want: small},
		{name: "gzip over the limit", types: []string{js}, encoding: []string{"gzip"}, body: zipped(t, over), code: errmap.PayloadTooLarge},
		{name: "a bomb", types: []string{js}, encoding: []string{"gzip"}, body: bomb, code: errmap.PayloadTooLarge},
		{name: "gzip without content", types: []string{js}, encoding: []string{"gzip"}, body: hollow, chunked: true, code: errmap.PayloadTooLarge},
		{name: "plain JSON called gzip", types: []string{js}, encoding: []string{"gzip"}, body: small, code: errmap.ParseError},
		{name: "gzip cut short", types: []string{js}, encoding: []string{"gzip"}, body: zipped(t, small)[:15], code: errmap.ParseError},
		{name: "gzip with a tail", types: []string{js}, encoding: []string{"gzip"}, body: append(zipped(t, small), '{'), code: errmap.ParseError},
		{name: "brotli", types: []string{js}, encoding: []string{"br"}, body: small, code: errmap.UnsupportedMediaType},
		{name: "two encodings", types: []string{js}, encoding: []string{"gzip, gzip"}, body: small, code: errmap.UnsupportedMediaType},
		{name: "two encodings in two lines", types: []string{js}, encoding: []string{"identity", "gzip"}, body: small, code: errmap.UnsupportedMediaType},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var body io.Reader = bytes.NewReader(tc.body)
			if tc.chunked {
				body = unsized{body}
			}
			method := tc.method
			if method == "" {
				method = http.MethodPost
			}
			r := httptest.NewRequest(method, "/", body)
			if tc.types != nil {
				r.Header["Content-Type"] = tc.types
			}
			if tc.encoding != nil {
				r.Header["Content-Encoding"] = tc.encoding
			}
			w := httptest.NewRecorder()
			got, err := httpbody.Read(w, r, limit)
			if tc.code == "" && err != nil || tc.code != "" && (err == nil || err.Code != tc.code || len(err.Violations) != 1) {
				t.Fatalf("got %v, want %q with a reason", err, tc.code)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if allow := w.Header().Get("Allow"); (allow == "POST") != (tc.code == errmap.MethodNotAllowed) {
				t.Errorf("Allow: %q", allow)
			}
		})
	}
}

// endless is a body that never ends, and counts how much of it is taken.
type endless struct{ taken int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.taken += len(p)
	return len(p), nil
}

func TestABodyOverTheLimitCostsNoMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	body := &endless{}
	r := httptest.NewRequest(http.MethodPost, "/", unsized{body})
	r.Header.Set("Content-Type", "application/json")
	if _, err := httpbody.Read(httptest.NewRecorder(), r, most); err == nil || err.Code != errmap.PayloadTooLarge {
		t.Fatalf("got %v", err)
	}
	if body.taken > 2*most {
		t.Errorf("%d bytes were taken of a body over %d", body.taken, most)
	}
}

// A caller that announces much and sends little must not cost memory. Not
// parallel: it looks at what the process allocates.
func TestAnAnnouncedLengthIsNotReserved(t *testing.T) { //nolint:paralleltest // See above.
	const most = 64 << 20
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = most
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	body, err := httpbody.Read(httptest.NewRecorder(), r, most)
	runtime.ReadMemStats(&after)
	if err != nil || string(body) != "{}" {
		t.Fatalf("got %q, %v", body, err)
	}
	if cost := after.TotalAlloc - before.TotalAlloc; cost > 1<<20 {
		t.Errorf("%d bytes were reserved for a body of two", cost)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		reply dialect.Reply
		want  http.Header
	}{
		{"a body", dialect.NewReply([]byte(`{}`)), http.Header{
			"Content-Type": {"application/json"}, "Content-Length": {"2"}, "X-Content-Type-Options": {"nosniff"},
		}},
		{"no body", dialect.Reply{Status: 202}, http.Header{}},
		{"hints", dialect.Reply{Status: 401, RetryAfter: 3, Challenge: `Bearer realm="x"`}, http.Header{
			"Retry-After": {"3"}, "Www-Authenticate": {`Bearer realm="x"`},
		}},
		{"metadata", dialect.Reply{Status: 202, Header: http.Header{"X-Request-Id": {"a", "b"}}}, http.Header{"X-Request-Id": {"a", "b"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			httpbody.Write(w, tc.reply)
			if diff := cmp.Diff(tc.want, w.Header()); diff != "" || w.Code != tc.reply.Status || w.Body.String() != string(tc.reply.Bytes()) {
				t.Errorf("%d %s (-want +got):\n%s", w.Code, w.Body, diff)
			}
		})
	}
}
