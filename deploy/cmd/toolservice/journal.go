// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"
)

// line is one event of the service.
type line struct {
	Time      string `json:"time"`
	Event     string `json:"event"`
	Address   string `json:"address,omitempty"`
	Procedure string `json:"procedure,omitempty"`
	RequestID string `json:"request_id,omitempty"`
}

// journal writes events as JSON lines, each with one write, so that lines of
// concurrent calls do not mix.
type journal struct {
	mu  sync.Mutex
	out io.Writer
}

func newJournal(out io.Writer) *journal { return &journal{out: out} }

func (j *journal) write(l line) {
	l.Time = time.Now().UTC().Format(time.RFC3339Nano)
	text, err := json.Marshal(l)
	if err != nil {
		return // strings can always be written as JSON
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	// An unread log must not end calls.
	_, _ = j.out.Write(append(text, '\n'))
}

// around writes a line before and after each call.
func (j *journal) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l := line{Event: "begin", Procedure: r.URL.Path, RequestID: r.Header.Get("X-Request-Id")}
		j.write(l)
		next.ServeHTTP(w, r)
		l.Event = "end"
		j.write(l)
	})
}
