// SPDX-License-Identifier: Apache-2.0

//go:build unix

package connlimit

import "syscall"

// Files is how many file descriptors the process may have; 0 where that is unknown. Go
// raises the soft limit to the hard one when a program starts.
func Files() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur) //nolint:unconvert // it is signed on some systems
}
