// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// options are those of a patient client.
func options() ClientOptions {
	return ClientOptions{MaxHeaderBytes: 1 << 20, PingAfter: time.Hour, PingTimeout: time.Minute, QuietAfter: time.Hour, SuspectAfter: time.Hour, WriteTimeout: time.Minute}
}

// call is a request with a message.
func call(message []byte) *Request {
	return &Request{Scheme: "http", Authority: "peer", Path: "/test.v1.Echo/Echo", UserAgent: "test", Message: message, MaxAnswer: 8 << 20}
}

// pipe is a connection to a peer that a test plays itself, frame by frame. talk
// runs once the client's preface has come.
func pipe(t testing.TB, o ClientOptions, talk func(fr *http2.Framer, nc net.Conn)) *ClientConn {
	t.Helper()
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = far.Close() }()
		if _, err := io.ReadFull(far, make([]byte, len(http2.ClientPreface))); err == nil {
			talk(http2.NewFramer(far, far), far)
		}
	}()
	c := NewClient(near, o)
	t.Cleanup(func() {
		_ = c.Close()
		<-done
	})
	return c
}

// serve says hello and gives every frame of the client to react, until that is
// false.
func serve(react func(fr *http2.Framer, f http2.Frame) bool, settings ...http2.Setting) func(*http2.Framer, net.Conn) {
	return func(fr *http2.Framer, _ net.Conn) {
		hello := make(chan struct{})
		go func() { // a pipe has no buffer, and the client writes first
			defer close(hello)
			_ = fr.WriteSettings(settings...)
		}()
		for {
			f, err := fr.ReadFrame()
			if err != nil {
				<-hello
				return
			}
			<-hello
			if !react(fr, f) {
				return
			}
		}
	}
}

// onRequest gives the complete requests of the client to react.
func onRequest(react func(fr *http2.Framer, stream uint32) bool) func(*http2.Framer, http2.Frame) bool {
	return func(fr *http2.Framer, f http2.Frame) bool {
		if d, ok := f.(*http2.DataFrame); ok && d.StreamEnded() {
			return react(fr, d.StreamID)
		}
		return true
	}
}

func block(pairs ...string) []byte {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for i := 0; i < len(pairs); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return b.Bytes()
}

func headers(fr *http2.Framer, stream uint32, end bool, pairs ...string) bool {
	return fr.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block(pairs...), EndHeaders: true, EndStream: end}) == nil
}

// answer sends a whole answer.
func answer(fr *http2.Framer, stream uint32, message string) bool {
	return headers(fr, stream, false, ":status", "200", "content-type", "application/grpc") &&
		fr.WriteDataPadded(stream, false, append([]byte{0, 0, 0, 0, byte(len(message))}, message...), make([]byte, 7)) == nil &&
		headers(fr, stream, true, "grpc-status", "0")
}

func do(t *testing.T, c *ClientConn, message string) (Answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
	defer cancel()
	var got Answer
	err := c.Do(ctx, call([]byte(message)), &got)
	return got, err
}
