// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// process is a sidecar that runs inside the test, with real listeners.
type process struct {
	main, admin string // URLs
	stdin       *io.PipeWriter
	stdout      *lockedBuffer
	stop        context.CancelFunc
	code        chan int
	logged      chan logLine
	early       []logLine // logged before it was ready, and not awaited yet
}

type logLine struct {
	Message  string `json:"msg"`
	Listener string `json:"listener"`
	Addr     string `json:"addr"`
	Missed   int    `json:"missed"`
	Field    string `json:"field"`
	Fault    string `json:"fault"`
	raw      []byte
}

// startProcess runs a command until it is ready.
func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	stdin, feed := io.Pipe()
	lines, stderr := io.Pipe()
	p := &process{stdin: feed, stdout: &lockedBuffer{}, stop: stop, code: make(chan int, 1), logged: make(chan logLine, 1024)}
	args = append([]string{args[0], "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--record-dir", "off", "--log-format", "json"}, args[1:]...)
	go func() {
		code := run(ctx, args, stdin, p.stdout, stderr, nil)
		_ = stderr.Close()
		p.code <- code
	}()
	go func() {
		defer close(p.logged)
		for s := bufio.NewScanner(lines); s.Scan(); {
			var l logLine
			if l.raw = bytes.Clone(s.Bytes()); json.Unmarshal(l.raw, &l) == nil {
				p.logged <- l
			}
		}
	}()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections() // the drain would wait for them
		stop()
		_ = feed.Close()
		for range p.logged {
		}
	})
	for {
		switch l := p.await(t, ""); {
		case l.Message == "listening" && l.Listener == "main":
			p.main = "http://" + l.Addr
		case l.Message == "listening":
			p.admin = "http://" + l.Addr
		case l.Message == "ready":
			return p
		default:
			p.early = append(p.early, l)
		}
	}
}

// await returns the next line of the log with a message, also one before the process was ready; any one after that where it is
// empty.
func (p *process) await(t *testing.T, message string) logLine {
	t.Helper()
	for i, l := range p.early {
		if message != "" && l.Message == message {
			p.early = p.early[i+1:]
			return l
		}
	}
	return testkit.Find(t, "the process says "+message, p.logged, func(l logLine) bool { return message == "" || l.Message == message })
}

// client speaks gRPC with the main listener.
func (p *process) client(t *testing.T) outriggerv1connect.ToolServiceClient {
	t.Helper()
	h2 := new(http.Protocols)
	h2.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: h2}
	t.Cleanup(transport.CloseIdleConnections)
	return outriggerv1connect.NewToolServiceClient(&http.Client{Transport: transport}, p.main, connect.WithGRPC())
}

