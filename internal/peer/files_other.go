// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package peer

// Files returns the maximum number of file descriptors of the process, or 0 if it is
// unknown.
func Files() uint64 { return 0 }
