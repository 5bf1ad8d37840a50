// SPDX-License-Identifier: Apache-2.0

package mcphttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// run is what a tool of a test does.
type run = func(ctx context.Context, call *outriggerv1.ToolCall, send func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error)

func tool(name string, run run) mcptest.NativeTool {
	return mcptest.NativeTool{Declared: mcptest.JSONTool(name, "For a test.", mcptest.NoArguments, ""), Run: run}
}

// reporting is a call of a tool by a client that wants to hear everything.
func reporting(name string) (string, []string) {
	return request("tools/call", `"name":"`+name+`",`+metaOf(`{}`, `,"progressToken":7,"io.modelcontextprotocol/logLevel":"debug"`)),
		modern("tools/call", "Mcp-Name: "+name)
}

// Servers that keep what they have to say in a buffer, or write the response
// beside it, lose the last of it or send it late.
func TestNotificationsAreFlushedBeforeTheResponseAndNoneFollows(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP/%d", version), func(t *testing.T) {
			t.Parallel()
			heard := make(chan struct{})
			slow := tool("slow", func(_ context.Context, _ *outriggerv1.ToolCall, send func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
				for i := 1; i <= 3; i++ {
					if err := send(mcptest.Progress(float64(i), "")); err != nil {
						return nil, err
					}
					<-heard // nothing goes on before the client has it
				}
				for i := 4; i <= 200; i++ { // and these come at once
					if err := send(mcptest.Progress(float64(i), "")); err != nil {
						return nil, err
					}
				}
				return mcptest.Success(`{"done":true}`), nil
			})
			slow.Late = []*outriggerv1.ToolEvent{mcptest.Progress(1000, "late"), mcptest.Log(outriggerv1.LogLevel_LOG_LEVEL_ALERT, `"late"`)}
			_, url := desk(t, mcphttp.Options{KeepAlive: time.Millisecond}, slow) // comments come between
			body, headers := reporting("slow")
			e := open(t, version, url, body, headers...)
			if got := e.resp.Header; e.resp.StatusCode != 200 || got.Get("Content-Type") != "text/event-stream" || got.Get("X-Accel-Buffering") != "no" || got.Get("Cache-Control") != "no-cache" {
				t.Errorf("%d %v", e.resp.StatusCode, got)
			}
			for i := 1; i <= 200; i++ {
				e.want(fmt.Sprintf(`"progress":%d,`, i))
				if i <= 3 {
					heard <- struct{}{}
				}
			}
			e.want(`{"jsonrpc":"2.0","id":0,"result":{`)
			e.end()
		})
	}
}

// A status line that is sent before the checks are done makes every refusal a
// 200 with an event, which a client cannot tell from an answer.
// Some readers of server-sent events end a line where Unicode has a line end. An event has
// none, whatever the text, in every way to write one.
func TestAnEventHasNoLineEndOfUnicode(t *testing.T) {
	t.Parallel()
	const ends = "\u0085\u2028\u2029"
	lines := tool("lines", func(_ context.Context, _ *outriggerv1.ToolCall, send func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
		if err := send(mcptest.Progress(1, ends)); err != nil {
			return nil, err
		}
		return mcptest.Success("", mcptest.TextBlock(ends)), nil
	})
	_, url := desk(t, mcphttp.Options{}, lines)
	const want = `\u0085\u2028\u2029`
	one := post(t, url, request("tools/call", `"name":"lines",`+meta), modern("tools/call", "Mcp-Name: lines", "Accept: text/event-stream")...)
	if strings.ContainsAny(one.body, ends) || !strings.Contains(one.body, want) {
		t.Errorf("the only event: %+q", one.body)
	}
	body, headers := reporting("lines")
	e := open(t, 1, url, body, headers...)
	e.want(want, want)
	e.end()

	_, url = office(t, officeOptions{more: []mcptest.NativeTool{lines}})
	stream := openAs(t, mcptest.Client(t, 1), url, rev11, `{}`).stream(http.MethodPost, toolCall("1", "lines", wantsProgress))
	stream.greeting()
	for range 2 {
		if got := stream.next(); strings.ContainsAny(got.data, ends) || !strings.Contains(got.data, want) {
			t.Errorf("in a legacy stream: %+q", got.data)
		}
	}
}

