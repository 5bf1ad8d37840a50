// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "runtime/debug"

// releaseStartup gives back the heap that only the start needed.
func releaseStartup() (int, error) {
	debug.FreeOSMemory()
	return 0, nil
}
