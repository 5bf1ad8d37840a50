// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Nap passes a time with the precision of the kernel's timer, about 50 us: a Go timer that a quiet process waits for is
// up to a millisecond late, which would be the most of what is measured. It blocks a thread.
func Nap(d time.Duration) {
	left := unix.NsecToTimespec(d.Nanoseconds())
	for errors.Is(unix.Nanosleep(&left, &left), unix.EINTR) { // a signal: sleep for what is left
	}
}
