// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// laboratory is a handler with an answer of every kind.
func laboratory() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "body", http.StatusBadRequest)
			return
		}
		_, _ = w.Write(body)
	})
	mux.HandleFunc("/request", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		delete(r.Header, "User-Agent")
		_, _ = fmt.Fprint(w, r.Method, " ", r.URL, " ", r.RequestURI, " ", r.Host, " ", r.Proto, r.ProtoMajor, " ", r.ContentLength, " ", r.Header, r.Trailer, r.TLS == nil)
	})
	mux.HandleFunc("/nothing", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/nocontent", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrBodyNotAllowed) {
			panic("a body is admitted")
		}
	})
	mux.HandleFunc("/late", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "x")
		w.Header().Set("Too-Late", "1")
	})
	mux.HandleFunc("/trailers", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "Told, Never")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("Told", "a")
		w.Header().Add(http.TrailerPrefix+"untold", "b")
		w.Header().Add(http.TrailerPrefix+"untold", "c")
	})
	mux.HandleFunc("/onlytrailers", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "5")
	})
	mux.HandleFunc("/pieces", func(w http.ResponseWriter, _ *http.Request) {
		for i := range 5 {
			_, _ = io.WriteString(w, strconv.Itoa(i))
			_ = http.NewResponseController(w).Flush()
		}
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		for range 40 {
			_, _ = w.Write(bytes.Repeat([]byte("0123456789abcdef"), 2<<10))
		}
	})
	mux.HandleFunc("/headers", func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h["X-Many"] = []string{"a", "b"}
		h["lower"] = []string{"x"}
		h["Bad Name"] = []string{"x"}
		h["Bad-Value"] = []string{"x\n"}
		h["Transfer-Encoding"] = []string{"chunked"}
		h["Content-Encoding"] = []string{"odd"}
		h["X-Long"] = []string{strings.Repeat("l", 40<<10)}
		_, _ = io.WriteString(w, "<html>")
	})
	mux.HandleFunc("/early", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "<x>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
	})
	mux.HandleFunc("/unread", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusForbidden)
	})
	mux.HandleFunc("/closed", func(w http.ResponseWriter, r *http.Request) {
		_ = r.Body.Close()
		_, err := r.Body.Read(make([]byte, 1))
		_, _ = fmt.Fprint(w, err != nil)
	})
	mux.HandleFunc("/panic", func(http.ResponseWriter, *http.Request) { panic("on purpose") })
	mux.HandleFunc("/abort", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "some")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("/stuck", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/twice", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		w.WriteHeader(http.StatusOK)
	})
	return mux
}

func quiet(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: 10 * time.Second}
}

// seen is an answer as a client sees it.
type seen struct {
	Status  int
	Header  http.Header
	Body    string
	Trailer http.Header
	Interim []string
	Failed  bool
}

func ask(t *testing.T, c *http.Client, addr, method, path string, body io.Reader, change func(*http.Request)) seen {
	t.Helper()
	var out seen
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		out.Interim = append(out.Interim, fmt.Sprint(code, h))
		return nil
	}})
	r, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "test"
	if change != nil {
		change(r)
	}
	res, err := c.Do(r)
	if err != nil {
		out.Failed = true
		return out
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	res.Header.Del("Date")
	out.Status, out.Header, out.Body, out.Trailer, out.Failed = res.StatusCode, res.Header, string(raw), res.Trailer, err != nil
	return out
}

