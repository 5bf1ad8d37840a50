// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// h2Conn is an HTTP/2 connection between net/http and the wire. net/http sends one
// GOAWAY, with the last stream that it has seen, and drops the streams that cross it
// on the way. RFC 9113, section 6.8, asks for two: the first admits every stream and
// only says that the client should open no more. h2Conn writes that one between two
// of net/http's frames, with a PING behind it whose answer shows that the client has
// read it.
type h2Conn struct {
	net.Conn

	watched *watched
	// asked is set when GOAWAY is to be sent, sentAt and ackedAt are when it was sent
	// and confirmed, in nanoseconds of Unix time.
	asked           atomic.Bool
	sentAt, ackedAt atomic.Int64

	writing sync.Mutex
	out     frameCursor
	in      frameCursor // of the one goroutine that reads
}

// goAwayPing is the payload of our PING. net/http ignores answers to a PING that it
// did not send.
const goAwayPing = "outrigr!"

// goodbye is GOAWAY without an error, with the highest stream there can be, and PING.
const goodbye = "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x00" +
	"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + goAwayPing

// goAway tells the client to open no more streams. It returns at once: a client that
// does not read may hold the connection's writer.
func (c *h2Conn) goAway() {
	if !c.asked.CompareAndSwap(false, true) {
		return
	}
	go func() {
		c.writing.Lock()
		defer c.writing.Unlock()
		_ = c.farewell()
	}()
}

// farewell writes the goodbye if that is asked for and a frame may begin here.
// writing is held.
func (c *h2Conn) farewell() error {
	if !c.asked.Load() || c.sentAt.Load() != 0 || !c.out.between() {
		return nil
	}
	c.sentAt.Store(time.Now().UnixNano())
	_, err := io.WriteString(c.Conn, goodbye)
	return err
}

