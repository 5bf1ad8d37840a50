// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// Messages far larger than every window go both ways, beside many small ones,
// through a server whose windows are tiny.
func TestWindows(t *testing.T) {
	t.Parallel()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{
		Protocols: protocols, ReadHeaderTimeout: time.Minute,
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 16, MaxReceiveBufferPerConnection: 1 << 16, MaxReadFrameSize: 1 << 14},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Trailer", "Grpc-Status")
			_, _ = io.Copy(w, r.Body)
			w.Header().Set("Grpc-Status", "0")
		}),
	}
	go func() { _ = srv.Serve(lis) }()
	defer func() { _ = srv.Close() }()
	nc, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(nc, options())
	defer func() { _ = c.Close() }()
	var wg sync.WaitGroup
	for i := range 24 {
		size := 100
		if i%3 == 0 {
			size = 6<<20 + i
		}
		message := bytes.Repeat([]byte{byte(i + 1)}, size)
		wg.Go(func() {
			for range 2 {
				var got Answer
				if err := c.Do(t.Context(), call(message), &got); err != nil || !bytes.Equal(got.Message, message) || got.Status != "0" || got.Messages != 1 {
					t.Errorf("%d bytes: %v, %d bytes, %d messages, status %q", size, err, len(got.Message), got.Messages, got.Status)
				}
			}
		})
	}
	wg.Wait()
	if c.InFlight() != 0 || c.Err() != nil {
		t.Errorf("%d calls are left, %v", c.InFlight(), c.Err())
	}
}

// What a peer does wrong ends the call, or the connection, with a reason; and
// nothing that left counts as unsent.
func TestPeersThatBreakTheRules(t *testing.T) {
	t.Parallel()
	raw := func(kind http2.FrameType, flags http2.Flags, streams byte, payload ...byte) func(*http2.Framer, uint32) bool {
		return func(fr *http2.Framer, s uint32) bool {
			return fr.WriteRawFrame(kind, flags, s*uint32(streams), payload) == nil
		}
	}
	ok := []string{":status", "200", "content-type", "application/grpc"}
	for name, tc := range map[string]struct {
		react func(fr *http2.Framer, stream uint32) bool
		want  string
		kills bool // the connection
	}{
		"data before headers": {func(fr *http2.Framer, s uint32) bool { return fr.WriteData(s, false, []byte("x")) == nil }, "data before the headers", false},
		"no status":           {func(fr *http2.Framer, s uint32) bool { return headers(fr, s, false, "a", "b") }, "without a status", false},
		"two statuses": {func(fr *http2.Framer, s uint32) bool {
			return headers(fr, s, false, ":status", "200", ":status", "200")
		}, ":status", false},
		"a status that is none":   {func(fr *http2.Framer, s uint32) bool { return headers(fr, s, false, ":status", "20x") }, ":status", false},
		"a field of requests":     {func(fr *http2.Framer, s uint32) bool { return headers(fr, s, false, ":path", "/") }, ":path", false},
		"an upper case name":      {func(fr *http2.Framer, s uint32) bool { return headers(fr, s, false, append(ok, "X-A", "b")...) }, "malformed", false},
		"a line break in a value": {func(fr *http2.Framer, s uint32) bool { return headers(fr, s, false, append(ok, "a", "b\r\nc")...) }, "malformed", false},
		"trailers that go on": {func(fr *http2.Framer, s uint32) bool {
			return headers(fr, s, false, ok...) && headers(fr, s, false, "a", "b")
		}, "trailers that do not end", false},
		"an interim answer that ends": {func(fr *http2.Framer, s uint32) bool { return headers(fr, s, true, ":status", "103") }, "interim", false},
		"too many headers": {func(fr *http2.Framer, s uint32) bool {
			return headers(fr, s, false, append(ok, "a", strings.Repeat("x", 9000))...)
		}, errHeaderTooLarge.Error(), false},
		"a reset":                 {func(fr *http2.Framer, s uint32) bool { return fr.WriteRSTStream(s, http2.ErrCodeInternal) == nil }, "code 2", false},
		"a window that overflows": {func(fr *http2.Framer, s uint32) bool { return fr.WriteWindowUpdate(s, 1<<31-1) == nil }, "window", false},

		"a stream that is not there": {func(fr *http2.Framer, _ uint32) bool { return headers(fr, 99, false, ok...) }, "stream 99", true},
		"a stream that it opens":     {func(fr *http2.Framer, _ uint32) bool { return headers(fr, 2, false, ok...) }, "stream 2", true},
		"a push":                     {raw(http2.FramePushPromise, 4, 1, 0, 0, 0, 2), "push", true},
		"a long frame":               {raw(http2.FrameData, 0, 1, make([]byte, 20_000)...), "20000 bytes", true},
		"a short ping":               {raw(http2.FramePing, 0, 0, 1), "ping", true},
		"a ping on a stream":         {raw(http2.FramePing, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8), "ping", true},
		"odd settings":               {raw(http2.FrameSettings, 0, 0, 1), "settings of 1", true},
		"settings on a stream":       {raw(http2.FrameSettings, 0, 1), "settings on", true},
		"a frame size of nothing":    {raw(http2.FrameSettings, 0, 0, 0, 5, 0, 0, 0, 1), "frame size", true},
		"a window of 2^31":           {raw(http2.FrameSettings, 0, 0, 0, 4, 0x80, 0, 0, 0), "window of", true},
		"a short farewell":           {raw(http2.FrameGoAway, 0, 0, 1), "GOAWAY", true},
		"a short reset":              {raw(http2.FrameRSTStream, 0, 1, 1), "reset of", true},
		"a short update":             {raw(http2.FrameWindowUpdate, 0, 0, 1), "window update of", true},
		"an update of nothing":       {raw(http2.FrameWindowUpdate, 0, 0, 0, 0, 0, 0), "invalid window update", true},
		"a continuation of nothing":  {raw(http2.FrameContinuation, 4, 1), "continuation of nothing", true},
		"an interrupted block": {func(fr *http2.Framer, s uint32) bool {
			return raw(http2.FrameHeaders, 0, 1, 0x88)(fr, s) && fr.WritePing(false, [8]byte{}) == nil
		}, "interrupted", true},
		"a block that is no hpack":  {raw(http2.FrameHeaders, 4, 1, 0xff, 0xff, 0xff, 0xff), "cannot be read", true},
		"padding beyond the frame":  {raw(http2.FrameData, 8, 1, 200, 1), "padding", true},
		"padding beyond the header": {raw(http2.FrameHeaders, 0xc, 1, 200, 1), "padding", true},
		"a priority cut short":      {raw(http2.FrameHeaders, 0x24, 1, 1), "priority", true},
		"an endless block": {func(fr *http2.Framer, s uint32) bool {
			ok := raw(http2.FrameHeaders, 0, 1, 0x88)(fr, s)
			for ok {
				ok = raw(http2.FrameContinuation, 0, 1, make([]byte, 16_000)...)(fr, s)
			}
			return false
		}, "header block of more", true},
		"endless pings": {func(fr *http2.Framer, _ uint32) bool {
			for fr.WritePing(false, [8]byte{}) == nil { // and reads none of the answers
			}
			return false
		}, "too much asked", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options()
			o.MaxHeaderBytes = 8000
			c := pipe(t, o, serve(onRequest(tc.react)))
			_, err := do(t, c, "x")
			failed := new(Failure)
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
			if !failed.Began || !failed.Complete || failed.Unprocessed() {
				t.Errorf("got %+v", failed)
			}
			if killed := c.Err() != nil; killed != tc.kills {
				t.Errorf("the connection's error is %v", c.Err())
			}
		})
	}
}

