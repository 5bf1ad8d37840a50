// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	legacyVersion = "2025-11-25"
	// unknownSession is HTTP's word for a session that nobody has.
	unknownSession = http.StatusNotFound
)

// sessionLog counts what came of requests in legacy sessions.
type sessionLog struct {
	odd *oddities
	// calls are those that were made, by method and name, and how often each was answered.
	calls map[string]int
	// opened counts sessions, lost those that were unknown before they were closed.
	opened, lost, resumed, unknown int
}

// legacy is a session of MCP 2025-11-25: each request goes to another replica, unless base is that of one.
type legacy struct {
	*client
	log  *sessionLog
	base string
	id   string
	next int
}

// sse is an event of a stream.
type sse struct{ id, data string }

// opens makes sessions, some calls in each, and closes it, until the context ends.
func opens(ctx context.Context, c *client, base string, log *sessionLog) {
	for ctx.Err() == nil {
		s := &legacy{client: c, log: log, base: base}
		if !s.open(ctx) {
			pause(ctx, 200*time.Millisecond)
			continue
		}
		log.opened++
		for range 1 + c.rand.IntN(8) {
			if ctx.Err() != nil || !s.call(ctx) {
				break
			}
		}
		s.close(ctx)
	}
}

// send makes a request of the session.
func (s *legacy) send(ctx context.Context, method, after, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.base+"/mcp", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for key, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": legacyVersion, "Mcp-Session-Id": s.id, "Last-Event-ID": after,
	} {
		if value != "" {
			req.Header.Set(key, value)
		}
	}
	if method == http.MethodGet {
		req.Header.Set("Accept", "text/event-stream")
	}
	return s.http.Do(req)
}

// open opens the session.
func (s *legacy) open(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	resp, err := s.send(ctx, http.MethodPost, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+legacyVersion+
		`","capabilities":{"elicitation":{"form":{}}},"clientInfo":{"name":"fleet","version":"1"}}}`)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if s.id = resp.Header.Get("Mcp-Session-Id"); err != nil || s.id == "" {
		return false
	}
	resp, err = s.send(ctx, http.MethodPost, "", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusAccepted
}

// close ends the session.
func (s *legacy) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	if resp, err := s.send(ctx, http.MethodDelete, "", ""); err == nil {
		_ = resp.Body.Close()
	}
}

