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

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
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

// Stream implements bridge.Caller.
func (s *streaming) Stream(ctx context.Context, _ *catalog.Method, _ []byte, _ http.Header, each func([]byte) error) (*bridge.Answer, *errmap.Error) {
	for _, item := range s.items {
		select {
		case <-time.After(s.pause):
		case <-ctx.Done():
			return nil, errmap.Wrap(errmap.Timeout, ctx.Err())
		}
		if s.ended = each(item); s.ended != nil {
			return &bridge.Answer{}, errmap.Wrap(errmap.Cancelled, s.ended)
		}
		s.sent++
	}
	return &bridge.Answer{}, s.end
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
	return modernClient{t: t, bridge: bridge.New(mcptest.Memory(t), s, correlate.New(correlate.Options{}), o)}
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
		{1100 * time.Millisecond, 27}, // until the deadline of a call
	} {
		synctest.Test(t, func(t *testing.T) {
			var heard []string
			c := modernClient{
				t: t, bridge: bridge.New(live, &streaming{items: items, pause: tc.pause}, correlate.New(correlate.Options{}), bridge.Options{}),
				heard: func(message string) { heard = append(heard, message) },
			}
			got := c.sendRaw(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + watch + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":"p"}}}`)
			if isOver := got.toolError() == "TIMEOUT"; isOver != (tc.want == 27) {
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