// hear subscribes to events.
func (p *process) hear(t *testing.T, methods ...string) *connect.ServerStreamForClient[outriggerv1.Notification] {
	t.Helper()
	stream, err := p.client(t).Subscribe(t.Context(), connect.NewRequest(&outriggerv1.SubscribeRequest{
		Filter: &outriggerv1.SubscribeRequest_Events{Events: &outriggerv1.EventFilter{Methods: methods}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	stream.ResponseHeader()
	return stream
}

func wantEvent(t *testing.T, stream *connect.ServerStreamForClient[outriggerv1.Notification], method, params string) {
	t.Helper()
	if !stream.Receive() {
		t.Fatalf("no event: %v", stream.Err())
	}
	if n := stream.Msg(); n.GetMethod() != method || string(n.GetParamsJson()) != params {
		t.Errorf("got %v, want %s %s", n, method, params)
	}
}

// wantUnavailable reads a stream to its end, which a drain brings about.
func wantUnavailable[T any](t *testing.T, stream *connect.ServerStreamForClient[T]) {
	t.Helper()
	for stream.Receive() {
	}
	if connect.CodeOf(stream.Err()) != connect.CodeUnavailable {
		t.Errorf("the stream ended with %v, want unavailable", stream.Err())
	}
}

func postRPC(t *testing.T, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/rpc", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = true // a drain waits for idle connections
	return fetch(t, req)
}

func fetch(t *testing.T, req *http.Request) (int, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// TestEventsOfAWholeSidecar sends notifications at both JSON-RPC edges of one
// process, and drains it under its subscribers.
func TestEventsOfAWholeSidecar(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "stdio", "--demo", "--grace", "1h")
	stream := p.hear(t, "orders/*")
	if status, body := postRPC(t, p.main, `{"jsonrpc":"2.0","method":"orders/new","params":{"n":1}}`); status != http.StatusAccepted || body != "" {
		t.Errorf("/rpc answers %d %q", status, body)
	}
	wantEvent(t, stream, "orders/new", `{"n":1}`)
	if _, err := io.WriteString(p.stdin, `{"jsonrpc":"2.0","method":"other"}`+"\n"+`{"jsonrpc":"2.0","method":"orders/gone"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	wantEvent(t, stream, "orders/gone", "")

	p.stop()
	wantUnavailable(t, stream)
	// Endless streams must not use up the time that connections have, which is an hour.
	if code := testkit.Receive(t, "the exit code", p.code); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestACatalogThatChangesIsAnnounced changes a descriptor file under a sidecar
// that looks again every second.
func TestACatalogThatChangesIsAnnounced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, cfg := filepath.Join(dir, "shop.binpb"), filepath.Join(dir, "sidecar.yaml")
	writeShop(t, file, "Take")
	if err := os.WriteFile(cfg, []byte("catalog:\n  refresh_interval: 1s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, "serve", "--backend", "http://127.0.0.1:1", "--descriptors", file, "--config", cfg)
	client := p.client(t)
	tools, err := client.WatchTools(t.Context(), connect.NewRequest(&outriggerv1.WatchToolsRequest{}))
	if err != nil || !tools.Receive() || !tools.Msg().GetSnapshot() {
		t.Fatalf("watch: %v", err)
	}
	t.Cleanup(func() { _ = tools.Close() })
	changes, err := client.Subscribe(t.Context(), connect.NewRequest(&outriggerv1.SubscribeRequest{
		Filter: &outriggerv1.SubscribeRequest_Changes{Changes: &outriggerv1.ChangeFilter{ToolsListChanged: true}},
	}))
	if err != nil || !changes.Receive() {
		t.Fatalf("subscribe: %v", err)
	}
	t.Cleanup(func() { _ = changes.Close() })
	if got := described(t, p, "/describe"); got != described(t, p, "/rpc") || !strings.Contains(got, `"tools_count":1,`) {
		t.Errorf("the admin listener describes %s", got)
	}

	writeShop(t, file, "Take", "Put")
	p.await(t, "catalog changed")
	if !tools.Receive() || len(tools.Msg().GetAdded()) != 1 || tools.Msg().GetAdded()[0].GetName() != "shop.put" {
		t.Errorf("the watcher got %v, %v", tools.Msg(), tools.Err())
	}
	if !changes.Receive() || changes.Msg().GetMethod() != "notifications/tools/list_changed" {
		t.Errorf("the subscriber got %v, %v", changes.Msg(), changes.Err())
	}
	if got := described(t, p, "/describe"); got != described(t, p, "/rpc") || !strings.Contains(got, `"tools_count":2,`) {
		t.Errorf("the admin listener describes %s", got)
	}
	p.stop()
	wantUnavailable(t, tools)
	wantUnavailable(t, changes)
}

// described is what a listener says about the sidecar, as a JSON object.
func described(t *testing.T, p *process, path string) string {
	t.Helper()
	if path == "/rpc" {
		_, body := postRPC(t, p.main, `{"jsonrpc":"2.0","id":"1","method":"server/describe","params":{}}`)
		var reply struct{ Result json.RawMessage }
		if err := json.Unmarshal([]byte(body), &reply); err != nil {
			t.Fatal(err)
		}
		return string(reply.Result)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.admin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, body := fetch(t, req)
	return strings.TrimSuffix(body, "\n")
}

// writeShop replaces a descriptor file at once, so that no half of it is read.
func writeShop(t *testing.T, file string, methods ...string) {
	t.Helper()
	service := &descriptorpb.ServiceDescriptorProto{Name: new("Shop")}
	for _, m := range methods {
		service.Method = append(service.Method, &descriptorpb.MethodDescriptorProto{
			Name: new(m), InputType: new(".shop.v1.In"), OutputType: new(".shop.v1.In"),
		})
	}
	raw, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: new("shop.proto"), Package: new("shop.v1"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: new("In")}},
		Service:     []*descriptorpb.ServiceDescriptorProto{service},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file+".new", raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}