// call makes one call and waits for its answer, on as many connections as it takes. It reports whether the session goes on.
func (s *legacy) call(ctx context.Context) bool {
	method := []string{"Look", "Look", "Pay", "Refund"}[s.rand.IntN(4)]
	name := s.unique(s.between(20*time.Millisecond, 3*time.Second).Round(time.Millisecond))
	s.next++
	c := &legacyCall{legacy: s, method: method, name: name, stream: fmt.Sprintf("%s/%d", s.id, s.next), seen: map[string]bool{}}
	defer func() { s.log.calls[method+" "+name] = c.answers }()
	within, cancel := context.WithTimeout(ctx, 2*lease+3*opTimeout)
	defer cancel()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"shop_%s","arguments":{"name":%q}}}`, s.next, strings.ToLower(method), name)
	resp, err := c.cuttable(within, http.MethodPost, "", body)
	if err != nil {
		s.log.unknown++
		return true // the request may have arrived; nobody can ask for it
	}
	if !c.read(within, resp, "") {
		return false
	}
	for c.answers == 0 && c.last != "" && within.Err() == nil {
		s.log.resumed++
		pause(within, s.between(10*time.Millisecond, 300*time.Millisecond))
		resp, err := c.cuttable(within, http.MethodGet, c.last, "")
		if err == nil && !c.read(within, resp, c.last) {
			return false
		}
	}
	if c.answers == 0 {
		if c.last != "" && within.Err() != nil && ctx.Err() == nil {
			s.log.odd.add("%s %s in session %s, stream after %s: no answer came", method, name, s.id, c.last)
		}
		s.log.unknown++
		return true
	}
	// The whole stream once more, after its first event, at whichever replica: it is the same.
	if c.first != "" && c.first != c.last {
		if resp, err := c.cuttable(within, http.MethodGet, c.first, ""); err == nil {
			c.again = true
			c.read(within, resp, c.first)
		}
	}
	return true
}

// legacyCall is one call in a session.
type legacyCall struct {
	*legacy
	method, name, stream string
	// first and last are event ids, seen all of them.
	first, last string
	seen        map[string]bool
	answers     int
	// again: the stream is read a second time.
	again bool
}

// cuttable makes a request whose connection some clients cut.
func (c *legacyCall) cuttable(ctx context.Context, method, after, body string) (*http.Response, error) {
	if c.rand.IntN(3) == 0 && !c.again {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		timer := time.AfterFunc(c.between(10*time.Millisecond, 2*time.Second), cancel)
		context.AfterFunc(ctx, func() { timer.Stop(); cancel() })
	}
	return c.send(ctx, method, after, body)
}

// read reads an answer or a stream, and notes which events came after which. It reports whether the session is known.
func (c *legacyCall) read(ctx context.Context, resp *http.Response, after string) bool {
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == unknownSession {
		c.log.lost++
		c.log.odd.add("session %s: HTTP 404 %s", c.id, resp.Request.Method)
		return false
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		text, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != http.StatusServiceUnavailable && !strings.Contains(string(text), `"code":"UNAVAILABLE"`) {
			c.message(ctx, string(text))
		}
		return true
	}
	call := c.h.now()
	var came []string
	// What a client has read of a stream before it was cut off, counts.
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	var e sse
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "id: "):
			e.id = strings.TrimPrefix(line, "id: ")
		case strings.HasPrefix(line, "data: "):
			e.data = strings.TrimPrefix(line, "data: ")
		case line == "":
			if e.id != "" {
				came = append(came, e.id)
				c.event(e.id)
			}
			if e.data != "" && !c.again {
				c.message(ctx, e.data)
			}
			e = sse{}
		}
	}
	if len(came) > 0 {
		c.h.add("sessions", c.client.id, call, logInput{Stream: c.stream, After: after}, strings.Join(came, " "))
	}
	return true
}

// event notes the id of an event.
func (c *legacyCall) event(id string) {
	if c.again {
		return
	}
	if c.seen[id] {
		c.log.odd.add("session %s: event %s came twice", c.legacy.id, id)
	}
	c.seen[id] = true
	if c.first == "" {
		c.first = id
	}
	c.last = id
}

// message takes a message from the stream: the answer, or a question of the sidecar.
func (c *legacyCall) message(ctx context.Context, text string) {
	var m struct {
		ID     json.RawMessage
		Method string
		Result struct {
			StructuredContent struct{ Name string }
			IsError           bool
		}
		Error *fault
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		c.log.odd.add("session %s: %v: %q", c.legacy.id, err, text)
		return
	}
	switch {
	case m.Method == "elicitation/create":
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"confirm":true}}}`, m.ID)
		for range 20 { // the answer may come more than once: it counts once
			resp, err := c.send(ctx, http.MethodPost, "", answer)
			if err == nil {
				_ = resp.Body.Close()
				if resp.StatusCode == http.StatusAccepted {
					return
				}
			}
			pause(ctx, 100*time.Millisecond)
		}
	case m.Method != "":
	case string(m.ID) != fmt.Sprint(c.next):
		c.log.odd.add("session %s: an answer to %s on the stream of %d: %s", c.legacy.id, m.ID, c.next, text)
	default:
		c.answers++
		unknown := isUnknown(text)
		if m.Result.StructuredContent.Name != resultOf(c.method, c.name) && !unknown && !strings.Contains(text, `"code":"UNAVAILABLE"`) {
			c.log.odd.add("session %s: %s %s: %s", c.legacy.id, c.method, c.name, text)
		}
	}
}

// check compares what the backend did with what clients were told.
func (l *sessionLog) check(b *till) {
	for key, answers := range l.calls {
		method, name, _ := strings.Cut(key, " ")
		if answers > 1 {
			l.odd.add("%s in a session was answered %d times", key, answers)
		}
		if n := b.count(method, name); method != "Look" && n > 1 {
			l.odd.add("%s in a session ran %d times", key, n)
		}
	}
}