func TestRefusalsKeepTheirStatusAlsoForAClientThatTakesStreams(t *testing.T) {
	t.Parallel()
	missing := func() error {
		err := connect.NewError(connect.CodeFailedPrecondition, errors.New("the client cannot be asked"))
		detail, fault := connect.NewErrorDetail(&outriggerv1.MissingCapabilities{RequiredCapabilities: &outriggerv1.ClientCapabilities{
			Elicitation: &outriggerv1.ElicitationCapability{Form: true},
		}})
		if fault != nil {
			t.Fatal(fault)
		}
		err.AddDetail(detail)
		return err
	}
	_, url := desk(t, mcphttp.Options{},
		tool("refuse_at_once", func(context.Context, *outriggerv1.ToolCall, func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
			return nil, missing()
		}),
		tool("refuse_late", func(_ context.Context, _ *outriggerv1.ToolCall, send func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
			if err := send(mcptest.Progress(1, "")); err != nil {
				return nil, err
			}
			return nil, missing()
		}),
	)
	for _, accept := range []string{"application/json, text/event-stream", "text/event-stream", "*/*"} {
		for _, tc := range []struct {
			name, body string
			headers    []string
			status     int
			code       int
		}{
			{"no name", request("tools/call", meta), modern("tools/call"), 400, -32020},
			{"no meta", request("tools/call", `"name":"count"`), modern("tools/call", "Mcp-Name: count"), 400, -32602},
			{"no method", request("ping", meta), modern("ping"), 404, -32601},
			{"no version", strings.Replace(request("tools/list", meta), "2026-07-28", "2099-01-01", 1), []string{"MCP-Protocol-Version: 2099-01-01"}, 400, -32022},
			{"a question that cannot be asked", request("tools/call", `"name":"sign",`+meta), modern("tools/call", "Mcp-Name: sign"), 400, -32021},
			{"a task that cannot be had", request("tools/call", `"name":"begin","arguments":{"job":"binding"},`+meta), modern("tools/call", "Mcp-Name: begin"), 400, -32021},
			{"a task of a client without tasks", request("tasks/get", `"taskId":"t",`+meta), modern("tasks/get", "Mcp-Name: t"), 400, -32021},
			{"tasks of a client without tasks", request("subscriptions/listen", `"notifications":{"taskIds":["t"]},`+meta), modern("subscriptions/listen"), 400, -32021},
			{"the backend's own refusal", request("tools/call", `"name":"refuse_at_once",`+metaOf(`{}`, `,"progressToken":"p"`)), modern("tools/call", "Mcp-Name: refuse_at_once"), 400, -32021},
		} {
			got := post(t, url, tc.body, append(tc.headers, "Accept: "+accept)...)
			if got.status != tc.status || got.errorCode() != tc.code || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s, %s: got %d %s, want %d and %d", tc.name, accept, got.status, got.body, tc.status, tc.code)
			}
		}
		// Where the stream has begun, the refusal is an event of it.
		body, headers := reporting("refuse_late")
		e := open(t, 1, url, body, append(headers, "Accept: "+accept)...)
		e.want(`"progress":1,`, `"error":{"code":-32021,"message":"the client cannot be asked","data":{"requiredCapabilities":{"elicitation":{"form":{}}}}}`)
		e.end()
	}
}

// waiting is a backend whose calls end with their callers.
type waiting struct {
	bridge.NoBackend
	item    []byte
	entered chan struct{}
	ended   chan error
}

// Stream implements bridge.Upstream.
func (w *waiting) Stream(ctx context.Context, _ *catalog.Method, _ []byte, _ http.Header, each func([]byte) error) (*bridge.Answer, *errmap.Error) {
	if err := each(w.item); err != nil {
		return nil, errmap.Wrap(errmap.InternalError, err)
	}
	close(w.entered)
	<-ctx.Done()
	w.ended <- ctx.Err()
	return nil, errmap.Wrap(errmap.Cancelled, ctx.Err())
}

