// SPDX-License-Identifier: Apache-2.0

package mcphttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// cancellation is a notification that cancels a request.
func cancellation(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"bored"}}`
}

// TestCancellationByNotification is an open scenario of the official suite for legacy revisions (conformance#450): what matches
// nothing harms nothing, a call in progress ends at the backend and is not answered, and a burst of cancellations is taken.
func TestCancellationByNotification(t *testing.T) {
	t.Parallel()
	for _, revision := range revisions() {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			steps := newSteps("steps")
			_, url := office(t, officeOptions{more: []mcptest.NativeTool{steps.tool()}})
			c := openWith(t, url, revision, `{}`)
			cancel := func(id string) {
				t.Helper()
				if got := c.post(cancellation(id)); got.status != http.StatusAccepted || got.body != "" {
					t.Errorf("a cancellation of %s: %d %s", id, got.status, got.body)
				}
			}
			alive := func(after string) {
				t.Helper()
				if got := c.post(request("ping", "")); got.status != http.StatusOK || string(got.Result) != "{}" {
					t.Fatalf("after %s: %d %s", after, got.status, got.body)
				}
			}
			for _, id := range []string{`"none"`, `4711`, `null`, `{}`} {
				cancel(id)
			}
			alive("cancellations that match nothing")

			stream := c.begin(http.MethodPost, toolCall(`"7"`, "steps", wantsProgress))
			<-steps.entered
			steps.step <- mcptest.Progress(1, "")
			begun := stream.stream()
			if revision == rev11 {
				begun.greeting()
			}
			begun.method("notifications/progress")
			cancel(`7`) // another type is another id
			cancel(`"7"`)
			if err := <-steps.ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the call ended with %v", err)
			}
			begun.ended()
			cancel(`"7"`) // it crossed the end
			alive("a cancellation of a call in progress")

			for i := range 50 {
				cancel(fmt.Sprint(1000 + i))
			}
			alive("a burst of cancellations")
		})
	}
}

// TestProgressOfACall is the other open scenario (conformance#450), in every era: each report is above the one before it,
// carries the token with its type, and comes before the answer; without a token there are none.
func TestProgressOfACall(t *testing.T) {
	t.Parallel()
	const name = "uneven"
	reports := []float64{1, 1, 3, 2, 3.5, 3.5, 10}
	uneven := tool(name, unevenRun(reports))
	uneven.Late = []*outriggerv1.ToolEvent{mcptest.Progress(99, "late")}
	_, modernURL := desk(t, mcphttp.Options{}, uneven)
	for _, token := range []string{`"p"`, `7`, `"7"`, `-3`, `""`} {
		e := open(t, 1, modernURL, request("tools/call", `"name":"`+name+`",`+metaOf(`{}`, `,"progressToken":`+token)), modern("tools/call", "Mcp-Name: "+name)...)
		for _, want := range []string{"1", "3", "3.5", "10"} {
			e.want(`"params":{"progressToken":` + token + `,"progress":` + want)
		}
		e.want(`"result":{`)
		e.end()
	}
	silent := post(t, modernURL, request("tools/call", `"name":"`+name+`",`+meta), modern("tools/call", "Mcp-Name: "+name)...)
	if silent.header.Get("Content-Type") != "application/json" || silent.Result == nil {
		t.Errorf("without a token: %v %s", silent.header, silent.body)
	}

	_, url := office(t, officeOptions{more: []mcptest.NativeTool{uneven}})
	for _, revision := range revisions() {
		c := openWith(t, url, revision, `{}`)
		stream := c.stream(http.MethodPost, toolCall("1", name, `"_meta":{"progressToken":7}`))
		if revision == rev11 {
			stream.greeting()
		}
		for _, want := range []string{"1", "3", "3.5", "10"} {
			m := stream.method("notifications/progress")
			got, _ := jsontext.Lookup(m.Params, "progress")
			token, _ := jsontext.Lookup(m.Params, "progressToken")
			if string(got) != want || string(token) != "7" {
				t.Errorf("%s: %s", revision, m.Params)
			}
		}
		stream.result("uneven")
		stream.ended()
		if got := c.post(toolCall("2", name)); got.header.Get("Content-Type") != "application/json" || got.Result == nil {
			t.Errorf("%s, without a token: %v %s", revision, got.header, got.body)
		}
	}
}

// TestBatchesAreRefused is an open scenario of the official suite for 2025-06-18 and later (conformance#381): an array is refused with 4xx and
// one error, on a session and without one, whatever its entries are, and nothing of it runs. The session goes on.
func TestBatchesAreRefused(t *testing.T) {
	t.Parallel()
	calls := atomic.Int64{}
	counted := tool("counted", func(context.Context, *outriggerv1.ToolCall, func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
		calls.Add(1)
		return mcptest.Success("", mcptest.TextBlock("counted")), nil
	})
	batches := []string{
		"[" + request("ping", "") + "," + request("ping", "") + "]", "[" + toolCall("1", "counted") + "]", `[]`,
		`[{"jsonrpc":"2.0","method":"notifications/initialized"}]`, ` [` + toolCall("1", "counted") + `,` + cancellation("1") + `]`,
	}
	refused := func(about string, got answer) {
		t.Helper()
		if got.status < 400 || got.status > 499 || got.Error == nil || got.Result != nil || strings.HasPrefix(got.body, "[") {
			t.Errorf("%s: %d %s", about, got.status, got.body)
		}
	}
	_, url := office(t, officeOptions{more: []mcptest.NativeTool{counted}})
	for _, revision := range revisions() {
		if revision == rev03 {
			continue // which must take them: TestBatches
		}
		c := openWith(t, url, revision, `{}`)
		for _, batch := range batches {
			refused(revision+" "+batch, c.post(batch))
		}
		if got := c.post(request("ping", "")); got.status != http.StatusOK || string(got.Result) != "{}" {
			t.Errorf("%s, after the batches: %d %s", revision, got.status, got.body)
		}
	}
	_, modernURL := desk(t, mcphttp.Options{}, counted)
	for _, batch := range append(batches, "["+request("server/discover", meta)+","+request("tools/list", meta)+"]", "["+request("tools/call", `"name":"counted",`+meta)+"]") {
		refused("modern "+batch, post(t, modernURL, batch, modern("server/discover")...))
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("%d calls of a batch ran", n)
	}
}

// TestATokenOverItsLimitSaysSo: a progressToken of a type that fits is not refused for its type.
func TestATokenOverItsLimitSaysSo(t *testing.T) {
	t.Parallel()
	url := edge(t)
	for _, tc := range []struct{ token, want string }{
		{`"` + strings.Repeat("x", 1025) + `"`, "progressToken has more than 1024 bytes"},
		{strings.Repeat("1", 1025), "progressToken has more than 1024 bytes"},
		{`1.5`, "want a string or an integer"},
		{`[]`, "progressToken is an array, want a string or an integer"},
	} {
		for _, headers := range [][]string{modern("tools/call", "Mcp-Name: lab_echo"), nil} {
			params := `"name":"lab_echo","_meta":{"progressToken":` + tc.token + `}`
			if headers != nil {
				params = `"name":"lab_echo",` + metaOf(`{}`, `,"progressToken":`+tc.token)
			}
			if got := post(t, url, request("tools/call", params), headers...); got.errorCode() != -32602 || !strings.Contains(got.Error.Message, tc.want) {
				t.Errorf("%.20s: %d %.300s, want %s", tc.token, got.status, got.body, tc.want)
			}
		}
	}
}

// unevenRun reports progress that does not always rise.
func unevenRun(reports []float64) run {
	return func(_ context.Context, _ *outriggerv1.ToolCall, send func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
		for _, at := range reports {
			if err := send(mcptest.Progress(at, "")); err != nil {
				return nil, err
			}
		}
		return mcptest.Success("", mcptest.TextBlock("uneven")), nil
	}
}
