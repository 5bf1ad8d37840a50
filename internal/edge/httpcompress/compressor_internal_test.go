// SPDX-License-Identifier: Apache-2.0

package httpcompress

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const above = 1024

// document is JSON of at least a number of bytes.
func document(bytes int) []byte {
	var out strings.Builder
	out.WriteByte('[')
	for i := 0; out.Len() < bytes-1; i++ {
		fmt.Fprintf(&out, `{"name":"tool_%d"},`, i)
	}
	return []byte(strings.TrimSuffix(out.String(), ",") + "]")
}

// serve runs a handler behind a Compressor.
func serve(t testing.TB, c *Compressor, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(c.Wrap(h))
	t.Cleanup(server.Close)
	return server
}

// ask sends a request whose response stays as it comes.
func ask(t testing.TB, method, url, accept string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept-Encoding", accept)
	}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// plain decodes a body.
func plain(encoding string, body io.Reader) ([]byte, error) {
	switch encoding {
	case "gzip":
		r, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case "zstd":
		r, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return io.ReadAll(r)
	}
	return io.ReadAll(body)
}

// answer writes a body with its size, in two pieces.
func answer(kind string, status int, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(status)
		_, _ = w.Write(body[:len(body)/2])
		_, _ = w.Write(body[len(body)/2:])
	}
}

func TestWhatIsCompressed(t *testing.T) {
	t.Parallel()
	small, large := document(above/2), document(64*above)
	for _, tt := range []struct {
		name, kind, accept string
		status             int
		body               []byte
		encoding           string
		varies             bool
	}{
		{"gzip", "application/json", "gzip", 200, large, "gzip", true},
		{"zstd", "application/json", "zstd", 200, large, "zstd", true},
		{"what browsers accept", "application/json; charset=utf-8", "gzip, deflate, br, zstd", 200, large, "zstd", true},
		{"an error", "application/problem+json", "gzip", 500, large, "gzip", true},
		{"text", "text/html", "gzip", 200, large, "gzip", true},
		{"nothing is accepted", "application/json", "", 200, large, "", true},
		{"only brotli is accepted", "application/json", "br", 200, large, "", true},
		{"a small one", "application/json", "gzip", 200, small, "", false},
		{"bytes", "application/octet-stream", "gzip", 200, large, "", false},
		{"Connect's streams", "application/connect+json", "gzip", 200, large, "", false},
		{"events", "text/event-stream", "gzip", 200, large, "", false},
		{"a part", "application/json", "gzip", 206, large, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, New(above), answer(tt.kind, tt.status, tt.body))
			res := ask(t, http.MethodPost, server.URL, tt.accept)
			if got := res.Header.Get("Content-Encoding"); got != tt.encoding || res.StatusCode != tt.status {
				t.Fatalf("%d, encoded as %q", res.StatusCode, got)
			}
			if varies := res.Header.Get("Vary") == "Accept-Encoding"; varies != tt.varies {
				t.Errorf("Vary is %q", res.Header.Get("Vary"))
			}
			if hasLength := res.ContentLength >= 0; hasLength != (tt.encoding == "") {
				t.Errorf("the length is %d", res.ContentLength)
			}
			raw, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if tt.encoding != "" && len(raw) > len(tt.body)/4 {
				t.Errorf("%d bytes of %d are left", len(raw), len(tt.body))
			}
			got, err := plain(tt.encoding, bytes.NewReader(raw))
			if err != nil || !bytes.Equal(got, tt.body) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}

func TestWhatIsLeftAlone(t *testing.T) {
	t.Parallel()
	large := document(64 * above)
	for name, tt := range map[string]struct {
		method string
		handle http.HandlerFunc
		want   []byte
	}{
		"no size": {http.MethodGet, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(large)
		}, large},
		"another encoding": {http.MethodGet, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "odd")
			answer("application/json", http.StatusOK, large)(w, r)
		}, large},
		"no content": {http.MethodGet, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, nil},
		"nothing":    {http.MethodGet, func(http.ResponseWriter, *http.Request) {}, nil},
		"a head":     {http.MethodHead, answer("application/json", http.StatusOK, large), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res := ask(t, tt.method, serve(t, New(above), tt.handle).URL, "gzip, zstd")
			got, err := io.ReadAll(res.Body)
			if err != nil || !bytes.Equal(got, tt.want) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if encoding := res.Header.Get("Content-Encoding"); encoding != "" && encoding != "odd" {
				t.Errorf("encoded as %q", encoding)
			}
		})
	}
	server := serve(t, New(0), answer("application/json", http.StatusOK, large))
	if res := ask(t, http.MethodGet, server.URL, "gzip"); res.Header.Get("Content-Encoding") != "" || res.Header.Get("Vary") != "" {
		t.Errorf("off, but %v", res.Header)
	}
}

// TestEventsArriveOneByOne: each is there before the next is written.
func TestEventsArriveOneByOne(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	server := serve(t, New(above), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 3 {
			_, _ = io.WriteString(w, "data: {}\n\n")
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			select {
			case <-next:
			case <-r.Context().Done():
			}
		}
	})
	res := ask(t, http.MethodGet, server.URL, "gzip, zstd")
	for range 3 {
		event := make([]byte, len("data: {}\n\n"))
		if _, err := io.ReadFull(res.Body, event); err != nil || string(event) != "data: {}\n\n" {
			t.Fatalf("%q, %v", event, err)
		}
		next <- struct{}{}
	}
}

