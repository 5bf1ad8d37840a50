// SPDX-License-Identifier: Apache-2.0

package programs_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// serve starts a sidecar on a free port and returns its address when it has its tools. It ends with the test.
func serve(t *testing.T, args ...string) (addr string) {
	t.Helper()
	binary := os.Getenv("OUTRIGGER_TEST_BINARY")
	if binary == "" {
		t.Skip("OUTRIGGER_TEST_BINARY names no sidecar: make programs-figures builds one")
	}
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "off", "--log-format", "json", "--record-dir", "off"}, args...)
	cmd := exec.CommandContext(context.Background(), binary, args...)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	lines, text := bufio.NewScanner(log), ""
	for lines.Scan() {
		var entry struct{ Msg, Listener, Addr string }
		_ = json.Unmarshal(lines.Bytes(), &entry) // what is no entry is read by who looks at a failure
		text += lines.Text() + "\n"
		if entry.Listener == "main" {
			addr = entry.Addr
		}
		if entry.Msg == "ready" {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return addr
		}
	}
	t.Fatalf("the sidecar ended:\n%s", text)
	return ""
}

// delayed is an address from which everything reaches addr later by latency. Answers are not delayed.
func delayed(t *testing.T, addr string, latency time.Duration) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", addr)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(client, server); _ = client.Close() }()
			go later(server, client, latency)
		}
	}()
	return listener.Addr().String()
}

// later copies, each piece after the latency.
func later(to, from net.Conn, latency time.Duration) {
	type piece struct {
		due  time.Time
		data []byte
	}
	pieces := make(chan piece, 1024)
	go func() {
		for p := range pieces {
			time.Sleep(time.Until(p.due))
			_, _ = to.Write(p.data)
		}
		_ = to.Close()
	}()
	defer close(pieces)
	for {
		data := make([]byte, 32<<10)
		n, err := from.Read(data)
		if n > 0 {
			pieces <- piece{time.Now().Add(latency), data[:n]}
		}
		if err != nil {
			return
		}
	}
}

// client asks a sidecar in MCP 2026-07-28.
type client struct{ addr string }

// ask returns the result of a request.
func (c client) ask(t *testing.T, method, name, params string) json.RawMessage {
	t.Helper()
	const version = "2026-07-28"
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
	defer cancel()
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version + `","io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.addr+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {version}, "Mcp-Method": {method}}
	if name != "" {
		req.Header.Set("Mcp-Name", name)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if _, data, ok := bytes.Cut(text, []byte("data: ")); ok && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		text = data
	}
	var answer struct{ Result, Error json.RawMessage }
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&answer); err != nil || answer.Result == nil {
		t.Fatalf("%s: %v: %s", body, err, text)
	}
	return answer.Result
}

// list returns the tools as a model reads them: without what clients keep to themselves.
func (c client) list(t *testing.T) (tools int, text string) {
	t.Helper()
	for cursor := ""; ; {
		var page struct {
			Tools      []map[string]json.RawMessage
			NextCursor string
		}
		decode(t, c.ask(t, "tools/list", "", cursor), &page)
		for _, tool := range page.Tools {
			delete(tool, "_meta")
			delete(tool, "icons")
			text += encode(t, tool)
		}
		tools += len(page.Tools)
		if page.NextCursor == "" {
			return tools, text
		}
		cursor = fmt.Sprintf(`"cursor":%q,`, page.NextCursor)
	}
}

// call returns what a model reads of a result: the structured content, or the text where there is none.
func (c client) call(t *testing.T, tool string, arguments any) (request, answer string, isError bool) {
	t.Helper()
	request = `"name":"` + tool + `","arguments":` + encode(t, arguments)
	var result struct {
		StructuredContent json.RawMessage
		Content           json.RawMessage
		IsError           bool
	}
	decode(t, c.ask(t, "tools/call", tool, request+","), &result)
	if result.StructuredContent == nil {
		return request, string(result.Content), result.IsError
	}
	return request, string(result.StructuredContent), result.IsError
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}
