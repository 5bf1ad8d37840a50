// SPDX-License-Identifier: Apache-2.0

package held

import (
	"math"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/share"
)

// Writer gathers a document that comes in parts. What it holds counts as held from the
// first byte on. A Writer must be released; it is not safe for concurrent use.
type Writer struct {
	store  *Store
	caller string
	most   int
	data   []byte
	// reserved is what the store counts for data.
	reserved int64
}

// firstCapacity is what a Writer begins with: most chunks of services are not larger.
const firstCapacity = 64 << 10

// NewWriter returns a Writer for a caller's document of at most so many bytes. A nil
// store counts nothing, and most of zero or less bounds nothing.
func NewWriter(store *Store, caller string, most int) *Writer {
	if most <= 0 {
		most = math.MaxInt
	}
	return &Writer{store: store, caller: caller, most: most}
}

// Len returns the number of bytes that were written.
func (w *Writer) Len() int { return len(w.data) }

// Bytes returns what was written. It is valid after Release, too.
func (w *Writer) Bytes() []byte { return w.data }

// Write appends a part, or as much of it as there is room for; then it reports false.
func (w *Writer) Write(part []byte) bool {
	fits := len(part) <= w.most-len(w.data)
	if !fits {
		w.store.refuse()
		part = part[:w.most-len(w.data)]
	}
	if need := len(w.data) + len(part); need > cap(w.data) && !w.grow(need) {
		part, fits = part[:cap(w.data)-len(w.data)], false
	}
	w.data = append(w.data, part...)
	return fits
}

// grow makes room for need bytes, which are at most w.most.
func (w *Writer) grow(need int) bool {
	size := min(max(need, cap(w.data)+cap(w.data)/2, firstCapacity), w.most)
	if w.store != nil {
		more := int64(size) - w.reserved
		if w.reserved == 0 {
			more += overhead // which the document will need
		}
		if !w.store.reserve(w.caller, more) {
			return false
		}
		w.reserved += more
	}
	grown := make([]byte, len(w.data), size)
	copy(grown, w.data)
	w.data = grown
	return true
}

// Keep puts the document into the store, in the place of what was reserved for it. See
// [Store.Put].
func (w *Writer) Keep(d Document) (ID, time.Time, share.Verdict, error) {
	reserved := w.reserved
	w.reserved = 0
	return w.store.put(w.caller, d, reserved)
}

// Release gives back what is reserved. It may be called more than once, and after Keep.
func (w *Writer) Release() {
	if w.store != nil && w.reserved > 0 {
		w.store.release(w.caller, w.reserved)
	}
	w.reserved = 0
}
