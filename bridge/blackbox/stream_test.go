// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// streaming is a backend that answers with a stream.
type streaming struct {
	items [][]byte
	// pause goes before each item, and end is how the stream ends.
	pause time.Duration
	end   *errmap.Error
	// sent counts the items that were taken, ended is why none are any more.
	sent  int
	ended error
}

// backend is the same as the backend of a sidecar.
func (s *streaming) backend() mcptest.Streaming { return s.stream }

func (s *streaming) stream(ctx context.Context, each func([]byte) error) *errmap.Error {
	for _, item := range s.items {
		select {
		case <-time.After(s.pause):
		case <-ctx.Done():
			s.ended = ctx.Err()
			return untilDoneError(ctx)
		}
		if s.ended = each(item); s.ended != nil {
			return errmap.Wrap(errmap.Cancelled, s.ended)
		}
		s.sent++
	}
	return s.end
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

func watching(t *testing.T, s *streaming, configure func(*configv1.Config)) modernClient {
	t.Helper()
	return modernClient{t: t, bridge: mcptest.Pipe(t, mcptest.Parts{Backend: s.backend(), Configure: configure})}
}

const watch = `"name":"fleet_watch_vehicles"`

// A stream becomes one result, which says where it is only the beginning of what
// there was; the rest is not waited for.
func TestAStreamIsGatheredUpToItsBounds(t *testing.T) {
	t.Parallel()
	item := func(i int) string { return fmt.Sprintf(`{"round":%d,"vehicleId":"9007199254740993"`, i) }
	whole := watching(t, &streaming{items: updates(t, 3)}, nil).send("tools/call", watch)
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
			got := watching(t, s, both(resultItems(tc.maxItems), resultBytes(tc.max))).send("tools/call", watch)
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
		got := watching(t, tc.s, nil).send("tools/call", watch)
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
				t: t, bridge: mcptest.Pipe(t, mcptest.Parts{Tools: live, Backend: (&streaming{items: items, pause: tc.pause}).backend()}),
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
		for _, spoken := range []mcptest.Dialect{mcptest.Canonical, mcptest.Modern, mcptest.Legacy} {
			t.Run(tc.name+" "+spoken.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := &streaming{items: items, pause: tc.pause}
					b := mcptest.Pipe(t, mcptest.Parts{Tools: live, Backend: s.backend(), Configure: within(tc.timeout)})
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
		b := mcptest.Pipe(t, mcptest.Parts{Tools: live, Backend: (&streaming{items: updates(t, 100), pause: 10 * time.Second}).backend()})
		reply := b.Send(t.Context(), inbound(1, mcptest.Canonical,
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
		b := mcptest.Pipe(t, mcptest.Parts{Tools: live, Backend: s.backend()})
		got := answer(t, b, mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{`+watch+`}}`)
		if got.code() != errmap.Unavailable {
			t.Errorf("got %+v", got)
		}
	})
}

// What a tool or an overlay declares is shorter than the default, never longer.
func TestTheStreamTimeOfATool(t *testing.T) {
	t.Parallel()
	for declared, want := range map[time.Duration]time.Duration{5 * time.Second: 5 * time.Second, time.Hour: 29 * time.Second} {
		items := updates(t, 100)
		synctest.Test(t, func(t *testing.T) {
			b := mcptest.Pipe(t, mcptest.Parts{From: mcptest.Source(), Configure: overlaid("outrigger.demo.v1.Fleet/WatchVehicles", &configv1.ToolOptions{StreamTime: durationpb.New(declared)}), Backend: (&streaming{items: items, pause: time.Second}).backend()})
			start := time.Now()
			got := answer(t, b, mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{`+watch+`}}`)
			if got.code() != "" || time.Since(start) != want || !strings.Contains(string(got.Result.StructuredContent), `"truncated":true`) {
				t.Errorf("stream_time %v: %+v after %v", declared, got, time.Since(start))
			}
		})
	}
}

// What a stream sent before it failed is in the answer beside the error, marked incomplete, within the budget and without the
// fields that were not asked for; of a stream that sent nothing, the error is all there is.
func TestWhatAStreamSentBeforeItFailed(t *testing.T) {
	t.Parallel()
	item := func(i int) string { return fmt.Sprintf(`{\"round\":%d,\"vehicleId\":\"9007199254740993\"`, i) }
	const through = `"name":"catalog_call","arguments":{"name":"fleet_watch_vehicles","fields":"items.round"}`
	for name, tc := range map[string]struct {
		spoken mcptest.Dialect
		params string
		code   errmap.Code
		sent   int
		budget int
		has    []string
		hasNot []string
	}{
		"modern":                 {mcptest.Modern, watch, errmap.Unavailable, 2, 0, []string{`"isError":true`, "which is incomplete: ", item(2), `],\"truncated\":true}"`}, []string{`"structuredContent"`, item(3)}},
		"legacy":                 {mcptest.Legacy, watch, errmap.Unavailable, 2, 0, []string{`"isError":true`, "which is incomplete: ", item(2), `],\"truncated\":true}"`}, nil},
		"modern, by the catalog": {mcptest.Modern, through, errmap.Unavailable, 2, 0, []string{`{\"items\":[{\"round\":1},{\"round\":2}],\"truncated\":true}`}, []string{"vehicleId"}},
		"modern, a budget":       {mcptest.Modern, watch, errmap.Unavailable, 300, 2000, []string{item(1), `],\"truncated\":true}"`}, []string{item(100)}},
		"modern, nothing sent":   {mcptest.Modern, watch, errmap.Unavailable, 0, 0, []string{`"isError":true`}, []string{"incomplete"}},
		"canonical":              {mcptest.Canonical, `"name":"fleet.watch_vehicles"`, errmap.Unavailable, 2, 0, []string{`"error":{"code":`, `"partial":{"items":[{"round":1,`, `],"truncated":true}`}, nil},
		"canonical, the backend's own failure": {mcptest.Canonical, `"name":"fleet.watch_vehicles"`, errmap.ToolExecutionFailed, 2, 0,
			[]string{`"isError":true`, "which is incomplete: ", item(2)}, nil},
		"canonical, message form": {mcptest.Canonical, `"tool_name":"fleet.watch_vehicles","arguments":{}`, errmap.Unavailable, 1, 0,
			[]string{`"status":"failure","data":{"items":[{"round":1,`, `],"truncated":true},"error":{`}, nil},
		"canonical, nothing sent": {mcptest.Canonical, `"tool_name":"fleet.watch_vehicles","arguments":{}`, errmap.Unavailable, 0, 0, []string{`"status":"failure","data":null`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &streaming{items: updates(t, tc.sent), end: errmap.Wrap(tc.code, errors.New("gone"))}
			b := mcptest.Pipe(t, mcptest.Parts{Backend: s.backend(), Configure: both(budgetOf(int64(tc.budget)), compacted)})
			meta := ""
			if tc.spoken == mcptest.Modern {
				meta = "," + modernMeta
			}
			reply := b.Send(t.Context(), inbound(1, tc.spoken, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{`+tc.params+meta+`}}`))
			got := string(reply.Bytes())
			for _, want := range append(tc.has, string(tc.code)) {
				if !strings.Contains(got, want) {
					t.Errorf("no %s in %s", want, got)
				}
			}
			for _, not := range tc.hasNot {
				if strings.Contains(got, not) {
					t.Errorf("%s in %s", not, got)
				}
			}
			if most := tc.budget; most > 0 && len(got) > 2*most {
				t.Errorf("%d bytes with a budget of %d", len(got), most)
			}
		})
	}
}

// A caller can ask for less of an endless stream, in _meta or as an argument of catalog.call, and not for more than the tool allows.
func TestLessOfAnEndlessStream(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	for name, tc := range map[string]struct {
		params, meta string
		took         time.Duration
	}{
		"as long as it may be": {watch, "", 29 * time.Second},
		"by _meta":             {watch, `,"dev.outrigger/stream-time":"2.5s"`, 2500 * time.Millisecond},
		"by the catalog":       {`"name":"catalog_call","arguments":{"name":"fleet_watch_vehicles","stream_time":"5s"}`, "", 5 * time.Second},
		"more than it may be":  {watch, `,"dev.outrigger/stream-time":"3600s"`, 29 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := mcptest.Pipe(t, mcptest.Parts{Tools: live, Backend: (&streaming{items: updates(t, 1000), pause: time.Second}).backend(), Configure: compacted})
				start := time.Now()
				got := answer(t, b, mcptest.Modern, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{`+tc.params+`,`+strings.TrimSuffix(modernMeta, "}")+tc.meta+`}}}`)
				if got.Result == nil || got.Result.IsError || time.Since(start) != tc.took {
					t.Fatalf("got %+v after %v, want %v", got, time.Since(start), tc.took)
				}
				if !strings.HasSuffix(string(got.Result.StructuredContent), `],"truncated":true}`) {
					t.Errorf("not marked incomplete: %s", got.Result.StructuredContent)
				}
			})
		})
	}
}
