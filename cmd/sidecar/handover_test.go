// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/tlsfiles"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// slowService answers at once, or when it is told to.
type slowService struct {
	entered, release chan struct{}
}

func (s slowService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/slow" {
		s.entered <- struct{}{}
		<-s.release
	}
	_, _ = fmt.Fprint(w, "ok")
}

// opened is a set of servers with a main listener, and its URL.
func opened(t *testing.T, handler http.Handler) (*servers, string) {
	t.Helper()
	cfg := config.Defaults(config.Serve)
	cfg.Listeners = &configv1.Listeners{}
	s := newServers(cfg, zap.NewNop())
	if err := s.open(t.Context(), "listen", "127.0.0.1:0", handler); err != nil {
		t.Fatal(err)
	}
	return s, "http://" + s.sockets[0].listener.Addr().String()
}

func client(version int) *http.Client {
	p := new(http.Protocols)
	p.SetHTTP1(version == 1)
	p.SetUnencryptedHTTP2(version == 2)
	return &http.Client{Transport: &http.Transport{Protocols: p}, Timeout: 20 * time.Second}
}

// get asks and returns the answer's body and whether its connection ends.
func get(t *testing.T, c *http.Client, url string) (string, bool) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Errorf("%s: %v", url, err)
		return "", false
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Errorf("%s: %v", url, err)
	}
	return string(body), res.Close
}

// TestTurnAway: what is in flight ends as ever, new requests are answered on
// connections that then end, and the sockets are open until close.
func TestTurnAway(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP/%d", version), func(t *testing.T) {
			t.Parallel()
			service := slowService{make(chan struct{}, 1), make(chan struct{})}
			s, url := opened(t, service)
			early := client(version)
			defer early.CloseIdleConnections()
			if body, ends := get(t, early, url); body != "ok" || ends {
				t.Errorf("before: %q, connection ends %v", body, ends)
			}
			answered := make(chan string, 1)
			go func() {
				body, _ := get(t, early, url+"/slow")
				answered <- body
			}()
			<-service.entered
			s.turnAway()
			for range 3 {
				late := client(version)
				body, ends := get(t, late, url)
				if body != "ok" || version == 1 && !ends {
					t.Errorf("after: %q, connection ends %v", body, ends)
				}
				late.CloseIdleConnections()
			}
			close(service.release)
			if body := <-answered; body != "ok" {
				t.Errorf("in flight: %q", body)
			}
			early.CloseIdleConnections()
			start := time.Now()
			s.close()
			if took := time.Since(start); took > shutdownTimeout {
				t.Errorf("close took %v", took)
			}
			var d net.Dialer
			if conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://")); err == nil {
				_ = conn.Close()
				t.Error("the socket is still open")
			}
			if err := s.sockets[0].listener.Close(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("closed twice: %v", err)
			}
		})
	}
}

// TestTurnAwayBehindTLS has two servers at once on one socket: they share nothing
// that net/http writes to, which the race detector would see.
func TestTurnAwayBehindTLS(t *testing.T) {
	t.Parallel()
	authority := tlstest.NewAuthority(t)
	pair := authority.Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1"}})
	seen, err := tlsfiles.NewServer(tlsfiles.ServerOptions{CertFile: pair.CertFile, KeyFile: pair.KeyFile})
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Defaults(config.Serve)
	cfg.Listeners = &configv1.Listeners{}
	s := newServers(cfg, zap.NewNop())
	s.tls = seen
	if err := s.open(t.Context(), "listen", "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })); err != nil {
		t.Fatal(err)
	}
	s.turnAway()
	late := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool}}, Timeout: 20 * time.Second}
	defer late.CloseIdleConnections()
	if body, ends := get(t, late, "https://"+s.sockets[0].listener.Addr().String()); body != "ok" || !ends {
		t.Errorf("after: %q, connection ends %v", body, ends)
	}
	late.CloseIdleConnections()
	s.close()
}

