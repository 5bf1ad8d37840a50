// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

// limitRow is one field of Limits: a value that is easily met, and what meeting it
// looks like on a real listener.
type limitRow struct {
	// value is the field's value in the file; more are further lines of the limits,
	// top those beside them.
	value string
	more  []string
	top   string
	// backend stands instead of the example service.
	backend string
	meet    func(t *testing.T, s *limited)
	// elsewhere names the test that meets it on a real listener, as path and name,
	// where that takes more than a request.
	elsewhere string
	// refused is set where meeting it refuses something, or ends it early: that
	// counts in outrigger_limit_refused_total, whose series is there from the start.
	// The others have no such series.
	refused bool
}

// limited is a running sidecar with one small limit.
type limited struct {
	address, admin string
	stop           context.CancelFunc
	// page is the last page of metrics, where it was read before the end.
	page string
}

const (
	ping    = `{"jsonrpc":"2.0","id":"p","method":"ping","params":{}}`
	list    = `{"jsonrpc":"2.0","id":"l","method":"tools/list","params":{}}`
	sleeper = `{"jsonrpc":"2.0","id":"s%d","method":"tools/call","params":{"name":"lab.sleep","arguments":{"duration":"%s"}}}`
	echoes  = `{"jsonrpc":"2.0","id":"e","method":"tools/call","params":{"name":"lab.echo","arguments":{"payload":"%s"}}}`
	open    = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
)

// limitRows has a row for each field of Limits.
func limitRows() map[string]limitRow {
	return map[string]limitRow{
		"max_message_bytes": {value: "1024", refused: true, meet: refuses(`{"jsonrpc":"2.0","id":"`+strings.Repeat("x", 1024)+`"}`, 413, "PAYLOAD_TOO_LARGE")},
		"max_json_depth":    {value: "4", refused: true, meet: refuses(`{"jsonrpc":"2.0","id":"d","method":"ping","params":{"a":[[[1]]]}}`, 400, "PARSE_ERROR")},
		"max_id_bytes":      {value: "36", refused: true, meet: refuses(`{"jsonrpc":"2.0","id":"`+strings.Repeat("x", 40)+`","method":"ping","params":{}}`, 400, "INVALID_ENVELOPE")},
		"max_batch_entries": {value: "1", refused: true, meet: refuses("["+ping+","+ping+"]", 413, "PAYLOAD_TOO_LARGE")},
		"max_in_flight":     {value: "1", refused: true, meet: beside(1, refuses(ping, 503, "UNAVAILABLE"))},
		"max_concurrent_calls": {value: "1", more: []string{"max_queue_wait: 50ms"}, refused: true,
			meet: beside(1, refuses(fmt.Sprintf(sleeper, 9, "0s"), 503, "UNAVAILABLE"))},
		"max_queued_calls": {value: "1", more: []string{"max_concurrent_calls: 1", "max_queue_wait: 60s"}, refused: true,
			meet: beside(2, refuses(fmt.Sprintf(sleeper, 9, "0s"), 503, "UNAVAILABLE"))},
		"max_queue_wait": {value: "20ms", more: []string{"max_concurrent_calls: 1"}, refused: true,
			meet: beside(1, refuses(fmt.Sprintf(sleeper, 9, "0s"), 503, "UNAVAILABLE"))},
		"max_result_bytes":       {value: "1024", refused: true, meet: refuses(fmt.Sprintf(echoes, strings.Repeat("AAAA", 512)), 502, "RESOURCE_EXHAUSTED")},
		"max_result_items":       {value: "1", refused: true, meet: meetItems},
		"max_streams":            {value: "1", refused: true, meet: meetStreams},
		"max_sessions":           {value: "1", refused: true, meet: meetSessions},
		"session_idle_timeout":   {value: "1s", refused: true, meet: meetIdleSession},
		"max_tasks":              {value: "1", refused: true, top: "task_after: 1ms", meet: meetTasks},
		"task_ttl":               {value: "1s", top: "task_after: 1ms", meet: meetTaskTTL},
		"max_subscriber_backlog": {value: "1", refused: true, meet: meetBacklog},
		"read_header_timeout":    {value: "100ms", refused: true, meet: ends("POST /rpc HTTP/1.1\r\nHost: x", "")},
		"read_body_timeout": {value: "100ms", refused: true, meet: ends("POST /rpc HTTP/1.1\r\nHost: ADDRESS\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{",
			"did not arrive in time")},
		"idle_timeout":           {value: "1s", meet: ends("GET /rpc HTTP/1.1\r\nHost: ADDRESS\r\n\r\n", "405 Method Not Allowed")},
		"max_header_bytes":       {value: "4096", refused: true, meet: ends("GET /rpc HTTP/1.1\r\nHost: ADDRESS\r\nX: "+strings.Repeat("x", 16<<10)+"\r\n\r\n", "431 Request Header Fields Too Large")},
		"keep_alive_interval":    {elsewhere: "bridge/edge/mcphttp TestAQuietLegacyStreamIsKeptAlive"},
		"catalog_wait":           {value: "50ms", refused: true, backend: "grpc://127.0.0.1:1", meet: refuses(list, 503, "UNAVAILABLE")},
		"drain_grace":            {value: "50ms", refused: true, meet: meetGrace},
		"caller_rate":            {value: "{per_second: 0.001}", refused: true, meet: secondTime(list, 429, "RATE_LIMITED")},
		"tool_rate":              {value: "{per_second: 0.001}", refused: true, meet: secondTime(fmt.Sprintf(sleeper, 9, "0s"), 429, "RATE_LIMITED")},
		"max_page_entries":       {value: "1", meet: meetPages},
		"max_pipelined_requests": {value: "1", refused: true, meet: meetPipelined},
		"max_memory_bytes":       {value: "33554432", refused: true, meet: meetMemory},
	}
}

