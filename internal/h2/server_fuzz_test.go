// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/outrigger-mcp/outrigger/internal/h2"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// Whatever a client says after its preface, the connection ends when the client has gone,
// and nothing panics.
func FuzzClient(f *testing.F) {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/echo"}, {":authority", "test"}, {"trailer", "late"}} {
		_ = enc.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	said := func(say func(*http2.Framer)) []byte {
		var out bytes.Buffer
		framer := http2.NewFramer(&out, nil)
		framer.AllowIllegalWrites = true
		_ = framer.WriteSettings()
		say(framer)
		return out.Bytes()
	}
	request := func(framer *http2.Framer, end bool) {
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end})
	}
	f.Add(said(func(framer *http2.Framer) { request(framer, true) }))
	f.Add(said(func(framer *http2.Framer) {
		request(framer, false)
		_ = framer.WriteDataPadded(1, false, []byte("hello"), make([]byte, 7))
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("\x00\x04late\x01x"), EndHeaders: true, EndStream: true})
		_ = framer.WritePing(false, [8]byte{})
		_ = framer.WriteWindowUpdate(0, 9)
	}))
	f.Add(said(func(framer *http2.Framer) {
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes()[:3]})
		_ = framer.WriteContinuation(1, true, block.Bytes()[3:])
		_ = framer.WriteRSTStream(1, http2.ErrCodeCancel)
		_ = framer.WriteGoAway(0, http2.ErrCodeNo, nil)
	}))
	f.Fuzz(func(t *testing.T, said []byte) {
		near, far := net.Pipe()
		server := quiet(laboratory())
		server.MaxHeaderBytes = 4096
		c := h2.NewServer(near, h2.ServerOptions{Handler: server.Handler, Server: server, MaxStreams: 4})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.Serve()
		}()
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			_, _ = io.Copy(io.Discard, far)
		}()
		_ = far.SetWriteDeadline(time.Now().Add(testkit.Limit()))
		_, _ = far.Write(said)
		_ = far.Close()
		select {
		case <-ended:
		case <-time.After(testkit.Limit()):
			t.Error("the connection does not end")
		}
		<-drained
	})
}
