// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"bufio"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// listener reads what belongs to no request of a session, beside its calls. It breaks its connections and goes on at other
// replicas.
type listener struct {
	*legacy
	rand *rand.Rand
	last string
	seen map[string]bool
}

// run reads until the context ends.
func (l *listener) run(ctx context.Context) {
	for pause(ctx, time.Duration(l.rand.Int64N(int64(300*time.Millisecond)))) {
		within, cancel := context.WithTimeout(ctx, 200*time.Millisecond+time.Duration(l.rand.Int64N(int64(3*time.Second))))
		l.read(within)
		cancel()
	}
}

// read reads on one connection.
func (l *listener) read(ctx context.Context) {
	after := l.last
	resp, err := l.send(ctx, http.MethodGet, after, "")
	if err != nil {
		return
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusServiceUnavailable:
		return
	default: // at another replica there is a gap
		l.log.odd.add("session %s: HTTP %d to a GET after %q", l.id, resp.StatusCode, after)
		return
	}
	lines := bufio.NewScanner(resp.Body)
	var e sse
	for lines.Scan() {
		switch name, value, _ := strings.Cut(lines.Text(), ": "); name {
		case "id":
			e.id = value
		case "data":
			e.data = value
		case "":
			l.hear(e)
			e = sse{}
		}
	}
}

// hear takes an event, which is a notification or only an id.
func (l *listener) hear(e sse) {
	if e.id != "" {
		if l.seen[e.id] {
			l.log.odd.add("session %s: notice %s came twice", l.legacy.id, e.id)
		}
		l.seen[e.id], l.last = true, e.id
	}
	if e.data == "" {
		return
	}
	l.log.notices.Add(1)
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.Unmarshal([]byte(e.data), &m); err != nil || len(m.ID) > 0 || !strings.HasPrefix(m.Method, "notifications/") {
		l.log.odd.add("session %s: on the stream that belongs to no request: %q %v", l.legacy.id, e.data, err)
	}
}
