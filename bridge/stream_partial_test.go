// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/compact"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// What a stream sent before it failed is in the answer beside the error, marked incomplete, within the budget and without the
// fields that were not asked for; of a stream that sent nothing, the error is all there is.
func TestWhatAStreamSentBeforeItFailed(t *testing.T) {
	t.Parallel()
	item := func(i int) string { return fmt.Sprintf(`{\"round\":%d,\"vehicleId\":\"9007199254740993\"`, i) }
	const through = `"name":"catalog_call","arguments":{"name":"fleet_watch_vehicles","fields":"items.round"}`
	for name, tc := range map[string]struct {
		spoken dialect.Dialect
		params string
		code   errmap.Code
		sent   int
		budget int
		has    []string
		hasNot []string
	}{
		"modern":                 {dialect.Modern, watch, errmap.Unavailable, 2, 0, []string{`"isError":true`, "which is incomplete: ", item(2), `],\"truncated\":true}"`}, []string{`"structuredContent"`, item(3)}},
		"legacy":                 {dialect.Legacy, watch, errmap.Unavailable, 2, 0, []string{`"isError":true`, "which is incomplete: ", item(2), `],\"truncated\":true}"`}, nil},
		"modern, by the catalog": {dialect.Modern, through, errmap.Unavailable, 2, 0, []string{`{\"items\":[{\"round\":1},{\"round\":2}],\"truncated\":true}`}, []string{"vehicleId"}},
		"modern, a budget":       {dialect.Modern, watch, errmap.Unavailable, 300, 2000, []string{item(1), `],\"truncated\":true}"`}, []string{item(100)}},
		"modern, nothing sent":   {dialect.Modern, watch, errmap.Unavailable, 0, 0, []string{`"isError":true`}, []string{"incomplete"}},
		"canonical":              {dialect.Canonical, `"name":"fleet.watch_vehicles"`, errmap.Unavailable, 2, 0, []string{`"error":{"code":`, `"partial":{"items":[{"round":1,`, `],"truncated":true}`}, nil},
		"canonical, the backend's own failure": {dialect.Canonical, `"name":"fleet.watch_vehicles"`, errmap.ToolExecutionFailed, 2, 0,
			[]string{`"isError":true`, "which is incomplete: ", item(2)}, nil},
		"canonical, message form": {dialect.Canonical, `"tool_name":"fleet.watch_vehicles","arguments":{}`, errmap.Unavailable, 1, 0,
			[]string{`"status":"failure","data":{"items":[{"round":1,`, `],"truncated":true},"error":{`}, nil},
		"canonical, nothing sent": {dialect.Canonical, `"tool_name":"fleet.watch_vehicles","arguments":{}`, errmap.Unavailable, 0, 0, []string{`"status":"failure","data":null`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &streaming{items: updates(t, tc.sent), end: errmap.Wrap(tc.code, errors.New("gone"))}
			b := dialect.New(bridge.New(mcptest.Memory(t), s, correlate.New(correlate.Options{}), bridge.Options{
				ResultBudget: tc.budget, Compact: compact.Options{Mode: compact.Always},
			}), dialect.Options{})
			meta := ""
			if tc.spoken == dialect.Modern {
				meta = "," + modernMeta
			}
			reply := b.HandleMessage(t.Context(), inbound(t, 1, tc.spoken, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{`+tc.params+meta+`}}`))
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
				b := dialect.New(bridge.New(live, &streaming{items: updates(t, 1000), pause: time.Second}, correlate.New(correlate.Options{}), bridge.Options{
					Compact: compact.Options{Mode: compact.Always},
				}), dialect.Options{})
				start := time.Now()
				got := answer(t, b, dialect.Modern, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{`+tc.params+`,`+strings.TrimSuffix(modernMeta, "}")+tc.meta+`}}}`)
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
