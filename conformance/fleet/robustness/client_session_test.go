// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/models"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// legacyRevision is a revision that has sessions.
type legacyRevision struct {
	version, capabilities string
	// canAnswer: its clients can be asked.
	canAnswer bool
}

func legacyRevisions() []legacyRevision {
	return []legacyRevision{
		{"2025-11-25", `{"elicitation":{"form":{}}}`, true}, {"2025-06-18", `{"elicitation":{}}`, true}, {"2025-03-26", `{}`, false},
	}
}

const (
	// unknownSession is HTTP's word for a session that no one has.
	unknownSession = http.StatusNotFound
	// patienceWithCall is how long a client waits for an answer: longer than any fault, and what follows it, lasts.
	patienceWithCall = 45 * time.Second
)

// sessionLog counts what came of requests in legacy sessions.
type sessionLog struct {
	odd *oddities
	// calls are those that were made, by method and name, and what came of each.
	calls map[string]outcome
	// opened counts sessions, and without calls that were not answered.
	opened, without int
	// ended are sessions whose DELETE was acknowledged.
	ended []*legacy
	// notices counts what came on the streams that belong to no request.
	notices atomic.Int64
}

// outcome is what came of a call: how often it was answered, and whether its result came.
type outcome struct {
	answers int
	result  bool
}

// legacy is a session of a legacy revision: each request goes to another replica, unless base is that of one.
type legacy struct {
	*client
	legacyRevision
	log  *sessionLog
	base string
	id   string
	next int
}

// sse is an event of a stream.
type sse struct{ id, data string }

// opens makes sessions, some calls in each, and closes it, until the context ends. Some read beside that what belongs to no
// request.
func opens(ctx context.Context, c *client, base string, log *sessionLog) {
	for ctx.Err() == nil {
		s := &legacy{client: c, log: log, base: base, legacyRevision: legacyRevisions()[c.rand.IntN(3)]}
		if !s.open(ctx) {
			pause(ctx, 200*time.Millisecond)
			continue
		}
		log.opened++
		hearing, deaf := context.WithCancel(ctx)
		var hears sync.WaitGroup
		if c.rand.IntN(2) == 0 {
			l := &listener{legacy: s, rand: rand.New(rand.NewPCG(c.rand.Uint64(), 1)), seen: map[string]bool{}}
			hears.Go(func() { l.run(hearing) })
		}
		isKnown := true
		for range 1 + c.rand.IntN(8) {
			if isKnown = s.call(ctx); !isKnown || ctx.Err() != nil {
				break
			}
		}
		deaf()
		hears.Wait()
		if isKnown {
			s.close(ctx)
		}
	}
}

// send makes a request of the session.
func (s *legacy) send(ctx context.Context, method, after, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.base+"/mcp", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for key, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": s.version, "Mcp-Session-Id": s.id, "Last-Event-ID": after,
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
	resp, err := s.send(ctx, http.MethodPost, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+s.version+
		`","capabilities":`+s.capabilities+`,"clientInfo":{"name":"fleet","version":"1"}}}`)
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
	if resp.StatusCode == unknownSession {
		s.log.odd.add("session %s: HTTP 404 after initialize", s.id)
	}
	return resp.StatusCode == http.StatusAccepted
}

