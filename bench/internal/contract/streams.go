// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

const (
	// openStreams is how many clients hold a stream open at a time.
	openStreams = 1000
	// settled is how long the sidecar rests before its memory is read, and
	// announced how often the catalog changes.
	settled   = time.Second
	announced = 5
	// streamStepTimeout bounds one step of one stream.
	streamStepTimeout = 20 * time.Second
)

// kind is one way to hold a stream open.
type kind struct {
	name string
	// bytes is the most that one may cost.
	bytes int64
	open  func(ctx context.Context, addr string) (*listener, error)
}

// streams measures what open streams cost, and how long a change of the catalog
// takes to reach all of them.
func streams(ctx context.Context, binary, dir string) ([]Row, error) {
	var rows []Row
	for _, k := range []kind{
		{"subscriptions/listen stream", 30 << 10, openModern},
		{"legacy session with its GET stream", 40 << 10, openLegacy},
	} {
		got, err := streamsOf(ctx, binary, dir, k)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		rows = append(rows, got...)
	}
	return rows, nil
}

func streamsOf(ctx context.Context, binary, dir string, k kind) (rows []Row, err error) {
	s, err := sidecar.Start(ctx, binary, dir, "--demo", "--log-level", "warn")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	// One of them first, so that what all share is not counted.
	first, err := k.open(ctx, s.Addr)
	if err != nil {
		return nil, err
	}
	defer first.close()
	before, err := held(ctx, s)
	if err != nil {
		return nil, err
	}
	all := make([]*listener, 0, openStreams)
	defer func() {
		for _, l := range all {
			l.close()
		}
	}()
	for range openStreams {
		l, err := k.open(ctx, s.Addr)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	after, err := held(ctx, s)
	if err != nil {
		return nil, err
	}
	each := max((after-before)/openStreams, 1)
	slowest, err := reach(ctx, s, all)
	if err != nil {
		return nil, err
	}
	return []Row{
		{
			What: fmt.Sprintf("memory of one %s, of %d", k.name, openStreams), Target: fmt.Sprintf("< %d KiB", k.bytes>>10),
			Figure: fmt.Sprintf("%.1f KiB", float64(each)/1024), Times: float64(k.bytes) / float64(each), Goal: 1,
		},
		withGoal(below(fmt.Sprintf("a change of the catalog reaches all %d", openStreams), 100*time.Millisecond, slowest), 1),
	}, nil
}

// held is what the sidecar's heap and stacks hold after a garbage collection, in
// bytes: what streams cost, without what happens to lie about.
func held(ctx context.Context, s *sidecar.Sidecar) (int64, error) {
	time.Sleep(settled)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Admin+"/debug/pprof/heap?debug=1&gc=1", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return 0, err
	}
	var total int64
	for _, name := range []string{"# HeapInuse = ", "# Stack = "} {
		_, rest, ok := strings.Cut(string(text), name)
		if !ok {
			return 0, fmt.Errorf("the heap profile has no %q", name)
		}
		var bytes int64
		if _, err := fmt.Sscan(rest, &bytes); err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		total += bytes
	}
	return total, nil
}

func withGoal(r Row, goal float64) Row {
	r.Goal = goal
	return r
}

// reach changes the catalog a few times and returns the slowest time to the last
// listener. Each change is waited for, because unread changes
// are told once.
func reach(ctx context.Context, s *sidecar.Sidecar, all []*listener) (time.Duration, error) {
	client := outriggerv1connect.NewToolServiceClient(http.DefaultClient, "http://"+s.Admin)
	slowest := time.Duration(0)
	for n := range announced {
		start := time.Now()
		var waiting sync.WaitGroup
		failed := make(chan error, len(all))
		for _, l := range all {
			waiting.Go(func() {
				if err := l.await("notifications/tools/list_changed"); err != nil {
					failed <- err
				}
			})
		}
		if _, err := client.RegisterTool(ctx, connect.NewRequest(registration(n))); err != nil {
			return 0, err
		}
		waiting.Wait()
		slowest = max(slowest, time.Since(start))
		select {
		case err := <-failed:
			return 0, err
		default:
		}
	}
	return slowest, nil
}

func registration(n int) *outriggerv1.RegisterToolRequest {
	return &outriggerv1.RegisterToolRequest{
		Name: fmt.Sprintf("bench.echo_%d", n), Description: "Echoes.",
		InputSchemaForm: &outriggerv1.RegisterToolRequest_InputSchemaJson{InputSchemaJson: []byte(`{"type":"object"}`)},
		Binding:         &outriggerv1.ToolBinding{Service: "outrigger.demo.v1.Lab", Method: "Echo"},
	}
}

// listener is the client's end of one stream: a bare connection, so that
// thousands of them cost the measuring process little.
type listener struct {
	conn net.Conn
	read *bufio.Reader
}

func (l *listener) close() { _ = l.conn.Close() }

// await reads until a line holds the text.
func (l *listener) await(text string) error {
	if err := l.conn.SetReadDeadline(time.Now().Add(streamStepTimeout)); err != nil {
		return err
	}
	for {
		line, err := l.read.ReadString('\n')
		if err != nil {
			return fmt.Errorf("wait for %s: %w", text, err)
		}
		if strings.Contains(line, text) {
			return nil
		}
	}
}

// dial opens a connection and sends one request.
func dial(ctx context.Context, addr, method, headers, body string) (*listener, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	l := &listener{conn: conn, read: bufio.NewReaderSize(conn, 512)}
	return l, l.send(addr, method, headers, body)
}

func (l *listener) send(addr, method, headers, body string) error {
	_, err := fmt.Fprintf(l.conn, "%s /mcp HTTP/1.1\r\nHost: %s\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s",
		method, addr, headers, len(body), body)
	return err
}

func openModern(ctx context.Context, addr string) (*listener, error) {
	const version = "2026-07-28"
	l, err := dial(ctx, addr, "POST", "MCP-Protocol-Version: "+version+"\r\nMcp-Method: subscriptions/listen\r\n",
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{`+
			`"io.modelcontextprotocol/protocolVersion":"`+version+`","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	if err != nil {
		return nil, err
	}
	return l, l.await("notifications/subscriptions/acknowledged")
}

func openLegacy(ctx context.Context, addr string) (*listener, error) {
	l, err := dial(ctx, addr, "POST", "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	if err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(l.read, nil)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	// The same connection goes on as the stream, as a client's would.
	if err := l.send(addr, "GET", "Mcp-Session-Id: "+resp.Header.Get("Mcp-Session-Id")+"\r\n", ""); err != nil {
		return nil, err
	}
	return l, l.await("200 OK")
}
