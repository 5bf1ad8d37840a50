// SPDX-License-Identifier: Apache-2.0

package mcphttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpcompress"
	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// silentFor is a backend that answers after a while, and with an error where it has one.
func silentFor(d time.Duration, refusal *errmap.Error) mcptest.Upstream {
	return func(ctx context.Context, m *catalog.Method, message []byte, h http.Header) (*bridge.Answer, *errmap.Error) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return nil, errmap.Wrap(errmap.Cancelled, ctx.Err())
		}
		if refusal != nil {
			return nil, refusal
		}
		return mcptest.Echo(ctx, m, message, h)
	}
}

// era is how a call is made in one of them.
type era struct {
	name string
	// revision is that of a session; empty without one.
	revision string
	body     string
	headers  []string
}

func eras() []era {
	const call, nonce = "tools/call", `"name":"lab_echo","arguments":{"nonce":"n"}`
	out := []era{
		{name: "modern", body: request(call, nonce+","+meta), headers: modern(call, "Mcp-Name: lab_echo")},
		{name: "legacy without a session", body: request(call, nonce)},
		{name: "a batch", revision: rev03, body: "[" + request(call, nonce) + `,{"jsonrpc":"2.0","method":"notifications/initialized"}]`},
	}
	for _, revision := range revisions() {
		out = append(out, era{name: "legacy " + revision, revision: revision, body: request(call, nonce)})
	}
	return out
}

// inSession opens the session that an era needs, and returns the header that names it.
func (e era) inSession(t *testing.T, h http.Handler) []string {
	t.Helper()
	if e.revision == "" {
		return e.headers
	}
	opened := httptest.NewRecorder()
	h.ServeHTTP(opened, handed(t, http.MethodPost, opening(e.revision, `{}`)))
	session := "Mcp-Session-Id: " + opened.Header().Get("Mcp-Session-Id")
	h.ServeHTTP(httptest.NewRecorder(), handed(t, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session))
	return append(e.headers, session)
}

// Proxies and clients give up on a response that has no byte after 10 to 60 s. A client that can read events gets comments
// meanwhile, in every era, and all others what they always got.
func TestASilentCallBecomesAStream(t *testing.T) {
	t.Parallel()
	const both = "Accept: application/json, text/event-stream"
	live := mcptest.Memory(t)
	failed := errmap.FromBackendStatus(connect.CodeNotFound, "order 12 does not exist", nil)
	for _, e := range eras() {
		for _, tc := range []struct {
			name, accept string
			lasts        time.Duration
			refusal      *errmap.Error
			comments     int // -1: JSON
			want         string
		}{
			{"silent", both, 3500 * time.Millisecond, nil, 3, `"nonce":"n"`},
			{"silent, in its own words", "Accept: text/event-stream;q=0.5, application/json;q=0.9", 1500 * time.Millisecond, nil, 1, `"nonce":"n"`},
			{"an error", both, 2500 * time.Millisecond, failed, 2, `order 12 does not exist`},
			{"a fault of the transport", both, 1500 * time.Millisecond, errmap.New(errmap.TransportError), 1, `TRANSPORT_ERROR`},
			{"in time", both, 900 * time.Millisecond, nil, -1, `"nonce":"n"`},
			{"JSON alone", "Accept: application/json", 3500 * time.Millisecond, nil, -1, `"nonce":"n"`},
			{"no events", "Accept: application/json, text/event-stream;q=0", 3500 * time.Millisecond, nil, -1, `"nonce":"n"`},
			{"anything", "Accept: */*", 3500 * time.Millisecond, nil, -1, `"nonce":"n"`},
			{"nothing said", "X-Nothing: here", 3500 * time.Millisecond, nil, -1, `"nonce":"n"`},
		} {
			t.Run(e.name+", "+tc.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					b := dialect.New(bridge.New(live, silentFor(tc.lasts, tc.refusal), correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
					defer b.Sessions().Close()
					h := mcphttp.New(b, mcphttp.Options{KeepAlive: time.Second})
					headers := e.inSession(t, h)
					w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
					h.ServeHTTP(w, handed(t, http.MethodPost, e.body, append(headers, tc.accept)...))
					got, kind := w.Body.String(), w.Header().Get("Content-Type")
					if !strings.Contains(got, tc.want) || strings.Count(got, `"jsonrpc"`) != 1 {
						t.Errorf("got %s, want %s", got, tc.want)
					}
					if tc.comments < 0 {
						if kind != "application/json" || w.Header().Get("Content-Length") != fmt.Sprint(len(got)) || strings.HasPrefix(got, "[") != (e.name == "a batch") {
							t.Errorf("%s: %s", kind, got)
						}
						return
					}
					if kind != "text/event-stream" || w.Code != http.StatusOK || !strings.Contains(got, "event: message\ndata: {") {
						t.Errorf("%d %s: %s", w.Code, kind, got)
					}
					if comments := strings.Count(got, ":\n\n"); comments != tc.comments || !strings.HasPrefix(got, ":\n\n") {
						t.Errorf("%d comments, want %d: %q", comments, tc.comments, got)
					}
					if resumable := strings.Contains(got, "data: \n\n"); resumable != (e.revision == rev11) {
						t.Errorf("an event to come back to: %v: %q", resumable, got)
					}
				})
			})
		}
	}
}

