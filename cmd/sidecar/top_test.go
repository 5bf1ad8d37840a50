// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1/adminv1connect"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// topStart is the time of the first message in tests.
func topStart() time.Time { return time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC) }

// counted are the counts of a tool with buckets up to 10 ms, 100 ms and a second.
func counted(name string, failed uint64, buckets ...uint64) *adminv1.ToolCounts {
	c := &adminv1.ToolCounts{Name: name, Failed: failed, Bounds: []float64{0.01, 0.1, 1}, Buckets: buckets}
	for _, n := range buckets {
		c.Calls += n
	}
	return c
}

// topMessage is a message so many seconds after the first.
func topMessage(after float64, tools ...*adminv1.ToolCounts) *adminv1.WatchResponse {
	return &adminv1.WatchResponse{
		Time: timestamppb.New(topStart().Add(time.Duration(after * float64(time.Second)))), Tools: tools,
		Ready: true, State: "ready", Trust: "untrusted", CatalogTools: 18, Watchers: 1,
	}
}

func TestTopRates(t *testing.T) {
	t.Parallel()
	full := make([]*adminv1.ToolCounts, maxTopTools)
	for i := range full {
		full[i] = counted(fmt.Sprintf("t%03d", i), 0, 10, 0, 0, 0)
	}
	late := append(slices.Clone(full[1:]), counted("late", 0, 1000, 0, 0, 0))
	odd := counted("a", 0, 4, 0, 0, 0)
	odd.Bounds = odd.Bounds[:1]
	for name, tt := range map[string]struct {
		messages      []*adminv1.WatchResponse
		calls, failed float64
		p50, p95      string
		ok            bool
	}{
		"no message":         {nil, 0, 0, "-", "-", false},
		"one message":        {[]*adminv1.WatchResponse{topMessage(0, counted("a", 1, 5, 0, 0, 0))}, 0, 0, "-", "-", false},
		"two":                {[]*adminv1.WatchResponse{topMessage(0, counted("a", 1, 5, 0, 0, 0)), topMessage(2, counted("a", 2, 9, 0, 0, 0))}, 2, 0.5, "5.0 ms", "9.5 ms", true},
		"a tool comes":       {[]*adminv1.WatchResponse{topMessage(0), topMessage(2, counted("a", 0, 0, 8, 2, 0))}, 5, 0, "66 ms", "775 ms", true},
		"beyond the bounds":  {[]*adminv1.WatchResponse{topMessage(0), topMessage(1, counted("a", 0, 1, 0, 0, 9))}, 10, 0, ">1.0 s", ">1.0 s", true},
		"two tools":          {[]*adminv1.WatchResponse{topMessage(0), topMessage(1, counted("a", 0, 1, 0, 0, 0), counted("b", 3, 0, 0, 3, 0))}, 4, 3, "400 ms", "940 ms", true},
		"a tool comes late":  {[]*adminv1.WatchResponse{topMessage(0, full...), topMessage(1, late...)}, 0, 0, "-", "-", true},
		"counts fall":        {[]*adminv1.WatchResponse{topMessage(0, counted("a", 0, 9, 0, 0, 0)), topMessage(1, counted("a", 0, 2, 0, 0, 0))}, 0, 0, "-", "-", true},
		"time stays":         {[]*adminv1.WatchResponse{topMessage(1, counted("a", 0, 1, 0, 0, 0)), topMessage(1, counted("a", 0, 2, 0, 0, 0))}, 0, 0, "-", "-", false},
		"buckets do not fit": {[]*adminv1.WatchResponse{topMessage(0), topMessage(1, odd)}, 4, 0, "-", "-", true},
		"the window moves": {[]*adminv1.WatchResponse{
			topMessage(0), topMessage(5, counted("a", 0, 100, 0, 0, 0)), topMessage(15, counted("a", 0, 110, 0, 0, 0)),
		}, 1, 0, "5.0 ms", "9.5 ms", true},
	} {
		var s topState
		for i, m := range tt.messages {
			s = s.with(m, i == 0)
		}
		_, all, ok := s.rates()
		if all.calls != tt.calls || all.failed != tt.failed || all.took.text(p50) != tt.p50 || all.took.text(p95) != tt.p95 || ok != tt.ok {
			t.Errorf("%s: %v calls, %v failed, %s, %s, %t", name, all.calls, all.failed, all.took.text(p50), all.took.text(p95), ok)
		}
	}
}