// Write implements [net.Conn].
func (c *h2Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	done := 0
	for done < len(p) {
		n := len(p) - done
		if c.asked.Load() && c.sentAt.Load() == 0 {
			n = c.out.toNext(p[done:])
		} else {
			c.out.pass(p[done:], nil)
		}
		wrote, err := c.Conn.Write(p[done : done+n])
		done += wrote
		if err == nil {
			err = c.farewell()
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// Read implements [net.Conn].
func (c *h2Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.pass(p[:n], func(payload []byte) {
		if string(payload) == goAwayPing {
			c.ackedAt.CompareAndSwap(0, time.Now().UnixNano())
		}
	})
	return n, err
}

// NetConn returns the connection underneath.
func (c *h2Conn) NetConn() net.Conn { return c.Conn }

// released reports whether the client opens no more streams: it has confirmed, or
// had the time to.
func (c *h2Conn) released() bool {
	if acked := c.ackedAt.Load(); acked != 0 {
		return time.Since(time.Unix(0, acked)) > h2Settle
	}
	return c.overdue()
}

// overdue reports whether a client goes on although it was told long ago.
func (c *h2Conn) overdue() bool {
	sent := c.sentAt.Load()
	return sent != 0 && time.Since(time.Unix(0, sent)) > goAwayTimeout
}

// h2TLSConn is an h2Conn over TLS, as net/http's HTTP/2 looks for it.
type h2TLSConn struct {
	*h2Conn

	tls *tls.Conn
}

// ConnectionState is what was negotiated.
func (c *h2TLSConn) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }

// Keys of [http.Server.TLSNextProto]. A handler for the second gets connections of
// which the preface has been read, in a tls.Conn that only carries them.
const (
	protoH2    = "h2"
	protoPlain = "unencrypted_http2"
)

// preface is what an HTTP/2 client sends first.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// interpose puts an h2Conn under each HTTP/2 connection of a server that does not
// serve yet.
func interpose(server *http.Server) {
	// net/http sets HTTP/2 up when it begins to serve.
	_ = server.Serve(noListener{})
	serve := server.TLSNextProto[protoPlain]
	if serve == nil || server.TLSNextProto[protoH2] == nil {
		return // HTTP/2 is off (GODEBUG=http2server=0)
	}
	server.TLSNextProto[protoPlain] = func(s *http.Server, carrier *tls.Conn, h http.Handler) {
		plain, ok := carrier.NetConn().(interface{ UnencryptedNetConn() net.Conn })
		if !ok {
			serve(s, carrier, h)
			return
		}
		conn := plain.UnencryptedNetConn()
		serve(s, carry(newH2Conn(conn)), h)
	}
	server.TLSNextProto[protoH2] = func(s *http.Server, conn *tls.Conn, h http.Handler) {
		if err := readPreface(conn, s.ReadHeaderTimeout); err != nil {
			_ = conn.Close()
			return
		}
		serve(s, carry(&h2TLSConn{newH2Conn(conn), conn}), h)
	}
}

func newH2Conn(conn net.Conn) *h2Conn {
	c := &h2Conn{Conn: conn}
	if c.watched = watchedOf(conn); c.watched != nil {
		c.watched.h2.Store(c)
	}
	return c
}

// readPreface reads what net/http would read of a connection before its
// first request.
func readPreface(conn net.Conn, within time.Duration) error {
	if within > 0 {
		if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
			return err
		}
	}
	got := make([]byte, len(preface))
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if string(got) != preface {
		return errors.New("no HTTP/2 preface")
	}
	return conn.SetReadDeadline(time.Time{})
}

// carried is a connection inside a tls.Conn that is never used as one.
type carried struct {
	net.Conn
}

// UnencryptedNetConn is what net/http's HTTP/2 looks for.
func (c carried) UnencryptedNetConn() net.Conn { return c.Conn }

func carry(conn net.Conn) *tls.Conn { return tls.Client(carried{conn}, nil) }

// noListener ends a server's Serve after it has set itself up.
type noListener struct{}

// Accept implements [net.Listener].
func (noListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }

// Close implements [net.Listener].
func (noListener) Close() error { return nil }

// Addr implements [net.Listener].
func (noListener) Addr() net.Addr { return &net.TCPAddr{} }

// frameCursor knows where in a sequence of HTTP/2 frames a stream of bytes stands.
type frameCursor struct {
	head    [9]byte
	have    int // of head
	left    int // of the payload
	begun   bool
	open    bool // HEADERS whose CONTINUATION must follow at once
	payload []byte
}

// Types and flags of HTTP/2 frames (RFC 9113, section 6).
const (
	h2Headers      = 1
	h2PushPromise  = 5
	h2Ping         = 6
	h2Continuation = 9
	h2EndHeaders   = 4
	h2Ack          = 1
	h2PingSize     = 8
)

// between reports whether another frame may begin here. The first frame of a server
// is SETTINGS.
func (f *frameCursor) between() bool { return f.begun && f.have == 0 && f.left == 0 && !f.open }

// pass moves over bytes, and hands on the payload of each answer to a PING.
func (f *frameCursor) pass(p []byte, pong func([]byte)) {
	for len(p) > 0 {
		p = p[f.step(p, pong):]
	}
}

// toNext moves to the next place between two frames, or to the end, and returns how
// many bytes that are.
func (f *frameCursor) toNext(p []byte) int {
	n := 0
	for n < len(p) {
		if n += f.step(p[n:], nil); f.between() {
			break
		}
	}
	return n
}

// step moves over the rest of a header or of a payload, as far as it is there.
func (f *frameCursor) step(p []byte, pong func([]byte)) int {
	if f.have < len(f.head) {
		n := copy(f.head[f.have:], p)
		if f.have += n; f.have == len(f.head) {
			f.left = f.size()
			f.payload = f.payload[:0]
			f.finish(pong)
		}
		return n
	}
	n := min(f.left, len(p))
	if pong != nil && f.isPong() {
		f.payload = append(f.payload, p[:n]...)
	}
	f.left -= n
	f.finish(pong)
	return n
}

func (f *frameCursor) size() int { return int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2]) }

func (f *frameCursor) isPong() bool {
	return f.head[3] == h2Ping && f.head[4]&h2Ack != 0 && f.size() == h2PingSize
}

// finish ends a frame of which nothing is left.
func (f *frameCursor) finish(pong func([]byte)) {
	if f.left > 0 {
		return
	}
	switch f.head[3] {
	case h2Headers, h2PushPromise, h2Continuation:
		f.open = f.head[4]&h2EndHeaders == 0
	case h2Ping:
		if pong != nil && f.isPong() {
			pong(bytes.Clone(f.payload))
		}
	}
	f.have, f.begun = 0, true
}
