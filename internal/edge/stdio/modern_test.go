// SPDX-License-Identifier: Apache-2.0

package stdio_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/notify"
)

// modern is a request of MCP 2026-07-28; more goes into its _meta.
func modern(id, method, params, more string) string {
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + strings.TrimSuffix(meta, "}") + more + `}}}`
}

// listen is a request for changes of the tools.
func listen(id string) string {
	return modern(id, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, "")
}

func cancel(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
}

// want takes lines that hold these texts, in this order.
func (p *peer) want(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		if got := p.line(); !strings.Contains(got, text) {
			p.t.Fatalf("got %s, want a line with %s", got, text)
		}
	}
}

func acknowledged(id string) string {
	return `"method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}`
}

// Another server answers a cancelled subscription with an error of code 0. After
// a cancellation nothing follows for its id, and the id is that of one type.
func TestNothingFollowsTheCancellationOfASubscription(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	for _, tc := range []struct{ id, other string }{
		{`7`, `"7"`}, {`"7"`, `7`}, {`0`, `"0"`}, {`""`, `0`}, {`9007199254740993`, `9007199254740992`}, {`"listen:0"`, `"listen:1"`},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := sidecar(live, mcptest.Echo)
			p := talk(t.Context(), t, b, stdio.Options{})
			change := func() {
				if err := b.Offers().Feed().Publish(notify.Change{Kind: notify.ToolsListChanged}); err != nil {
					t.Error(err)
				}
			}
			p.send(listen(tc.id))
			p.want(acknowledged(tc.id))
			p.send(cancel(tc.other), modern(`"after"`, "server/discover", "", ""))
			p.want(`"id":"after"`)
			change()
			p.want(`"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + tc.id + `}}`)
			p.send(cancel(tc.id), modern(`"after"`, "server/discover", "", ""))
			p.want(`"id":"after"`)
			change()
			synctest.Wait()
			if rest := p.end(); len(rest) > 0 {
				t.Errorf("more was written: %q", rest)
			}
		})
	}
}

// steady is a backend that goes on reporting after its caller has left.
type steady struct {
	bridge.NoBackend
	entered chan struct{}
	ended   chan error
}

// Stream implements bridge.Upstream.
func (s *steady) Stream(ctx context.Context, _ *catalog.Method, _ []byte, _ http.Header, each func([]byte) error) (*bridge.Answer, *errmap.Error) {
	item, err := proto.Marshal(&demov1.VehicleUpdate{Round: 1})
	if err != nil {
		return nil, errmap.Wrap(errmap.InternalError, err)
	}
	err = each(item)
	close(s.entered)
	<-ctx.Done()
	time.Sleep(time.Second) // in the test's own time, so that another report is due
	s.ended <- errors.Join(err, each(item), ctx.Err())
	return nil, errmap.Wrap(errmap.Cancelled, ctx.Err())
}

func TestNothingFollowsTheCancellationOfACallThatReports(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		backend := &steady{entered: make(chan struct{}), ended: make(chan error, 1)}
		b := dialect.New(bridge.New(live, backend, correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
		p := talk(t.Context(), t, b, stdio.Options{})
		p.send(modern(`5`, "tools/call", `"name":"fleet_watch_vehicles"`, `,"progressToken":5`))
		p.want(`"method":"notifications/progress","params":{"progressToken":5,"progress":1,`)
		<-backend.entered
		p.send(cancel(`5`))
		if err := <-backend.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the call ended with %v", err)
		}
		if rest := p.end(); len(rest) > 0 {
			t.Errorf("more was written: %q", rest)
		}
	})
}

// The same for a backend that speaks the tool API: it hears that its caller has
// left, and what it says then is dropped.
func TestACancellationReachesABackendThatReports(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	_, p := talkToDesk(t, mcptest.NativeTool{
		Declared: mcptest.JSONTool("wait", "Wait.", mcptest.NoArguments, ""),
		Run: func(ctx context.Context, _ *outriggerv1.ToolCall, send func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
			_ = send(mcptest.Progress(1, ""))
			<-ctx.Done()
			_ = send(mcptest.Progress(2, "")) // the client has gone
			ended <- ctx.Err()
			return mcptest.Success(`{}`), nil
		},
	})
	p.send(modern(`"c"`, "tools/call", `"name":"wait"`, `,"progressToken":"c"`))
	p.want(`"progressToken":"c","progress":1,`)
	p.send(cancel(`"c"`))
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the tool ended with %v", err)
	}
	if rest := p.end(); len(rest) > 0 {
		t.Errorf("more was written: %q", rest)
	}
}

// talkToDesk begins a conversation in front of a backend that speaks the tool
// API.
func talkToDesk(t *testing.T, more ...mcptest.NativeTool) (*mcptest.Rig, *peer) {
	t.Helper()
	backend := mcptest.Desk()
	backend.Tools = append(backend.Tools, more...)
	rig := mcptest.Start(t, mcptest.Options{Native: backend, NoDemo: true})
	return rig, talk(t.Context(), t, rig.Bridge, stdio.Options{})
}

// ended is how the sidecar ends a subscription: its result, and then the
// cancellation that the revision wants on stdio.
func ended(id string) []string {
	return []string{
		`"id":` + id + `,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `,`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`,
	}
}

// A subscription does not end by itself: one that keeps the process until the end
// of its grace keeps it for nothing.
func TestSubscriptionsEndAtOnceWithTheirConversation(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	ids := []string{`1`, `"1"`, `9007199254740993`}
	for name, end := range map[string]func(p *peer, b *dialect.Handler, stop context.CancelFunc){
		"the input ends":     func(p *peer, _ *dialect.Handler, _ context.CancelFunc) { _ = p.in.Close() },
		"the sidecar ends":   func(_ *peer, _ *dialect.Handler, stop context.CancelFunc) { stop() },
		"the feed is closed": func(_ *peer, b *dialect.Handler, _ context.CancelFunc) { b.Offers().Feed().Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := sidecar(live, mcptest.Echo)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				p := talk(ctx, t, b, stdio.Options{})
				for _, id := range ids {
					p.send(listen(id))
					p.want(acknowledged(id))
				}
				start := time.Now()
				end(p, b, stop)
				var got []string
				for range 2 * len(ids) {
					got = append(got, p.line())
				}
				for _, id := range ids {
					want := ended(id)
					at := slices.IndexFunc(got, func(line string) bool { return strings.Contains(line, want[0]) })
					then := slices.Index(got, want[1])
					if at < 0 || then < at {
						t.Errorf("the subscription %s ends with %q", id, got)
					}
				}
				if name == "the feed is closed" { // the conversation goes on
					p.send(modern(`"on"`, "server/discover", "", ""))
					p.want(`"id":"on"`)
				}
				if rest := p.end(); len(rest) > 0 {
					t.Errorf("more was written: %q", rest)
				}
				if time.Since(start) != 0 {
					t.Errorf("it took %v", time.Since(start))
				}
			})
		})
	}
}

// Notifications of a call go before its reply, on lines of their own; headers
// that cannot be sent here are not asked for.
func TestWhatBelongsToACallGoesBeforeItsReply(t *testing.T) {
	t.Parallel()
	_, p := talkToDesk(t)
	p.send(modern(`1`, "tools/call", `"name":"sort"`, `,"progressToken":"p","io.modelcontextprotocol/logLevel":"warning"`))
	p.want(`"progress":1,`, `"progress":4,`, `"level":"warning"`, `"progress":10,`, `"id":1,"result":{"content":[{"type":"text","text":"Sorted."}]`)
	p.send(modern(`2`, "tools/call", `"name":"route","arguments":{"region":"eu","stop":1,"express":true,"to":{"city":"Bath"}}`, ""))
	p.want(`"id":2,"result":{"content":[{"type":"text"`)
	if rest := p.end(); len(rest) > 0 {
		t.Errorf("more was written: %q", rest)
	}
}

// What a legacy client asked for on the same pipes is its own: a modern request
// says all of it itself.
func TestNothingOfALegacySessionShowsInAModernRequest(t *testing.T) {
	t.Parallel()
	_, p := talkToDesk(t)
	p.send(
		strings.Replace(initialize, `"capabilities":{}`, `"capabilities":{"elicitation":{},"sampling":{},"roots":{}}`, 1),
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	)
	p.want(`"protocolVersion":"2025-11-25"`)
	p.send(`{"jsonrpc":"2.0","id":"l","method":"logging/setLevel","params":{"level":"debug"}}`)
	p.want(`"id":"l","result":{}`)
	p.send(modern(`1`, "tools/call", `"name":"sort"`, ""))
	p.want(`"id":1,"result":{"content":[{"type":"text","text":"Sorted."}]`)
	p.send(modern(`2`, "tools/call", `"name":"sign"`, ""))
	p.want(`"id":2,"error":{"code":-32021,`)
	p.send(modern(`3`, "tools/call", `"name":"sign"`, ""))
	p.want(`"id":3,"error":{"code":-32021,`)
	if rest := p.end(); len(rest) > 0 {
		t.Errorf("more was written: %q", rest)
	}
}
