// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// refuses sends a body to /rpc and wants a status and a canonical code, with a
// hint where another attempt makes sense.
func refuses(body string, status int, code string) func(*testing.T, *limited) {
	return func(t *testing.T, s *limited) {
		t.Helper()
		got, text, header, err := s.post("/rpc", body)
		if err != nil || got != status || !strings.Contains(text, `"code":"`+code+`"`) {
			t.Errorf("%d %s, %v; want %d %s", got, text, err, status, code)
		}
		if hint := header.Get("Retry-After"); (hint != "") != (status == 503 || status == 429) {
			t.Errorf("Retry-After %q", hint)
		}
	}
}

// secondTime is refuses for the second time that something is sent.
func secondTime(body string, status int, code string) func(*testing.T, *limited) {
	return func(t *testing.T, s *limited) {
		t.Helper()
		if got, text, _, err := s.post("/rpc", body); err != nil || got != 200 {
			t.Fatalf("the first time: %d %s, %v", got, text, err)
		}
		refuses(body, status, code)(t, s)
	}
}

// beside does something while n calls are in flight.
func beside(n int, then func(*testing.T, *limited)) func(*testing.T, *limited) {
	return func(t *testing.T, s *limited) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range n {
			go func() {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.address+"/rpc", strings.NewReader(fmt.Sprintf(sleeper, i, "60s")))
				if err != nil {
					return
				}
				req.Header.Set("Content-Type", "application/json")
				if res, err := http.DefaultClient.Do(req); err == nil {
					_ = res.Body.Close()
				}
			}()
			want := fmt.Sprintf(`outrigger_requests_in_flight %d`, i+1)
			testkit.Until(t, want, func() bool { return strings.Contains(s.metrics(t), want) })
		}
		if n > 1 {
			testkit.Until(t, "one waits", func() bool { return strings.Contains(s.metrics(t), `outrigger_limit_used{limit="max_queued_calls"} 1`) })
		}
		then(t, s)
	}
}

