// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "runtime/debug"

// releaseMemory gives back the heap that is free.
func releaseMemory() (int, error) {
	debug.FreeOSMemory()
	return 0, nil
}
