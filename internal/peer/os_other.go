// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package peer

import (
	"net"
	"runtime/debug"
)

// Only Linux is asked for more than Go offers: elsewhere, what the kernel holds is unknown,
// and connections that are being made while the listener closes are reset.

func unacknowledged(net.Conn) int { return -1 }

func refuseNew(net.Listener) {}

func queued(net.Listener) int { return 0 }

func receiveNow(net.Conn, []byte) int { return 0 }

// ReleaseMemory returns the free heap to the operating system.
func ReleaseMemory() (int, error) {
	debug.FreeOSMemory()
	return 0, nil
}
