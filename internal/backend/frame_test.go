// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
)

// A frame's prefix may come in pieces, and several frames at once.
func TestFramedBodyFollowsPieces(t *testing.T) {
	t.Parallel()
	body := append([]byte("\x00\x00\x00\x00\x03abc\x01\x00\x00\x00\x00\x00\x00\x00\x00\x04defg\x02\x00\x00\x00\x02{}"), "\x00\x00\x00\x00\x05hijkl"...)
	good := len(body) - len("hijkl")
	for piece := 1; piece <= len(body); piece++ {
		f := new(facts)
		b := newFramedBody(io.NopCloser(&pieces{body, piece}), frameLimits{message: 4, end: 2}, f)
		got, err := io.ReadAll(b)
		if !errors.Is(err, errOverLimit) || !f.overLimit || string(got) != string(body[:good]) {
			t.Errorf("pieces of %d: %d bytes of %d, %v", piece, len(got), good, err)
		}
	}
}

// pieces reads a few bytes at a time.
type pieces struct {
	rest []byte
	most int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.rest[:min(p.most, len(p.rest))])
	p.rest = p.rest[n:]
	return n, nil
}

// Whatever a body holds, and however it is cut, exactly the part up to the first
// frame that announces too much is passed on.
func FuzzFramedBody(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x03abc\x01\x00\x00\x00\x00\x02\x00\x00\x00\x03{ }"), uint8(3))
	f.Add([]byte("\x80\x00\x00\x00\x02\r\n\x00\xff\xff\xff\xff"), uint8(1))
	f.Add([]byte("\x00\x00"), uint8(2))
	limits := frameLimits{message: 4, end: 2}
	f.Fuzz(func(t *testing.T, body []byte, most uint8) {
		want, over := body, false
		for at := 0; at+5 <= len(body) && !over; {
			size, limit := int64(binary.BigEndian.Uint32(body[at+1:])), limits.end
			if body[at] <= 1 {
				limit = limits.message
			}
			at += 5
			if over = size > limit; over {
				want = body[:at]
			}
			at += int(min(size, int64(len(body))))
		}
		facts := new(facts)
		got, err := io.ReadAll(newFramedBody(io.NopCloser(&pieces{body, int(most) + 1}), limits, facts))
		if !bytes.Equal(got, want) || errors.Is(err, errOverLimit) != over || facts.overLimit != over || !over && err != nil {
			t.Errorf("%d bytes of %d, want %d; over %v, %v; want %v", len(got), len(body), len(want), facts.overLimit, err, over)
		}
	})
}
