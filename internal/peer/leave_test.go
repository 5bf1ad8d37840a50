// SPDX-License-Identifier: Apache-2.0

package peer

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
	"testing/synctest"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// slowService answers at once, or when it is asked to.
type slowService struct {
	entered, release chan struct{}
}

func (s slowService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/slow" {
		s.entered <- struct{}{}
		<-s.release
	}
	_, _ = io.Copy(io.Discard, r.Body) // an answer to a request that is not read ends its connection
	_, _ = fmt.Fprint(w, "ok")
}

// opened is a set of servers with a main listener, and its URL.
func opened(t *testing.T, handler http.Handler) (*Sockets, string) {
	t.Helper()
	s := &Sockets{}
	s.Add(NewSocket(listen(t), SocketOptions{Main: true, Refused: NewRefused(1<<20, nil)}), newServer(handler), func(err error) { t.Error(err) })
	return s, "http://" + s.all[0].Addr().String()
}

// listen opens a port on loopback.
func listen(t *testing.T) net.Listener {
	t.Helper()
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // such a listener takes no filter (refuseNew)
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// newServer is a server as the sidecar makes them.
func newServer(handler http.Handler) *http.Server {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 5 * time.Minute,
		Protocols: new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	return server
}

func client(version int) *http.Client {
	p := new(http.Protocols)
	p.SetHTTP1(version == 1)
	p.SetUnencryptedHTTP2(version == 2)
	return &http.Client{Transport: &http.Transport{Protocols: p}, Timeout: testkit.Limit()}
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

// TestLeave: what is in flight ends as ever, new requests are answered on
// connections that then end, and the sockets are open until close.
func TestLeave(t *testing.T) {
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
			s.Leave()
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
			s.Close()
			if took := time.Since(start); took > shutdownTimeout+testkit.Limit() { // HTTP/2's goodbye alone takes a second
				t.Errorf("close took %v", took)
			}
			var d net.Dialer
			if conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://")); err == nil {
				_ = conn.Close()
				t.Error("the socket is still open")
			}
			if err := s.all[0].listener.Close(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("closed twice: %v", err)
			}
		})
	}
}

// TestLeaveBehindTLS has two servers at once on one socket: they share nothing
// that net/http writes to, which the race detector would see.
func TestLeaveBehindTLS(t *testing.T) {
	t.Parallel()
	authority := tlstest.NewAuthority(t)
	pair := authority.Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1"}})
	seen, err := keys.NewServer(&configv1.ListenerTls{CertFile: pair.CertFile, KeyFile: pair.KeyFile})
	if err != nil {
		t.Fatal(err)
	}
	s := &Sockets{}
	s.Add(NewSocket(listen(t), SocketOptions{Main: true, TLS: seen.Config(), Refused: NewRefused(1<<20, nil)}),
		newServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })), func(err error) { t.Error(err) })
	s.Leave()
	late := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool}}, Timeout: testkit.Limit()}
	defer late.CloseIdleConnections()
	if body, ends := get(t, late, "https://"+s.all[0].listener.Addr().String()); body != "ok" || !ends {
		t.Errorf("after: %q, connection ends %v", body, ends)
	}
	late.CloseIdleConnections()
	s.Close()
}

// TestGoodbyes reads the bytes: an HTTP/2 connection gets a GOAWAY that admits every
// stream, one request more is answered, and the second GOAWAY names it.
func TestGoodbyes(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %t", secure), func(t *testing.T) {
			t.Parallel()
			s, url := opened(t, slowService{})
			address := strings.TrimPrefix(url, "http://")
			conn := dialTCP(t, address)
			if secure {
				s.Close()
				s, address, conn = openedTLS(t)
			}
			testGoodbyes(t, s, address, conn)
		})
	}
}

func testGoodbyes(t *testing.T, s *Sockets, address string, conn net.Conn) {
	t.Helper()
	_, _ = io.WriteString(conn, preface+frame(frameSettings, 0, 0, ""))
	readFrame(t, conn, frameSettings)
	s.Leave()
	if got := readFrame(t, conn, frameGoAway); got != "\x7f\xff\xff\xff\x00\x00\x00\x00" {
		t.Errorf("the first GOAWAY is %q", got)
	}
	ping := readFrame(t, conn, framePing)
	// HEADERS of stream 1, at its end: GET / from the static table, and the authority.
	_, _ = io.WriteString(conn, frame(1, 5, 1, "\x82\x84\x86\x41"+string(rune(len(address)))+address))
	if got := readFrame(t, conn, frameData); got != "ok" {
		t.Errorf("the answer is %q", got)
	}
	_, _ = io.WriteString(conn, frame(framePing, 1, 0, ping))
	parted := make(chan struct{})
	go func() {
		defer close(parted)
		s.DrainConns(t.Context(), t.Context())
	}()
	if got := readFrame(t, conn, frameGoAway); got != "\x00\x00\x00\x01\x00\x00\x00\x00" {
		t.Errorf("the second GOAWAY is %q", got)
	}
	if rest, err := io.ReadAll(conn); err != nil {
		t.Errorf("the connection ends with %q, %v", rest, err)
	}
	<-parted
	s.Close()
}