// TestAnswersAreThoseOfNetHTTP asks both servers the same.
func TestAnswersAreThoseOfNetHTTP(t *testing.T) {
	t.Parallel()
	ours, other := own(t, quiet(laboratory()), 100), theirs(t, quiet(laboratory()))
	large := strings.Repeat("body ", 300_000)
	for name, row := range map[string]struct {
		method, path, body string
		change             func(*http.Request)
	}{
		"a body":               {"POST", "/echo", "hello", nil},
		"an empty body":        {"POST", "/echo", "", nil},
		"a large body":         {"POST", "/echo", large, nil},
		"a body of no length":  {"POST", "/echo", large, func(r *http.Request) { r.ContentLength = -1 }},
		"a large answer":       {"GET", "/large", "", nil},
		"a request":            {"PUT", "/request?a=b&c", "x", func(r *http.Request) { r.Header.Set("X-Own", "1") }},
		"headers of a request": {"GET", "/request", "", func(r *http.Request) { r.Header["Many"] = []string{"a", "b"}; r.Header.Set("Cookie", "a=b; c=d") }},
		"escapes":              {"GET", "/request/../request%2Fx?%zz", "", nil},
		"trailers of a request": {"POST", "/request", "x", func(r *http.Request) {
			r.ContentLength = -1
			r.Trailer = http.Header{"Said": {"so"}}
		}},
		"nothing":         {"GET", "/nothing", "", nil},
		"HEAD":            {"HEAD", "/large", "", nil},
		"HEAD of little":  {"HEAD", "/late", "", nil},
		"no content":      {"GET", "/nocontent", "", nil},
		"late headers":    {"GET", "/late", "", nil},
		"trailers":        {"GET", "/trailers", "", nil},
		"only trailers":   {"GET", "/onlytrailers", "", nil},
		"pieces":          {"GET", "/pieces", "", nil},
		"headers":         {"GET", "/headers", "", nil},
		"early hints":     {"GET", "/early", "", nil},
		"100 Continue":    {"POST", "/echo", "hello", func(r *http.Request) { r.Header.Set("Expect", "100-continue") }},
		"an unread body":  {"POST", "/unread", large, nil},
		"a closed body":   {"POST", "/closed", "hello", nil},
		"a panic":         {"GET", "/panic", "", nil},
		"an abort":        {"GET", "/abort", "", nil},
		"two headers":     {"GET", "/twice", "", nil},
		"no such path":    {"GET", "/none", "", nil},
		"OPTIONS":         {"OPTIONS", "/echo", "", nil},
		"a lot of header": {"GET", "/request", "", func(r *http.Request) { r.Header.Set("X-Long", strings.Repeat("l", 60<<10)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := client(t)
			body := func() io.Reader {
				if row.body == "" {
					return nil
				}
				return strings.NewReader(row.body)
			}
			want := ask(t, c, other, row.method, row.path, body(), row.change)
			got := ask(t, c, ours.addr, row.method, row.path, body(), row.change)
			if len(got.Trailer) > 0 {
				delete(want.Header, "Content-Length") // net/http tells it although trailers follow
			}
			if strings.HasPrefix(name, "100") {
				want.Interim, got.Interim = nil, nil // none is due where the body has arrived (RFC 9110, section 10.1.1)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-net/http +ours\n%s", diff)
			}
		})
	}
}

// TestManyCallsShareAConnection: each gets its own answer, large and small.
func TestManyCallsShareAConnection(t *testing.T) {
	t.Parallel()
	ours := own(t, quiet(laboratory()), 1000)
	c := client(t)
	var wrong atomic.Int32
	done := make(chan struct{})
	const callers = 64
	for i := range callers {
		go func() {
			defer func() { done <- struct{}{} }()
			for j := range 20 {
				body := strings.Repeat(fmt.Sprintf("%d-%d ", i, j), 1+(i*j%7)*4000)
				if got := ask(t, c, ours.addr, http.MethodPost, "/echo", strings.NewReader(body), nil); got.Body != body {
					wrong.Add(1)
				}
			}
		}()
	}
	for range callers {
		<-done
	}
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d wrong answers", n)
	}
	ours.mu.Lock()
	defer ours.mu.Unlock()
	if len(ours.conns) != 1 {
		t.Errorf("%d connections", len(ours.conns))
	}
}

// TestBrokenRules has a client break a rule of HTTP/2. net/http says the same, but where
// the row says why not.
func TestBrokenRules(t *testing.T) {
	t.Parallel()
	ours, other := own(t, quiet(laboratory()), 100), theirs(t, quiet(laboratory()))
	for name, row := range brokenRules() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			say := func(addr string) []string {
				p := dial(t, addr)
				row.say(p)
				said := p.heard(until(row.last))
				if slices.Contains(said, "closed") && !until("GOAWAY")(said) {
					t.Errorf("%s closes without a word", addr)
				}
				return slices.DeleteFunc(said, func(word string) bool { return word == "closed" })
			}
			got := say(ours.addr)
			if row.differs == "" {
				if want := say(other); !slices.Equal(got, want) {
					t.Errorf("ours says %q, net/http %q", got, want)
				}
			}
			if !until(row.last)(got) {
				t.Errorf("ours says %q, want %s", got, row.last)
			}
		})
	}
}