// TestTopStateIsBounded: days of messages take no more memory than the window, and what is not kept is counted.
func TestTopStateIsBounded(t *testing.T) {
	t.Parallel()
	var s topState
	for i := range 1000 {
		m := topMessage(float64(i) / 4)
		m.Ended, m.EndedOmitted = []*adminv1.Call{{Id: uint64(i)}}, 1
		s = s.with(m, i == 0)
	}
	if len(s.samples) > 42 || len(s.ended) != maxTopEnded || s.ended[0].GetId() != 999 || s.omitted != 1000+800 {
		t.Errorf("%d samples, %d calls from %d, %d omitted", len(s.samples), len(s.ended), s.ended[0].GetId(), s.omitted)
	}
	if again := s.with(topMessage(0), true); len(again.samples) != 1 || len(again.ended) != 0 || again.omitted != 0 {
		t.Errorf("another stream goes on with %d samples and %d calls", len(again.samples), len(again.ended))
	}
}

// busyState has something of everything, and names that attack the terminal.
func busyState() topState {
	call := func(id uint64, began float64, took, upstream time.Duration, tool, caller, code string) *adminv1.Call {
		return &adminv1.Call{
			Id: id, Caller: caller, Tool: tool, Edge: "mcp", Operation: "call", Code: code,
			Began: timestamppb.New(topStart().Add(time.Duration(began * float64(time.Second)))), Took: durationpb.New(took), Upstream: durationpb.New(upstream),
		}
	}
	first := topMessage(0, counted("lab.echo", 0, 1, 0, 0, 0), counted("fleet.plan_route", 0, 0, 0, 1, 0))
	first.Limits = []*adminv1.Limit{{Name: "limits.max_streams", Most: 10, Refused: 4}}
	m := topMessage(2, counted("lab.echo", 0, 301, 0, 0, 0), counted("fleet.plan_route", 3, 0, 5, 6, 0), counted("lab.never", 0, 0, 0, 0, 0))
	m.Tools[1].InFlight = 2
	m.InFlight = []*adminv1.Call{
		call(7, 0.5, 1500*time.Millisecond, 1200*time.Millisecond, "fleet.plan_route", "agent", ""),
		call(8, 1.9, 100*time.Millisecond, 0, "fleet.plan_route", "船団の運用担当者チーム全員", ""),
	}
	m.InFlight[0].Step, m.InFlight[1].Operator = "unary", "root"
	m.InFlightTotal = 5
	m.Ended = []*adminv1.Call{
		call(1, 1, 4200*time.Microsecond, 3900*time.Microsecond, "lab.echo", "agent", "OK"),
		call(2, 1.1, 250*time.Microsecond, 0, "", "\x1b]0;owned\x07\u202egnp.exe", "TOOL_NOT_FOUND"),
		call(3, 1.2, 90*time.Microsecond, 0, "", "agent", "OK"),
		call(4, 1.3, 2*time.Second, 2*time.Second, strings.Repeat("\x1b[2J", 300_000), "agent", "DEADLINE_EXCEEDED"),
	}
	m.Ended[2].Operation, m.EndedOmitted = "list", 12
	m.Checks = []*adminv1.Check{
		{Name: "catalog", Ok: true}, {Name: "backend", Detail: "circuit breaker open\x1b[31m"}, {Name: "state", Ok: true, IsInfo: true},
	}
	m.Certificates = []*adminv1.Certificate{
		{Name: "main listener", NotAfter: timestamppb.New(topStart().Add(6 * 24 * time.Hour))},
		{Name: "admin listener", NotAfter: timestamppb.New(topStart())},
		{Name: "backend", NotAfter: timestamppb.New(topStart().Add(300 * 24 * time.Hour))},
	}
	m.Limits = []*adminv1.Limit{
		{Name: "limits.max_streams", Used: proto.Float64(9), Most: 10, Refused: 7}, {Name: "limits.max_tools", Used: proto.Float64(18), Most: 11000},
		{Name: "limits.max_message_bytes", Most: 4194304, Refused: 2}, {Name: "limits.none", Used: proto.Float64(0)},
	}
	m.Watchers, m.Streams, m.Tasks, m.Sessions = 2, 1, 3, 4
	return topState{server: &adminv1.GetServerResponse{Name: "fleet", Version: "0.1.0"}}.with(first, true).with(m, false)
}

