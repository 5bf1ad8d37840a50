// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A peer that floods the connection with what is cheap for it costs a bounded
// amount of memory, and no other call. Rows that other tests have: endless blocks,
// too many header fields and pings whose answers it does not read
// (TestPeersThatBreakTheRules), and messages beyond the limit (package backend).
func TestFloods(t *testing.T) { //nolint:paralleltest // it measures memory
	const most = 4 << 20 // that the heap may grow
	many := func(n int, send func(fr *http2.Framer, s uint32) bool) func(*http2.Framer, uint32) bool {
		return func(fr *http2.Framer, s uint32) bool {
			for range n {
				if !send(fr, s) {
					return false
				}
			}
			return answer(fr, s, "late")
		}
	}
	ok := []string{":status", "200", "content-type", "application/grpc"}
	for _, tc := range []struct {
		name  string
		flood func(fr *http2.Framer, s uint32) bool
		deaf  bool   // the peer does not read meanwhile
		want  string // the error, "" for an answer
		kills bool   // the connection
	}{
		{name: "settings", flood: many(50_000, func(fr *http2.Framer, _ uint32) bool {
			return fr.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 70_000}) == nil
		})},
		{name: "settings, answers not read", deaf: true, want: "too much asked", kills: true, flood: many(1<<30, func(fr *http2.Framer, _ uint32) bool {
			return fr.WriteSettings() == nil
		})},
		{name: "pings", flood: many(50_000, func(fr *http2.Framer, _ uint32) bool { return fr.WritePing(false, [8]byte{1}) == nil })},
		{name: "pings that answer none", flood: many(100_000, func(fr *http2.Framer, _ uint32) bool { return fr.WritePing(true, [8]byte{1}) == nil })},
		{name: "resets", want: "reset the stream with code 8", flood: many(200_000, func(fr *http2.Framer, s uint32) bool {
			return fr.WriteRSTStream(s, http2.ErrCodeCancel) == nil
		})},
		{name: "farewells", flood: many(50_000, func(fr *http2.Framer, s uint32) bool { return fr.WriteGoAway(s, http2.ErrCodeNo, []byte("bye")) == nil }), kills: true},
		{name: "windows", flood: many(100_000, func(fr *http2.Framer, s uint32) bool {
			return fr.WriteWindowUpdate(s, 1) == nil && fr.WriteWindowUpdate(0, 1) == nil
		})},
		{name: "unknown frames", flood: many(4_000, func(fr *http2.Framer, s uint32) bool {
			return fr.WriteRawFrame(0xfa, 0xff, s, make([]byte, 16<<10)) == nil
		})},
		{name: "priorities", flood: many(100_000, func(fr *http2.Framer, s uint32) bool {
			return fr.WritePriority(s, http2.PriorityParam{Weight: 9}) == nil
		})},
		{name: "interim answers", flood: many(20_000, func(fr *http2.Framer, s uint32) bool {
			return headers(fr, s, false, ":status", "103", "link", strings.Repeat("x", 500))
		})},
		{name: "empty data", want: "two messages or none", flood: func(fr *http2.Framer, s uint32) bool {
			ok := headers(fr, s, false, ok...)
			for range 100_000 {
				ok = ok && fr.WriteData(s, false, nil) == nil
			}
			return ok && headers(fr, s, true, "grpc-status", "0")
		}},
		{name: "empty messages", want: "two messages or none", flood: func(fr *http2.Framer, s uint32) bool {
			ok := headers(fr, s, false, ok...)
			for range 5_000 {
				ok = ok && fr.WriteData(s, false, make([]byte, 15<<10)) == nil
			}
			return ok && headers(fr, s, true, "grpc-status", "0")
		}},
		{name: "further messages", want: "two messages or none", flood: func(fr *http2.Framer, s uint32) bool {
			message := append(binary.BigEndian.AppendUint32([]byte{0}, 10<<10), make([]byte, 10<<10)...)
			ok := headers(fr, s, false, ok...)
			for range 5_000 {
				ok = ok && fr.WriteData(s, false, message) == nil
			}
			return ok && headers(fr, s, true, "grpc-status", "0")
		}},
		{name: "empty continuations", want: "a header block in more than", kills: true, flood: func(fr *http2.Framer, s uint32) bool {
			ok := fr.WriteRawFrame(http2.FrameHeaders, 0, s, block(":status", "200")) == nil
			for ok {
				ok = fr.WriteContinuation(s, false, nil) == nil
			}
			return false
		}},
		{name: "endless continuations", want: "a header block of more than", kills: true, flood: func(fr *http2.Framer, s uint32) bool {
			ok := fr.WriteRawFrame(http2.FrameHeaders, 0, s, block(":status", "200")) == nil
			for ok {
				ok = fr.WriteContinuation(s, false, make([]byte, 16<<10)) == nil
			}
			return false
		}},
		{name: "fields that unfold", want: errHeaderTooLarge.Error(), flood: unfolding},
		{name: "a message that is announced and never comes", want: context.DeadlineExceeded.Error(), flood: func(fr *http2.Framer, s uint32) bool {
			return headers(fr, s, false, ok...) && fr.WriteData(s, false, binary.BigEndian.AppendUint32([]byte{0}, 8<<20)) == nil
		}},
		{name: "a message of 4 GiB", want: ErrAnswerTooLarge.Error(), flood: func(fr *http2.Framer, s uint32) bool {
			return headers(fr, s, false, ok...) && fr.WriteData(s, false, []byte{0, 0xff, 0xff, 0xff, 0xff}) == nil
		}},
	} {
		t.Run(tc.name, func(t *testing.T) { //nolint:paralleltest // see above
			near, far := net.Pipe()
			over := make(chan struct{})
			go func() {
				defer close(over)
				defer func() { _ = far.Close() }()
				hostile(far, tc.deaf, tc.flood)
			}()
			o := options()
			o.MaxHeaderBytes = 64 << 10
			c := NewClient(near, o)
			defer func() {
				_ = c.Close()
				<-over
			}()
			<-c.Ready()
			grown := watchHeap()
			ctx, cancel := context.WithTimeout(t.Context(), callTimeout(tc.want))
			defer cancel()
			var got Answer
			err := c.Do(ctx, call([]byte("x")), &got)
			if err == nil && got.Messages != 1 {
				err = errors.New("two messages or none")
			}
			switch {
			case tc.want == "" && (err != nil || string(got.Message) != "late"):
				t.Errorf("got %q, %v", got.Message, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if n := grown(); n > most {
				t.Errorf("the heap grew by %d KiB", n>>10)
			}
			if tc.kills {
				if c.Err() == nil {
					t.Error("the connection goes on")
				}
				return
			}
			if got, err := do(t, c, "after"); err != nil || string(got.Message) != "fine" {
				t.Errorf("a call after that: %q, %v", got.Message, err)
			}
		})
	}
}

// callTimeout is short where a call is to run out of time.
func callTimeout(want string) time.Duration {
	if want == context.DeadlineExceeded.Error() {
		return 200 * time.Millisecond
	}
	return time.Minute
}

// hostile floods the connection at the first request, and answers later ones.
func hostile(nc net.Conn, deaf bool, flood func(fr *http2.Framer, s uint32) bool) {
	if _, err := io.ReadFull(nc, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	requests, fr := make(chan uint32, 10), http2.NewFramer(nc, nc)
	reading, ended := make(chan struct{}, 1), make(chan struct{})
	reading <- struct{}{}
	go func() { // of all that the client says, so that it may say more
		defer close(ended)
		defer close(requests)
		for {
			f, err := fr.ReadFrame()
			if err != nil {
				return
			}
			if d, ok := f.(*http2.DataFrame); ok && d.StreamEnded() {
				requests <- d.StreamID
				if deaf {
					<-reading
					<-reading // which never comes
				}
			}
		}
	}()
	_ = fr.WriteSettings()
	first := true
	for s := range requests {
		if first && !flood(fr, s) || !first && !answer(fr, s, "fine") {
			break
		}
		first = false
	}
	_ = nc.Close()
	close(reading)
	<-ended
}

// unfolding sends a block that is small on the wire and large in memory: one field of
// 4,000 bytes goes into the table, and is named again and again with one byte.
func unfolding(fr *http2.Framer, s uint32) bool {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for _, f := range [][2]string{{":status", "200"}, {"content-type", "application/grpc"}, {"x-bomb", strings.Repeat("z", 4000)}} {
		_ = enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	const lastOfTable = 0x80 | 62 // RFC 7541, section 6.1
	b.Write(bytes.Repeat([]byte{lastOfTable}, 100_000))
	all := b.Bytes()
	ok := fr.WriteRawFrame(http2.FrameHeaders, 0, s, all[:16<<10]) == nil
	for all = all[16<<10:]; ok && len(all) > 0; {
		piece := all[:min(len(all), 16<<10)]
		all = all[len(piece):]
		ok = fr.WriteContinuation(s, len(all) == 0, piece) == nil
	}
	return ok
}

// watchHeap begins to look at the heap and returns what tells how much it has grown
// at most, garbage aside as far as it has been collected.
func watchHeap() func() int64 {
	heap := func() int64 {
		// The least of six: what others allocate between the collection and the
		// reading counts too, and is megabytes where this goroutine has to wait for a core.
		least := int64(math.MaxInt64)
		for range 6 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			least = min(least, int64(m.HeapAlloc))
		}
		return least
	}
	before, done, ended := heap(), make(chan struct{}), make(chan struct{})
	var most atomic.Int64
	go func() {
		defer close(ended)
		for {
			most.Store(max(most.Load(), heap()-before))
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() int64 {
		most.Store(max(most.Load(), heap()-before)) // while the call's answer is still held
		close(done)
		<-ended
		return most.Load()
	}
}
