// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2peer is an HTTP/2 server below net/http: it can say what a real one never
// would. react runs when a request is complete; n counts them over all
// connections. Its result ends the connection when false.
func h2peer(tb testing.TB, react func(fr *http2.Framer, nc net.Conn, stream uint32, n int) bool) *remote {
	tb.Helper()
	requests := make(chan int, 1)
	requests <- 0
	return rawPeer(tb, func(nc net.Conn) {
		defer func() { _ = nc.Close() }()
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(nc, preface); err != nil {
			return
		}
		fr := http2.NewFramer(nc, nc)
		if fr.WriteSettings() != nil {
			return
		}
		for {
			frame, err := fr.ReadFrame()
			if err != nil {
				return
			}
			switch f := frame.(type) {
			case *http2.SettingsFrame:
				if !f.IsAck() && fr.WriteSettingsAck() != nil {
					return
				}
			case *http2.PingFrame:
				if !f.IsAck() && fr.WritePing(true, f.Data) != nil {
					return
				}
			case *http2.DataFrame:
				if !f.StreamEnded() {
					continue
				}
				n := <-requests + 1
				requests <- n
				if !react(fr, nc, f.StreamID, n) {
					return
				}
			}
		}
	})
}

// headerBlock encodes name, value pairs.
func headerBlock(pairs ...string) []byte {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for i := 0; i < len(pairs); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return b.Bytes()
}

// sendHeaders writes response headers or trailers.
func sendHeaders(fr *http2.Framer, stream uint32, end bool, pairs ...string) bool {
	return fr.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: headerBlock(pairs...), EndHeaders: true, EndStream: end,
	}) == nil
}

// answerGRPC sends message with the given status as a complete gRPC answer.
func answerGRPC(fr *http2.Framer, stream uint32, message []byte, status string) bool {
	frame := append([]byte{0, 0, 0, 0, byte(len(message))}, message...)
	return sendHeaders(fr, stream, false, ":status", "200", "content-type", "application/grpc") &&
		fr.WriteData(stream, false, frame) == nil &&
		sendHeaders(fr, stream, true, "grpc-status", status)
}

// drain reads a request (HTTP/1.1) with its body, as far as it comes.
func drain(nc net.Conn) {
	if request, err := http.ReadRequest(bufio.NewReader(nc)); err == nil {
		_, _ = io.Copy(io.Discard, request.Body)
	}
}

// resetConn closes nc so that its peer sees a reset.
func resetConn(nc net.Conn) {
	if b, ok := nc.(begun); ok {
		nc = b.Conn
	}
	if tc, ok := nc.(*net.TCPConn); ok {
		_ = tc.SetLinger(0)
	}
	_ = nc.Close()
}

// http1 answers the greeting of HTTP/2 as servers of HTTP/1.1 do, and requests with talk.
func http1(talk func(net.Conn)) func(net.Conn) {
	return func(nc net.Conn) {
		begin := bufio.NewReader(nc)
		if word, err := begin.Peek(len("PRI ")); err != nil || string(word) == "PRI " {
			text("HTTP/1.1 505 HTTP Version Not Supported\r\nContent-Length: 0\r\n\r\n")(begun{nc, begin})
			return
		}
		talk(begun{nc, begin})
	}
}

// begun is a connection of which something was read.
type begun struct {
	net.Conn
	rest io.Reader
}

func (b begun) Read(p []byte) (int, error) { return b.rest.Read(p) }

// text answers one HTTP/1.1 request with the given bytes and ends its side of
// the connection; it reads on, so that the close does not become a reset.
func text(s string) func(net.Conn) {
	return func(nc net.Conn) {
		drain(nc)
		_, _ = io.WriteString(nc, s)
		if tc, ok := nc.(*net.TCPConn); ok {
			_ = tc.CloseWrite()
		}
		_, _ = io.Copy(io.Discard, nc)
		_ = nc.Close()
	}
}
