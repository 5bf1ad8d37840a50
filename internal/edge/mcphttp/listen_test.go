// SPDX-License-Identifier: Apache-2.0

package mcphttp_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// listen is a request for changes.
func listen(id, filter string) (string, []string) {
	body := strings.Replace(request("subscriptions/listen", `"notifications":`+filter+`,`+meta), `"id":0`, `"id":`+id, 1)
	return body, modern("subscriptions/listen")
}

// Every message of a subscription carries its id with the type that it came
// with; ids of other connections, the same or not, have nothing to do with it.
func TestASubscriptionIsTaggedWithItsIDAsItCame(t *testing.T) {
	t.Parallel()
	rig, url := desk(t, mcphttp.Options{})
	ids := []string{`0`, `7`, `"7"`, `7`, `-1`, `9007199254740993`, `"listen:0"`, `""`, `"\u00e9\/"`}
	streams := make([]*events, len(ids))
	for i, id := range ids {
		body, headers := listen(id, `{"promptsListChanged":true}`)
		streams[i] = open(t, 1+i%2, url, body, headers...)
		streams[i].want(`"method":"notifications/subscriptions/acknowledged","params":{"notifications":{"promptsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}`)
	}
	if err := rig.Native.Announce(t.Context(), &outriggerv1.Notification{Method: "notifications/prompts/list_changed"}); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		streams[i].want(`"method":"notifications/prompts/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}`)
	}
	rig.Bridge.Offers().Feed().Close()
	for i, id := range ids {
		streams[i].want(`"id":` + id + `,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `,`)
		streams[i].end()
	}
	idle(t, rig.Bridge)
}

// Nothing is sent that was not asked for, and what was asked for is sent from
// the acknowledgement on.
func TestASubscriptionHearsWhatItAskedForAndNothingElse(t *testing.T) {
	t.Parallel()
	rig, url := desk(t, mcphttp.Options{})
	kinds := map[string]notify.Change{
		`"toolsListChanged":true`:                                           {Kind: notify.ToolsListChanged},
		`"promptsListChanged":true`:                                         {Kind: notify.PromptsListChanged},
		`"resourcesListChanged":true`:                                       {Kind: notify.ResourcesListChanged},
		`"resourceSubscriptions":["desk://notes"],"toolsListChanged":false`: {Kind: notify.ResourceUpdated, URI: "desk://notes/1"},
		``: {Kind: notify.ResourceUpdated, URI: "desk://elsewhere"},
	}
	streams := map[string]*events{}
	for filter := range kinds {
		body, headers := listen(`1`, `{`+filter+`}`)
		streams[filter] = open(t, 1, url, body, headers...)
		streams[filter].want("acknowledged")
	}
	for _, change := range kinds {
		if err := rig.Bridge.Offers().Feed().Publish(change); err != nil {
			t.Fatal(err)
		}
	}
	rig.Bridge.Offers().Feed().Close() // what is pending is still sent
	for filter, change := range kinds {
		method := map[notify.Kind]string{
			notify.ToolsListChanged: "tools/list_changed", notify.PromptsListChanged: "prompts/list_changed",
			notify.ResourcesListChanged: "resources/list_changed", notify.ResourceUpdated: `resources/updated","params":{"uri":"desk://notes/1"`,
		}[change.Kind]
		if filter != "" {
			streams[filter].want(method)
		}
		streams[filter].want(`"result"`)
		streams[filter].end()
	}
}

// The TypeScript client ends a subscription by leaving its stream and posting a
// cancellation that lacks a header. A server that refuses the latter makes it
// believe that it speaks to another era.
func TestASubscriptionIsLeftAsTheTypeScriptClientDoesIt(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP/%d", version), func(t *testing.T) {
			t.Parallel()
			rig, url := desk(t, mcphttp.Options{})
			body, headers := listen(`"listen:0"`, `{"toolsListChanged":true}`)
			e := open(t, version, url, body, headers...)
			e.want("acknowledged")
			cancelled := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"listen:0","reason":"closed",` + meta + `}}`
			if got := post(t, url, cancelled, "MCP-Protocol-Version: 2026-07-28"); got.status != 202 || got.body != "" {
				t.Errorf("the cancellation: %d %q", got.status, got.body)
			}
			e.hangUp()
			idle(t, rig.Bridge)
			testkit.Until(t, "the subscription ends", func() bool { return rig.Bridge.Offers().Feed().Stats().Subscribers == 0 })
		})
	}
}

// Sessions and event ids belong to other eras. A server that looks at them
// refuses clients that drag them along from there.
func TestSessionAndEventIDsDoNotMatterToAModernStream(t *testing.T) {
	t.Parallel()
	rig, url := desk(t, mcphttp.Options{})
	drag := []string{"Mcp-Session-Id: gone", "Last-Event-ID: 41"}
	body, headers := reporting("sort")
	e := open(t, 1, url, body, append(headers, drag...)...)
	e.want(`"progress":1,`, `"level":"debug"`, `"progress":4,`, `"level":"warning"`, `"progress":10,`, `"result"`)
	e.end()
	body, headers = listen(`1`, `{"toolsListChanged":true}`)
	l := open(t, 1, url, body, append(headers, drag...)...)
	l.want("acknowledged")
	rig.Bridge.Offers().Feed().Close()
	l.want(`"result"`)
	l.end()
	for _, got := range []*events{e, l} { // events have no ids either: see next
		if got.resp.Header.Get("Mcp-Session-Id") != "" {
			t.Errorf("a session was echoed: %v", got.resp.Header)
		}
	}
}

// Callers of two connections never meet, whatever ids they use: each hears of
// its own progress.
func TestOneIDOnTwoConnectionsIsTwoRequests(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	held := tool("hold", func(ctx context.Context, call *outriggerv1.ToolCall, send func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
		if err := send(progressOf(call)); err != nil {
			return nil, err
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return success(call), ctx.Err()
	})
	_, url := desk(t, mcphttp.Options{}, held)
	tokens := []string{`1`, `"1"`, `9007199254740993`, `0`, `""`, `-18446744073709551616`}
	streams := make([]*events, len(tokens))
	for i, token := range tokens {
		body := request("tools/call", `"name":"hold",`+metaOf(`{}`, `,"progressToken":`+token))
		streams[i] = open(t, 1+i%2, url, body, modern("tools/call", "Mcp-Name: hold")...)
		streams[i].want(`"progressToken":` + token + `,`)
	}
	close(release)
	for i, token := range tokens {
		streams[i].want(`"structuredContent":{"token":` + token + `}`)
		streams[i].end()
	}
}