// ends writes to a connection and wants a part of what comes before its end.
func ends(send, want string) func(*testing.T, *limited) {
	return func(t *testing.T, s *limited) {
		t.Helper()
		conn := dialTCP(t, s.address)
		if err := conn.SetDeadline(time.Now().Add(testkit.Limit())); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, strings.ReplaceAll(send, "ADDRESS", s.address))
		got, err := io.ReadAll(conn)
		if ne, ok := err.(net.Error); ok && ne.Timeout() { //nolint:errorlint // what a connection returns
			t.Fatalf("it is still open: %s", got)
		}
		if !strings.Contains(string(got), want) || want == "" && strings.Contains(string(got), "200 OK") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// session opens a legacy session and returns its id.
func (s *limited) session(t *testing.T) string {
	t.Helper()
	status, text, header, err := s.post("/mcp", open)
	id := header.Get("Mcp-Session-Id")
	if err != nil || status != 200 || id == "" {
		t.Fatalf("%d %s, %v, id %q", status, text, err, id)
	}
	return id
}

// pings returns the status of a ping within a session.
func (s *limited) pings(t *testing.T, id string) int {
	t.Helper()
	status, _, _, err := s.post("/mcp", `{"jsonrpc":"2.0","id":2,"method":"ping"}`, "Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25")
	if err != nil {
		t.Fatal(err)
	}
	return status
}

func meetSessions(t *testing.T, s *limited) {
	t.Helper()
	first, last := s.session(t), s.session(t)
	if a, b := s.pings(t, first), s.pings(t, last); a != 200 || b != 200 { // each begins again from its id
		t.Errorf("the first session answers %d, the last %d", a, b)
	}
}

func meetOldSession(t *testing.T, s *limited) {
	t.Helper()
	id := s.session(t)
	timer := time.NewTimer(1500 * time.Millisecond)
	defer timer.Stop()
	<-timer.C
	if status := s.pings(t, id); status != 404 {
		t.Errorf("an old session answers %d", status)
	}
}

func meetPages(t *testing.T, s *limited) {
	t.Helper()
	id := s.session(t)
	_, text, _, err := s.post("/mcp", `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, "Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25")
	if err != nil || !strings.Contains(text, `"nextCursor"`) || strings.Count(text, `"inputSchema"`) != 1 {
		t.Errorf("%.500s, %v", text, err)
	}
}

func meetGrace(t *testing.T, s *limited) {
	t.Helper()
	beside(1, func(t *testing.T, s *limited) {
		t.Helper()
		answer := make(chan string, 1)
		go func() {
			_, text, _, _ := s.post("/rpc", fmt.Sprintf(sleeper, 7, "60s"))
			answer <- text
		}()
		testkit.Until(t, "two in flight", func() bool { return strings.Contains(s.metrics(t), "outrigger_requests_in_flight 2") })
		// The process ends a moment after the drain, so the metrics are read all the time, and
		// the last page that came counts.
		last := make(chan string, 1)
		go func() { last <- s.lastPage() }()
		res, err := http.Post("http://"+s.admin+"/drain?wait=30s", "", nil) //nolint:noctx // the test's own time bounds it
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		s.page = <-last
		if text := <-answer; !strings.Contains(text, `"code":"UNAVAILABLE"`) || !strings.Contains(text, "outcome is unknown") {
			t.Errorf("%s", text)
		}
	})(t, s)
}

// lastPage reads the metrics until there is no one left to answer, for a bounded time.
func (s *limited) lastPage() (last string) {
	client := oneShot()
	for end := time.Now().Add(testkit.Limit()); time.Now().Before(end); time.Sleep(time.Millisecond) {
		res, err := client.Get("http://" + s.admin + "/metrics") //nolint:noctx // the client's own time bounds it
		if err != nil {
			break
		}
		page, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err == nil && res.StatusCode == http.StatusOK {
			last = string(page)
		}
	}
	return last
}

// meetBacklog subscribes, reads nothing, and has events published until the
// queue and every buffer on the way are full.
func meetBacklog(t *testing.T, s *limited) {
	t.Helper()
	conn := dialTCP(t, s.address)
	const subscribe = "\x00\x00\x00\x00\x0d{\"events\":{}}"
	_, err := fmt.Fprintf(conn, "POST /outrigger.v1.ToolService/Subscribe HTTP/1.1\r\nHost: %s\r\nContent-Type: application/connect+json\r\nContent-Length: %d\r\n\r\n%s",
		s.address, len(subscribe), subscribe)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "it has subscribed", func() bool { return strings.Contains(s.metrics(t), "outrigger_event_subscribers 1") })
	event := `{"jsonrpc":"2.0","method":"orders/new","params":{"text":"` + strings.Repeat("x", 512<<10) + `"}}`
	testkit.Until(t, "it is dropped", func() bool {
		if status, text, _, err := s.post("/rpc", event); err != nil || status != http.StatusAccepted {
			t.Fatalf("%d %s, %v", status, text, err)
		}
		return limitRefused(s.metrics(t), "max_subscriber_backlog") != "0"
	})
	// What it missed are the two that waited and the one that came then.
	line := regexp.MustCompile(`"slow subscriber disconnected: limits.max_subscriber_backlog exceeded","missed":3\b`)
	testkit.Until(t, "the log says how many it missed", func() bool { return line.MatchString(s.log.String()) })
}

// meetPipelined sends two requests on one stream, of which the first one takes a
// while.
func meetPipelined(t *testing.T, s *limited) {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	stream := outriggerv1connect.NewToolServiceClient(&http.Client{Transport: transport}, "http://"+s.address).Exchange(t.Context())
	for _, id := range []string{"first", "second"} {
		if err := stream.Send(&outriggerv1.Envelope{Message: &outriggerv1.Envelope_Request{Request: &outriggerv1.Request{
			Id:     &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: id}},
			Method: "tools/call", ParamsForm: &outriggerv1.Request_ParamsJson{ParamsJson: []byte(`{"name":"lab.sleep","arguments":{"duration":"3s"}}`)},
		}}}); err != nil {
			t.Fatal(err)
		}
	}
	refused, err := stream.Receive()
	if err != nil || refused.GetErrorResponse().GetId().GetText() != "second" || !strings.Contains(refused.GetErrorResponse().GetError().GetMessage(), "--max-pipelined") {
		t.Errorf("got %v, %v; want the second to be refused", refused, err)
	}
	done, err := stream.Receive()
	if err != nil || done.GetSuccessResponse().GetId().GetText() != "first" {
		t.Errorf("got %v, %v; want the first to be answered", done, err)
	}
	if err := stream.CloseRequest(); err != nil {
		t.Error(err)
	}
	if _, err := stream.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last answer: %v", err)
	}
	_ = stream.CloseResponse()
}

// meetMemory holds on to more than there is, and lets go. The limit is that of the
// whole process, which is this test's.
func meetMemory(t *testing.T, s *limited) {
	t.Helper()
	t.Cleanup(func() { debug.SetMemoryLimit(-1); debug.SetMemoryLimit(1 << 62) })
	held := make([]byte, 64<<20)
	for i := range held {
		held[i] = 1
	}
	call := fmt.Sprintf(sleeper, 1, "0s")
	runtime.GC()
	testkit.Until(t, "calls are refused", func() bool {
		status, text, _, err := s.post("/rpc", call)
		return err == nil && status == 503 && strings.Contains(text, "memory limit reached")
	})
	// A small message is read, and its answer has its id. A large one is answered by its head.
	for padding, id := range map[int]string{0: `"id":"s1"`, 100 << 10: `"id":null`} {
		status, text, header, err := s.post("/rpc", call+strings.Repeat(" ", padding))
		for range 4 {
			if err == nil || padding == 0 {
				break
			}
			// A client that is still sending half a second later finds its connection closed.
			status, text, header, err = s.post("/rpc", call+strings.Repeat(" ", padding))
		}
		if err != nil || status != 503 || !strings.Contains(text, id) || header.Get("Retry-After") == "" {
			t.Errorf("with %d spaces: %d %s %v, %v", padding, status, text, header, err)
		}
	}
	// gRPC clients are told in their own words.
	if status, text, _, err := s.post("/outrigger.v1.ToolService/CallTool", `{"tool_name":"lab.echo"}`); err != nil || status != 503 || !strings.Contains(text, `"unavailable"`) {
		t.Errorf("Connect: %d %s, %v", status, text, err)
	}
	runtime.KeepAlive(held)
}

// meetStreams opens one subscription and then another.
// subscribed opens a stream of events.
func (s *limited) subscribed(t *testing.T) *http.Response {
	t.Helper()
	const subscribe = "\x00\x00\x00\x00\x0d{\"events\":{}}" // one enveloped message of Connect's streams
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.address+"/outrigger.v1.ToolService/Subscribe", strings.NewReader(subscribe))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/connect+json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func meetStreams(t *testing.T, s *limited) {
	t.Helper()
	first := s.subscribed(t)
	testkit.Until(t, "the first is open", func() bool { return strings.Contains(s.metrics(t), `outrigger_limit_used{limit="max_streams"} 1`) })
	if text, err := io.ReadAll(s.subscribed(t).Body); err != nil || !strings.Contains(string(text), `"code":"unavailable"`) || !strings.Contains(string(text), "RetryInfo") {
		t.Errorf("%q, %v", text, err)
	}
	_ = first.Body.Close()
}

// task calls a tool that becomes a task at once, and returns its id.
func (s *limited) task(duration string) (id, text string) {
	_, text, _, err := s.post("/outrigger.v1.ToolService/CallTool",
		`{"tool_name":"lab.sleep","arguments":{"duration":"`+duration+`"},"context":{"capabilities":{"tasks":true}}}`)
	if found := regexp.MustCompile(`"task_id":"([^"]+)"`).FindStringSubmatch(text); err == nil && found != nil {
		return found[1], text
	}
	return "", text
}

