// SPDX-License-Identifier: Apache-2.0

package abuse_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// heldRow is a request that is refused, and whose body never comes. HOST and PATH
// are put in.
type heldRow struct {
	name, head string
	// status is wanted on an open main listener, 0 any of 400 and above; where is
	// the paths that it is for, all where there is none.
	status int
	where  string
	// open: only on the open main listener, since elsewhere something else is wrong
	// first.
	open bool
}

const jsonType = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"

func heldRows() []heldRow {
	return []heldRow{
		{name: "foreign Host", head: "POST PATH HTTP/1.1\r\nHost: evil.example\r\n" + jsonType + "Content-Length: 200000\r\n\r\n", status: 403},
		{name: "foreign Origin", head: "POST PATH HTTP/1.1\r\nHost: HOST\r\nOrigin: http://evil.example\r\n" + jsonType + "Content-Length: 200000\r\n\r\n", status: 403},
		{name: "foreign Origin, chunked", head: "POST PATH HTTP/1.1\r\nHost: HOST\r\nOrigin: null\r\n" + jsonType + "Transfer-Encoding: chunked\r\n\r\n", status: 403},
		{name: "foreign Host, half a chunk", head: "POST PATH HTTP/1.1\r\nHost: evil.example\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n{", status: 403},
		{name: "foreign Host, Expect", head: "POST PATH HTTP/1.1\r\nHost: evil.example\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n", status: 403},
		{name: "foreign Host, HTTP/1.0", head: "POST PATH HTTP/1.0\r\nHost: evil.example\r\nConnection: keep-alive\r\nContent-Length: 2000\r\n\r\n", status: 403},
		{name: "a method that is not there", head: "PATCH PATH HTTP/1.1\r\nHost: HOST\r\n" + jsonType + "Content-Length: 200000\r\n\r\n"},
		{name: "a method that is not there, Expect", head: "PUT PATH HTTP/1.1\r\nHost: HOST\r\nExpect: 100-continue\r\n" + jsonType + "Content-Length: 2\r\n\r\n"},
		{name: "a path that is not there", head: "POST /a/b/c HTTP/1.1\r\nHost: HOST\r\n" + jsonType + "Content-Length: 200000\r\n\r\n", status: 404},
		{name: "a path that is not there, GET", head: "GET /a/b/c HTTP/1.1\r\nHost: HOST\r\nContent-Length: 200000\r\n\r\n", status: 404},
		{name: "text/plain", head: "POST PATH HTTP/1.1\r\nHost: HOST\r\nContent-Type: text/plain\r\nContent-Length: 200000\r\n\r\n", status: 415, where: "/mcp /rpc /outrigger.v1.ToolService/CallTool /outrigger.demo.v1.Lab/Echo", open: true},
		{name: "no type, chunked", head: "POST PATH HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n", status: 415, where: "/mcp /rpc /outrigger.v1.ToolService/CallTool", open: true},
		{name: "over the limit", head: "POST PATH HTTP/1.1\r\nHost: HOST\r\n" + jsonType + "Content-Length: 200000000\r\n\r\n", status: 413, where: "/mcp /rpc", open: true},
		{name: "over the limit, Expect", head: "POST PATH HTTP/1.1\r\nHost: HOST\r\nExpect: 100-continue\r\n" + jsonType + "Content-Length: 200000000\r\n\r\n", status: 413, where: "/mcp /rpc", open: true},
		{name: "nothing that can be accepted", head: "POST PATH HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nAccept: text/html\r\nContent-Length: 200000\r\n\r\n", status: 406, where: "/mcp", open: true},
		{name: "no session", head: "DELETE PATH HTTP/1.1\r\nHost: HOST\r\nContent-Length: 200000\r\n\r\n", where: "/mcp", open: true},
	}
}

// heldAtOnce is how many connections a test has at once, fewer than a listener for
// operators admits.
const heldAtOnce = 32

// TestARefusedRequestDoesNotHoldItsConnection sends what is refused, without the
// body that it announces: on HTTP/1 the answer comes at once, says that the
// connection ends, and the connection ends.
func TestARefusedRequestDoesNotHoldItsConnection(t *testing.T) {
	t.Parallel()
	for _, at := range listeners(t) {
		t.Run(at.name, func(t *testing.T) {
			t.Parallel()
			rows := heldRows()
			if at.guarded {
				rows = append(rows, heldRow{name: "no token", head: "POST PATH HTTP/1.1\r\nHost: HOST\r\n" + jsonType + "Content-Length: 200000\r\n\r\n"},
					heldRow{name: "no token, chunked", head: "POST PATH HTTP/1.1\r\nHost: HOST\r\n" + jsonType + "Transfer-Encoding: chunked\r\n\r\n"},
					heldRow{name: "no token, Expect", head: "POST PATH HTTP/1.1\r\nHost: HOST\r\nExpect: 100-continue\r\n" + jsonType + "Content-Length: 200000\r\n\r\n"},
					heldRow{name: "an unknown token", head: "POST PATH HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer 0123456789abcdef\r\n" + jsonType + "Content-Length: 200000\r\n\r\n"})
			}
			var all sync.WaitGroup
			places := make(chan struct{}, heldAtOnce)
			for _, row := range rows {
				if row.open && (!at.main || at.guarded) {
					continue
				}
				for _, path := range at.paths {
					if row.where != "" && !strings.Contains(" "+row.where+" ", " "+path+" ") {
						continue
					}
					places <- struct{}{}
					conn := at.dial(t, "http/1.1")
					all.Go(func() {
						defer func() {
							_ = conn.Close()
							<-places
						}()
						want := row.status
						if at.guarded && want != 403 {
							want = 401
						}
						if fault := isLetGo(conn, row.head, at.addr, path, want); fault != "" {
							t.Errorf("%s, %s: %s", row.name, path, fault)
						}
					})
				}
			}
			all.Wait()
		})
	}
}

// isLetGo sends the head of a request and says what is wrong with its answer and
// its end.
func isLetGo(conn net.Conn, head, host, path string, want int) string {
	begun := time.Now()
	if _, err := io.WriteString(conn, strings.NewReplacer("HOST", host, "PATH", path).Replace(head)); err != nil {
		return err.Error()
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return "no answer: " + err.Error()
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode < 400 || want != 0 && resp.StatusCode != want {
		return resp.Status
	}
	if !resp.Close {
		return resp.Status + " does not say that the connection ends"
	}
	var timeout net.Error
	if _, err := io.Copy(io.Discard, in); errors.As(err, &timeout) && timeout.Timeout() {
		return resp.Status + ", and the connection stays"
	}
	if took := time.Since(begun); took > slack {
		return "it took " + took.String()
	}
	return ""
}

// TestProbesWithABodyThatDoesNotCome are answered like those without, and hold
// nothing either.
func TestProbesWithABodyThatDoesNotCome(t *testing.T) {
	t.Parallel()
	for _, at := range listeners(t) {
		if at.main {
			continue
		}
		conn := at.dial(t, "http/1.1")
		if _, err := io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: "+at.addr+"\r\nContent-Length: 200000\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != http.StatusOK || !resp.Close {
			t.Fatalf("%s: %v, %v", at.name, resp, err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("%s: the connection stays: %v", at.name, err)
		}
	}
}