// The default of other servers is to let an abandoned call go on; here the
// backend hears of it, whatever kind of call it is.
func TestLeavingAStreamCancelsItsCallAtTheBackend(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("native HTTP/%d", version), func(t *testing.T) {
			t.Parallel()
			ended := make(chan error, 1)
			rig, url := desk(t, mcphttp.Options{}, tool("wait", func(ctx context.Context, _ *outriggerv1.ToolCall, send func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
				err := send(mcptest.Progress(1, ""))
				<-ctx.Done()
				ended <- errors.Join(err, ctx.Err())
				return nil, ctx.Err()
			}))
			body, headers := reporting("wait")
			e := open(t, version, url, body, headers...)
			e.want(`"progress":1,`)
			e.hangUp()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the tool ended with %v", err)
			}
			idle(t, rig.Bridge)
		})
		t.Run(fmt.Sprintf("native without events HTTP/%d", version), func(t *testing.T) {
			t.Parallel()
			entered, ended := make(chan struct{}), make(chan error, 1)
			rig, url := desk(t, mcphttp.Options{}, tool("wait", func(ctx context.Context, _ *outriggerv1.ToolCall, _ func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
				close(entered)
				<-ctx.Done()
				ended <- ctx.Err()
				return nil, ctx.Err()
			}))
			ctx, hangUp := context.WithCancel(t.Context())
			go func() {
				<-entered
				hangUp()
			}()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(request("tools/call", `"name":"wait",`+meta)))
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range modern("tools/call", "Mcp-Name: wait", "Content-Type: application/json") {
				name, value, _ := strings.Cut(h, ": ")
				req.Header.Set(name, value)
			}
			resp, err := mcptest.Client(t, version).Do(req)
			if err == nil {
				_ = resp.Body.Close()
				t.Error("an answer came")
			}
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the tool ended with %v", err)
			}
			idle(t, rig.Bridge)
		})
		t.Run(fmt.Sprintf("plain stream HTTP/%d", version), func(t *testing.T) {
			t.Parallel()
			backend := &waiting{entered: make(chan struct{}), ended: make(chan error, 1)}
			b := dialect.New(bridge.New(mcptest.Memory(t), backend, correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
			url := mcptest.Serve(t, mcphttp.New(b, mcphttp.Options{}))
			body, headers := reporting("fleet_watch_vehicles")
			e := open(t, version, url, body, headers...)
			e.want(`"progress":1,"message":"1 items so far"`)
			<-backend.entered
			e.hangUp()
			if err := <-backend.ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the call ended with %v", err)
			}
			idle(t, b)
		})
	}
}

// idle waits until nothing is in flight.
func idle(t *testing.T, b *dialect.Handler) {
	t.Helper()
	testkit.Until(t, "everything ends", func() bool { return b.Flights().InFlight() == 0 })
}

// A reader that stays connected and reads nothing would hold its call, and the
// backend's, for ever.
func TestAReaderThatStopsReadingIsDroppedAndItsCallCancelled(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP/%d", version), func(t *testing.T) {
			t.Parallel()
			ended := make(chan error, 1)
			text := `"` + strings.Repeat("x", 1<<18) + `"`
			// Long enough for the first event to be read on a machine that is busy with other tests.
			rig, url := desk(t, mcphttp.Options{WriteTimeout: 2 * time.Second}, tool("flood", func(ctx context.Context, _ *outriggerv1.ToolCall, send func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
				var err error
				for err == nil && ctx.Err() == nil {
					err = send(mcptest.Log(outriggerv1.LogLevel_LOG_LEVEL_INFO, text))
				}
				ended <- ctx.Err()
				return nil, ctx.Err()
			}))
			body, headers := reporting("flood")
			e := open(t, version, url, body, headers...)
			e.want(`"method":"notifications/message"`)
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the tool ended with %v", err)
			}
			idle(t, rig.Bridge)
		})
	}
}

