// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

// maxTail is how many of the last lines are kept for error messages: a panic's message and its first frames.
const maxTail = 20

// lines cuts a stream into lines.
type lines struct {
	onLine func([]byte)

	mu   sync.Mutex
	rest []byte
	last []string
}

func newLines(onLine func([]byte)) *lines { return &lines{onLine: onLine} }

// Write never fails.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte{'\n'})
		if !ok {
			return len(p), nil
		}
		if l.onLine != nil {
			l.onLine(line)
		}
		if len(l.last) == maxTail {
			l.last = l.last[1:]
		}
		l.last = append(l.last, string(line))
		l.rest = rest
	}
}

func (l *lines) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(append(slices.Clip(l.last), string(l.rest)), "\n")
}