// TestTopView compares drawings with those on record.
func TestTopView(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	away := busyState()
	away.away = "connect: connection refused"
	for _, tt := range []struct {
		name  string
		state topState
		view  topView
		size  topSize
	}{
		{"a snapshot", busyState(), topView{}, topSize{columns: topColumns}},
		{"a terminal", busyState(), topView{}, topSize{100, 30}},
		{"a small terminal, scrolled", busyState(), topView{offsets: [panes]int{1, 2}}, topSize{80, 24}},
		{"a narrow terminal", busyState(), topView{order: 4}, topSize{40, 20}},
		{"only failures, paused", busyState(), topView{faults: true, isPaused: true}, topSize{80, 24}},
		{"a filter is typed", busyState(), topView{filter: "ECHO", isTyping: true}, topSize{80, 24}},
		{"away", away, topView{}, topSize{80, 24}},
		{"help", busyState(), topView{help: true}, topSize{80, 24}},
		{"nothing yet", topState{server: &adminv1.GetServerResponse{Name: "fleet", Version: "0.1.0", Trust: "confirm"}}.with(topMessage(0), true), topView{}, topSize{80, 12}},
	} {
		fmt.Fprintf(&got, "=== %s, %d columns, %d lines\n", tt.name, tt.size.columns, tt.size.lines)
		lines, _ := tt.state.render(tt.view, tt.size)
		for _, line := range lines {
			fmt.Fprintf(&got, "%2s|%s\n", line.look, line.text)
		}
	}
	onRecord(t, "top.txt", got.String())
}

// TestTopViewFits: whatever the size, a drawing has exactly as many lines, none wider than the terminal, and no control characters.
func TestTopViewFits(t *testing.T) {
	t.Parallel()
	busy := busyState()
	for lines := 1; lines < 40; lines++ {
		for columns := 1; columns < 130; columns++ {
			for _, view := range []topView{{}, {offsets: [panes]int{1000, 1000}}, {help: true}, {isTyping: true, filter: "a"}} {
				got, after := busy.render(view, topSize{columns, lines})
				if len(got) != lines || after.offsets[0] > 3 || after.offsets[1] > 8 {
					t.Fatalf("%d lines and offsets %v at %d by %d", len(got), after.offsets, columns, lines)
				}
				for _, line := range got {
					if columnsOf(line.text) > columns || strings.ContainsFunc(line.text, func(r rune) bool { return r < ' ' || r == 0x202e }) {
						t.Fatalf("%d by %d: %q", columns, lines, line.text)
					}
				}
			}
		}
	}
}

// BenchmarkTopView draws a state with a name of a megabyte.
func BenchmarkTopView(b *testing.B) {
	s := busyState()
	for b.Loop() {
		_, _ = s.render(topView{}, topSize{120, 50})
	}
}