// deadlined is a response whose deadline for writing ends it even where nothing
// is being written, as that of an HTTP/2 stream does (net/http).
type deadlined struct {
	*httptest.ResponseRecorder
	mu      sync.Mutex
	timer   *time.Timer
	expired bool
}

// SetWriteDeadline is what http.ResponseController looks for.
func (d *deadlined) SetWriteDeadline(at time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	if !at.IsZero() {
		d.timer = time.AfterFunc(time.Until(at), func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.expired = true
		})
	}
	return nil
}

func (d *deadlined) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.expired {
		return 0, os.ErrDeadlineExceeded
	}
	return d.ResponseRecorder.Write(p)
}

// Quiet is not slow: with keep-alives that are further apart than a reader may
// take, an HTTP/2 stream must not end at the deadline of a write that is over.
func TestAQuietStreamOutlivesThePatienceWithItsReader(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	for name, o := range map[string]mcphttp.Options{
		"the defaults":      {KeepAlive: defaults.KeepAliveInterval, WriteTimeout: defaults.WriteTimeout},
		"rarer keep-alives": {KeepAlive: 5 * time.Minute, WriteTimeout: 30 * time.Second},
	} {
		t.Run("modern, "+name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := dialect.New(bridge.New(live, bridge.NoBackend{}, correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
				r := handed(t, http.MethodPost, request("subscriptions/listen", `"notifications":{"toolsListChanged":true},`+meta),
					modern("subscriptions/listen", "Accept: text/event-stream")...)
				got := quietly(t, b, o, r)
				for _, want := range []string{"acknowledged", "tools/list_changed", `"id":0,"result":{"resultType":"complete"`} {
					if !strings.Contains(got, want) {
						t.Errorf("%s is missing: %q", want, got)
					}
				}
			})
		})
		t.Run("legacy, "+name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := dialect.New(bridge.New(live, bridge.NoBackend{}, correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
				defer b.Sessions().Close()
				opened := httptest.NewRecorder()
				mcphttp.New(b, o).ServeHTTP(opened, handed(t, http.MethodPost, request("initialize", `"protocolVersion":"2025-11-25","capabilities":{}`)))
				session := "Mcp-Session-Id: " + opened.Header().Get("Mcp-Session-Id")
				mcphttp.New(b, o).ServeHTTP(httptest.NewRecorder(), handed(t, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session))
				got := quietly(t, b, o, handed(t, http.MethodGet, "", session, "Accept: text/event-stream"))
				if !strings.Contains(got, "tools/list_changed") {
					t.Errorf("the change is missing: %q", got)
				}
			})
		})
	}
}

// handed is a request that is handed to a handler without a connection.
func handed(t *testing.T, method, body string, headers ...string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, mcphttp.Path, strings.NewReader(body))
	for _, h := range append(headers, "Content-Type: application/json") {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return r
}

// quietly has a stream served on which nothing happens for 17 minutes, then one
// change, and then its end, and returns what was written.
func quietly(t *testing.T, b *dialect.Handler, o mcphttp.Options, r *http.Request) string {
	t.Helper()
	w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
	ctx, hangUp := context.WithCancel(r.Context())
	defer hangUp()
	served := make(chan struct{})
	go func() {
		defer close(served)
		mcphttp.New(b, o).ServeHTTP(w, r.WithContext(ctx))
	}()
	synctest.Wait()
	const quiet = 17 * time.Minute
	time.Sleep(quiet) // in the test's own time
	if err := b.Offers().Feed().Publish(notify.Change{Kind: notify.ToolsListChanged}); err != nil {
		t.Error(err)
	}
	synctest.Wait()
	b.Offers().Feed().Close()
	synctest.Wait()
	hangUp()
	<-served
	got := w.Body.String()
	if comments := strings.Count(got, ":\n\n"); comments != int(quiet/o.KeepAlive) {
		t.Errorf("%d comments in %v, one is due every %v", comments, quiet, o.KeepAlive)
	}
	return got
}
