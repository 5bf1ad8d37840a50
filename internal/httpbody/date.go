// SPDX-License-Identifier: Apache-2.0

package httpbody

import (
	"net/http"
	"sync/atomic"
	"time"
)

// dates is the Date header of responses. net/http formats the time anew for each one, which takes longer than to look
// at a small message. The text changes once in a second. The zero value is ready for use, by many goroutines at once.
type dates struct{ last atomic.Pointer[date] }

// date is the header of one second.
type date struct {
	second int64
	values []string
}

// set sets the header, unless the handler has done so. The values are shared, and must not be written.
func (d *dates) set(h http.Header, now time.Time) {
	if _, ok := h["Date"]; ok {
		return
	}
	last := d.last.Load()
	if last == nil || last.second != now.Unix() {
		last = &date{second: now.Unix(), values: []string{now.UTC().Format(http.TimeFormat)}}
		d.last.Store(last)
	}
	h["Date"] = last.values[:1:1]
}