// A peer that speaks first must say its settings.
func TestTheFirstFrame(t *testing.T) {
	t.Parallel()
	c := pipe(t, options(), func(fr *http2.Framer, nc net.Conn) {
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			_, _ = io.Copy(io.Discard, nc)
		}()
		_ = fr.WritePing(false, [8]byte{})
		<-drained
	})
	<-c.Ready()
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), "first frame") {
		t.Errorf("got %v", err)
	}
}

// Interim answers, padding, pieces of blocks and unknown frames are no obstacle.
func TestRareFrames(t *testing.T) {
	t.Parallel()
	c := pipe(t, options(), serve(onRequest(func(fr *http2.Framer, s uint32) bool {
		b := block(":status", "200", "content-type", "application/grpc", "x-a", "1", "x-a", "2")
		return headers(fr, s, false, ":status", "103", "link", "x") &&
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: s, BlockFragment: b[:3], PadLength: 9, Priority: http2.PriorityParam{Weight: 3}}) == nil &&
			fr.WriteContinuation(s, false, b[3:7]) == nil && fr.WriteContinuation(s, true, b[7:]) == nil &&
			fr.WriteRawFrame(0xee, 0xff, s, []byte("unknown")) == nil &&
			fr.WriteData(s, false, nil) == nil &&
			fr.WriteDataPadded(s, false, []byte{0, 0, 0}, make([]byte, 3)) == nil &&
			fr.WriteData(s, false, []byte{0, 2, 'h'}) == nil && fr.WriteData(s, false, []byte{'i'}) == nil &&
			headers(fr, s, true, "grpc-status", "5", "grpc-message", "m", "x-t", "3")
	})))
	got, err := do(t, c, "x")
	if err != nil || string(got.Message) != "hi" || got.Status != "5" || got.StatusMessage != "m" || got.Cut {
		t.Fatalf("got %+v, %v", got, err)
	}
	if fmt.Sprint(got.Header, got.Trailer) != "map[X-A:[1 2]] map[X-T:[3]]" {
		t.Errorf("got %v, %v", got.Header, got.Trailer)
	}
}

