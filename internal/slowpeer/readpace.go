// SPDX-License-Identifier: Apache-2.0

package slowpeer

import (
	"net"
	"os"
	"sync"
	"time"
)

// readPace is the read deadline of a connection. net/http sets it eight times for each request, and most of these
// deadlines are replaced before anything is read. Each costs a timer of the runtime, so readPace keeps a deadline until
// a read begins. While a read waits, a deadline applies at once.
type readPace struct {
	conn net.Conn

	mu sync.Mutex
	// wanted was set last, and applied is what the connection has.
	wanted, applied time.Time
	// reading is the number of reads that wait.
	reading int
}

// begin applies the deadline for a read that begins. The error is that of a deadline that has passed.
func (r *readPace) begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.wanted.IsZero() && !r.wanted.After(longPast) {
		return os.ErrDeadlineExceeded
	}
	r.reading++
	_ = r.apply() // the read has the error of a closed connection itself
	return nil
}

// longPast is later than the deadlines with which a read is ended, and earlier than the others.
var longPast = time.Unix(1<<20, 0)

// end notes that a read has ended.
func (r *readPace) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading--
}

// setDeadline sets the deadline of the reads that wait and of those to come.
func (r *readPace) setDeadline(t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = t
	if r.reading == 0 {
		return nil
	}
	return r.apply()
}

// apply gives the connection the deadline, unless it has it; r.mu is held.
func (r *readPace) apply() error {
	if r.wanted.Equal(r.applied) {
		return nil
	}
	if err := r.conn.SetReadDeadline(r.wanted); err != nil {
		return err
	}
	r.applied = r.wanted
	return nil
}