// close ends the session, at whichever replica answers.
func (s *legacy) close(ctx context.Context) {
	for tried := false; pause(ctx, 0); tried = true {
		within, cancel := context.WithTimeout(ctx, opTimeout)
		resp, err := s.send(within, http.MethodDelete, "", "")
		cancel()
		if err == nil {
			_ = resp.Body.Close()
			switch {
			case resp.StatusCode == http.StatusNoContent, resp.StatusCode == unknownSession && tried:
				s.log.ended = append(s.log.ended, s)
				return
			case resp.StatusCode == unknownSession:
				s.log.odd.add("session %s: HTTP 404 DELETE", s.id)
				return
			case resp.StatusCode != http.StatusServiceUnavailable:
				s.log.odd.add("session %s: HTTP %d DELETE", s.id, resp.StatusCode)
				return
			}
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// knows reports whether a replica takes the session for one that goes on.
func (s *legacy) knows(url string) bool {
	there := *s
	there.base = url
	ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
	defer cancel()
	resp, err := there.send(ctx, http.MethodPost, "", `{"jsonrpc":"2.0","id":"late","method":"ping"}`)
	if err != nil {
		return true
	}
	_ = resp.Body.Close()
	return resp.StatusCode != unknownSession
}

// call makes one call and waits for its answer. It reports whether the session goes on.
func (s *legacy) call(ctx context.Context) bool {
	method := []string{"Look", "Pay", "Count", "Count", "Refund", "Refund"}[s.rand.IntN(6)]
	if method == "Refund" && !s.canAnswer {
		method = "Count"
	}
	name := s.unique(s.between(20*time.Millisecond, 3*time.Second).Round(time.Millisecond))
	s.next++
	c := &legacyCall{legacy: s, method: method, name: name, seen: map[string]bool{}}
	defer func() { s.log.calls[method+" "+name] = c.outcome }()
	within, cancel := context.WithTimeout(ctx, patienceWithCall)
	defer cancel()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"shop_%s","arguments":{"name":%q},"_meta":{"progressToken":"p"}}}`, s.next, strings.ToLower(method), name)
	resp, err := c.cuttable(within, body)
	if err != nil {
		s.log.without++
		return true // the request may have arrived; no one can ask for it
	}
	if !c.read(within, resp) {
		return false
	}
	if c.answers == 0 { // its stream is at that replica, and the next connection goes to another one
		s.log.without++
	}
	return true
}

// legacyCall is one call in a session.
type legacyCall struct {
	*legacy
	method, name string
	// seen are the ids of events.
	seen map[string]bool
	outcome
}

// cuttable makes a request whose connection some clients cut.
func (c *legacyCall) cuttable(ctx context.Context, body string) (*http.Response, error) {
	if c.rand.IntN(3) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		timer := time.AfterFunc(c.between(10*time.Millisecond, 2*time.Second), cancel)
		context.AfterFunc(ctx, func() { timer.Stop(); cancel() })
	}
	return c.send(ctx, http.MethodPost, "", body)
}

// read reads an answer or a stream. It reports whether the session is known.
func (c *legacyCall) read(ctx context.Context, resp *http.Response) bool {
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == unknownSession {
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
			if c.seen[e.id] {
				c.log.odd.add("session %s: event %s came twice", c.legacy.id, e.id)
			}
			c.seen[e.id] = e.id != ""
			if e.data != "" {
				c.message(ctx, e.data)
			}
			e = sse{}
		}
	}
	return true
}

// message takes a message from the stream: the answer, or a question of the sidecar.
func (c *legacyCall) message(ctx context.Context, text string) {
	var m struct {
		ID     json.RawMessage
		Method string
		Result struct {
			IsError bool
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
		for pause(ctx, 0) { // the answer may come more than once: it counts once
			within, cancel := context.WithTimeout(ctx, opTimeout)
			resp, err := c.send(within, http.MethodPost, "", answer)
			cancel()
			if err == nil {
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusServiceUnavailable {
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
		c.result = strings.Contains(text, models.ResultOf(c.method, c.name))
		if !c.result && !isUnknown(text) && !strings.Contains(text, `"code":"UNAVAILABLE"`) {
			c.log.odd.add("session %s: %s %s: %s", c.legacy.id, c.method, c.name, text)
		}
	}
}

// check compares what the backend did with what clients were told.
func (l *sessionLog) check(b *till) {
	for key, got := range l.calls {
		method, name, _ := strings.Cut(key, " ")
		n := b.count(method, name)
		if got.answers > 1 {
			l.odd.add("%s in a session was answered %d times", key, got.answers)
		}
		if n > 1 {
			l.odd.add("%s in a session ran %d times", key, n)
		}
		if got.result && n == 0 {
			l.odd.add("%s in a session has a result and never ran", key)
		}
	}
}

// settle waits until sessions that were deleted are unknown everywhere.
func (l *sessionLog) settle(r *run) {
	r.t.Helper()
	for _, s := range l.ended[max(0, len(l.ended)-50):] {
		for i := range replicas {
			testkit.Until(r.t, fmt.Sprintf("session %s has ended at replica %d", s.id, i), func() bool { return !s.knows(r.f.callersURL(i)) })
		}
	}
}
