// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package memory

import "runtime/debug"

// Release returns the free heap to the operating system.
func Release() (int, error) {
	debug.FreeOSMemory()
	return 0, nil
}