// TestEveryLimitIsMet has each limit met on a real listener, and fails where a
// field has no row.
func TestEveryLimitIsMet(t *testing.T) { //nolint:paralleltest // one row sets the memory limit of the process
	rows := limitRows()
	fields := new(configv1.Limits).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		name := string(fields.Get(i).Name())
		row, ok := rows[name]
		if !ok {
			t.Errorf("limits.%s has no row here: add one, with a request that meets it", name)
			continue
		}
		delete(rows, name)
		t.Run(name, func(t *testing.T) {
			if row.elsewhere != "" {
				findTest(t, row.elsewhere)
				return
			}
			s := startLimited(t, name, row)
			page := s.metrics(t)
			if !regexp.MustCompile(`outrigger_limit_max\{limit="` + name + `"\} ([1-9]|0\.)`).MatchString(page) {
				t.Errorf("no metric says how much there may be")
			}
			if got := limitRefused(page, name); got != "" != row.refused || got != "" && got != "0" {
				t.Errorf("at the start %q is counted", got)
			}
			row.meet(t, s)
			if s.page == "" && row.refused {
				// net/http ends a connection half a second after it has refused it.
				until(t, "it is counted", func() bool { return limitRefused(s.metrics(t), name) != "0" })
			} else if got := limitRefused(s.page, name); row.refused && got == "0" {
				t.Errorf("it was met, and %q is counted", got)
			}
		})
	}
	for name := range rows {
		t.Errorf("there is no limits.%s any more", name)
	}
}

// limitRefused is what a page of metrics counts for a limit; empty where it has no
// series.
func limitRefused(page, name string) string {
	found := regexp.MustCompile(`outrigger_limit_refused_total\{limit="` + name + `"\} (\S+)`).FindStringSubmatch(page)
	if found == nil {
		return ""
	}
	return found[1]
}

// findTest checks that a test is where a row says.
func findTest(t *testing.T, where string) {
	t.Helper()
	dir, name, _ := strings.Cut(where, " ")
	files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t ") {
			return
		}
	}
	t.Errorf("there is no test %s", where)
}

// startLimited starts a sidecar with one limit.
func startLimited(t *testing.T, name string, row limitRow) *limited {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sidecar.yaml")
	text := "limits:\n  " + name + ": " + row.value + "\n"
	for _, line := range row.more {
		text += "  " + line + "\n"
	}
	if err := os.WriteFile(file, []byte(text+row.top+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"serve", "--config", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--record-dir", "off", "--log-format", "json"}
	if row.backend != "" {
		args = append(args, "--backend", row.backend)
	} else {
		args = append(args, "--demo")
	}
	ctx, stop := context.WithCancel(context.Background())
	r, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, args, strings.NewReader(""), io.Discard, w, nil)
		_ = w.Close()
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
	s := &limited{stop: stop}
	ready := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 1<<20)
		told := false
		for lines.Scan() {
			var line struct{ Msg, Listener, Addr string }
			_ = json.Unmarshal(lines.Bytes(), &line)
			switch {
			case told:
			case line.Msg == "listening" && line.Listener == "main":
				s.address = line.Addr
			case line.Msg == "listening" && line.Listener == "admin":
				s.admin = line.Addr
			}
			if !told && s.address != "" && s.admin != "" && (row.backend != "" || line.Msg == "ready") {
				told = true
				close(ready)
			}
		}
	}()
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Fatal("it does not start")
	}
	return s
}

// post sends a body to a path and returns the answer.
func (s *limited) post(path, body string, headers ...string) (status int, text string, header http.Header, err error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://"+s.address+path, strings.NewReader(body))
	if err != nil {
		return 0, "", nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	res, err := client.Do(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	return res.StatusCode, string(raw), res.Header, err
}

func (s *limited) metrics(t *testing.T) string {
	t.Helper()
	text, _ := get(t, client(1), "http://"+s.admin+"/metrics")
	return text
}

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
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.address+"/rpc", strings.NewReader(fmt.Sprintf(sleeper, i, "20s")))
				if err != nil {
					return
				}
				req.Header.Set("Content-Type", "application/json")
				if res, err := http.DefaultClient.Do(req); err == nil {
					_ = res.Body.Close()
				}
			}()
			want := fmt.Sprintf(`outrigger_requests_in_flight %d`, i+1)
			until(t, want, func() bool { return strings.Contains(s.metrics(t), want) })
		}
		if n > 1 {
			until(t, "one waits", func() bool { return strings.Contains(s.metrics(t), `outrigger_limit_used{limit="max_queued_calls"} 1`) })
		}
		then(t, s)
	}
}

