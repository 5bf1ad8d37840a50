// SPDX-License-Identifier: Apache-2.0

package httpcompress

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// unsized writes a body in pieces of 100 bytes, without its size.
func unsized(kind string, status int, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		if status != http.StatusOK {
			w.WriteHeader(status)
		}
		for len(body) > 0 {
			n := min(len(body), 100)
			_, _ = w.Write(body[:n])
			body = body[n:]
		}
	}
}

func servePages(t *testing.T, c *Compressor, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(c.WrapPages(h))
	t.Cleanup(server.Close)
	return server
}

func TestPages(t *testing.T) {
	t.Parallel()
	small, large := document(above/2), document(64*above)
	atOnce := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(large)
	}
	var zipped bytes.Buffer
	zip := gzip.NewWriter(&zipped)
	_, _ = zip.Write(large)
	_ = zip.Close()
	for _, tt := range []struct {
		name, method, accept string
		handle               http.HandlerFunc
		status               int
		encoding             string
		varies               bool
		want                 []byte
	}{
		{"gzip", http.MethodGet, "gzip", unsized("text/plain; version=0.0.4", 200, large), 200, "gzip", true, large},
		{"zstd", http.MethodGet, "gzip, zstd", unsized("application/json", 200, large), 200, "zstd", true, large},
		{"OpenMetrics", http.MethodGet, "gzip", unsized("application/openmetrics-text; version=1.0.0; charset=utf-8", 200, large), 200, "gzip", true, large},
		{"an error", http.MethodGet, "gzip", unsized("text/plain", 503, large), 503, "gzip", true, large},
		{"in one write", http.MethodGet, "gzip", atOnce, 200, "gzip", true, large},
		{"a size that is known", http.MethodGet, "gzip", answer("application/json", 200, large), 200, "gzip", true, large},
		{"nothing is accepted", http.MethodGet, "", unsized("text/plain", 200, large), 200, "", true, large},
		{"a small one", http.MethodGet, "gzip", unsized("text/plain", 404, small), 404, "", false, small},
		{"an empty one", http.MethodGet, "gzip", unsized("text/plain", 200, nil), 200, "", false, nil},
		{"one without a type", http.MethodGet, "gzip", unsized("", 200, large), 200, "", false, large},
		{"bytes", http.MethodGet, "gzip", unsized("application/octet-stream", 200, large), 200, "", false, large},
		{"a stream of Connect", http.MethodPost, "gzip", unsized("application/connect+json", 200, large), 200, "", false, large},
		{"a stream of gRPC", http.MethodPost, "gzip", unsized("application/grpc+json", 200, large), 200, "", false, large},
		{"nothing to send", http.MethodGet, "gzip", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusNoContent)
		}, 204, "", false, nil},
		{"a head", http.MethodHead, "gzip", unsized("text/plain", 200, large), 200, "", false, nil},
		{"what is compressed already", http.MethodGet, "gzip", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			unsized("text/plain", 200, zipped.Bytes())(w, r)
		}, 200, "gzip", false, large},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := New(above)
			res := ask(t, tt.method, servePages(t, c, tt.handle).URL, tt.accept)
			if got := res.Header.Get("Content-Encoding"); got != tt.encoding || res.StatusCode != tt.status {
				t.Fatalf("%d, encoded as %q", res.StatusCode, got)
			}
			if varies := res.Header.Get("Vary") == "Accept-Encoding"; varies != tt.varies {
				t.Errorf("Vary is %q", res.Header.Get("Vary"))
			}
			if got, err := plain(tt.encoding, res.Body); err != nil || !bytes.Equal(got, tt.want) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if tt.status == http.StatusNotFound && res.ContentLength != int64(len(tt.want)) {
				t.Errorf("the length is %d", res.ContentLength)
			}
			if n := len(c.slots); n != 0 {
				t.Errorf("%d encoders are in use", n)
			}
		})
	}
	server := servePages(t, New(0), unsized("text/plain", 200, large))
	if res := ask(t, http.MethodGet, server.URL, "gzip"); res.Header.Get("Content-Encoding") != "" || res.Header.Get("Vary") != "" {
		t.Errorf("off, but %v", res.Header)
	}
}

// TestAPageThatStreams: what is flushed is there before the next is written, and is not compressed.
func TestAPageThatStreams(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	server := servePages(t, New(above), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		for i := range 3 {
			_, _ = io.WriteString(w, "line "+strconv.Itoa(i)+"\n")
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			select {
			case <-next:
			case <-r.Context().Done():
			}
		}
		_, _ = w.Write(document(64 * above))
	})
	res := ask(t, http.MethodGet, server.URL, "gzip, zstd")
	for i := range 3 {
		line := make([]byte, len("line 0\n"))
		if _, err := io.ReadFull(res.Body, line); err != nil || string(line) != "line "+strconv.Itoa(i)+"\n" {
			t.Fatalf("%q, %v", line, err)
		}
		next <- struct{}{}
	}
	if rest, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(rest, document(64*above)) || res.Header.Get("Content-Encoding") != "" {
		t.Errorf("%d bytes, %v, %v", len(rest), err, res.Header)
	}
}

// TestAPageThatPanics has not been answered as far as its client can see.
func TestAPageThatPanics(t *testing.T) {
	t.Parallel()
	c := New(above)
	for name, body := range map[string][]byte{"before anything is sent": document(above / 2), "in the middle": document(64 * above)} {
		server := servePages(t, c, func(w http.ResponseWriter, r *http.Request) {
			unsized("text/plain", 200, body)(w, r)
			panic(http.ErrAbortHandler)
		})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", "gzip")
		res, err := (&http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}).Do(req)
		if err != nil {
			continue
		}
		if _, err := plain(res.Header.Get("Content-Encoding"), res.Body); err == nil {
			t.Errorf("%s: what was cut off looks whole", name)
		}
		_ = res.Body.Close()
	}
	if n := len(c.slots); n != 0 {
		t.Errorf("%d encoders are in use", n)
	}
}
