// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// streaming is a backend that answers with a stream.
type streaming struct {
	bridge.NoBackend
	items [][]byte
	// pause goes before each item, and end is how the stream ends.
	pause time.Duration
	end   *errmap.Error
	// sent counts the items that were taken, ended is why none are any more.
	sent  int
	ended error
}

// Stream implements bridge.Upstream.
func (s *streaming) Stream(ctx context.Context, _ *catalog.Method, _ []byte, _ http.Header, each func([]byte) error) (*bridge.Answer, *errmap.Error) {
	for _, item := range s.items {
		select {
		case <-time.After(s.pause):
		case <-ctx.Done():
			s.ended = ctx.Err()
			return nil, untilDoneError(ctx)
		}
		if s.ended = each(item); s.ended != nil {
			return &bridge.Answer{}, errmap.Wrap(errmap.Cancelled, s.ended)
		}
		s.sent++
	}
	return &bridge.Answer{}, s.end
}

// untilDoneError is what an Upstream makes of a context that has ended.
func untilDoneError(ctx context.Context) *errmap.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errmap.Wrap(errmap.Timeout, ctx.Err())
	}
	return errmap.Wrap(errmap.Cancelled, ctx.Err())
}

// updates are n items of the demo's one streaming RPC.
func updates(t *testing.T, n int) [][]byte {
	t.Helper()
	out := make([][]byte, n)
	for i := range out {
		var err error
		out[i], err = proto.Marshal(&demov1.VehicleUpdate{Round: int32(i + 1), VehicleId: 9007199254740993})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func watching(t *testing.T, s *streaming, o bridge.Options) modernClient {
	t.Helper()
	return modernClient{t: t, bridge: dialect.New(bridge.New(mcptest.Memory(t), s, correlate.New(correlate.Options{}), o), dialect.Options{})}
}

const watch = `"name":"fleet_watch_vehicles"`

// A stream becomes one result, which says where it is only the beginning of what
// there was; the rest is not waited for.
func TestAStreamIsGatheredUpToItsBounds(t *testing.T) {
	t.Parallel()
	item := func(i int) string { return fmt.Sprintf(`{"round":%d,"vehicleId":"9007199254740993"`, i) }
	whole := watching(t, &streaming{items: updates(t, 3)}, bridge.Options{}).send("tools/call", watch)
	size := len(whole.Result["structuredContent"])
	for _, tc := range []struct {
		name          string
		items         int
		maxItems, max int
		want          int
		truncated     bool
	}{
		{"nothing", 0, 0, 0, 0, false},
		{"a few", 3, 0, 0, 3, false},
		{"as many as are admitted", 3, 3, 0, 3, false},
		{"one more", 4, 3, 0, 3, true},
		{"many more", 1000, 3, 0, 3, true},
		{"as many bytes as are admitted", 3, 0, size, 3, false},
		{"one byte fewer", 3, 0, size - 1, 2, true},
		{"no room for anything", 3, 0, 1, 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := &streaming{items: updates(t, tc.items)}
			got := watching(t, s, bridge.Options{MaxItems: tc.maxItems, MaxResult: tc.max}).send("tools/call", watch)
			if tc.max == 1 {
				if got.toolError() != "RESOURCE_EXHAUSTED" {
					t.Errorf("not even an empty result has room: %s", got.raw)
				}
				return
			}
			content := string(got.Result["structuredContent"])
			if n := strings.Count(content, `"round"`); n != tc.want || !strings.HasSuffix(content, fmt.Sprintf(`],"truncated":%v}`, tc.truncated)) {
				t.Errorf("got %s, want %d items", content, tc.want)
			}
			for i := 1; i <= tc.want; i++ {
				if !strings.Contains(content, item(i)) {
					t.Errorf("item %d is missing, or lost digits: %s", i, content)
				}
			}
			if isPart := strings.Contains(got.raw, `"dev.outrigger/result":{"status":"partial_success"}`); isPart != tc.truncated {
				t.Errorf("the status: %s", got.raw)
			}
			if string(got.Result["isError"]) != "false" || got.text("resultType") != "complete" {
				t.Errorf("got %s", got.raw)
			}
			if (s.ended != nil) != tc.truncated || s.sent != tc.want {
				t.Errorf("the backend sent %d and ended with %v", s.sent, s.ended)
			}
		})
	}
}

// What goes wrong in mid-stream is no result, however much there was of it.
func TestAStreamThatFailsIsNoResult(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		s    *streaming
		want string
	}{
		{"the backend fails", &streaming{items: updates(t, 2), end: errmap.Wrap(errmap.TransportError, errors.New("gone"))}, "TRANSPORT_ERROR"},
		{"an item is no message", &streaming{items: append(updates(t, 2), []byte{0x0a, 0x05})}, "SERIALIZATION_ERROR"},
	} {
		got := watching(t, tc.s, bridge.Options{}).send("tools/call", watch)
		if got.toolError() != tc.want || got.Result["structuredContent"] != nil {
			t.Errorf("%s: got %s, want %s", tc.name, got.raw, tc.want)
		}
	}
}