// A farewell lets what the peer took end well and gives back the rest.
func TestGoAway(t *testing.T) {
	t.Parallel()
	c := pipe(t, options(), serve(onRequest(func(fr *http2.Framer, s uint32) bool {
		if s == 1 {
			return true
		}
		return fr.WriteGoAway(1, http2.ErrCodeNo, nil) == nil && answer(fr, 1, "first")
	})))
	first := make(chan error, 1)
	go func() {
		got, err := do(t, c, "1")
		if err == nil && string(got.Message) != "first" {
			err = errors.New(string(got.Message))
		}
		first <- err
	}()
	testkit.Until(t, "the first call is on its way", func() bool { return c.InFlight() > 0 })
	_, err := do(t, c, "2")
	if failed := new(Failure); !errors.As(err, &failed) || !failed.Unprocessed() {
		t.Errorf("second: %v", err)
	}
	if err := <-first; err != nil {
		t.Errorf("first: %v", err)
	}
	if _, err := do(t, c, "3"); err == nil || c.Available() != 0 {
		t.Errorf("a third call went through, %v", err)
	}
}

// The clocks of a connection, without waiting for them.
func TestClocks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reads bool // the peer goes on reading
		tune  func(*ClientOptions)
		calls bool
		want  error
		after time.Duration
	}{
		"a peer that is silent":     {true, func(o *ClientOptions) { o.PingAfter, o.PingTimeout = time.Minute, 10*time.Second }, true, errSilent, 80 * time.Second},
		"a peer that reads no more": {false, func(o *ClientOptions) { o.WriteTimeout = 20 * time.Second }, true, errStuck, 31 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				over := make(chan struct{})
				go func() {
					defer func() { _ = far.Close() }()
					_, _ = io.ReadFull(far, make([]byte, len(http2.ClientPreface)))
					if tc.reads {
						serve(func(*http2.Framer, http2.Frame) bool { return true })(http2.NewFramer(far, far), far)
					}
					<-over
				}()
				o := options()
				tc.tune(&o)
				c := NewClient(near, o)
				began := time.Now()
				if tc.calls {
					if err := c.Do(t.Context(), call([]byte("x")), &Answer{}); !errors.Is(err, tc.want) {
						t.Errorf("got %v", err)
					}
				} else {
					<-c.closed
				}
				if took := time.Since(began); took > tc.after || !errors.Is(c.Err(), tc.want) {
					t.Errorf("after %v: %v", took, c.Err())
				}
				close(over)
			})
		})
	}
}

// A caller that gives up tells the peer, and asks whether that is still there.
func TestGivingUp(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 8)
	c := pipe(t, options(), serve(func(fr *http2.Framer, f http2.Frame) bool {
		switch f := f.(type) {
		case *http2.DataFrame:
			seen <- "request"
		case *http2.RSTStreamFrame:
			seen <- "reset " + f.ErrCode.String()
		case *http2.PingFrame:
			seen <- "ping"
			return fr.WritePing(true, f.Data) == nil
		}
		return true
	}))
	<-c.Ready()
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("enough")
	go func() {
		<-seen
		cancel(reason)
	}()
	err := c.Do(ctx, call(nil), &Answer{})
	if failed := new(Failure); !errors.As(err, &failed) || !errors.Is(err, reason) || !failed.Began || !failed.Complete {
		t.Errorf("got %v", err)
	}
	if a, b := <-seen, <-seen; a+b != "pingreset CANCEL" {
		t.Errorf("the peer saw %s, %s", a, b)
	}
	if c.InFlight() != 0 || c.Err() != nil {
		t.Errorf("%d in flight, %v", c.InFlight(), c.Err())
	}
}

// What the peer will not take is not sent.
func TestMetadataBeyondThePeersLimit(t *testing.T) {
	t.Parallel()
	c := pipe(t, options(), serve(onRequest(func(fr *http2.Framer, s uint32) bool { return answer(fr, s, "ok") }),
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: 2000}))
	<-c.Ready()
	req := call(nil)
	for size, want := range map[int]error{100: nil, 3000: ErrRequestHeader} {
		req.Metadata = http.Header{"X-Long": {strings.Repeat("x", size)}}
		err := c.Do(t.Context(), req, &Answer{})
		if !errors.Is(err, want) {
			t.Errorf("%d bytes: %v", size, err)
		}
		if failed := new(Failure); errors.As(err, &failed) && failed.Began {
			t.Errorf("%d bytes: it began", size)
		}
	}
}

func TestEncodeTimeout(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0n", -1: "0n", 1: "1n", 99_999_999: "99999999n", 100_000_000: "100000u", 30 * time.Second: "30000000u",
		100 * time.Second: "100000m", 30 * time.Hour: "108000S", 1 << 62: "76861433M",
	} {
		if got := encodeTimeout(d); got != want {
			t.Errorf("%d: got %s, want %s", d, got, want)
		}
	}
}
