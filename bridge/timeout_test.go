// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

func TestTheShortestTimeoutWins(t *testing.T) {
	t.Parallel()
	live := catalog.NewLive([]source.Source{mcptest.Source()}, catalog.LiveOptions{Build: catalog.BuildOptions{
		Overlay: []catalog.Override{{Match: "*/Sleep", Options: &configv1.ToolOptions{Timeout: durationpb.New(5 * time.Second)}}},
	}})
	if err := live.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name           string
		tool           string
		option, caller time.Duration
		parent         time.Duration
		want           time.Duration
	}{
		{name: "the default", tool: "lab.echo", want: 30 * time.Second},
		{name: "the option", tool: "lab.echo", option: 7 * time.Second, want: 7 * time.Second},
		{name: "the tool's", tool: "lab.sleep", want: 5 * time.Second},
		{name: "the tool's is longer than the option", tool: "lab.sleep", option: 3 * time.Second, want: 3 * time.Second},
		{name: "the caller's", tool: "lab.sleep", caller: time.Second, want: time.Second},
		{name: "the caller's is longer than the tool's", tool: "lab.sleep", caller: time.Minute, want: 5 * time.Second},
		{name: "the caller's is longer than the option", tool: "lab.echo", option: 2 * time.Second, caller: time.Minute, want: 2 * time.Second},
		{name: "the connection's", tool: "lab.sleep", parent: 500 * time.Millisecond, want: 500 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := dialect.New(bridge.New(live, mcptest.Upstream(untilDone), correlate.New(correlate.Options{}), bridge.Options{Timeout: tc.option}), dialect.Options{})
				ctx := context.Background()
				if tc.parent > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.parent)
					defer cancel()
				}
				req := toolCall(b, tc.tool, `{"duration":"1s"}`)
				if tc.tool == "lab.echo" {
					req.Arguments = bridge.Payload{}
				}
				req.Timeout = tc.caller
				start := time.Now()
				resp := b.Handle(ctx, req)
				if codeOf(resp) != errmap.Timeout || time.Since(start) != tc.want {
					t.Errorf("got %v after %v, want TIMEOUT after %v", resp.Err, time.Since(start), tc.want)
				}
			})
		})
	}
}

// loading is a catalog that is never there.
func loading() *catalog.Live {
	return catalog.NewLive([]source.Source{mcptest.Source()}, catalog.LiveOptions{})
}

// What initialize offers holds for the whole session, so that it waits for the
// catalog; but a client that gets no answer gives up, so that it gets one anyway.
func TestInitializeWaitsForTheFirstCatalogAndThenAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := dialect.New(bridge.New(loading(), mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
		start := time.Now()
		got := answer(t, b, dialect.Legacy, `{"jsonrpc":"2.0","id":"1","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
		if got.code() != "" || time.Since(start) != defaults.CatalogWait {
			t.Errorf("got %+v after %v", got, time.Since(start))
		}
	})
}

func TestRequestsWaitForTheFirstCatalog(t *testing.T) {
	t.Parallel()
	meta := `{` + modernMeta + `}`
	for _, tc := range []struct {
		name    string
		dialect dialect.Dialect
		method  string
		params  string
		waits   bool
	}{
		{"canonical list", dialect.Canonical, "tools/list", `{}`, true},
		{"canonical get", dialect.Canonical, "tools/get", `{"name":"lab.echo"}`, true},
		{"canonical call", dialect.Canonical, "tools/call", `{"name":"lab.echo"}`, true},
		{"message form", dialect.Canonical, "tools/call", `{"tool_name":"lab.echo","arguments":{}}`, true},
		{"canonical ping", dialect.Canonical, "ping", `{}`, false},
		{"canonical describe", dialect.Canonical, "server/describe", `{}`, true},
		{"modern list", dialect.Modern, "tools/list", meta, true},
		{"modern call", dialect.Modern, "tools/call", `{"name":"lab_echo",` + modernMeta + `}`, true},
		{"modern discover", dialect.Modern, "server/discover", meta, true},
		{"legacy ping", dialect.Legacy, "ping", `{}`, false},
		{"legacy list", dialect.Legacy, "tools/list", `{}`, true},
		{"legacy call", dialect.Legacy, "tools/call", `{"name":"lab_echo"}`, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := dialect.New(bridge.New(loading(), mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
				start := time.Now()
				got := answer(t, b, tc.dialect, `{"jsonrpc":"2.0","id":"1","method":"`+tc.method+`","params":`+tc.params+`}`)
				if !tc.waits {
					if got.code() != "" || time.Since(start) != 0 {
						t.Errorf("got %+v after %v, want an answer at once", got, time.Since(start))
					}
					return
				}
				if got.code() != errmap.Unavailable || time.Since(start) != defaults.CatalogWait {
					t.Errorf("got %+v after %v, want UNAVAILABLE after %v", got, time.Since(start), defaults.CatalogWait)
				}
				if !got.data().Retryable || got.data().RetryAfterMS <= 0 {
					t.Errorf("no retry hint: %+v", got.data())
				}
			})
		})
	}
}

func TestACatalogThatComesInTimeIsUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		live := loading()
		b := dialect.New(bridge.New(live, mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
		responses := make(chan *bridge.Response, 1)
		go func() { responses <- b.Handle(t.Context(), toolCall(b, "lab.echo", `{"nonce":"n"}`)) }()
		time.Sleep(3 * time.Second) // the bubble's clock
		if err := live.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if resp := <-responses; resp.Err != nil {
			t.Errorf("got %v", resp.Err)
		}
	})
}

func TestACallerWhoseTimeEndsFirstHearsWhatWasWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := dialect.New(bridge.New(loading(), mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{CatalogWait: time.Minute}), dialect.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if resp := b.Handle(ctx, toolCall(b, "lab.echo", `{}`)); codeOf(resp) != errmap.Unavailable {
			t.Errorf("got %v, want UNAVAILABLE: the tool did not run", resp.Err)
		}
		gone, hangUp := context.WithCancel(t.Context())
		hangUp()
		if resp := b.Handle(gone, toolCall(b, "lab.echo", `{}`)); codeOf(resp) != errmap.Cancelled {
			t.Errorf("got %v, want CANCELLED", resp.Err)
		}
	})
}

// The cause of a failed load is for the log: its file is no business of callers.
func TestTheWaitKeepsItsCauseForTheLog(t *testing.T) {
	t.Parallel()
	live := catalog.NewLive([]source.Source{source.NewDescriptorFile("does/not/exist.binpb", source.Limits{})}, catalog.LiveOptions{})
	if err := live.Refresh(context.Background()); err == nil {
		t.Fatal("the file exists")
	}
	b := dialect.New(bridge.New(live, mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{CatalogWait: time.Millisecond}), dialect.Options{})
	req := toolCall(b, "lab.echo", `{}`)
	req.ID = jsonrpc.ID{}
	resp := b.Handle(context.Background(), req)
	if codeOf(resp) != errmap.Unavailable || !containsAll(resp.Err.Message, "catalog has not been loaded yet") ||
		strings.Contains(resp.Err.Message, "exist.binpb") || !strings.Contains(resp.Err.Error(), "does/not/exist.binpb") {
		t.Errorf("got %v, want UNAVAILABLE with the cause for the log alone", resp.Err)
	}
}