// openedTLS is a set of servers with a main listener behind TLS, and an HTTP/2
// connection to it.
func openedTLS(t *testing.T) (s *Sockets, address string, conn net.Conn) {
	t.Helper()
	authority := tlstest.NewAuthority(t)
	pair := authority.Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1"}})
	seen, err := keys.NewServer(&configv1.ListenerTls{CertFile: pair.CertFile, KeyFile: pair.KeyFile})
	if err != nil {
		t.Fatal(err)
	}
	s = &Sockets{}
	s.Add(NewSocket(listen(t), SocketOptions{Main: true, TLS: seen.Config(), Refused: NewRefused(1<<20, nil)}), newServer(slowService{}), func(err error) { t.Error(err) })
	address = s.all[0].Addr().String()
	return s, address, tls.Client(dialTCP(t, address), &tls.Config{RootCAs: authority.Pool, ServerName: "127.0.0.1", NextProtos: []string{"h2"}})
}

func frame(kind, flags, stream byte, payload string) string {
	return "\x00\x00" + string([]byte{byte(len(payload)), kind, flags, 0, 0, 0, stream}) + payload
}

// Types of HTTP/2 frames (RFC 9113, section 6).
const (
	frameData     = 0
	frameSettings = 4
	framePing     = 6
	frameGoAway   = 7
)

func dialTCP(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(testkit.Limit())); err != nil {
		t.Fatal(err)
	}
	return conn
}

// readFrame reads frames until one of a type, and returns its payload.
func readFrame(t *testing.T, conn net.Conn, kind byte) string {
	t.Helper()
	for {
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			t.Fatalf("waiting for a frame of type %d: %v", kind, err)
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(conn, payload); err != nil {
			t.Fatal(err)
		}
		if head[3] == kind {
			return string(payload)
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
		testkit.Until(t, "200 requests", func() bool { return asked.Load() >= 200 })
		s.Leave()
		callers.Wait()
		s.DrainConns(t.Context(), t.Context())
		s.Close()
	}
}

// TestAConnectionMadeBeforeIsAnsweredOnce connects, and asks when the goodbyes have
// begun.
func TestAConnectionMadeBeforeIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	s, url := opened(t, slowService{})
	defer s.Close()
	address := strings.TrimPrefix(url, "http://")
	early := dialTCP(t, address)
	for len(s.all[0].book.conns()) == 0 {
		runtime.Gosched()
	}
	s.Leave()
	_, _ = io.WriteString(early, "GET / HTTP/1.1\r\nHost: "+address+"\r\n\r\n")
	answer, err := io.ReadAll(early) // to the end of the connection
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") || !strings.HasSuffix(string(answer), "ok") {
		t.Errorf("answered with %q, %v", answer, err)
	}
}

// TestIdleConnectionsEndAfterAWhile: a connection that has been quiet for idleLeave
// ends in a drain, and one that asks before is answered and then ends.
func TestIdleConnectionsEndAfterAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const quiet = 3 * time.Second
		one := NewSocket(&pipes{conns: make(chan net.Conn), closed: make(chan struct{})}, SocketOptions{Main: true, Refused: NewRefused(1<<20, nil)})
		s := &Sockets{}
		s.Add(one, newServer(slowService{}), func(err error) { t.Error(err) })
		begin := func() net.Conn {
			mine, theirs := net.Pipe()
			one.listener.(*pipes).conns <- theirs
			return mine
		}
		ask := func(conn net.Conn) string {
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			buf := make([]byte, 1024)
			n, _ := conn.Read(buf)
			return string(buf[:n])
		}
		rested, busy, silent := begin(), begin(), begin()
		for _, conn := range []net.Conn{rested, busy} {
			if text := ask(conn); !strings.HasSuffix(text, "ok") || strings.Contains(text, "Connection: close") {
				t.Errorf("before: %q", text)
			}
		}
		time.Sleep(quiet)
		start := time.Now()
		s.Leave()
		time.Sleep(time.Second)
		if text := ask(busy); !strings.HasSuffix(text, "ok") || !strings.Contains(text, "Connection: close") {
			t.Errorf("in the drain: %q", text)
		}
		for name, conn := range map[string]net.Conn{"rested": rested, "silent": silent} {
			if rest, err := io.ReadAll(conn); len(rest) > 0 || err != nil {
				t.Errorf("%s: %q, %v", name, rest, err)
			}
			if took := time.Since(start); took != idleLeave-quiet {
				t.Errorf("%s: it ends after %v, want %v", name, took, idleLeave-quiet)
			}
		}
		s.DrainConns(t.Context(), t.Context())
		s.Close()
		if slow := one.opts.Refused.Slow(); slow != 0 {
			t.Errorf("%d connections count as slow", slow)
		}
	})
}

// pipes is a listener for connections in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