// TestGoodbyes reads the bytes: an idle connection of HTTP/1.1 is closed, one of
// HTTP/2 gets GOAWAY, and so does one that asks later.
func TestGoodbyes(t *testing.T) {
	t.Parallel()
	s, url := opened(t, slowService{})
	defer s.close()
	address := strings.TrimPrefix(url, "http://")
	idle := dialTCP(t, address)
	_, _ = io.WriteString(idle, "GET / HTTP/1.1\r\nHost: "+address+"\r\n\r\n")
	readUntil(t, idle, "ok")
	two := dialTCP(t, address)
	_, _ = io.WriteString(two, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	readFrame(t, two, frameSettings)
	s.turnAway()
	if rest, err := io.ReadAll(idle); err != nil || len(rest) > 0 {
		t.Errorf("an idle connection gets %q, %v", rest, err)
	}
	readFrame(t, two, frameGoAway)
	late := dialTCP(t, address)
	// HEADERS of stream 1, at its end: GET / from the static table, and the authority.
	block := "\x82\x84\x86\x41" + string(rune(len(address))) + address
	_, _ = io.WriteString(late, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"+
		"\x00\x00"+string(rune(len(block)))+"\x01\x05\x00\x00\x00\x01"+block)
	readFrame(t, late, frameGoAway)
}

// Types of HTTP/2 frames (RFC 9113, section 6).
const (
	frameSettings = 4
	frameGoAway   = 7
)

func dialTCP(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func readUntil(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	var got []byte
	for !strings.Contains(string(got), want) {
		buf := make([]byte, 512)
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("%q, then %v", got, err)
		}
		got = append(got, buf[:n]...)
	}
}

// readFrame reads frames until one of a type.
func readFrame(t *testing.T, conn net.Conn, kind byte) {
	t.Helper()
	for {
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			t.Fatalf("waiting for a frame of type %d: %v", kind, err)
		}
		size := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
		if _, err := io.CopyN(io.Discard, conn, int64(size)); err != nil {
			t.Fatal(err)
		}
		if head[3] == kind {
			return
		}
	}
}

// TestCallersWhoGoOnLoseNothing has callers ask again as soon as they are answered,
// each on a connection that it keeps, while the servers change. Closing a connection
// that has just got idle would cost one of them its next request.
func TestCallersWhoGoOnLoseNothing(t *testing.T) {
	t.Parallel()
	for range 5 {
		s, url := opened(t, slowService{})
		var callers sync.WaitGroup
		var asked atomic.Int64
		for range 8 {
			callers.Go(func() {
				c := client(1)
				defer c.CloseIdleConnections()
				for told := false; !told; asked.Add(1) {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
					if err != nil {
						t.Error(err)
						return
					}
					res, err := c.Do(req)
					if err != nil {
						t.Errorf("after %d requests: %v", asked.Load(), err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
					told = res.Close
				}
			})
		}
		for asked.Load() < 200 {
			runtime.Gosched()
		}
		s.turnAway()
		callers.Wait()
		s.close()
	}
}

// TestAConnectionMadeBeforeIsAnsweredOnce connects, and asks when the goodbyes have
// begun.
func TestAConnectionMadeBeforeIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	s, url := opened(t, slowService{})
	defer s.close()
	address := strings.TrimPrefix(url, "http://")
	early := dialTCP(t, address)
	view := s.sockets[0].view
	for fresh := 0; fresh == 0; {
		view.mu.Lock()
		fresh = len(view.fresh)
		view.mu.Unlock()
		runtime.Gosched()
	}
	s.turnAway()
	_, _ = io.WriteString(early, "GET / HTTP/1.1\r\nHost: "+address+"\r\n\r\n")
	answer, err := io.ReadAll(early) // to the end of the connection
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") || !strings.HasSuffix(string(answer), "ok") {
		t.Errorf("answered with %q, %v", answer, err)
	}
}
