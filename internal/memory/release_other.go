// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package memory

import "runtime/debug"

// Release gives back the heap that is free.
func Release() (int, error) {
	debug.FreeOSMemory()
	return 0, nil
}