func TestTopKeys(t *testing.T) {
	t.Parallel()
	quit := topView{order: -1}
	for input, want := range map[string]topView{
		"q":                             quit,
		"\x03":                          quit,
		"/q\x03":                        quit,
		"p":                             {isPaused: true},
		"pp":                            {},
		"ssssss":                        {order: 1},
		"f":                             {faults: true},
		"/éa\x7fq\r":                    {filter: "éq"},
		"/ab\x1b":                       {},
		"/ab\rs\x1b":                    {order: 1},
		"/\x7f":                         {isTyping: true},
		"/" + strings.Repeat("a", 999):  {isTyping: true, filter: strings.Repeat("a", maxFilter)},
		"?":                             {help: true},
		"?q":                            {},
		"jj\tj\x1b[B\x1bOB\x1b[A":       {pane: paneCalls, offsets: [panes]int{2, 2}},
		"\x1b[6~\x1b[6~\x1b[5~k":        {offsets: [panes]int{9, 0}},
		"\x1b[1;5Cx\x00\xff\u202e\x1b[": {},
	} {
		var v topView
		quits := false
		for _, key := range keysOf([]byte(input)) {
			if v, quits = v.press(key); quits {
				v = quit
				break
			}
		}
		if v != want {
			t.Errorf("%q: %+v, want %+v", input, v, want)
		}
	}
}

func TestTopTexts(t *testing.T) {
	t.Parallel()
	for s, want := range map[float64]string{
		0: "0.0 ms", 0.000_42: "0.4 ms", 0.0123: "12 ms", 0.9994: "999 ms", 0.9996: "1.0 s", 59.6: "60 s", 150: "2.5 min", 86400: "24 h", 6 * 86400: "6.0 d", math.Inf(-1): "-Inf ms",
	} {
		if got := seconds(s); got != want {
			t.Errorf("%v: %s, want %s", s, got, want)
		}
	}
	for text, want := range map[string]string{"": "", "abcd": "abcd", "abcde": "abc…", "船団の": "船…", "ab船": "ab船", "abc船": "abc…"} {
		if got := cut(text, 4); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// operated is an admin listener with the API alone.
type operated struct {
	adminv1connect.UnimplementedAdminServiceHandler

	// token is asked for where it is not empty; refusal ends every Watch.
	token   string
	refusal error
	streams atomic.Int32
	// A value of gone ends a stream; mute has them send no more than one message.
	gone chan struct{}
	mute bool
}

func (o *operated) serve(t *testing.T) (address string, server *httptest.Server) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(adminv1connect.NewAdminServiceHandler(o))
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.token != "" && r.Header.Get("Authorization") != "Bearer "+o.token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), server
}

func (*operated) GetServer(context.Context, *connect.Request[adminv1.GetServerRequest]) (*connect.Response[adminv1.GetServerResponse], error) {
	return connect.NewResponse(&adminv1.GetServerResponse{Name: "fleet", Version: "0.1.0"}), nil
}

func (o *operated) Watch(ctx context.Context, req *connect.Request[adminv1.WatchRequest], stream *connect.ServerStream[adminv1.WatchResponse]) error {
	if o.refusal != nil {
		return o.refusal
	}
	n := o.streams.Add(1)
	for i := 0; ; i++ {
		m := busyState().last
		m.Time = timestamppb.New(topStart().Add(time.Duration(i) * req.Msg.GetInterval().AsDuration()))
		m.CatalogTools = 100 * n
		m.Tools[0].Calls += uint64(300 * i)
		if err := stream.Send(m); err != nil {
			return err
		}
		every := time.After(req.Msg.GetInterval().AsDuration())
		if o.mute {
			every = nil
		}
		select {
		case <-every:
		case <-o.gone:
			return errors.New("gone")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func runTop(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"top"}, args...), strings.NewReader(""), &out, &errs, nil)
	return code, out.String(), errs.String()
}