// A person sees a stream move, and a busy one does not drown its caller.
func TestAStreamReportsItsProgressNowAndThen(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	items := updates(t, 250)
	for _, tc := range []struct {
		pause time.Duration
		want  int
	}{
		{0, 1},                        // all of them within one moment
		{10 * time.Millisecond, 25},   // one in ten
		{100 * time.Millisecond, 250}, // each of them
		{1100 * time.Millisecond, 26}, // until the stream time of a call, 29 s
	} {
		synctest.Test(t, func(t *testing.T) {
			var heard []string
			c := modernClient{
				t: t, bridge: dialect.New(bridge.New(live, &streaming{items: items, pause: tc.pause}, correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{}),
				heard: func(message string) { heard = append(heard, message) },
			}
			got := c.sendRaw(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + watch + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":"p"}}}`)
			if isPart := strings.Contains(got.raw, `"truncated":true`); got.toolError() != "" || isPart != (tc.want == 26) {
				t.Errorf("every %v: it ended with %.300s", tc.pause, got.raw)
			}
			if len(heard) != tc.want {
				t.Errorf("every %v: %d reports, want %d", tc.pause, len(heard), tc.want)
			}
			for _, message := range heard {
				if !strings.HasPrefix(message, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":`) || !strings.Contains(message, " items so far") {
					t.Errorf("got %s", message)
				}
			}
		})
	}
}

// A stream that watches something never ends. What came in the stream time is a
// result, which says that it is incomplete, and the backend's call ends.
func TestAStreamThatDoesNotEndIsAResult(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	items := updates(t, 9000)
	for _, tc := range []struct {
		name           string
		timeout, pause time.Duration
		want           int
		took           time.Duration
	}{
		{"the default deadline", 0, 10 * time.Second, 2, 29 * time.Second},
		{"nothing came", 0, time.Hour, 0, 29 * time.Second},
		{"a short deadline", time.Second, 200 * time.Millisecond, 2, 500 * time.Millisecond},
		{"a deadline of three seconds", 3 * time.Second, 900 * time.Millisecond, 2, 2 * time.Second},
	} {
		for _, spoken := range []dialect.Dialect{dialect.Canonical, dialect.Modern, dialect.Legacy} {
			t.Run(tc.name+" "+spoken.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := &streaming{items: items, pause: tc.pause}
					b := dialect.New(bridge.New(live, s, correlate.New(correlate.Options{}), bridge.Options{Timeout: tc.timeout}), dialect.Options{})
					start := time.Now()
					got := answer(t, b, spoken, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{`+watch+`,`+modernMeta+`}}`)
					if got.code() != "" || got.Result == nil || got.Result.IsError || time.Since(start) != tc.took {
						t.Fatalf("got %+v after %v", got, time.Since(start))
					}
					content := string(got.Result.StructuredContent)
					if n := strings.Count(content, `"round"`); n != tc.want || !strings.HasSuffix(content, `],"truncated":true}`) {
						t.Errorf("got %s, want %d items", content, tc.want)
					}
					said := fmt.Sprintf("This result is incomplete: the stream did not end within %v. It has the first %d messages.", tc.took, tc.want)
					if c := got.Result.Content; len(c) != 2 || c[0].Text != content || c[1].Text != said {
						t.Errorf("content %+v, want %q", c, said)
					}
					if !errors.Is(s.ended, context.Canceled) {
						t.Errorf("the backend's call ended with %v", s.ended)
					}
				})
			})
		}
	}
}

// The message form says so in its explanation.
func TestAnIncompleteStreamInTheMessageForm(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		b := dialect.New(bridge.New(live, &streaming{items: updates(t, 100), pause: 10 * time.Second}, correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
		reply := b.HandleMessage(t.Context(), inbound(t, 1, dialect.Canonical,
			`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"tool_name":"fleet.watch_vehicles","arguments":{}}}`))
		if got := string(reply.Bytes()); !containsAll(got, `"status":"partial_success"`, `"truncated":true`, `"explanation":"This result is incomplete: the stream did not end within 29s. It has the first 2 messages."`) {
			t.Errorf("got %s", got)
		}
	})
}

// An error of the backend that comes first is no result.
func TestAStreamThatFailsBeforeItsTimeIsNoResult(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		s := &streaming{items: updates(t, 2), pause: time.Second, end: errmap.Wrap(errmap.Unavailable, errors.New("gone"))}
		b := dialect.New(bridge.New(live, s, correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
		got := answer(t, b, dialect.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{`+watch+`}}`)
		if got.code() != errmap.Unavailable {
			t.Errorf("got %+v", got)
		}
	})
}

// What a tool or an overlay declares is shorter than the default, never longer.
func TestTheStreamTimeOfATool(t *testing.T) {
	t.Parallel()
	for declared, want := range map[time.Duration]time.Duration{5 * time.Second: 5 * time.Second, time.Hour: 29 * time.Second} {
		loaded := catalog.NewLive([]source.Source{mcptest.Source()}, catalog.LiveOptions{Build: catalog.BuildOptions{
			Overlay: []catalog.Override{{Match: "outrigger.demo.v1.Fleet/WatchVehicles", Options: &configv1.ToolOptions{StreamTime: durationpb.New(declared)}}},
		}})
		if err := loaded.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		items := updates(t, 100)
		synctest.Test(t, func(t *testing.T) {
			b := dialect.New(bridge.New(loaded, &streaming{items: items, pause: time.Second}, correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
			start := time.Now()
			got := answer(t, b, dialect.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{`+watch+`}}`)
			if got.code() != "" || time.Since(start) != want || !strings.Contains(string(got.Result.StructuredContent), `"truncated":true`) {
				t.Errorf("stream_time %v: %+v after %v", declared, got, time.Since(start))
			}
		})
	}
}