// The eras stay opposites: a client that hangs up ends its modern call, silent or not, and no other.
func TestHangingUpOnASilentCall(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	for _, e := range eras() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan error, 1)
				slow := mcptest.Upstream(func(ctx context.Context, m *catalog.Method, message []byte, h http.Header) (*bridge.Answer, *errmap.Error) {
					answer, err := silentFor(5*time.Second, nil)(ctx, m, message, h)
					ended <- ctx.Err()
					return answer, err
				})
				b := dialect.New(bridge.New(live, slow, correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
				defer b.Sessions().Close()
				h := mcphttp.New(b, mcphttp.Options{KeepAlive: time.Second})
				headers := append(e.inSession(t, h), "Accept: application/json, text/event-stream")
				ctx, hangUp := context.WithCancel(t.Context())
				time.AfterFunc(2500*time.Millisecond, hangUp)
				w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
				h.ServeHTTP(w, handed(t, http.MethodPost, e.body, headers...).WithContext(ctx))
				if err := <-ended; errors.Is(err, context.Canceled) != (e.name == "modern") {
					t.Errorf("the call ended with %v", err)
				}
				synctest.Wait()
			})
		})
	}
}

// A reader that is gone is noticed by the first comment, and a modern call ends with it.
func TestACommentThatFindsNoReaderEndsTheCall(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		e := eras()[0]
		b := dialect.New(bridge.New(live, silentFor(time.Minute, nil), correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
		h := mcphttp.New(b, mcphttp.Options{KeepAlive: time.Second})
		begun := time.Now()
		w := &deadlined{ResponseRecorder: httptest.NewRecorder(), expired: true}
		h.ServeHTTP(w, handed(t, http.MethodPost, e.body, append(e.headers, "Accept: application/json, text/event-stream")...))
		if lasted := time.Since(begun); lasted != time.Second {
			t.Errorf("the call lasted %v", lasted)
		}
	})
}

// The first byte of a silent call comes before its end, whatever is between: one tool waits until the client has its headers.
func TestASilentCallReachesItsClientThroughTheLayers(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP/%d", version), func(t *testing.T) {
			t.Parallel()
			heard := make(chan struct{})
			silent := tool("silent", func(ctx context.Context, _ *outriggerv1.ToolCall, _ func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
				select {
				case <-heard:
				case <-ctx.Done():
				}
				return mcptest.Success("", mcptest.TextBlock(strings.Repeat("long ", 10000))), nil
			})
			for _, coding := range []string{"gzip", "zstd"} {
				_, url := office(t, officeOptions{more: []mcptest.NativeTool{silent}, http: mcphttp.Options{KeepAlive: time.Millisecond}, wrap: httpcompress.New(1).Wrap})
				body := request("tools/call", `"name":"silent",`+meta)
				e := open(t, version, url, body, modern("tools/call", "Mcp-Name: silent", "Accept-Encoding: "+coding)...)
				heard <- struct{}{}
				e.want(`"result":{`)
				e.end()
				if got := e.resp.Header.Get("Content-Encoding"); got != "" {
					t.Errorf("a stream in %s", got)
				}
				stream := openAs(t, mcptest.Client(t, version), url, rev11, `{}`).stream(http.MethodPost, toolCall("1", "silent"))
				stream.greeting()
				heard <- struct{}{}
				stream.result("long ")
				stream.ended()
			}
		})
	}
}

// A client of 2025-11-25 whose connection broke while its call was silent comes back for the result.
func TestASilentCallIsResumed(t *testing.T) {
	t.Parallel()
	steps := newSteps("steps")
	_, url := office(t, officeOptions{more: []mcptest.NativeTool{steps.tool()}, http: mcphttp.Options{KeepAlive: time.Millisecond}})
	c := openWith(t, url, rev11, `{}`)
	stream := c.stream(http.MethodPost, toolCall("1", "steps"))
	stream.greeting()
	stream.close()
	close(steps.step)
	again := c.stream(http.MethodGet, "", "Last-Event-ID: "+stream.last)
	again.result("It is done.")
	again.ended()
}
