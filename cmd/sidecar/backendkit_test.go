// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/demo"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// frontend is before an example service: it can ask for credentials, and be away
// and come back on the same port.
type frontend struct {
	url, addr string
	handler   http.Handler
	// refuse answers requests that are not let through; nil lets all through.
	refuse atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool]

	mu   sync.Mutex
	stop func()
}

// newFront starts one.
func newFront(t *testing.T) *frontend {
	t.Helper()
	service, err := demo.Start(t.Context(), demo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	behind, err := url.Parse(service.URL())
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	f := &frontend{addr: testkit.Reserved(t)}
	f.handler = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(behind) },
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
	}
	t.Cleanup(func() {
		f.close()
		transport.CloseIdleConnections()
		_ = service.Close(t.Context())
	})
	f.open(t)
	return f
}

// open listens, on the same port as before.
func (f *frontend) open(t *testing.T) {
	t.Helper()
	lis := testkit.Listen(t, f.addr)
	f.url = "http://" + f.addr
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: protocols, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if refuse := f.refuse.Load(); refuse != nil && (*refuse)(w, r) {
				return
			}
			f.handler.ServeHTTP(w, r)
		})}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(lis) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop = func() {
		_ = server.Close()
		serving.Wait()
	}
}

// close cuts all connections and listens no more.
func (f *frontend) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

// wantToken lets requests with this bearer token through. Others are answered as
// interceptors of grpc-go do, with the token that was shown in the message.
func (f *frontend) wantToken(token string) {
	refuse := func(w http.ResponseWriter, r *http.Request) bool {
		shown := r.Header.Get("Authorization")
		if shown == "Bearer "+token {
			return false
		}
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "16")
		w.Header().Set("Grpc-Message", "invalid token: "+shown)
		w.WriteHeader(http.StatusOK)
		return true
	}
	f.refuse.Store(&refuse)
}
