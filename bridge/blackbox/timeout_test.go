// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

func TestTheShortestTimeoutWins(t *testing.T) {
	t.Parallel()
	slow := overlaid("*/Sleep", &configv1.ToolOptions{Timeout: durationpb.New(5 * time.Second)})
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
				b := mcptest.Pipe(t, mcptest.Parts{From: mcptest.Source(), Backend: mcptest.Upstream(untilDone), Configure: both(slow, within(tc.option))})
				ctx := context.Background()
				if tc.parent > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.parent)
					defer cancel()
				}
				req := toolCall(b, tc.tool, `{"duration":"1s"}`)
				if tc.tool == "lab.echo" {
					req.Arguments = ""
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

// catalogWaitByDefault is how long requests wait for the first tools.
const catalogWaitByDefault = 10 * time.Second

// loading is a catalog that is never there.
func loading() *mcptest.Tools {
	return mcptest.Loading(mcptest.Source())
}

// What initialize offers holds for the whole session, so that it waits for the
// catalog; but a client that gets no answer gives up, so that it gets one anyway.
func TestInitializeWaitsForTheFirstCatalogAndThenAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := mcptest.Pipe(t, mcptest.Parts{Tools: loading(), Backend: mcptest.Upstream(mcptest.Echo)})
		start := time.Now()
		got := answer(t, b, mcptest.Legacy, `{"jsonrpc":"2.0","id":"1","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
		if got.code() != "" || time.Since(start) != catalogWaitByDefault {
			t.Errorf("got %+v after %v", got, time.Since(start))
		}
	})
}

func TestRequestsWaitForTheFirstCatalog(t *testing.T) {
	t.Parallel()
	meta := `{` + modernMeta + `}`
	for _, tc := range []struct {
		name    string
		dialect mcptest.Dialect
		method  string
		params  string
		waits   bool
	}{
		{"canonical list", mcptest.Canonical, "tools/list", `{}`, true},
		{"canonical get", mcptest.Canonical, "tools/get", `{"name":"lab.echo"}`, true},
		{"canonical call", mcptest.Canonical, "tools/call", `{"name":"lab.echo"}`, true},
		{"message form", mcptest.Canonical, "tools/call", `{"tool_name":"lab.echo","arguments":{}}`, true},
		{"canonical ping", mcptest.Canonical, "ping", `{}`, false},
		{"canonical describe", mcptest.Canonical, "server/describe", `{}`, true},
		{"modern list", mcptest.Modern, "tools/list", meta, true},
		{"modern call", mcptest.Modern, "tools/call", `{"name":"lab_echo",` + modernMeta + `}`, true},
		{"modern discover", mcptest.Modern, "server/discover", meta, true},
		{"legacy ping", mcptest.Legacy, "ping", `{}`, false},
		{"legacy list", mcptest.Legacy, "tools/list", `{}`, true},
		{"legacy call", mcptest.Legacy, "tools/call", `{"name":"lab_echo"}`, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := mcptest.Pipe(t, mcptest.Parts{Tools: loading(), Backend: mcptest.Upstream(mcptest.Echo)})
				start := time.Now()
				got := answer(t, b, tc.dialect, `{"jsonrpc":"2.0","id":"1","method":"`+tc.method+`","params":`+tc.params+`}`)
				if !tc.waits {
					if got.code() != "" || time.Since(start) != 0 {
						t.Errorf("got %+v after %v, want an answer at once", got, time.Since(start))
					}
					return
				}
				if got.code() != errmap.Unavailable || time.Since(start) != catalogWaitByDefault {
					t.Errorf("got %+v after %v, want UNAVAILABLE after %v", got, time.Since(start), catalogWaitByDefault)
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
		b := mcptest.Pipe(t, mcptest.Parts{Tools: live, Backend: mcptest.Upstream(mcptest.Echo)})
		responses := make(chan *mcptest.Outcome, 1)
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
		b := mcptest.Pipe(t, mcptest.Parts{Tools: loading(), Backend: mcptest.Upstream(mcptest.Echo), Configure: catalogWait(time.Minute)})
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
	live := mcptest.Loading(mcptest.FileOf("does/not/exist.binpb"))
	if err := live.Refresh(context.Background()); err == nil {
		t.Fatal("the file exists")
	}
	b := mcptest.Pipe(t, mcptest.Parts{Tools: live, Backend: mcptest.Upstream(mcptest.Echo), Configure: catalogWait(time.Millisecond)})
	req := toolCall(b, "lab.echo", `{}`)
	req.ID = ""
	resp := b.Handle(context.Background(), req)
	if codeOf(resp) != errmap.Unavailable || !containsAll(resp.Err.Message, "catalog has not been loaded yet") ||
		strings.Contains(resp.Err.Message, "exist.binpb") || !strings.Contains(resp.Err.Error(), "does/not/exist.binpb") {
		t.Errorf("got %v, want UNAVAILABLE with the cause for the log alone", resp.Err)
	}
}

// The check of arguments is part of a call: it has the time of the call, ends with its caller, and has a bound on its work. The pattern is followed in many ways at once, from every character.
func TestTheCheckOfArgumentsEndsWithItsCall(t *testing.T) {
	t.Parallel()
	const pattern = `{"type":"object","properties":{"text":{"type":"string",` +
		`"pattern":"([A-Za-z0-9]+[._%+-]?)+@([A-Za-z0-9]+[.-])+(com|org|net|edu|gov|mil|info|biz|name|museum|aero|coop)"}}}`
	costly := mcptest.Declared(&outriggerv1.ServerDescription{Name: "costly", Version: "1", ContractVersion: "1.0.0"},
		mcptest.JSONTool("find", "Find.", pattern, ""))
	long := `{"text":"` + strings.Repeat("a", 3900000) + `"}`
	tests := map[string]struct {
		timeout time.Duration
		isGone  bool // its caller
		want    errmap.Code
	}{
		"its work":   {time.Hour, false, errmap.InvalidToolInput},
		"its time":   {time.Nanosecond, false, errmap.Timeout},
		"its caller": {time.Hour, true, errmap.Cancelled},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := mcptest.Pipe(t, mcptest.Parts{From: costly, Native: mcptest.Speaking{}, Configure: within(tt.timeout)})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.isGone {
				cancel()
			}
			resp := b.Handle(ctx, toolCall(b, "find", long))
			if resp.Err == nil || resp.Err.Code != tt.want {
				t.Errorf("got %v, want %v", resp.Err, tt.want)
			}
			if tt.want == errmap.InvalidToolInput && (len(resp.Err.Violations) != 1 || resp.Err.Violations[0].Keyword != "maxWork") {
				t.Errorf("got %+v", resp.Err.Violations)
			}
		})
	}
}
