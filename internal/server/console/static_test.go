// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

func get(h http.Handler, method, path string, header ...string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// TestPage: the document for each route, the parts as what they are, and nothing that may run what a backend says.
func TestPage(t *testing.T) {
	t.Parallel()
	page := Page()
	const html, script, text = "text/html; charset=utf-8", "text/javascript; charset=utf-8", "text/plain; charset=utf-8"
	for _, tt := range []struct {
		method, path string
		status       int
		kind         string
	}{
		{"GET", "/console", 200, html},
		{"GET", "/console/", 200, html},
		{"GET", "/console/index.html", 200, html},
		{"GET", "/console/try", 200, html},
		{"GET", "/console/try/lab.echo", 200, html},
		{"GET", "/console/live/17", 200, html},
		{"GET", "/console/else", 200, html},
		{"HEAD", "/console", 200, html},
		{"GET", "/console/app.js", 200, script},
		{"GET", "/console/app.css", 200, "text/css; charset=utf-8"},
		{"GET", "/console/LICENSES.txt", 200, text},
		{"GET", "/console/none.js", 404, text},
		{"GET", "/console/../static.go", 404, text},
		{"POST", "/console", 405, text},
		{"DELETE", "/console/app.js", 405, text},
	} {
		got := get(page, tt.method, tt.path)
		if got.StatusCode != tt.status || got.Header.Get("Content-Type") != tt.kind {
			t.Errorf("%s %s: %d %s, want %d %s", tt.method, tt.path, got.StatusCode, got.Header.Get("Content-Type"), tt.status, tt.kind)
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin",
		} {
			if got.Header.Get(name) != want {
				t.Errorf("%s %s: %s is %q", tt.method, tt.path, name, got.Header.Get(name))
			}
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("the policy is not strict: %s", policy)
	}
	for name, part := range parts(built) {
		if part.kind == "application/octet-stream" {
			t.Errorf("%s has no kind", name)
		}
		text := string(part.content())
		if text == "" {
			t.Errorf("%s cannot be decompressed", name)
		}
		if name == index && (strings.Contains(text, "<style") || strings.Count(text, "<script") != strings.Count(text, "<script type=\"module\" src=")) {
			t.Errorf("the document has what its policy forbids: %s", text)
		}
	}
}

// TestPageIsKept: a browser asks again, and gets a part only where it has changed; what has a hash in its name it never asks for again.
func TestPageIsKept(t *testing.T) {
	t.Parallel()
	page := Page()
	first := get(page, "GET", "/console/app.js")
	tag := first.Header.Get("ETag")
	if tag == "" || first.Header.Get("Cache-Control") != "no-cache" {
		t.Fatalf("headers %v", first.Header)
	}
	if again := get(page, "GET", "/console/app.js", "If-None-Match", tag); again.StatusCode != 304 {
		t.Errorf("the same part: %d", again.StatusCode)
	}
	if again := get(page, "GET", "/console/app.js", "If-None-Match", `W/"other"`); again.StatusCode != 200 {
		t.Errorf("another part: %d", again.StatusCode)
	}
	read := parts(fstest.MapFS{
		"built/editor-4XK2M7QZ.js.gz": {Data: []byte("1")}, "built/app.js.gz": {Data: []byte("2")}, "built/live-page.js.gz": {Data: []byte("3")},
		"built/index.html.gz": {Data: []byte("4")},
	})
	for name, want := range map[string]string{
		"editor-4XK2M7QZ.js": "public, max-age=31536000, immutable", "app.js": "no-cache", "live-page.js": "no-cache", "index.html": "no-cache",
	} {
		if got := read[name].lifetime; got != want {
			t.Errorf("%s is kept for %q, want %q", name, got, want)
		}
	}
}

func TestPageIsCompressed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		accepts, ranges string
		want            string
	}{
		{"gzip, deflate, br, zstd", "", "gzip"},
		{"br, GZIP;q=0.5", "", "gzip"},
		{"gzip; q=0.0", "", ""},
		{"br", "", ""},
		{"", "", ""},
		{"gzip", "bytes=0-9", ""},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/console/app.js", http.NoBody)
		r.Header.Set("Accept-Encoding", tt.accepts)
		if tt.ranges != "" {
			r.Header.Set("Range", tt.ranges)
		}
		w := httptest.NewRecorder()
		Page().ServeHTTP(w, r)
		if got := w.Header().Get("Content-Encoding"); got != tt.want || w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("for %q: Content-Encoding %q, want %q; Vary %q", tt.accepts, got, tt.want, w.Header().Get("Vary"))
			continue
		}
		app := parts(built)["app.js"]
		want := app.content()
		if tt.want == "" {
			if got := w.Body.Bytes(); len(got) == 0 || !bytes.HasPrefix(want, got) || tt.ranges == "" && len(got) != len(want) {
				t.Errorf("for %q: %d bytes, want those of %d", tt.accepts, len(got), len(want))
			}
			continue
		}
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(z)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("for %q: %d bytes, %v; want %d", tt.accepts, len(got), err, len(want))
		}
	}
}
