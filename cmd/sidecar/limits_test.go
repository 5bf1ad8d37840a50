// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// limitRow is one field of Limits: a value that is easily met, and what meeting it
// looks like on a real listener.
type limitRow struct {
	// value is the field's value in the file; more are further lines of the limits,
	// top those beside them.
	value string
	more  []string
	top   string
	// backend replaces the example service.
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
	log            lockedBuffer
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
		"max_message_bytes": {refused: true, elsewhere: "cmd/sidecar TestLimitsCountOnEveryEdge"},
		"max_json_depth":    {refused: true, elsewhere: "cmd/sidecar TestLimitsCountOnEveryEdge"},
		"max_id_bytes":      {refused: true, elsewhere: "cmd/sidecar TestLimitsCountOnEveryEdge"},
		"max_batch_entries": {refused: true, elsewhere: "cmd/sidecar TestLimitsCountOnEveryEdge"},
		"max_in_flight":     {value: "1", refused: true, meet: beside(1, refuses(ping, 503, "UNAVAILABLE"))},
		"max_concurrent_calls": {value: "1", more: []string{"max_queue_wait: 50ms"}, refused: true,
			meet: beside(1, refuses(fmt.Sprintf(sleeper, 9, "0s"), 503, "UNAVAILABLE"))},
		"max_queued_calls": {value: "1", more: []string{"max_concurrent_calls: 1", "max_queue_wait: 60s"}, refused: true,
			meet: beside(2, refuses(fmt.Sprintf(sleeper, 9, "0s"), 503, "UNAVAILABLE"))},
		"max_queue_wait": {value: "20ms", more: []string{"max_concurrent_calls: 1"}, refused: true,
			meet: beside(1, refuses(fmt.Sprintf(sleeper, 9, "0s"), 503, "UNAVAILABLE"))},
		"max_result_bytes": {refused: true, elsewhere: "cmd/sidecar TestLimitsCountOnEveryEdge"},
		"max_result_items": {refused: true, elsewhere: "cmd/sidecar TestLimitsCountOnEveryEdge"},
		"max_input_items": {value: "1", refused: true, meet: refuses(
			`{"jsonrpc":"2.0","id":"m","method":"tools/call","params":{"name":"lab.relay","arguments":{"items":[{},{}]}}}`, 422, "INVALID_TOOL_INPUT")},
		"stream_idle_timeout":    {elsewhere: "internal/edge/connectapi TestStreamsAreBounded"},
		"max_stream_time":        {elsewhere: "internal/edge/connectapi TestAStreamHasItsTime"},
		"max_inline_bytes":       {elsewhere: "cmd/sidecar TestDocumentsThatAreHeld"},
		"max_held_bytes":         {refused: true, elsewhere: "bridge/blackbox TestADownloadIsBounded"},
		"result_budget":          {refused: true, elsewhere: "bridge/blackbox TestAResultIsCutToItsBudget"},
		"held_ttl":               {elsewhere: "bridge/blackbox TestALinkIsBound"},
		"max_watches":            {refused: true, elsewhere: "internal/notify TestStreamsAreBounded"},
		"max_watch_bytes":        {refused: true, elsewhere: "internal/notify TestALargeValueIsNotKept"},
		"max_learned_types":      {value: "1", refused: true, elsewhere: "cmd/sidecar TestTypesThatOnlyAnswersName"},
		"max_tools":              {elsewhere: "cmd/sidecar TestLimitsOfTheCatalog"},
		"max_descriptor_bytes":   {elsewhere: "cmd/sidecar TestLimitsOfTheCatalog"},
		"max_streams":            {value: "1", refused: true, meet: meetStreams},
		"max_sessions":           {value: "1", refused: true, meet: meetSessions},
		"max_session_age":        {value: "1s", refused: true, meet: meetOldSession},
		"max_tasks":              {value: "1", refused: true, top: "task_after: 1ms", meet: meetTasks},
		"task_ttl":               {value: "1s", meet: meetTaskTTL},
		"max_subscriber_backlog": {value: "2", refused: true, meet: meetBacklog},
		"read_header_timeout":    {value: "3s", refused: true, meet: ends("POST /rpc HTTP/1.1\r\nHost: x", "")},
		"read_body_timeout": {value: "1s", refused: true, meet: ends("POST /rpc HTTP/1.1\r\nHost: ADDRESS\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{",
			"did not arrive in time")},
		"idle_timeout":           {value: "1s", meet: ends("GET /rpc HTTP/1.1\r\nHost: ADDRESS\r\n\r\n", "405 Method Not Allowed")},
		"max_header_bytes":       {value: "4096", refused: true, meet: ends("GET /rpc HTTP/1.1\r\nHost: ADDRESS\r\nX: "+strings.Repeat("x", 16<<10)+"\r\n\r\n", "431 Request Header Fields Too Large")},
		"keep_alive_interval":    {elsewhere: "internal/edge/mcphttp TestAQuietLegacyStreamIsKeptAlive"},
		"catalog_wait":           {value: "50ms", refused: true, backend: "grpc://127.0.0.1:1", meet: refuses(list, 503, "UNAVAILABLE")},
		"drain_grace":            {value: "50ms", refused: true, meet: meetGrace},
		"caller_rate":            {value: "{per_second: 0.001}", refused: true, meet: secondTime(list, 429, "RATE_LIMITED")},
		"tool_rate":              {value: "{per_second: 0.001}", refused: true, meet: secondTime(fmt.Sprintf(sleeper, 9, "0s"), 429, "RATE_LIMITED")},
		"max_page_entries":       {value: "1", meet: meetPages},
		"max_pipelined_requests": {value: "1", refused: true, meet: meetPipelined},
		"max_stdio_queue_bytes":  {elsewhere: "cmd/sidecar TestStdioPushesBack"},
		"write_timeout":          {value: "200ms", refused: true, meet: meetWriteTimeout},
		"max_buffered_bytes":     {value: "1048576", refused: true, meet: meetBuffered},
		"caller_share_percent":   {value: "50", more: []string{"max_streams: 10"}, refused: true, meet: meetShare},
		"tool_share_percent": {value: "50", more: []string{"max_concurrent_calls: 1", "max_queued_calls: 10", "max_queue_wait: 60s", "caller_share_percent: 100"},
			refused: true, meet: meetToolShare},
		"tool_classes":     {elsewhere: "internal/server TestReservedCallsBesideAFlood"},
		"caller_classes":   {elsewhere: "internal/server TestReservedCallsBesideAFlood"},
		"answer_ttl":       {elsewhere: "bridge/blackbox TestARepeatedCallGetsTheFirstAnswer"},
		"max_answers":      {elsewhere: "bridge/blackbox TestTheOldestAnswersMakeRoom"},
		"max_answer_bytes": {elsewhere: "bridge/blackbox TestAnAnswerThatIsTooLargeIsNotKept"},
		"max_memory_bytes": {value: "33554432", refused: true, meet: meetMemory},

		"max_connections":          {value: "8", refused: true, meet: meetConnections(12)},
		"max_connections_per_peer": {value: "2", refused: true, meet: meetConnections(4)},
		"max_connection_requests":  {value: "1", refused: true, meet: ends("GET /rpc HTTP/1.1\r\nHost: ADDRESS\r\n\r\n", "405 Method Not Allowed")},
		"max_connection_age":       {value: "1s", refused: true, meet: meetAge},
		"max_connection_grace":     {value: "1s", more: []string{"max_connection_age: 1s"}, refused: true, meet: meetCut},
	}
}

// TestEveryLimitIsMet has each limit met on a real listener, and fails where a
// field has no row.
func TestEveryLimitIsMet(t *testing.T) { //nolint:paralleltest // one row sets the memory limit of the process, before the others run
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
			if name != "max_memory_bytes" {
				t.Parallel()
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
				testkit.Until(t, "it is counted", func() bool { return limitRefused(s.metrics(t), name) != "0" })
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
	if name != "drain_grace" {
		text += "  drain_grace: 1s\n" // some rows leave a call behind
	}
	text += "timeout: 2m\n" // a call that holds a place does so until the test ends
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
			_, _ = s.log.Write(append(lines.Bytes(), '\n'))
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
	testkit.Receive(t, "it starts", ready)
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
	client := oneShot()
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
	text, _ := get(t, oneShot(), "http://"+s.admin+"/metrics")
	return text
}
