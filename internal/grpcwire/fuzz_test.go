// SPDX-License-Identifier: Apache-2.0

package grpcwire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// Whatever a peer says after its settings, a call ends, within its limits, and
// nothing panics.
func FuzzPeer(f *testing.F) {
	frame := func(kind, flags byte, stream uint32, payload []byte) []byte {
		return append(appendFrameHeader(nil, len(payload), kind, flags, stream), payload...)
	}
	head := frame(frameHeaders, flagEndHeaders, 1, block(":status", "200", "content-type", "application/grpc"))
	body := frame(frameData, 0, 1, []byte{0, 0, 0, 0, 2, 'h', 'i'})
	tail := frame(frameHeaders, flagEndHeaders|flagEndStream, 1, block("grpc-status", "0"))
	f.Add(bytes.Join([][]byte{head, body, tail}, nil))
	f.Add(bytes.Join([][]byte{head, tail}, nil))
	f.Add(bytes.Join([][]byte{frame(frameHeaders, 0, 1, nil), frame(frameContinuation, flagEndHeaders, 1, block(":status", "404"))}, nil))
	f.Add(frame(frameGoAway, 0, 0, make([]byte, 8)))
	f.Add(bytes.Join([][]byte{frame(frameSettings, 0, 0, appendSetting(nil, settingWindow, 0)), frame(framePing, 0, 0, make([]byte, 8))}, nil))
	f.Add(frame(frameReset, 0, 1, []byte{0, 0, 0, 7}))
	f.Fuzz(func(t *testing.T, said []byte) {
		near, far := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			go func() { _, _ = io.Copy(io.Discard, far) }()
			_, _ = far.Write(appendFrameHeader(nil, 0, frameSettings, 0, 0))
			_, _ = far.Write(said)
			_ = far.Close()
		}()
		o := options()
		o.MaxHeaderBytes = 4096
		c := New(near, o)
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
		want := whole.take(body)
		pieces := messageReader{limit: limit}
		var err error
		for rest := body; len(rest) > 0 && err == nil; {
			n := min(int(step)+1, len(rest))
			if room := pieces.room(n); len(room) > 0 {
				pieces.filled(copy(room, rest))
				rest = rest[len(room):]
				continue
			}
			err = pieces.take(rest[:n])
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
