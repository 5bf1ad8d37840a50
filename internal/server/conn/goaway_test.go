// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"golang.org/x/net/http2"
)

// written is a connection that keeps what is written to it.
type written struct {
	net.Conn

	bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) { return w.Buffer.Write(p) }

func (w *written) Read(p []byte) (int, error) { return w.Buffer.Read(p) }

// TestTheGoodbyeStandsBetweenFrames asks for it at every byte of a server's frames,
// written in pieces of every size. It must be there once, before or after a frame,
// never before SETTINGS, and never between HEADERS and CONTINUATION: the framer
// refuses that.
func TestTheGoodbyeStandsBetweenFrames(t *testing.T) {
	t.Parallel()
	var sent bytes.Buffer
	framer := http2.NewFramer(&sent, nil)
	block := bytes.Repeat([]byte("\x88"), 40)
	if err := errors.Join(framer.WriteSettings(), framer.WriteSettingsAck(),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:20]}),
		framer.WriteContinuation(1, false, block[20:30]), framer.WriteContinuation(1, true, block[30:]),
		framer.WriteData(1, false, bytes.Repeat([]byte("x"), 300)), framer.WriteData(1, true, nil)); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for asked := range sent.Len() {
		out := &written{}
		conn := &h2Conn{Conn: out}
		for rest, at := sent.Bytes(), 0; len(rest) > 0; {
			if at >= asked {
				conn.asked.Store(true)
			}
			n := min(len(rest), 1+random.IntN(64))
			if wrote, err := conn.Write(rest[:n]); wrote != n || err != nil {
				t.Fatalf("%d bytes, %v", wrote, err)
			}
			rest, at = rest[n:], at+n
		}
		reader := http2.NewFramer(nil, out)
		frames, goodbyes := 0, 0
		for ; ; frames++ {
			frame, err := reader.ReadFrame()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("asked at %d, frame %d: %v", asked, frames, err)
			}
			if f, ok := frame.(*http2.GoAwayFrame); ok {
				if goodbyes++; frames == 0 || f.LastStreamID != 1<<31-1 || f.ErrCode != http2.ErrCodeNo {
					t.Errorf("asked at %d: frame %d is %v", asked, frames, f)
				}
			}
		}
		if conn.asked.Load() && (goodbyes != 1 || frames != 9) {
			t.Errorf("asked at %d: %d frames, %d goodbyes", asked, frames, goodbyes)
		}
	}
}

// TestTheAnswerToThePingIsSeen reads it in pieces, among others.
func TestTheAnswerToThePingIsSeen(t *testing.T) {
	t.Parallel()
	for size := 1; size < 60; size++ {
		for payload, want := range map[string]bool{goAwayPing: true, "12345678": false} {
			conn := &h2Conn{Conn: &written{}}
			framer := http2.NewFramer(conn.Conn, nil)
			var data [8]byte
			copy(data[:], payload)
			if err := errors.Join(framer.WriteSettings(), framer.WritePing(true, [8]byte{1}), framer.WriteData(1, true, []byte(goAwayPing)), framer.WritePing(true, data)); err != nil {
				t.Fatal(err)
			}
			for p := make([]byte, size); ; {
				if _, err := conn.Read(p); err != nil {
					break
				}
			}
			if got := conn.ackedAt.Load() != 0; got != want {
				t.Errorf("%q in pieces of %d: %t", payload, size, got)
			}
		}
	}
}
