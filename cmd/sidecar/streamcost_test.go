// SPDX-License-Identifier: Apache-2.0

//go:build !race

// Under the race detector frames and objects are larger, and the bounds below are
// those of what is shipped.

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestOpenStreamsAreCheap opens streams of changes at its own process, where
// nothing else takes memory, through every wrapper that a request meets there, and
// looks at what each of them holds of heap and stacks. The stack of a goroutine is
// a power of two, and is given back by half where less than a quarter of it is
// used: so a few more bytes in the frames below a stream that waits cost it 8 KiB.
func TestOpenStreamsAreCheap(t *testing.T) {
	t.Parallel()
	const (
		streams = 400
		// The bound for a stream of the stateless revision, as it was promised; one of a session may cost 40 KiB. It has
		// its session and an id of up to 1 KiB that holds it, and no other reason to cost more.
		most, mostOfSession = 30 << 10, 32 << 10
		// What one needs for net/http's buffers alone: a figure below is no figure.
		least = 8 << 10
	)
	for name, open := range map[string]func(t *testing.T, address string){"listen": openListen, "session": openSessionStream} {
		for setting, flags := range map[string][]string{
			"plain":    {"--record-dir", "off"},
			"recorded": {"--record-dir", t.TempDir(), "--memory-limit", "1GiB"},
		} {
			t.Run(name+"/"+setting, func(t *testing.T) {
				t.Parallel()
				p := startBinary(t, append([]string{"serve", "--demo"}, flags...)...)
				t.Cleanup(func() { p.explain(t) })
				open(t, p.main) // what all share
				before := p.held(t)
				for range streams {
					open(t, p.main)
				}
				each := (p.held(t) - before) / streams
				t.Logf("%d bytes for each of %d streams", each, streams)
				limit := most
				if name == "session" {
					limit = mostOfSession
				}
				if each > limit || each < least {
					t.Errorf("a stream costs %d bytes, want at most %d", each, limit)
				}
			})
		}
	}
}

func openListen(t *testing.T, address string) {
	t.Helper()
	const version = "2026-07-28"
	readUntil(t, posted(t, dialTCP(t, address), address, "MCP-Protocol-Version: "+version+"\r\nMcp-Method: subscriptions/listen\r\n",
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{`+
			`"io.modelcontextprotocol/protocolVersion":"`+version+`","io.modelcontextprotocol/clientCapabilities":{}}}}`),
		"notifications/subscriptions/acknowledged")
}

func openSessionStream(t *testing.T, address string) {
	t.Helper()
	conn := posted(t, dialTCP(t, address), address, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{},"clientInfo":{"name":"client","version":"1"}}}`)
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	_, err = fmt.Fprintf(conn, "GET /mcp HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\n\r\n",
		address, resp.Header.Get("Mcp-Session-Id"))
	if err != nil {
		t.Fatal(err)
	}
	readUntil(t, conn, "data: \n\n")
}

// posted sends one message.
func posted(t *testing.T, conn net.Conn, address, headers, body string) net.Conn {
	t.Helper()
	if _, err := fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\nAccept: application/json, text/event-stream\r\n"+
		"Content-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", address, headers, len(body), body); err != nil {
		t.Fatal(err)
	}
	return conn
}

// explain logs what a process does and refuses where a test has failed: which of
// them kept a stream from opening is not in what the client sees.
func (p *binary) explain(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	for _, path := range []string{"/debug/pprof/goroutine?debug=1", "/metrics"} {
		if text, err := p.page(path); err != nil {
			t.Logf("%s: %v", path, err)
		} else {
			t.Logf("%s:\n%s", path, text)
		}
	}
}

// page is what the admin listener has at a path.
func (p *binary) page(path string) (string, error) {
	resp, err := http.Get("http://" + p.admin + path) //nolint:noctx // it has its own bound
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(resp.Body)
	return string(text), errors.Join(err, resp.Body.Close())
}

// heldBytes finds what is in use in a heap profile as text.
var heldBytes = regexp.MustCompile(`(?m)^# (?:HeapInuse|Stack) = (\d+)`)

// held is what heap and stacks hold once they have settled. A collection halves a
// stack at most once, so it takes a few.
func (p *binary) held(t *testing.T) int {
	t.Helper()
	least := 0
	for range 4 {
		text, err := p.page("/debug/pprof/heap?debug=1&gc=1")
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, found := range heldBytes.FindAllStringSubmatch(text, -1) {
			n, err := strconv.Atoi(found[1])
			if err != nil {
				t.Fatal(err)
			}
			total += n
		}
		if total == 0 || strings.Count(text, "# Stack = ") != 1 {
			t.Fatalf("no figures in %d bytes of a heap profile", len(text))
		}
		if least == 0 || total < least {
			least = total
		}
	}
	return least
}