// TestAFlushIsSeen: a handler that flushes a compressed response has it read up to there.
func TestAFlushIsSeen(t *testing.T) {
	t.Parallel()
	large := document(64 * above)
	for _, encoding := range []string{"gzip", "zstd"} {
		read := make(chan struct{})
		server := serve(t, New(above), func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", strconv.Itoa(len(large)))
			_, _ = w.Write(large[:100])
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			select {
			case <-read:
			case <-r.Context().Done():
			}
			_, _ = w.Write(large[100:])
		})
		// The header is decided by the first write, too.
		res := ask(t, http.MethodGet, server.URL, encoding)
		if got := res.Header.Get("Content-Encoding"); got != encoding {
			t.Fatalf("encoded as %q", got)
		}
		var from io.Reader
		var err error
		if encoding == "gzip" {
			from, err = gzip.NewReader(res.Body)
		} else {
			var d *zstd.Decoder
			if d, err = zstd.NewReader(res.Body, zstd.WithDecoderConcurrency(1)); err == nil {
				defer d.Close()
			}
			from = d
		}
		if err != nil {
			t.Fatal(err)
		}
		begin := make([]byte, 100)
		if _, err := io.ReadFull(from, begin); err != nil || !bytes.Equal(begin, large[:100]) {
			t.Fatalf("%s: %v", encoding, err)
		}
		close(read)
		rest, err := io.ReadAll(from)
		if err != nil || !bytes.Equal(rest, large[100:]) {
			t.Errorf("%s: %d bytes, %v", encoding, len(rest), err)
		}
	}
}

// TestAnEncoderThatIsNotFreeIsNotWaitedFor: the response is then plain.
func TestAnEncoderThatIsNotFreeIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	large := document(64 * above)
	c := New(above)
	server := serve(t, c, answer("application/json", http.StatusOK, large))
	for range maxEncoders {
		c.slots <- struct{}{}
	}
	res := ask(t, http.MethodGet, server.URL, "gzip")
	got, err := io.ReadAll(res.Body)
	if err != nil || !bytes.Equal(got, large) || res.Header.Get("Content-Encoding") != "" || res.Header.Get("Vary") == "" {
		t.Errorf("%d bytes, %v, %v", len(got), err, res.Header)
	}
	<-c.slots
	if res = ask(t, http.MethodGet, server.URL, "gzip"); res.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("one is free, but %v", res.Header)
	}
}

// TestAPanicLeavesNoWholeResponse: neither is the encoder lost.
func TestAPanicLeavesNoWholeResponse(t *testing.T) {
	t.Parallel()
	large := document(64 * above)
	c := New(above)
	server := serve(t, c, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(large)))
		_, _ = w.Write(large[:len(large)-1])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	for _, encoding := range []string{"gzip", "zstd"} {
		for range 2 {
			res := ask(t, http.MethodGet, server.URL, encoding)
			if _, err := plain(encoding, res.Body); err == nil {
				t.Errorf("%s: what was cut off looks whole", encoding)
			}
		}
	}
	server.Close()
	if n := len(c.slots); n != 0 {
		t.Errorf("%d encoders are in use", n)
	}
}

// TestEncodersAreReused: responses that are written at the same time do not mix.
func TestEncodersAreReused(t *testing.T) {
	t.Parallel()
	c := New(above)
	server := serve(t, c, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		answer("application/json", http.StatusOK, document(n))(w, r)
	})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for round := range 10 {
				size, encoding := above*(2+i+3*round), []string{"gzip", "zstd", ""}[(i+round)%3]
				res := ask(t, http.MethodGet, server.URL+"?n="+strconv.Itoa(size), encoding)
				if got := res.Header.Get("Content-Encoding"); got != encoding {
					t.Errorf("%q was asked for, and %q came", encoding, got)
					return
				}
				got, err := plain(encoding, res.Body)
				if err != nil || !bytes.Equal(got, document(size)) {
					t.Errorf("%s: %d bytes, %v", encoding, len(got), err)
				}
			}
		})
	}
	all.Wait()
	server.Close()
	if n := len(c.slots); n != 0 {
		t.Errorf("%d encoders are in use", n)
	}
}

// nowhere is a response that no one reads.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header       { return n.header }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}

func BenchmarkAnswer(b *testing.B) {
	for _, size := range []int{200, 500_000} {
		body := document(size)
		for _, encoding := range []string{"without", "identity", "gzip", "zstd"} {
			b.Run(fmt.Sprintf("%d/%s", size, encoding), func(b *testing.B) {
				var h http.Handler = answer("application/json", http.StatusOK, body)
				if encoding != "without" {
					h = New(4 << 10).Wrap(h)
				}
				r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
				if slices.Contains([]string{"gzip", "zstd"}, encoding) {
					r.Header.Set("Accept-Encoding", encoding)
				}
				b.ReportAllocs()
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					h.ServeHTTP(nowhere{header: http.Header{}}, r)
				}
			})
		}
	}
}