// TestTopPrints: without a terminal a snapshot with rates, and messages as lines of JSON.
func TestTopPrints(t *testing.T) {
	t.Parallel()
	o := &operated{}
	address, _ := o.serve(t)
	code, out, stderr := runTop(t, "--admin", address, "--interval", "250ms")
	if code != exitOK || !strings.HasPrefix(out, "fleet  0.1.0  ready  untrusted  100 tools  2 watchers\ncalls 1200/s  errors 0/s") || strings.ContainsAny(out, "\x1b\x07") || strings.Contains(out, "quit") {
		t.Errorf("exit code %d, %s\n%s", code, stderr, out)
	}
	code, out, stderr = runTop(t, "--admin", address, "--json", "--once")
	var m adminv1.WatchResponse
	if err := protojson.Unmarshal([]byte(out), &m); err != nil || code != exitOK || strings.Count(out, "\n") != 1 || len(m.GetEnded()) != 4 || strings.ContainsAny(out, "\x1b\u202e") {
		t.Errorf("exit code %d, %v, %s", code, err, stderr)
	}
	ctx, ctrlC := context.WithCancel(t.Context())
	pipe, stdout := testPipe(t)
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"top", "--admin", address, "--json", "--interval", "250ms"}, strings.NewReader(""), stdout, &bytes.Buffer{}, nil)
	}()
	for range 3 {
		if !pipe.Scan() || protojson.Unmarshal(pipe.Bytes(), &m) != nil {
			t.Fatalf("no line of JSON: %.100s", pipe.Text())
		}
	}
	ctrlC()
	go func() {
		for pipe.Scan() {
			continue // a line may be on its way
		}
	}()
	if code := testkit.Receive(t, "the end", ended); code != exitOK {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
}

// testPipe is a pipe whose lines are read.
func testPipe(t *testing.T) (*bufio.Scanner, *io.PipeWriter) {
	t.Helper()
	r, w := io.Pipe()
	t.Cleanup(func() { _ = r.Close() })
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	return lines, w
}

// TestTopOfOthers: what does not answer, refuses or is no sidecar has its code and a next step.
func TestTopOfOthers(t *testing.T) {
	t.Parallel()
	closed, _ := (&operated{token: "0123456789abcdef0123456789abcdef"}).serve(t)
	busy, _ := (&operated{refusal: connect.NewError(connect.CodeResourceExhausted, errors.New("8 clients watch already"))}).serve(t)
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	for name, tt := range map[string]struct {
		args []string
		code int
		err  string
	}{
		"nothing":      {[]string{"--admin", testkit.Dead(t)}, exitRefused, "nothing listens there; is the sidecar running, and with --admin "},
		"an operator":  {[]string{"--admin", closed}, exitRefused, "name a file with a token by --token-file"},
		"too many":     {[]string{"--admin", busy}, exitRefused, "8 clients watch already"},
		"another page": {[]string{"--admin", strings.TrimPrefix(other.URL, "http://"), "--json"}, exitRefused, "is this the admin listener of a sidecar (--admin)"},
		"no address":   {[]string{"--admin", "off"}, exitUsage, "want host:port"},
		"too often":    {[]string{"--interval", "1ms"}, exitUsage, "--interval: must be at least 250ms and at most 1m0s, is 1ms"},
	} {
		code, out, err := runTop(t, tt.args...)
		if code != tt.code || out != "" || !strings.Contains(err, tt.err) {
			t.Errorf("%s: exit code %d, %q, %q", name, code, out, err)
		}
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, err := runTop(t, "--admin", closed, "--token-file", file, "--json", "--once"); code != exitOK || out == "" {
		t.Errorf("with a token: exit code %d, %q", code, err)
	}
}

// TestTopSaysWhatWaitsForApproval, where something does.
func TestTopSaysWhatWaitsForApproval(t *testing.T) {
	t.Parallel()
	for _, n := range []int32{0, 3} {
		s := busyState()
		s.last.Approvals = n
		lines, _ := s.render(topView{}, topSize{columns: topColumns})
		if got := strings.HasSuffix(lines[1].text, "  waiting for approval 3"); got != (n > 0) {
			t.Errorf("%d: %s", n, lines[1].text)
		}
	}
}
