// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// Whatever a peer says after its settings, a call ends, within its limits, and
// nothing panics.
func FuzzPeer(f *testing.F) {
	frame := func(kind http2.FrameType, flags http2.Flags, stream uint32, payload []byte) []byte {
		return append(appendFrameHeader(nil, len(payload), kind, flags, stream), payload...)
	}
	head := frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, block(":status", "200", "content-type", "application/grpc"))
	body := frame(http2.FrameData, 0, 1, []byte{0, 0, 0, 0, 2, 'h', 'i'})
	tail := frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagDataEndStream, 1, block("grpc-status", "0"))
	f.Add(bytes.Join([][]byte{head, body, tail}, nil))
	f.Add(bytes.Join([][]byte{head, tail}, nil))
	f.Add(bytes.Join([][]byte{frame(http2.FrameHeaders, 0, 1, nil), frame(http2.FrameContinuation, http2.FlagHeadersEndHeaders, 1, block(":status", "404"))}, nil))
	f.Add(frame(http2.FrameGoAway, 0, 0, make([]byte, 8)))
	f.Add(bytes.Join([][]byte{frame(http2.FrameSettings, 0, 0, appendSetting(nil, http2.SettingInitialWindowSize, 0)), frame(http2.FramePing, 0, 0, make([]byte, 8))}, nil))
	f.Add(frame(http2.FrameRSTStream, 0, 1, []byte{0, 0, 0, 7}))
	f.Fuzz(func(t *testing.T, said []byte) {
		near, far := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			go func() { _, _ = io.Copy(io.Discard, far) }()
			_, _ = far.Write(appendFrameHeader(nil, 0, http2.FrameSettings, 0, 0))
			_, _ = far.Write(said)
			_ = far.Close()
		}()
		o := options()
		o.MaxHeaderBytes = 4096
		c := NewClient(near, o)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		req := call([]byte("request"))
		req.MaxAnswer = 1000
		var got Answer
		err := c.Do(ctx, req, &got)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Error("the call hangs")
		}
		if len(got.Message) > req.MaxAnswer {
			t.Errorf("a message of %d bytes", len(got.Message))
		}
		_ = c.Close()
		<-done
	})
}

// A body means the same in whatever pieces it comes.
func FuzzMessageReader(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 2, 'h', 'i', 1, 0, 0, 0, 0}, uint8(3))
	f.Add([]byte{0, 0, 0, 0, 0}, uint8(1))
	f.Add([]byte{0, 0, 0, 0}, uint8(2))
	f.Fuzz(func(t *testing.T, body []byte, step uint8) {
		const limit = 100
		whole := messageReader{limit: limit}
		want := whole.addPiece(body)
		pieces := messageReader{limit: limit}
		var err error
		for rest := body; len(rest) > 0 && err == nil; {
			n := min(int(step)+1, len(rest))
			if room := pieces.room(n); len(room) > 0 {
				pieces.filled(copy(room, rest))
				rest = rest[len(room):]
				continue
			}
			err = pieces.addPiece(rest[:n])
			rest = rest[n:]
		}
		if !errors.Is(err, want) || whole.count != pieces.count || whole.cut() != pieces.cut() || !bytes.Equal(whole.kept, pieces.kept) {
			t.Errorf("whole %+v, %v; pieces %+v, %v", whole, want, pieces, err)
		}
		if len(body) >= prefixBytes && binary.BigEndian.Uint32(body[1:]) <= limit && whole.count > 0 && len(whole.kept) != int(binary.BigEndian.Uint32(body[1:])) {
			t.Errorf("a message of %d bytes", len(whole.kept))
		}
	})
}
