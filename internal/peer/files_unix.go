// SPDX-License-Identifier: Apache-2.0

//go:build unix

package peer

import "syscall"

// Files returns the maximum number of file descriptors of the process, or 0 if it is
// unknown. Go raises the soft limit to the hard limit at program start.
func Files() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur) //nolint:unconvert // it is signed on some systems
}
