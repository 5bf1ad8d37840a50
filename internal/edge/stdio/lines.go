// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"time"
)

// line is one line of input without its end, or the error that ended it.
type line struct {
	text    []byte
	tooLong bool
	err     error
	at      time.Time // when its end was read; zero without tracing
}

// readBuffer is the size of the buffer in front of standard input: a pipe on
// Linux holds as much.
const readBuffer = 64 << 10

// byteOrderMark is what some writers put before the first message.
var byteOrderMark = []byte("\uFEFF")

// readLines sends every line of in until an error, which it sends too, or until
// stop is closed. One byte order mark before the first line is skipped. Now says when each was read. A line over limit is read to its end and thrown away, so that
// it costs no memory and the next one is found. The last line needs no end.
func readLines(in io.Reader, limit int, lines chan<- line, stop <-chan struct{}, now func() time.Time) {
	r := bufio.NewReaderSize(in, readBuffer)
	send := func(l line) bool {
		select {
		case lines <- l:
			return true
		case <-stop:
			return false
		}
	}
	mark := byteOrderMark
	for {
		l := readLine(r, limit, mark)
		mark = nil
		l.at = now()
		if l.err != nil && (len(l.text) > 0 || l.tooLong) {
			if !send(line{text: l.text, tooLong: l.tooLong, at: l.at}) {
				return
			}
			l.text, l.tooLong = nil, false
		}
		if !send(l) || l.err != nil {
			return
		}
	}
}

// readLine reads up to the next line end, and skips mark at the beginning. The result owns
// its bytes.
func readLine(r *bufio.Reader, limit int, mark []byte) line {
	var l line
	for {
		part, err := r.ReadSlice('\n')
		part, mark = bytes.TrimPrefix(part, mark), nil
		if !l.tooLong {
			l.text = append(l.text, part...)
			// Two more bytes for the line end, which does not count.
			if len(l.text) > limit+2 {
				l.text, l.tooLong = nil, true
			}
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		l.err = err
		l.text = trimEnd(l.text)
		if len(l.text) > limit {
			l.text, l.tooLong = nil, true
		}
		return l
	}
}

// trimEnd drops "\n" or "\r\n".
func trimEnd(text []byte) []byte {
	if n := len(text); n > 0 && text[n-1] == '\n' {
		text = text[:n-1]
		if n := len(text); n > 0 && text[n-1] == '\r' {
			text = text[:n-1]
		}
	}
	return text
}
