// SPDX-License-Identifier: Apache-2.0

package h2server

import (
	"errors"
	"net"
)

const (
	// firstInput is how much a connection reads at a time until that was not enough,
	// fullInput from then on.
	firstInput = 4 << 10
	fullInput  = 32 << 10
)

// errTooMuch tells that one frame, or a header block with all its frames, is larger than
// any that is taken.
var errTooMuch = errors.New("too many bytes in one header block")

// input reads from a connection, as much as there is at a time. It is for one goroutine.
type input struct {
	nc         net.Conn
	buf        []byte
	start, end int
	// left is how many bytes may still be taken until allow is called.
	left int
}

func newInput(nc net.Conn) *input { return &input{nc: nc, buf: make([]byte, firstInput)} }

// allow bounds what is read until it is called again.
func (in *input) allow(n int) { in.left = n }

// buffered is how many bytes were read from the connection and not taken.
func (in *input) buffered() int { return in.end - in.start }

// Read implements [io.Reader].
func (in *input) Read(p []byte) (int, error) {
	if in.left <= 0 {
		return 0, errTooMuch
	}
	if in.start == in.end {
		if len(p) >= len(in.buf) {
			n, err := in.nc.Read(p)
			in.left -= n
			return n, err
		}
		if err := in.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, in.buf[in.start:in.end])
	in.start += n
	in.left -= n
	return n, nil
}

// fill reads what there is. A connection on which much comes at a time gets more room.
func (in *input) fill() error {
	if in.end == len(in.buf) && len(in.buf) < fullInput {
		in.buf = make([]byte, fullInput)
	}
	n, err := in.nc.Read(in.buf)
	in.start, in.end = 0, n
	if n > 0 {
		return nil
	}
	return err
}
