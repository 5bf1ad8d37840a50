// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"sync"
)

// Entry is one line of the log. Fields holds all of it.
type Entry struct {
	Message string
	Fields  map[string]any
}

// journal keeps everything that a process writes to its standard error.
type journal struct {
	mu      sync.Mutex
	lines   []string
	entries []Entry
	changed chan struct{} // closed and replaced with every line
	ended   bool
}

func newJournal() *journal { return &journal{changed: make(chan struct{})} }

// follow reads to the end of r.
func (j *journal) follow(r io.Reader) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(make([]byte, 64<<10), 4<<20)
	for scanner.Scan() {
		j.add(scanner.Text())
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended = true
	close(j.changed)
}

func (j *journal) add(line string) {
	var fields map[string]any
	_ = json.Unmarshal([]byte(line), &fields) // what is not JSON is kept as text
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
	if fields != nil {
		message, _ := fields["msg"].(string)
		j.entries = append(j.entries, Entry{Message: message, Fields: fields})
	}
	close(j.changed)
	j.changed = make(chan struct{})
}

// find returns the first entry that match accepts. Where there is none, it
// returns a channel that is closed when there may be, and whether there can be
// any more at all.
func (j *journal) find(match func(Entry) bool) (found Entry, ok bool, changed <-chan struct{}, ended bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.entries {
		if match(e) {
			return e, true, nil, j.ended
		}
	}
	return Entry{}, false, j.changed, j.ended
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "\n")
}