func meetTasks(t *testing.T, s *limited) {
	t.Helper()
	if id, text := s.task("60s"); id == "" {
		t.Fatalf("no task: %s", text)
	}
	if id, text := s.task("60s"); id != "" || !strings.Contains(text, `"code":"unavailable"`) || !strings.Contains(text, "--max-tasks") {
		t.Errorf("the second: %s", text)
	}
}

func meetTaskTTL(t *testing.T, s *limited) {
	t.Helper()
	id, text := s.task("60s")
	if id == "" {
		t.Fatalf("no task: %s", text)
	}
	look := func() (int, string) {
		status, text, _, err := s.post("/outrigger.v1.ToolService/GetTask", `{"task_id":"`+id+`"}`)
		if err != nil {
			t.Fatal(err)
		}
		return status, text
	}
	if status, text := look(); status != 200 {
		t.Errorf("at once: %d %s", status, text)
	}
	if status, text, _, err := s.post("/outrigger.v1.ToolService/CancelTask", `{"task_id":"`+id+`"}`); err != nil || status != 200 {
		t.Errorf("cancelled: %d %s, %v", status, text, err)
	}
	testkit.Until(t, "the task is forgotten", func() bool {
		status, text := look()
		return status == 404 && strings.Contains(text, `"code":"not_found"`)
	})
}
