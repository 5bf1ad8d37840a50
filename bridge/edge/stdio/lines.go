// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// line is one line of input without its end, or the error that ended it.
type line struct {
	text    []byte
	tooLong bool
	err     error
}

// readBuffer is the size of the buffer in front of standard input: a pipe on
// Linux holds as much.
const readBuffer = 64 << 10

// readLines sends the lines of in until an error, which comes as the last one, or
// until stop is closed. Lines that came in one read are sent together: to wake the
// other side for each costs more than to take it. A line over limit is read to its
// end and thrown away, so that it costs no memory and the next one is found. The
// last line needs no end.
func readLines(in io.Reader, limit int, lines chan<- []line, stop <-chan struct{}) {
	r := bufio.NewReaderSize(in, readBuffer)
	for {
		batch := readBatch(r, limit)
		select {
		case lines <- batch:
		case <-stop:
			return
		}
		if batch[len(batch)-1].err != nil {
			return
		}
	}
}

// readBatch waits for one line, and takes those with it that are there as a whole.
// An error is a line of its own, the last one.
func readBatch(r *bufio.Reader, limit int) []line {
	var batch []line
	for {
		l := readLine(r, limit)
		if l.err != nil && (len(l.text) > 0 || l.tooLong) {
			batch = append(batch, line{text: l.text, tooLong: l.tooLong})
			l.text, l.tooLong = nil, false
		}
		batch = append(batch, l)
		if l.err != nil || !holdsLine(r) {
			return batch
		}
	}
}

// holdsLine tells whether a whole line can be read without waiting.
func holdsLine(r *bufio.Reader) bool {
	there, _ := r.Peek(r.Buffered()) // no more than there is, so it neither waits nor fails
	return bytes.IndexByte(there, '\n') >= 0
}

// readLine reads up to the next line end. The result owns its bytes.
func readLine(r *bufio.Reader, limit int) line {
	var l line
	for {
		part, err := r.ReadSlice('\n')
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