// until waits for something, for a bounded time.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(time.Minute); !ok(); <-ticker.C {
		if time.Now().After(end) {
			t.Fatalf("%s: not in time", what)
		}
	}
}

// ends writes to a connection and wants a part of what comes before its end.
func ends(send, want string) func(*testing.T, *limited) {
	return func(t *testing.T, s *limited) {
		t.Helper()
		conn := dialTCP(t, s.address)
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
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

func meetItems(t *testing.T, s *limited) {
	t.Helper()
	_, text, _, err := s.post("/rpc", `{"jsonrpc":"2.0","id":"i","method":"tools/call","params":{"name":"fleet.watch_vehicles","arguments":{"vehicleIds":["101"],"rounds":3,"interval":"0s"}}}`)
	if err != nil || !strings.Contains(text, `"truncated":true`) {
		t.Errorf("%s, %v", text, err)
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
	if a, b := s.pings(t, first), s.pings(t, last); a != 404 || b != 200 {
		t.Errorf("the first session answers %d, the last %d", a, b)
	}
}

func meetIdleSession(t *testing.T, s *limited) {
	t.Helper()
	id := s.session(t)
	timer := time.NewTimer(1500 * time.Millisecond)
	defer timer.Stop()
	<-timer.C // each use would make it younger
	if status := s.pings(t, id); status != 404 {
		t.Errorf("an unused session answers %d", status)
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
			_, text, _, _ := s.post("/rpc", fmt.Sprintf(sleeper, 7, "20s"))
			answer <- text
		}()
		until(t, "two in flight", func() bool { return strings.Contains(s.metrics(t), "outrigger_requests_in_flight 2") })
		// Whoever waits for the drain hears of its end, and may look once more before
		// the process ends.
		res, err := http.Post("http://"+s.admin+"/drain?wait=30s", "", nil) //nolint:noctx // the test's own time bounds it
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		s.page = s.metrics(t)
		if text := <-answer; !strings.Contains(text, `"code":"UNAVAILABLE"`) || !strings.Contains(text, "outcome is unknown") {
			t.Errorf("%s", text)
		}
	})(t, s)
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
	until(t, "it has subscribed", func() bool { return strings.Contains(s.metrics(t), "outrigger_event_subscribers 1") })
	event := `{"jsonrpc":"2.0","method":"orders/new","params":{"text":"` + strings.Repeat("x", 512<<10) + `"}}`
	until(t, "it is dropped", func() bool {
		if status, text, _, err := s.post("/rpc", event); err != nil || status != http.StatusAccepted {
			t.Fatalf("%d %s, %v", status, text, err)
		}
		return limitRefused(s.metrics(t), "max_subscriber_backlog") != "0"
	})
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
			Method: "tools/call", ParamsForm: &outriggerv1.Request_ParamsJson{ParamsJson: []byte(`{"name":"lab.sleep","arguments":{"duration":"0.3s"}}`)},
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
	until(t, "calls are refused", func() bool {
		status, text, _, err := s.post("/rpc", call)
		return err == nil && status == 503 && strings.Contains(text, "short of memory")
	})
	// gRPC clients are told in their own words.
	if status, text, _, err := s.post("/outrigger.v1.ToolService/CallTool", `{"tool_name":"lab.echo"}`); err != nil || status != 503 || !strings.Contains(text, `"unavailable"`) {
		t.Errorf("Connect: %d %s, %v", status, text, err)
	}
	runtime.KeepAlive(held)
}

// meetStreams opens one subscription and then another.
func meetStreams(t *testing.T, s *limited) {
	t.Helper()
	const subscribe = "\x00\x00\x00\x00\x0d{\"events\":{}}" // one enveloped message of Connect's streams
	opened := func() *http.Response {
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
	first := opened()
	until(t, "the first is open", func() bool { return strings.Contains(s.metrics(t), `outrigger_limit_used{limit="max_streams"} 1`) })
	if text, err := io.ReadAll(opened().Body); err != nil || !strings.Contains(string(text), `"code":"unavailable"`) || !strings.Contains(string(text), "RetryInfo") {
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
	if id, text := s.task("20s"); id == "" {
		t.Fatalf("no task: %s", text)
	}
	if id, text := s.task("20s"); id != "" || !strings.Contains(text, `"code":"unavailable"`) || !strings.Contains(text, "--max-tasks") {
		t.Errorf("the second: %s", text)
	}
}

func meetTaskTTL(t *testing.T, s *limited) {
	t.Helper()
	id, text := s.task("2s")
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
	until(t, "the task is forgotten", func() bool {
		status, text := look()
		return status == 404 && strings.Contains(text, `"code":"not_found"`)
	})
}
